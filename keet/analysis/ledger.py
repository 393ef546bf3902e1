"""The evidence of one launch: every number that is said of it, with an id to cite."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from keet.catalog import metric_with_id
from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity


class Ledger:
    """The evidence of one launch. The same number asked for twice has one id."""

    def __init__(self, launch: Launch, numbers: Iterator[int] | None = None) -> None:
        """`numbers`: of the ids, where several launches share them."""
        self.launch = launch
        self._numbers = numbers or count(1)
        self._entries: dict[tuple[str, str | None], Evidence] = {}

    def measured(self, metric_id: str) -> Evidence | None:
        """A metric of the catalog; None where the report has no value for it."""
        found = self.launch.find(metric_id)
        quantity = self.launch.get(metric_id)
        if found is None or quantity is None or quantity.value != quantity.value:
            return None
        spec = metric_with_id(metric_id)
        return self._add(found.name, quantity, spec.label)

    def named(self, name: str, label: str) -> Evidence | None:
        """A metric under ncu's own name, for what the catalog has no id for."""
        found = self.launch.metric(name)
        quantity = found.quantity if found else None
        if quantity is None or quantity.value != quantity.value:
            return None
        return self._add(name, quantity, label)

    def derived(
        self, name: str, quantity: Quantity, label: str, *sources: Evidence, line: str | None = None
    ) -> Evidence:
        """A number that keet computed from others, or summed over the code of a line."""
        ids = tuple(source.id for source in sources) or None
        return self._add(name, quantity, label, line, ids)

    def _add(
        self,
        metric: str,
        quantity: Quantity,
        label: str,
        line: str | None = None,
        derived_from: tuple[str, ...] | None = None,
    ) -> Evidence:
        key = (metric, line)
        if key not in self._entries:
            number = f"E{next(self._numbers)}"
            self._entries[key] = Evidence(
                number, metric, quantity.value, quantity.unit, label, line, derived_from
            )
        return self._entries[key]

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries.values())
