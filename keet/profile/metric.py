"""One measured value, and the values it was summed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from keet.units import Number, Quantity

Value = Number | str | None
"""What a metric holds. `None`: the report names the metric and has no value for it. NaN is a value:
ncu divided zero by zero. Neither is zero."""

MetricId = int | str
"""What an instance belongs to: an instruction address, an opcode, a pass, a launch parameter."""


class Metric(NamedTuple):
    """A metric of one launch, in the unit that keet keeps such values in."""

    name: str
    value: Value
    unit: str

    @property
    def quantity(self) -> Quantity | None:
        """The value as a number with its unit; `None` for texts and for what was not measured."""
        if self.value is None or isinstance(self.value, str):
            return None
        return Quantity(self.value, self.unit)


@dataclass(frozen=True, slots=True)
class Instances:
    """The parts of an instanced metric: value by value, with what each belongs to."""

    values: tuple[Value, ...]
    ids: tuple[MetricId, ...] | None
    """As long as `values`; `None` where the report numbers the parts and does not name them."""

    def __post_init__(self) -> None:
        if self.ids is not None and len(self.ids) != len(self.values):
            raise ValueError(f"{len(self.values)} values with {len(self.ids)} ids")

    def __len__(self) -> int:
        return len(self.values)

    def pairs(self) -> Iterator[tuple[MetricId, Value]]:
        """Each part with what it belongs to; its number where it has no name."""
        return zip(self.ids if self.ids is not None else range(len(self.values)), self.values)
