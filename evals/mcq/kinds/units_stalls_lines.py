"""Makes questions about the busiest unit, longest stall and most sampled line of a report."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from evals.mcq.fixed_ranges import Candidate, RangeQuestion, evenly, labels, mixed
from evals.mcq.option_design import Draft, Fact, Number, ranks
from evals.mcq.report_facts import GPU, STALLS, UNITS, Facts

MOST = 20
"""Questions per kind."""
_UNIT_LEAD = 8.0
"""Minimum percentage points between the busiest of the offered units and the next."""
_STALL_LEAD = 1.4
_LEAST_UNIT, _LEAST_STALL = 20.0, 0.15
_LEAST_SAMPLES = 100
_SIGMAS = 2.5


def launch_of() -> str:
    """The first words of every question about one report. No kernel name, because it would reveal
    what the kernel does."""
    return f"A kernel was profiled on an {GPU}."


def name_of(facts: Facts) -> str:
    return f"{facts.sample.name}-{facts.variant}"


def some(reports: Sequence[Facts], seed: str) -> list[Facts]:
    """As many as a kind has."""
    return apart(random.Random(seed).sample(reports, len(reports)))[:MOST]


def apart(reports: Sequence[Facts]) -> list[Facts]:
    """The second report of a sample only after all samples have one."""
    samples = [facts.sample.name for facts in reports]
    turns = [samples[:place].count(name) for place, name in enumerate(samples)]
    return [facts for _, facts in sorted(zip(turns, reports), key=lambda pair: pair[0])]


# --- units


UNIT_SETS = {
    "a": (("DRAM", "L1 and shared memory", "Issue slots", "Tensor pipe"), 3),
    "b": (("L2 cache", "L1 and shared memory", "FMA pipes", "ALU pipe"), 2),
}
"""Units that are offered together, and how often each of them is right."""


def unit_drafts(reports: Sequence[Facts]) -> list[Draft]:
    used: Counter[str] = Counter()
    return [
        _unit_draft(name, placed)
        for name, (units, each) in UNIT_SETS.items()
        for placed in evenly(_busiest(reports, units), labels(units), each, used)
    ]


def _busiest(reports: Sequence[Facts], units: Sequence[str]) -> list[Candidate]:
    """Reports in which one of the units is far ahead of the others."""
    found = (
        Candidate(name_of(facts), facts, units.index(first))
        for facts in reports
        if (first := _leader(facts.units, units, _unit_beaten)) is not None
    )
    return mixed(found, "unit")


def _unit_beaten(value: float, other: float) -> bool:
    return value >= _LEAST_UNIT and other <= value - _UNIT_LEAD


def _leader(
    values: Mapping[str, float], among: Sequence[str], beaten: Callable[[float, float], bool]
) -> str | None:
    if not set(among) <= values.keys():
        return None
    first, second = sorted(among, key=lambda label: -values[label])[:2]
    return first if beaten(values[first], values[second]) else None


def _unit_draft(name: str, placed: RangeQuestion) -> Draft:
    facts = placed.candidate.facts
    right, *wrong = placed.options
    reached = facts.units
    return Draft(
        "unit",
        f"{placed.candidate.name}-{name}",
        (facts,),
        f"{launch_of()} Which of these four units came nearest to its own peak throughput "
        "during the launch?",
        placed.options,
        "; ".join(f"{u} {reached[u]:.1f} % ({UNITS[u]})" for u in placed.options),
        tuple(f"{u} is at {reached[u]:.3g} %, {right} at {reached[right]:.3g} %" for u in wrong),
        (Fact(reached[right], UNIT_WORDS[right]),),
    )


UNIT_WORDS = {
    "DRAM": "DRAM",
    "L2 cache": "L2 (Cache Throughput|at)",
    "L1 and shared memory": "L1",
    "Issue slots": "Issue Slots Busy|issue at",
    "FMA pipes": "FMA",
    "ALU pipe": "ALU",
    "FP64 pipe": "FP64",
    "XU pipe": "XU",
    "Tensor pipe": "[Tt]ensor",
    "ADU pipe": "ADU",
}


# --- waits


STALL_SETS = {
    "a": (("long_scoreboard", "wait", "mio_throttle", "barrier"), 3),
    "b": (("long_scoreboard", "lg_throttle", "dispatch_stall", "math_pipe_throttle"), 2),
}


def stall_drafts(reports: Sequence[Facts]) -> list[Draft]:
    used: Counter[str] = Counter()
    return [
        _stall_draft(name, placed)
        for name, (reasons, each) in STALL_SETS.items()
        for placed in evenly(_waits(reports, reasons), labels(reasons), each, used)
    ]


def _waits(reports: Sequence[Facts], reasons: Sequence[str]) -> list[Candidate]:
    """Reports in which one of these reasons is the largest of all, and large enough."""
    found = (
        Candidate(name_of(facts), facts, reasons.index(first))
        for facts in reports
        if (first := _leader(facts.stalls, reasons, _stall_beaten)) is not None
        and facts.stalls[first] == max(facts.stalls.values())
        and facts.stall_share(first) >= _LEAST_STALL
    )
    return mixed(found, "stall")


def _stall_beaten(value: float, other: float) -> bool:
    return value >= _STALL_LEAD * other


def _stall_draft(name: str, placed: RangeQuestion) -> Draft:
    facts = placed.candidate.facts
    metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio".format
    told = {
        reason: f"{STALLS[reason][0]} {facts.stalls[reason]:.2f} cycles ({metric(reason)})"
        for reason in placed.options
    }
    right, *wrong = placed.options
    return Draft(
        "stall",
        f"{placed.candidate.name}-{name}",
        (facts,),
        f"{launch_of()} Of these four reasons to stall, for which one did its warps wait the "
        "most cycles?",
        tuple(": ".join(STALLS[reason]) for reason in placed.options),
        "; ".join(told.values()),
        tuple(f"{told[reason]}; {told[right]}" for reason in wrong),
        (Fact(facts.stalls[right], f"stalled|{STALLS[right][0]}"),),
    )


# --- lines


def line_drafts(reports: Sequence[Facts]) -> list[Draft]:
    clear = some([facts for facts in reports if _has_hottest(facts)], "line")
    return [_line_draft(facts, rank) for facts, rank in zip(clear, ranks(len(clear), "line"))]


def _has_hottest(facts: Facts) -> bool:
    """Reports with enough samples, and a lead that another capture would not change."""
    if len(facts.lines) <= 3 or facts.samples < _LEAST_SAMPLES:
        return False
    first, second = (line.samples for line in facts.lines[:2])
    return first - second >= _SIGMAS * math.sqrt(first + second)


def _line_draft(facts: Facts, rank: int) -> Draft:
    hottest, second = facts.lines[:2]
    wrong = _lines_around(hottest.line, _other_lines(facts), rank)
    share = 100 * hottest.samples / facts.samples
    return Draft(
        "line",
        name_of(facts),
        (facts,),
        f"{launch_of()} The profiler sampled what its warps were doing. Which line of "
        f"{file_of(facts)} got the most of these warp samples?",
        tuple(f"Line {int(line)}" for line in (hottest.line, *(n.value for n in wrong))),
        f"{hottest.samples} of {facts.samples} samples ({share:.1f} %) are of line {hottest.line}; "
        f"the next line has {second.samples} (smsp__pcsamp_sample_count, by address)",
        tuple(number.why for number in wrong),
        (Fact(share, rf"^\s*{hottest.line}\b"),),
    )


def file_of(facts: Facts) -> str:
    """The name in the prompt: the real file name would give answers away."""
    return f"kernel{facts.sample.source(facts.variant).suffix}"


def _other_lines(facts: Facts) -> list[Number]:
    """The most sampled first."""
    return [
        Number(line.line, f"line {line.line} has {line.samples} of the {facts.samples} samples")
        for line in facts.lines[1:]
    ]


def _lines_around(line: int, others: Sequence[Number], rank: int) -> list[Number]:
    """`rank` of them before the line, if there are as many."""
    before = [n for n in others if n.value < line]
    after = [n for n in others if n.value > line]
    rank = min(max(rank, 3 - len(after)), len(before))
    return [*before[:rank], *after[: 3 - rank]]
