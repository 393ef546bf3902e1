"""One metric of a launch, its instances, and the check that a number is a valid measurement; ncu's
options, and a remedy that consists of some; results of Nsight Compute's own rules, unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self, TypeGuard

from keet.units import Number, Quantity

Value = Number | str | None
"""The value of a metric. `None`: the report names the metric but has no value for it. NaN is a
value: ncu divided zero by zero. Neither means zero."""

MetricId = int | str
"""The id of an instance: an instruction address, an opcode, a pass, a launch parameter."""

SAMPLES_BY_REASON = ("smsp__pcsamp_warps_issue_stalled_", "smsp__pcsamp_warp_stall_")
"""Starts of the names of samples by stall reason: today's, and those of ncu 2019."""

LARGEST, SMALLEST = 2.0**64, 2.0**-64
"""Counters have 64 bits: no count is larger, and no ratio of two counts other than 0 is smaller."""

_EXACT = 2**53
"""Up to here every integer is also a double. Larger ones are converted to the nearest double, so
that comparing an integer with a double is consistent."""

_NEVER_ZERO = re.compile(
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
"""Metrics that are never 0 in a real launch: time, cycles, clocks, threads, peaks of units."""


_HIT_RATE = re.compile(r"hit_?rate")
_MOST_HITS = 100.5
"""Percent, with rounding. ncu computes hit rates above 100 from counters of different passes."""


def is_measurement(value: Value) -> TypeGuard[Number]:
    """Whether a number can come from a counter. NaN, infinities, negative numbers and numbers
    beyond 64 bits can't: ncu produces the first two by dividing by zero, and negative ones by
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
    """A metric of one launch, in keet's base unit."""

    name: str
    value: Value
    unit: str

    @property
    def quantity(self) -> Quantity | None:
        """The number as it is in the report, NaN included: for display, not for computing."""
        if self.value is None or isinstance(self.value, str):
            return None
        return Quantity(self.value, self.unit)

    @property
    def measured(self) -> Quantity | None:
        """The number with its unit; None if it is not a valid measurement of this metric."""
        number = self.number
        return None if number is None else Quantity(number, self.unit)

    @property
    def number(self) -> Number | None:
        """The same without the unit."""
        value = self.value  # `is_measurement` and `_comparable` inlined for speed
        if value is None or isinstance(value, str):
            return None
        if not SMALLEST <= value <= LARGEST and (value != 0 or _is_never_zero(self.name)):
            return None
        if value > _MOST_HITS and self.unit == "%" and _HIT_RATE.search(self.name):
            return None
        return value if value <= _EXACT else float(value)


@dataclass(frozen=True)
class Instances:
    """The instances of a metric: values, and the id that each belongs to."""

    values: tuple[Value, ...]
    ids: tuple[MetricId, ...] | None
    """As long as `values`; `None` if the report has no ids."""

    def __post_init__(self) -> None:
        if self.ids is not None and len(self.ids) != len(self.values):
            raise ValueError(f"{len(self.values)} values with {len(self.ids)} ids")

    def __len__(self) -> int:
        return len(self.values)

    def pairs(self) -> Iterator[tuple[MetricId, Value]]:
        """Each instance as (id, value); without ids, as (index, value)."""
        return zip(self.ids if self.ids is not None else range(len(self.values)), self.values)

    def measured(self) -> Iterable[tuple[MetricId, Number]]:
        """The instances whose number is a valid measurement; others count as not collected."""
        if self._are_counts():
            return self.pairs()  # type: ignore[return-value]
        return [(part, _comparable(value)) for part, value in self.pairs() if is_measurement(value)]

    def by_address(self) -> Mapping[int, Number]:
        """Numbers by instruction address; empty if the ids are something else."""
        return self._by_address

    @cached_property
    def _by_address(self) -> Mapping[int, Number]:
        """Cached: launches of a kernel share equal columns."""
        if self.ids is None:
            return {}
        if self._are_counts() and {*map(type, self.ids)} == {int}:  # true in all newer reports
            return dict(self.pairs())  # type: ignore[arg-type]
        return {part: value for part, value in self.measured() if isinstance(part, int)}

    def by_name(self) -> dict[str, Number]:
        """Numbers by opcode; empty if the ids are not text."""
        return {part: value for part, value in self.measured() if isinstance(part, str)}

    def _are_counts(self) -> bool:
        """Whether all values are plain counts, as in most per-instruction metrics."""
        if {*map(type, self.values)} != {int}:
            return False
        counts: tuple[int, ...] = self.values  # type: ignore[assignment]
        return min(counts) >= 0 and max(counts) <= _EXACT


OF_CODE = "SourceCounters"
"""The section with counters per instruction, which ncu can't collect for ranges and graphs."""


class NcuOption(NamedTuple):
    name: str
    value: str = ""
    between: str = " "
    """The name and the value, as a command line has them."""

    @property
    def text(self) -> str:
        return f"{self.name}{self.between}{self.value}"


class ProfileAgain(str):
    """Options with which ncu collects what is missing; as a `str`, what a reader is told."""

    options: tuple[NcuOption, ...]

    def __new__(cls, *options: NcuOption) -> Self:
        told = super().__new__(cls, f"profile again with: ncu {' '.join(o.text for o in options)}")
        told.options = options
        return told

    def __reduce__(self) -> tuple[Any, ...]:
        return ProfileAgain, self.options


SECTION_OF_CODE = NcuOption("--section", OF_CODE)
IMPORT_SOURCE = NcuOption("--import-source", "yes")


class RuleKind(StrEnum):
    """Kind of a rule's message. Before ncu 2023.2, advice had the kind `warning`."""

    NONE = "none"
    OK = "ok"
    OPTIMIZATION = "optimization"
    WARNING = "warning"
    ERROR = "error"


class SpeedupScope(StrEnum):
    """What an estimate refers to: the whole launch (global), or an unnamed part of it (local)."""

    UNKNOWN = "unknown"
    LOCAL = "local"
    GLOBAL = "global"


class SpeedupEstimate(NamedTuple):
    scope: SpeedupScope
    percent: float
    """Estimated share of the time that would be saved, in % of what `scope` says."""


class FocusMetric(NamedTuple):
    """A metric that the rule used."""

    name: str
    value: float | None
    severity: str
    """`default`, `low` or `high`."""
    info: str


class RuleResult(NamedTuple):
    """One message of one rule; a rule may give several."""

    rule: str
    name: str
    section: str
    kind: RuleKind
    title: str
    message: str
    speedup: SpeedupEstimate | None = None
    focus: tuple[FocusMetric, ...] = ()

    @property
    def global_estimate(self) -> float:
        """Estimated savings in % of the launch's time; 0 without such an estimate."""
        speedup = self.speedup
        return speedup.percent if speedup and speedup.scope is SpeedupScope.GLOBAL else 0.0


def leading_rule(rules: Iterable[RuleResult]) -> RuleResult | None:
    """The rule with the largest estimated gain for the whole launch; None if none has one."""
    first = max(rules, key=lambda rule: rule.global_estimate, default=None)
    return first if first and first.global_estimate > 0 else None


class SourceMarker(NamedTuple):
    """A rule's note on one instruction or source line."""

    rule: str
    message: str
    address: int | None = None
    file: str | None = None
    line: int | None = None
