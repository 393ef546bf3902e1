"""Questions that are answered by reading a report: units, waits, lines."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from evals.mcq.drafts import Choice, Draft, Fact, Item, Number, balanced, ranks
from evals.mcq.facts import GPU, STALLS, UNITS, Facts

MOST = 20
"""Of a kind."""
_TOP = 2
"""How far down the right unit may stand among all: it must be the first of those offered."""
_UNIT_LEAD = 8.0
"""Points of per cent between the busiest of the units offered and the next."""
_STALL_LEAD = 1.4
_LEAST_UNIT, _LEAST_STALL = 20.0, 0.15
_LEAST_SAMPLES = 100
_SIGMAS = 2.5


def launch_of(facts: Facts) -> str:
    """The words that every question about one report begins with."""
    return f"Kernel `{facts.sample.kernel}` was profiled on an {GPU}."


def name_of(facts: Facts) -> str:
    return f"{facts.sample.name}-{facts.variant}"


def some(reports: Sequence[Facts], seed: str) -> list[Facts]:
    """As many as a kind has; the second of a sample only when all have one."""
    mixed = random.Random(seed).sample(reports, len(reports))
    samples = [facts.sample.name for facts in mixed]
    turns = [samples[:place].count(name) for place, name in enumerate(samples)]
    return [facts for _, facts in sorted(zip(turns, mixed), key=lambda pair: pair[0])][:MOST]


# --- units


def unit_drafts(reports: Sequence[Facts]) -> list[Draft]:
    items = [Item(name_of(f), (f,), _leaders(f.units, _unit_beaten, _TOP)) for f in reports]
    return [_unit_draft(choice) for choice in balanced(items, 3, "unit", MOST, never=_LOW_UNITS)]


_LOW_UNITS = ("FP64 pipe",)


def _unit_beaten(value: float, other: float) -> bool:
    return value >= _LEAST_UNIT and other <= value - _UNIT_LEAD


def _leaders(
    values: Mapping[str, float], beaten: Callable[[float, float], bool], most: int
) -> dict[str, dict[str, str]]:
    """Labels among the highest, each with those that are clearly below it."""
    top = sorted(values, key=lambda label: -values[label])[:most]
    return {
        label: {
            other: f"{other} is at {values[other]:.4g}, below {label} at {values[label]:.4g}"
            for other in values
            if beaten(values[label], values[other])
        }
        for label in top
    }


def _unit_draft(choice: Choice) -> Draft:
    (facts,) = choice.item.facts
    options = (choice.answer, *choice.wrong)
    numbers = [f"{label} {facts.units[label]:.1f} % ({UNITS[label]})" for label in options]
    return Draft(
        "unit",
        choice.item.name,
        (facts,),
        f"{launch_of(facts)} Which of these four units came nearest to its own peak throughput "
        "during the launch?",
        options,
        "; ".join(numbers),
        choice.reasons,
        (Fact(facts.units[choice.answer], _UNIT_WORDS[choice.answer]),),
    )


_UNIT_WORDS = {
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


def stall_drafts(reports: Sequence[Facts]) -> list[Draft]:
    items = [Item(name_of(f), (f,), _waits(f)) for f in reports]
    return [_stall_draft(choice) for choice in balanced(items, 3, "stall", MOST, never=_RARE)]


_RARE = ("imc_miss",)


def _waits(facts: Facts) -> dict[str, dict[str, str]]:
    """The first of all reasons, where it is worth naming."""
    least = _LEAST_STALL * facts.stall_total

    def beaten(value: float, other: float) -> bool:
        return value >= least and value >= _STALL_LEAD * other

    return _leaders(facts.stalls, beaten, 1)


def _stall_draft(choice: Choice) -> Draft:
    (facts,) = choice.item.facts
    reasons = (choice.answer, *choice.wrong)
    metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio".format
    told = [f"{STALLS[r][0]} {facts.stalls[r]:.2f} cycles ({metric(r)})" for r in reasons]
    return Draft(
        "stall",
        choice.item.name,
        (facts,),
        f"{launch_of(facts)} Of these four reasons to stall, for which one did its warps wait the "
        "most cycles?",
        tuple(": ".join(STALLS[reason]) for reason in reasons),
        "; ".join(told),
        choice.reasons,
        (Fact(facts.stalls[choice.answer], f"stalled|{STALLS[choice.answer][0]}"),),
    )


# --- lines


def line_drafts(reports: Sequence[Facts]) -> list[Draft]:
    clear = some([facts for facts in reports if _has_hottest(facts)], "line")
    return [_line_draft(facts, rank) for facts, rank in zip(clear, ranks(len(clear), "line"))]


def _has_hottest(facts: Facts) -> bool:
    """Of enough samples, with a lead that another capture would not turn round."""
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
        f"{launch_of(facts)} The profiler sampled what its warps were doing. Which line of "
        f"{file_of(facts)} got the most of these warp samples?",
        tuple(f"Line {int(line)}" for line in (hottest.line, *(n.value for n in wrong))),
        f"{hottest.samples} of {facts.samples} samples ({share:.1f} %) are of line {hottest.line}; "
        f"the next line has {second.samples} (smsp__pcsamp_sample_count, by address)",
        tuple(number.why for number in wrong),
        (Fact(share, rf"^\s*{hottest.line}\b"),),
    )


def file_of(facts: Facts) -> str:
    """As the prompt names it: what it is called in its folder gives answers away."""
    return f"kernel{facts.sample.source(facts.variant).suffix}"


def _other_lines(facts: Facts) -> list[Number]:
    """The most sampled first."""
    return [
        Number(line.line, f"line {line.line} has {line.samples} of the {facts.samples} samples")
        for line in facts.lines[1:]
    ]


def _lines_around(line: int, others: Sequence[Number], rank: int) -> list[Number]:
    """`rank` of them before the line, as far as there are such."""
    before = [n for n in others if n.value < line]
    after = [n for n in others if n.value > line]
    rank = min(max(rank, 3 - len(after)), len(before))
    return [*before[:rank], *after[: 3 - rank]]
