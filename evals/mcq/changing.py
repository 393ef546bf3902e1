"""Questions about change: what a fix gives and alters, which of two is faster, what to edit."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.mcq.drafts import (
    Around,
    Choice,
    Draft,
    Fact,
    Item,
    Number,
    balanced,
    off_by_a_little,
    ranked,
    ranks,
)
from evals.mcq.edits import ALIKE, EDITS, is_plausible
from evals.mcq.facts import GPU, Facts
from evals.mcq.reading import MOST, launch_of

OTHER_WORK = {
    "fan_update": ("fast",),
    "ring_steps": ("fast",),
    "row_layers": ("step1", "fast"),
    "lookup_records": ("fast",),
    "rate_table": ("fast",),
    "cell_update": ("fast",),
}
"""Variants whose launch does another part of the work than that of `slow`: their launches can't be
held against each other."""

_Pairs = Sequence[tuple[Facts, Facts]]


def fixes(reports: Sequence[Facts]) -> list[tuple[Facts, Facts]]:
    """A launch and the same work after the next edits, where the sample is not healthy."""
    by_name = {(facts.sample.name, facts.variant): facts for facts in reports}
    return [
        (before, by_name[before.sample.name, after])
        for before in reports
        if not before.sample.healthy
        for after in before.sample.variants[before.sample.variants.index(before.variant) + 1 :]
        if after not in OTHER_WORK.get(before.sample.name, ())
    ]


# --- how much faster


_FORECAST = 1.6
"""Gains that are offered differ by this ratio: nobody forecasts them to a quarter."""


def speed_drafts(reports: Sequence[Facts]) -> list[Draft]:
    slow = [f for f in reports if f.variant == "slow" and not f.sample.healthy]
    gains = {facts: _gain(facts) for facts in slow}
    draws = random.Random("speed")
    kept = draws.sample(slow, MOST)
    return [
        _speed_draft(facts, gains, rank, draws)
        for facts, rank in zip(kept, ranks(len(kept), "speed"))
    ]


def _gain(facts: Facts) -> float:
    assert facts.sample.measured is not None
    return facts.sample.measured.speedup


def _speed_draft(facts: Facts, gains: dict[Facts, float], rank: int, draws: random.Random) -> Draft:
    gain = gains[facts]
    pool = [
        Number(max(1.2, off_by_a_little(other, draws)), f"measured were {gain:.2f} times")
        for report, other in gains.items()
        if report is not facts
    ]
    wrong = ranked(gain, pool, Around(rank, _FORECAST), draws)
    measured = facts.sample.measured
    assert measured is not None
    return Draft(
        "speed",
        facts.sample.name,
        (facts,),
        f"{launch_of(facts)} This was then done to the program: “{plan(facts)}” The time of the "
        "whole computation was measured before and after. How many times faster did it become?",
        tuple(_times(number) for number in (gain, *(n.value for n in wrong))),
        f"medians of {measured.launches} runs: {measured.variants['slow'].median_us} us before, "
        f"{measured.variants['fast'].median_us} us after",
        tuple(number.why for number in wrong),
    )


def _times(value: float) -> str:
    return f"About {value:.1f} times" if value < 10 else f"About {value:.0f} times"


def plan(facts: Facts) -> str:
    """The fix in words, without the names that the variants have."""
    text = re.sub(r"\bstep1\b", "a first step", facts.sample.truth.fix)
    text = re.sub(r"\bfast\b", "a second step", text)
    return text if text.startswith("mma.") else text[0].upper() + text[1:]


# --- what it alters


class Measure(NamedTuple):
    name: str
    value: Callable[[Facts], float | None]


def _metric(name: str) -> Callable[[Facts], float | None]:
    return lambda facts: facts.get(name)


_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"

MEASURES = (
    Measure("the number of instructions executed", _metric("smsp__inst_executed.sum")),
    Measure("the number of bytes moved by DRAM", lambda facts: facts.dram_bytes),
    Measure("the number of sectors that L1 asks of L2", _metric("lts__t_sectors_srcunit_tex.sum")),
    Measure("the number of warps resident on an SM", _metric(_WARPS)),
    Measure("the number of global load requests", _metric(_REQUESTS.format("ld"))),
    Measure("the number of global store requests", _metric(_REQUESTS.format("st"))),
    Measure(
        "the rate of instructions per cycle", _metric("sm__inst_executed.avg.per_cycle_active")
    ),
)
"""What follows from an edit: how a launch is cut into blocks, or how many registers the compiler
takes, does not."""


class Claim(NamedTuple):
    words: str
    holds: tuple[float, float]
    """After over before, at the least and at the most."""
    fails: tuple[float, float]
    """Clearly false outside of these."""


CLAIMS = (
    Claim("falls to less than half", (0.0, 0.45), (0.0, 0.6)),
    Claim("stays within 15 %", (0.88, 1.13), (0.75, 1.3)),
    Claim("becomes more than twice as large", (2.2, 1e9), (1.6, 1e9)),
)


def change_drafts(reports: Sequence[Facts]) -> list[Draft]:
    items = [Item(a.sample.name, (a, b), _claims(a, b)) for a, b in fixes(reports) if _whole(a, b)]
    return [_change_draft(choice) for choice in balanced(items, 3, "change", MOST)]


def _whole(before: Facts, after: Facts) -> bool:
    """The fix that the sample tells is all of it."""
    return before.variant == "slow" and after.variant == "fast"


def _claims(before: Facts, after: Facts) -> dict[str, dict[str, str]]:
    """True claims, each with the false ones about other measures."""
    true: dict[str, str] = {}
    false: dict[str, tuple[str, str]] = {}
    for measure in MEASURES:
        old, new = measure.value(before), measure.value(after)
        if not old or new is None:
            continue
        for claim in CLAIMS:
            label = f"{measure.name} {claim.words}"
            told = f"{measure.name}: {old:.4g} before, {new:.4g} after"
            if claim.holds[0] <= new / old <= claim.holds[1]:
                true[label] = measure.name
            elif not claim.fails[0] <= new / old <= claim.fails[1]:
                false[label] = (measure.name, told)
    return {
        label: {other: told for other, (name, told) in false.items() if name != about}
        for label, about in true.items()
    }


def _change_draft(choice: Choice) -> Draft:
    before, after = choice.item.facts
    measure = next(m for m in MEASURES if choice.answer.startswith(m.name))
    return Draft(
        "change",
        choice.item.name,
        (before,),
        f"{launch_of(before)} This was then done to it: “{plan(before)}” What is true of "
        "this kernel's launch afterwards, compared with before?",
        tuple(label[0].upper() + label[1:] for label in (choice.answer, *choice.wrong)),
        f"{measure.name}: {measure.value(before):.5g} before, {measure.value(after):.5g} in the "
        "report of the fixed kernel",
        choice.reasons,
    )


# --- which of two is faster


class Reason(NamedTuple):
    words: str
    value: Callable[[Facts], float | None]
    fewer: bool
    """Whether less of it is what the words claim."""


def _barrier(facts: Facts) -> float:
    return facts.stalls["barrier"]


REASONS = (
    Reason("moves fewer bytes through DRAM", lambda facts: facts.dram_bytes, True),
    Reason("asks L2 for fewer sectors", _metric("lts__t_sectors_srcunit_tex.sum"), True),
    Reason("executes fewer instructions", _metric("smsp__inst_executed.sum"), True),
    Reason("keeps more warps on each SM", _metric(_WARPS), False),
    Reason("waits less at barriers", _barrier, True),
    Reason("sends fewer load requests", _metric(_REQUESTS.format("ld")), True),
    Reason("sends fewer store requests", _metric(_REQUESTS.format("st")), True),
)
_CLEAR, _NOT = 1.5, 1.05
"""A reason holds where the measure differs by half; it does not where it is no better at all."""
_FASTER = 1.15
_WORTH = 0.05


PAIR = ("P", "Q")
"""What the two profiles are called: not by letters that options have."""


def pair_drafts(reports: Sequence[Facts]) -> list[Draft]:
    pairs = [(a, b) for a, b in fixes(reports) if a.microseconds >= _FASTER * b.microseconds]
    items = [Item(_pair_name(a, b), (a, b), _reasons(a, b)) for a, b in pairs]
    choices = balanced(items, 1, "pair", MOST)
    first = ranks(len(choices), "sides")
    return [_pair_draft(choice, slower_first=n % 2 == 0) for choice, n in zip(choices, first)]


def _pair_name(before: Facts, after: Facts) -> str:
    return f"{before.sample.name}-{before.variant[0]}{after.variant[0]}"


def _reasons(slower: Facts, faster: Facts) -> dict[str, dict[str, str]]:
    true: list[str] = []
    false: dict[str, str] = {}
    for reason in REASONS:
        low, high = (
            reason.value(f) for f in ((faster, slower) if reason.fewer else (slower, faster))
        )
        if not low or not high or _is_trifle(reason, slower):
            continue
        before, after = reason.value(slower), reason.value(faster)
        told = f"“{reason.words}”: {before:.4g} in the slower, {after:.4g} in the faster"
        if high >= _CLEAR * low:
            true.append(reason.words)
        elif high <= _NOT * low:
            false[reason.words] = told
    return {words: dict(false) for words in true}


def _is_trifle(reason: Reason, slower: Facts) -> bool:
    """Less waiting at barriers, where there is hardly any, speaks for nothing."""
    return reason.value is _barrier and slower.stall_share("barrier") < _WORTH


def _pair_draft(choice: Choice, *, slower_first: bool) -> Draft:
    slower, faster = choice.item.facts
    (wrong,) = choice.wrong
    loser, winner = PAIR if slower_first else PAIR[::-1]
    option = "Profile {}: its launch {}".format
    times = (
        f"{faster.microseconds:.1f} us ({winner}) against {slower.microseconds:.1f} us ({loser})"
    )
    (no_reason,) = choice.reasons
    reason = next(reason for reason in REASONS if reason.words == choice.answer)
    return Draft(
        "pair",
        choice.item.name,
        (slower, faster) if slower_first else (faster, slower),
        f"Two programs, {PAIR[0]} and {PAIR[1]}, do the same work with a kernel called "
        f"`{slower.sample.kernel}`; both were profiled on the same {GPU}. Whose launch takes "
        "less time, and which difference between the two profiles speaks for it?",
        (
            option(winner, choice.answer),
            option(winner, wrong),
            option(loser, choice.answer),
            option(loser, wrong),
        ),
        f"gpu__time_duration.sum: {times}; “{choice.answer}”: {reason.value(faster):.5g} against "
        f"{reason.value(slower):.5g}",
        (no_reason, f"{loser} is slower: {times}", f"{loser} is slower: {times}; {no_reason}"),
        (
            Fact(_shown_time(slower), "[Dd]uration|took"),
            Fact(_shown_time(faster), "[Dd]uration|took"),
        ),
    )


def _shown_time(facts: Facts) -> float:
    """In the unit that it is told in."""
    return facts.microseconds if facts.microseconds < 1000 else facts.microseconds / 1e3


# --- what to edit


NEVER = (
    "instruction_fetch",
    "barrier_bound",
    "sfu_bound",
    "no_tensor_core",
    "shared_bank_conflict",
    "pcie_or_nvlink_traffic",
    "load_imbalance",
)
"""Edits that are only offered where they are wrong."""


def edit_drafts(reports: Sequence[Facts]) -> list[Draft]:
    items = [
        Item(f"{f.sample.name}-{f.variant}", (f,), {known: _ruled_out(f, known)})
        for f in reports
        if (known := _known(f)) in EDITS
    ]
    return [
        _edit_draft(choice)
        for choice in balanced(items, 3, "edit", MOST + 8, chance=0.5, never=NEVER)
    ]


def _known(facts: Facts) -> str | None:
    """What limits it, where a measured fix says so: `slow`, and what a step left for the next."""
    truth = facts.sample.truth
    if facts.variant == "slow":
        return truth.dominant
    return truth.left.get(facts.variant) if facts.variant != "fast" else None


def _ruled_out(facts: Facts, known: str) -> dict[str, str]:
    truth = facts.sample.truth
    real = {known, truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
    return {
        finding: reason
        for finding, edit in EDITS.items()
        if finding not in real and not any({finding, known} <= alike for alike in ALIKE)
        if is_plausible(finding, facts)
        if (reason := edit.ruled_out(facts)) is not None
    }


def _edit_draft(choice: Choice) -> Draft:
    (facts,) = choice.item.facts
    return Draft(
        "edit",
        choice.item.name,
        (facts,),
        f"{launch_of(facts)} Which of these would save the most time of the whole computation?",
        tuple(EDITS[label].text for label in (choice.answer, *choice.wrong)),
        _edit_proof(facts),
        choice.reasons,
        from_source="plain" in facts.sample.kinds,
    )


def _edit_proof(facts: Facts) -> str:
    measured = facts.sample.measured
    assert measured is not None
    times = ", ".join(f"{name} {timing.median_us} us" for name, timing in measured.variants.items())
    return f"{facts.sample.truth.why} Measured: {times}"
