"""Numbers that may be said, each with an id to cite: of one launch, or computed from others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import isfinite

from keet.catalog import metric_with_id
from keet.evidence import Evidence
from keet.profile import Launch, Metric
from keet.units import Number, Quantity


class Book:
    """Numbers that were computed. The same one asked for twice has one id."""

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        """`numbers`: of the ids, where several books share them."""
        self.numbers = numbers or count(1)
        self._entries: dict[tuple[str, str | None], Evidence] = {}

    def derived(
        self, name: str, quantity: Quantity, label: str, *sources: Evidence, line: str | None = None
    ) -> Evidence:
        """A number that keet computed from others, or summed over the code of a line."""
        ids = tuple([source.id for source in sources]) or None
        return self._add(name, quantity.value, quantity.unit, label, line, ids)

    def _add(  # noqa: PLR0913, PLR0917 - what evidence is made of
        self,
        metric: str,
        value: Number,
        unit: str,
        label: str,
        line: str | None = None,
        derived_from: tuple[str, ...] | None = None,
    ) -> Evidence:
        key = (metric, line)
        found = self._entries.get(key)
        if found is None:
            number = f"E{next(self.numbers)}"
            found = Evidence(number, metric, value, unit, label, line, derived_from)
            self._entries[key] = found
        return found

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries.values())


class Ledger(Book):
    """The evidence of one launch: what was measured, and what follows from it."""

    def __init__(self, launch: Launch, numbers: Iterator[int] | None = None) -> None:
        super().__init__(numbers)
        self.launch = launch
        self._measured: dict[str, Evidence | None] = {}
        self._named: dict[str, Evidence | None] = {}

    def measured(self, metric_id: str) -> Evidence | None:
        """A metric of the catalog; None where the report has no value for it."""
        if metric_id not in self._measured:
            found = self.launch.find(metric_id)
            self._measured[metric_id] = self._enter(found, metric_with_id(metric_id).label)
        return self._measured[metric_id]

    def named(self, name: str, label: str) -> Evidence | None:
        """A metric under ncu's own name, for what the catalog has no id for."""
        if name not in self._named:
            self._named[name] = self._enter(self.launch.metric(name), label)
        return self._named[name]

    def _enter(self, found: Metric | None, label: str) -> Evidence | None:
        """Neither texts nor NaN nor infinite numbers are evidence."""
        value = found.value if found else None
        if found is None or value is None or isinstance(value, str) or not isfinite(value):
            return None
        return self._add(found.name, value, found.unit, label)

    def adopt(self, piece: Evidence) -> Evidence:
        """Evidence of another launch, or of several, that is cited here: under an id of its own
        where this launch uses the same one for something else."""
        known = next((own for own in self if own.id == piece.id), None)
        if known is not None and known != piece:
            name = f"{piece.metric} (of several launches)"
            return self._add(name, piece.value, piece.unit, piece.label, piece.line)
        self._entries.setdefault((f"{piece.id} {piece.metric}", piece.line), piece)
        return piece

    def known(self, name: str) -> Evidence | None:
        """What was entered already under this name."""
        return self._entries.get((name, None))
