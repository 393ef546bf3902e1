"""One measured value, and the values it was summed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TypeGuard

from keet.patterns import regex
from keet.records import NamedTuple, dataclass
from keet.units import Number, Quantity

Value = Number | str | None
"""What a metric holds. `None`: the report names the metric and has no value for it. NaN is a value:
ncu divided zero by zero. Neither is zero."""

MetricId = int | str
"""What an instance belongs to: an instruction address, an opcode, a pass, a launch parameter."""

LARGEST, SMALLEST = 2.0**64, 2.0**-64
"""Counters have 64 bits: no count is larger, and no ratio of two counts is smaller, but zero."""

_EXACT = 2**53
"""Up to here every whole number is a double too. A larger one is kept as the nearest double: two
numbers that differ still do so when they are converted."""

_NEVER_ZERO = regex(
    r"gpu__time_duration.*"
    r"|.*cycles_elapsed.*"
    r"|(?:sm|smsp)__cycles_active\.(?:avg|max|sum)"
    r"|.*\.peak_sustained.*"
    r"|.*__frequency"
    r"|launch__(?:grid_size|block_size|thread_count|registers_per_thread"
    r"|waves_per_multiprocessor|sm_count)"
    r"|device__attribute_(?:.*_count|.*clock_rate|l2_cache_size|warp_size|num_.*"
    r"|max_(?:blocks|ipc|registers|threads|warps)_.*)"
)
"""What every launch and every GPU has: time, cycles, a clock, threads, the peak of a unit."""


def is_measurement(value: Value) -> TypeGuard[Number]:
    """Whether a number can come from a counter: NaN, infinities, negative numbers and sizes that no
    64-bit counter reaches can't. ncu gets the former by dividing by zero, negative ones by
    subtracting counts of different passes. See docs/decisions/0017-bad-numbers.md."""
    if value is None or isinstance(value, str):
        return False
    return SMALLEST <= value <= LARGEST or value == 0


def _comparable(value: Number) -> Number:
    return value if value <= _EXACT else float(value)


@lru_cache(maxsize=8192)
def _is_never_zero(name: str) -> bool:
    return _NEVER_ZERO.fullmatch(name) is not None


class Metric(NamedTuple):
    """A metric of one launch, in the unit that keet keeps such values in."""

    name: str
    value: Value
    unit: str

    @property
    def quantity(self) -> Quantity | None:
        """The number as the report has it, NaN included: to be shown, not to compute with."""
        if self.value is None or isinstance(self.value, str):
            return None
        return Quantity(self.value, self.unit)

    @property
    def measured(self) -> Quantity | None:
        """The number, where it can be a measurement of what it is."""
        number = self.number
        return None if number is None else Quantity(number, self.unit)

    @property
    def number(self) -> Number | None:
        """The same without its unit."""
        value = self.value  # as `is_measurement` and `_comparable` have it, a few times as fast
        if value is None or isinstance(value, str):
            return None
        if not SMALLEST <= value <= LARGEST and (value != 0 or _is_never_zero(self.name)):
            return None
        return value if value <= _EXACT else float(value)


@dataclass(frozen=True)
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

    def measured(self) -> Iterable[tuple[MetricId, Number]]:
        """Each part whose number can be a measurement; the others are as if not collected."""
        if self._are_counts():
            return self.pairs()  # type: ignore[return-value]
        return [(part, _comparable(value)) for part, value in self.pairs() if is_measurement(value)]

    def by_address(self) -> Mapping[int, Number]:
        """Numbers by instruction address; empty where parts belong to something else."""
        return self._by_address

    @cached_property
    def _by_address(self) -> Mapping[int, Number]:
        """Kept: the launches of a kernel share columns that are equal."""
        if self.ids is None:
            return {}
        if self._are_counts() and {*map(type, self.ids)} == {int}:  # as in all new reports
            return dict(self.pairs())  # type: ignore[arg-type]
        return {part: value for part, value in self.measured() if isinstance(part, int)}

    def by_name(self) -> dict[str, Number]:
        """Numbers by opcode; empty where parts have no names."""
        return {part: value for part, value in self.measured() if isinstance(part, str)}

    def _are_counts(self) -> bool:
        """Whole numbers alone, as a column by instruction has: most instances of a report."""
        if {*map(type, self.values)} != {int}:
            return False
        counts: tuple[int, ...] = self.values  # type: ignore[assignment]
        return min(counts) >= 0 and max(counts) <= _EXACT
