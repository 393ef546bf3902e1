"""Clocks of the launches while they were profiled, and what they mean for the times.

A page has one SM clock per launch: cycles of the GPCs over duration. Cycles of the SMs over the
same duration give up to 2.11 GHz in reports of an H200 whose GPCs do not exceed 1.98 GHz.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.evidence import Sentence, constant, report_number
from keet.profile import Launch
from keet.units import Quantity

_ALIKE = 1.03
"""Highest ratio of two clocks at which times can be compared: see `_CLOCKS` of comparability."""
_SHORT_NS = 10_000.0
"""Below, the start of a launch is a part of its duration that can be seen. On the H200 of the
samples, launches of 3 us have clocks 2 % below those of long ones."""


def range_text(found: Iterable[Quantity | None]) -> str:
    """`1.98 GHz`, or `1.2 GHz to 1.98 GHz` if launches differ; empty if none is known."""
    known = sorted((each for each in found if each is not None), key=lambda each: each.value)
    texts = dict.fromkeys(str(each) for each in (known[:1] + known[-1:]))
    return " to ".join(texts)


def clock_warning(launches: Sequence[Launch]) -> Sentence:
    """Empty if the SM clocks are about the same, or not known."""
    found = [(launch, launch.get("sm_frequency")) for launch in launches]
    known = [(clock.value, launch) for launch, clock in found if clock and clock.value > 0]
    clocks = [clock for clock, _ in known]
    if not clocks or max(clocks) <= _ALIKE * min(clocks):
        return Sentence()
    factor = max(clocks) / min(clocks)
    text = Sentence(
        "The SM clocks of these launches differ by a factor of {factor:.2f}: their times can't be "
        "compared directly.",
        factor=report_number("sm_clock_factor", factor, "largest over smallest SM clock"),
    )
    if not any(0 < launch.rank_time < _SHORT_NS for _, launch in known):
        return text
    return Sentence(
        "{text} The clock is elapsed cycles over duration, which is not exact for launches of less "
        "than about {short}.",
        text=text,
        short=constant(_SHORT_NS, "ns", "duration of which the start of a launch is a part"),
    )
