"""The facts of one insight: every number in its texts is recorded here before it is printed.

Also helpers for these texts: lists of words, names of limiters, counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from types import MappingProxyType
from typing import Any

from keet.analysis.hardware.ceilings import spoken_unit
from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.documents.insights import Fact, InsightDocument, MovedDocument
from keet.evidence import Evidence, Reference, Sentence, slug_of

_OWN = {
    "duration_us": ("Duration", "us"),
    "reached_pct": ("Share of peak", "%"),
}
_WHOLE = "set"
"""In ids of facts that belong to no single point."""


class FactBook:
    """Records numbers and gives them ids, which say what the number is and of which point:
    `duration_us#2`, `slowest_to_best#set`."""

    def __init__(self, points: Mapping[str, Point] = MappingProxyType({})) -> None:
        """`points`: by their names in ids."""
        self._points = {(point.path, point.launch): name for name, point in points.items()}
        self._facts: dict[str, Fact] = {}
        self._known: dict[tuple[Any, ...], Fact] = {}

    def insight(
        self, title: Sentence, text: Iterable[Sentence], adds: str = "", **about: Any
    ) -> InsightDocument:
        """With these facts. `about`: one part of the document, whose name is the kind."""
        (kind,) = about
        parts: dict[str, Any] = dict.fromkeys(("sweep", "cluster", "outliers", "change"))
        texts: dict[str, Any] = {"kind": kind, "title": title, "text": list(text), "adds": adds}
        others = {**texts, **parts, **about}
        return InsightDocument(id="", facts=dict(self._facts), written=None, **others)

    def cell(self, point: Point, column: str) -> Fact | None:
        """A cell of the store; None if it is empty."""
        return None if point.number(column) is None else self.measured(point, column)

    def measured(self, point: Point, column: str) -> Fact:
        """A cell that is not empty."""
        spec = metrics().get(column)
        label, unit = _OWN.get(column) or ((spec.label, spec.unit) if spec else (column, ""))
        return self._of_point(point, column, column, point.number(column), unit, label)

    def time(self, point: Point) -> Fact:
        return self.measured(point, "duration_us")

    def share(self, point: Point, unit_name: str, value: float) -> Fact:
        """Share of peak of a hardware unit, from the stored explanation."""
        label = f"{unit_name} share of peak"
        column = f"explanation.ceilings.{unit_name}"
        return self._of_point(point, label, column, value, "%", label)

    def knob(self, point: Point, name: str, value: float) -> Fact:
        return self._of_point(point, name, "knob", value, "", name)

    def computed(self, label: str, value: float, unit: str, *parts: Evidence) -> Fact:
        points = {part.id.partition("#")[2] for part in parts}
        where = points.pop() if len(points) == 1 else _WHOLE
        made_of = tuple(part.id for part in parts) or None
        return self._enter(label, where, ("computed", value, unit, label, None, made_of))

    def times(self, label: str, over: Evidence, under: Evidence) -> Fact:
        return self.computed(label, over.value / under.value, "x", over, under)

    def changed_as_well(
        self, moved: Sequence[MovedDocument], usual: Point, here: Point, form: str
    ) -> Sentence:
        """The metrics that changed most; empty if none did. `form`: with `label`, `before` and
        `after`."""
        said = []
        for entry in moved[:3]:
            before, after = (self.measured(point, entry.metric) for point in (usual, here))
            said.append(Sentence(form, label=entry.label, before=before, after=after))
        return Sentence("What changed as well: {said}.", said=joined(said)) if said else Sentence()

    def _of_point(self, point: Point, name: str, *fields: Any) -> Fact:
        fact = self._enter(name, self._points[point.path, point.launch], fields)
        fact.path, fact.launch = point.path, point.launch
        return fact

    def _enter(self, name: str, where: str, fields: Sequence[Any]) -> Fact:
        """`fields`: of the fact, without its id."""
        key = (where, *fields)
        if key not in self._known:
            slug = slug_of(name)
            others = (f"{slug}_{number}#{where}" for number in count(2))
            names = chain([f"{slug}#{where}"], others)
            fact = Fact(next(name for name in names if name not in self._facts), *fields)
            self._known[key] = self._facts[fact.id] = fact
        return self._known[key]


def numbered(points: Iterable[Point]) -> dict[str, Point]:
    """Named by position, from 0, as in the lists of the JSON document."""
    return {str(number): point for number, point in enumerate(points)}


_LATENCY = " (no unit is near its peak)"


def spoken(limiter: str) -> str:
    """A limiter as printed in a sentence."""
    return f"latency{_LATENCY}" if limiter == "latency" else spoken_unit(limiter)


def in_table_words(limiter: str) -> str:
    """A limiter as in the tables: `DRAM+L2`, `issue`."""
    return spoken(limiter) if limiter == "latency" else limiter


def be(limiter: str) -> str:
    return "are" if spoken(limiter).endswith("s") else "is"


def latency_explained_once(texts: Iterable[Sentence]) -> Iterator[Sentence]:
    """Keeps only the first explanation of `latency`."""
    is_explained = False
    for text in texts:
        parts: list[str | Reference] = []
        for part in text.parts:
            if isinstance(part, Reference) or _LATENCY not in part:
                parts.append(part)
                continue
            head, mark, rest = part.partition(_LATENCY)
            parts.append(f"{head}{'' if is_explained else mark}{rest.replace(_LATENCY, '')}")
            is_explained = True
        yield Sentence.of(parts)


def joined(words: Sequence[str]) -> Sentence:
    """`a, b and c`"""
    first = Sentence(", ").join(words[:-1])
    return Sentence(" and ").join([*([first] if first else []), *words[-1:]])
