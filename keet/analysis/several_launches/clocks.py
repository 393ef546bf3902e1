"""Launches that were measured at different clocks: their times can't be compared.

ncu locks the SM clock to its base value, but not every GPU allows that, and it does not lock DRAM's
clock. A launch that another program interrupts shows lower clocks, too: its duration counts the
interruption, and its cycles do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from keet.analysis.limits import LONGEST_START_NS, MAJORITY, NOTABLE_PART, SIMILAR
from keet.analysis.several_launches.traffic import Traffic


class ClockRange(NamedTuple):
    """The slowest and the fastest launch by one clock."""

    label: str
    """`SM` or `DRAM`."""
    slow: Traffic
    fast: Traffic
    lowest: float
    """Hertz."""
    highest: float
    """Hertz."""

    @property
    def ratio(self) -> float:
        return self.highest / self.lowest


def different_clocks(launches: Sequence[Traffic]) -> list[ClockRange]:
    """One range per clock that differs notably, the largest difference first."""
    found = [*_range("SM", launches, _sm_clock), *_range("DRAM", launches, _dram_clock)]
    return sorted((each for each in found if each.ratio > SIMILAR), key=lambda each: -each.ratio)


def _sm_clock(launch: Traffic) -> float:
    return launch.sm_clock or 0.0


def _dram_clock(launch: Traffic) -> float:
    """0, as if unknown, where DRAM does not decide the time."""
    decides = (launch.dram_pct or 0.0) >= 100 * MAJORITY
    return (launch.dram_clock or 0.0) if decides else 0.0


def _range(
    label: str, launches: Sequence[Traffic], clock: Callable[[Traffic], float]
) -> Iterator[ClockRange]:
    """Without short launches, whose clock (cycles over duration) is not exact, and without the
    launches at both ends that take little of the time."""
    long = [each for each in launches if each.us * 1e3 >= LONGEST_START_NS and clock(each) > 0]
    if len({each.launch.device for each in long}) != 1:
        return
    ordered = sorted(long, key=clock)
    slow, fast = _after_the_first(ordered), _after_the_first(ordered[::-1])
    yield ClockRange(label, slow, fast, clock(slow), clock(fast))


def _after_the_first(ordered: Sequence[Traffic]) -> Traffic:
    """The launch at which the launches so far take a notable part of the time."""
    least, taken = NOTABLE_PART * sum(each.us for each in ordered), 0.0
    for each in ordered:
        taken += each.us
        if taken >= least:
            return each
    return ordered[-1]
