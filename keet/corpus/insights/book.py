"""The facts of one insight: every number that its text says is entered here first."""

from __future__ import annotations

from collections.abc import Mapping

from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.corpus.insights.records import Fact
from keet.evidence import Evidence
from keet.units import Quantity

_OWN = {
    "duration_us": ("Duration", "us"),
    "reached_pct": ("Share of peak", "%"),
}


class Said(Evidence):
    """Evidence that prints itself as people write it: `13.7 ms`, not `13,700 us`."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(Quantity(self.value, self.unit).to_base())


class Book:
    """Numbers and where they stand; ids are `E1`, `E2`, ..."""

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}
        self._ids: dict[Fact, str] = {}

    @property
    def facts(self) -> dict[str, Fact]:
        return dict(self._facts)

    def cell(self, point: Point, column: str) -> Evidence | None:
        """A cell of the store; None: it is empty."""
        value = point.number(column)
        if value is None:
            return None
        label, unit = _meaning(column)
        return self._enter(Fact(column, label, value, unit, point.path, point.launch, ()))

    def time(self, point: Point) -> Evidence:
        label, unit = _OWN["duration_us"]
        value = point.duration_us
        return self._enter(Fact("duration_us", label, value, unit, point.path, point.launch, ()))

    def share(self, point: Point, unit_name: str, value: float) -> Evidence:
        """Of a hardware unit: the explanation's JSON has it."""
        column = f"explanation.ceilings.{unit_name}"
        label = f"{unit_name} share of peak"
        return self._enter(Fact(column, label, value, "%", point.path, point.launch, ()))

    def knob(self, point: Point, name: str, value: float) -> Evidence:
        return self._enter(Fact("knob", name, value, "", point.path, point.launch, ()))

    def computed(self, label: str, value: float, unit: str, *parts: Evidence) -> Evidence:
        made_of = tuple(part.id for part in parts)
        return self._enter(Fact("computed", label, value, unit, None, None, made_of))

    def times(self, label: str, over: Evidence, under: Evidence) -> Evidence:
        return self.computed(label, over.value / under.value, "x", over, under)

    def _enter(self, fact: Fact) -> Evidence:
        if fact not in self._ids:
            self._ids[fact] = f"E{len(self._facts) + 1}"
            self._facts[self._ids[fact]] = fact
        return _piece(self._ids[fact], fact)


def _meaning(column: str) -> tuple[str, str]:
    if column in _OWN:
        return _OWN[column]
    spec = metrics().get(column)
    return (spec.label, spec.unit) if spec else (column, "")


def pieces_of(facts: Mapping[str, Fact]) -> list[Evidence]:
    """As evidence, which texts are checked against."""
    return [_piece(name, fact) for name, fact in facts.items()]


def _piece(name: str, fact: Fact) -> Evidence:
    kind = Said if fact.unit == "us" else Evidence
    return kind(
        name, fact.column, fact.value, fact.unit, fact.label, None, fact.derived_from or None
    )
