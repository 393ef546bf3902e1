"""The facts of one insight: every number in its texts is recorded here before it is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, count
from types import MappingProxyType

from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.corpus.insights.records import InsightFact
from keet.evidence import Evidence, slug_of
from keet.units import Quantity

_OWN = {
    "duration_us": ("Duration", "us"),
    "reached_pct": ("Share of peak", "%"),
}


class TimeEvidence(Evidence):
    """Evidence in microseconds, printed with a suitable unit: `13.7 ms`, not `13,700 us`."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(Quantity(self.value, self.unit).to_base())


_WHOLE = "set"
"""In ids of facts that belong to no single point."""


class FactBook:
    """Records numbers and gives them ids, which say what the number is and of which point:
    `duration_us#2`, `slowest_to_best#set`."""

    def __init__(self, points: Mapping[str, Point] = MappingProxyType({})) -> None:
        """`points`: by their names in ids."""
        self._points = {(point.path, point.launch): name for name, point in points.items()}
        self._facts: dict[str, InsightFact] = {}
        self._ids: dict[InsightFact, str] = {}

    @property
    def facts(self) -> dict[str, InsightFact]:
        return dict(self._facts)

    def cell(self, point: Point, column: str) -> Evidence | None:
        """A cell of the store; None if it is empty."""
        value = point.number(column)
        if value is None:
            return None
        label, unit = _meaning(column)
        return self._of_point(
            point, column, InsightFact(column, label, value, unit, *_where(point))
        )

    def time(self, point: Point) -> Evidence:
        label, unit = _OWN["duration_us"]
        value = point.duration_us
        fact = InsightFact("duration_us", label, value, unit, *_where(point))
        return self._of_point(point, "duration_us", fact)

    def share(self, point: Point, unit_name: str, value: float) -> Evidence:
        """Share of peak of a hardware unit, from the stored explanation."""
        column = f"explanation.ceilings.{unit_name}"
        label = f"{unit_name} share of peak"
        return self._of_point(point, label, InsightFact(column, label, value, "%", *_where(point)))

    def knob(self, point: Point, name: str, value: float) -> Evidence:
        return self._of_point(point, name, InsightFact("knob", name, value, "", *_where(point)))

    def computed(self, label: str, value: float, unit: str, *parts: Evidence) -> Evidence:
        made_of = tuple(part.id for part in parts)
        points = {part.id.partition("#")[2] for part in parts}
        where = points.pop() if len(points) == 1 else _WHOLE
        fact = InsightFact("computed", label, value, unit, None, None, made_of)
        return self._enter(f"{slug_of(label)}#{where}", fact)

    def times(self, label: str, over: Evidence, under: Evidence) -> Evidence:
        return self.computed(label, over.value / under.value, "x", over, under)

    def _of_point(self, point: Point, name: str, fact: InsightFact) -> Evidence:
        where = self._points[point.path, point.launch]
        return self._enter(f"{slug_of(name)}#{where}", fact)

    def _enter(self, name: str, fact: InsightFact) -> Evidence:
        if fact not in self._ids:
            slug, _, where = name.partition("#")
            others = (f"{slug}_{number}#{where}" for number in count(2))
            unused = (each for each in chain([name], others) if each not in self._facts)
            self._ids[fact] = next(unused)
            self._facts[self._ids[fact]] = fact
        return _piece(self._ids[fact], fact)


def numbered(points: Iterable[Point]) -> dict[str, Point]:
    """Named by position, from 0, as in the lists of the JSON document."""
    return {str(number): point for number, point in enumerate(points)}


def _where(point: Point) -> tuple[str, int, tuple[()]]:
    """The last fields of a fact that is a cell of the store."""
    return point.path, point.launch, ()


def _meaning(column: str) -> tuple[str, str]:
    if column in _OWN:
        return _OWN[column]
    spec = metrics().get(column)
    return (spec.label, spec.unit) if spec else (column, "")


def pieces_of(facts: Mapping[str, InsightFact]) -> list[Evidence]:
    """As evidence, for checking texts."""
    return [_piece(name, fact) for name, fact in facts.items()]


def _piece(name: str, fact: InsightFact) -> Evidence:
    kind = TimeEvidence if fact.unit == "us" else Evidence
    return kind(
        name, fact.column, fact.value, fact.unit, fact.label, None, fact.derived_from or None
    )
