"""Makes questions about measured values: how busy a unit was, cache hit rates, warps.

Options are fixed ranges (see `fixed_ranges`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from evals.mcq.edits import excess_sectors
from evals.mcq.fixed_ranges import (
    Candidate,
    Range,
    RangeQuestion,
    evenly,
    four,
    mixed,
    surprising_first,
    wrong_reasons,
)
from evals.mcq.kinds.units_stalls_lines import UNIT_WORDS, launch_of, name_of
from evals.mcq.option_design import Draft, Fact
from evals.mcq.report_facts import UNITS, Facts, metric

_BUSY = 0.9


class Scale(NamedTuple):
    """One number of a launch, and the ranges that are offered."""

    name: str
    question: str
    value: Callable[[Facts], float | None]
    ranges: tuple[Range, ...]
    metric: str
    words: str
    """Words of a line that contains the number."""
    each: int = 1
    """Questions per range."""
    surprising: bool = True
    """Whether to prefer launches for which the source suggests another value."""


def scale_drafts(kind: str, scales: Sequence[Scale], reports: Sequence[Facts]) -> list[Draft]:
    used: Counter[str] = Counter()
    return [draft for scale in scales for draft in _drafts(kind, scale, reports, used)]


def _drafts(
    kind: str, scale: Scale, reports: Sequence[Facts], used: Counter[str]
) -> Iterator[Draft]:
    known = (
        Candidate(name_of(facts), facts, value)
        for facts in reports
        if (value := scale.value(facts)) is not None
    )
    order = surprising_first if scale.surprising else mixed
    candidates = order(known, f"{kind} {scale.name}")
    for placed in evenly(candidates, scale.ranges, scale.each, used):
        yield _draft(kind, scale, placed)


def _draft(kind: str, scale: Scale, placed: RangeQuestion) -> Draft:
    name, facts, value, _ = placed.candidate
    told = f"{scale.metric} is {value:.4g}"
    return Draft(
        kind,
        f"{name}-{scale.name}",
        (facts,),
        f"{launch_of()} {scale.question}",
        placed.options,
        told,
        wrong_reasons(told),
        (Fact(value, scale.words),),
    )


# --- units


_OUTSIDE = ("DRAM", "L2 cache")


def _unit(name: str) -> Callable[[Facts], float | None]:
    """If SMs were idle, shares of active cycles, which some texts give, are other numbers."""

    def read(facts: Facts) -> float | None:
        return facts.units.get(name) if name in _OUTSIDE or facts.busy_sms >= _BUSY else None

    return read


def _busy(name: str, unit: str, edges: tuple[float, float, float]) -> Scale:
    asked = {"DRAM": "DRAM", "Issue slots": "the SMs' issue slots"}.get(unit, f"the {unit}")
    return Scale(
        name,
        f"How near to the peak did the use of {asked} come, on average over the launch?",
        _unit(unit),
        four(edges, "%"),
        UNITS[unit],
        UNIT_WORDS[unit],
    )


_SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
BUSY = (
    _busy("dram", "DRAM", (2, 12, 40)),
    _busy("l2", "L2 cache", (10, 40, 80)),
    _busy("l1", "L1 and shared memory", (15, 30, 55)),
    _busy("issue", "Issue slots", (7, 20, 48)),
    _busy("fma", "FMA pipes", (2.5, 7, 22)),
    Scale(
        "sm",
        "How near to its peak throughput did the busiest part of the SMs come, which Nsight "
        "Compute calls Compute (SM) Throughput?",
        metric(_SM),
        four((10, 35, 65), "%"),
        _SM,
        r"Compute \(SM\) Throughput|Units:",
    ),
)


def busy_drafts(reports: Sequence[Facts]) -> list[Draft]:
    return scale_drafts("busy", BUSY, reports)


# --- caches


_L1, _L2 = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
CACHE = (
    Scale(
        "l1",
        "Which share of the sectors that were looked up in L1 was found there?",
        metric(_L1),
        four((1, 12, 45), "%"),
        _L1,
        "L1.*[Hh]it",
        each=2,
    ),
    Scale(
        "l2",
        "Which share of the sectors that were looked up in L2 was found there?",
        metric(_L2),
        four((40, 60, 82), "%"),
        _L2,
        "L2.*[Hh]it",
        each=2,
    ),
    Scale(
        "excess",
        "Its global loads and stores touch sectors of 32 bytes. Which share of these would not "
        "be needed if the threads of each warp accessed neighbouring bytes?",
        excess_sectors,
        four((2, 20, 60), "%"),
        "1 - memory_l2_theoretical_sectors_global_ideal / memory_l2_theoretical_sectors_global",
        "beyond the ideal|excess",
    ),
)


def cache_drafts(reports: Sequence[Facts]) -> list[Draft]:
    return scale_drafts("cache", CACHE, reports)


# --- warps


_NONE = "smsp__issue_inst0.avg.pct_of_peak_sustained_active"
_ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
WARPS = (
    Scale(
        "idle",
        "In which share of its active cycles did the mean scheduler find no warp that could "
        "issue an instruction?",
        metric(_NONE),
        four((45, 77, 91), "%"),
        _NONE,
        "No Eligible|no eligible",
        each=2,
    ),
    Scale(
        "active",
        "Of the 64 warps that an SM can hold, which share was there on average while the SM was "
        "active?",
        metric(_ACTIVE),
        four((22, 50, 82), "%"),
        _ACTIVE,
        "[Aa]chieved",
        each=2,
    ),
    Scale(
        "latency",
        "How many cycles passed on average between two instructions that a warp issued?",
        metric(_LATENCY),
        four((12, 22, 60), "cycles"),
        _LATENCY,
        "Warp Cycles Per Issued|cycles",
        each=2,
    ),
)


def warps_drafts(reports: Sequence[Facts]) -> list[Draft]:
    return scale_drafts("warps", WARPS, reports)
