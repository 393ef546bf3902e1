"""Makes questions about which of two programs is faster and why, and which edit helps most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.mcq.edits import are_alike, is_plausible, ruled_out
from evals.mcq.kinds.two_versions import later_variants, same_launch
from evals.mcq.kinds.units_stalls_lines import launch_of
from evals.mcq.option_design import Choice, Draft, Fact, Item, balanced, ranks
from evals.mcq.report_facts import GPU, Facts, metric
from keet.findings import findings

_MOST = 20
PAIR_SEED, EDIT_SEED = "pair 5", "edit 87"
"""Seeds for which the usual answer is right no more often than others; see `guessers.USUAL`."""


_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"


# --- which of two is faster


class Reason(NamedTuple):
    words: str
    value: Callable[[Facts], float | None]
    fewer: bool
    """Whether a lower value is what the words claim."""


def _barrier(facts: Facts) -> float:
    return facts.stalls["barrier"]


REASONS = (
    Reason("moves fewer bytes through DRAM", lambda facts: facts.dram_bytes, True),
    Reason("asks L2 for fewer sectors", metric("lts__t_sectors_srcunit_tex.sum"), True),
    Reason("executes fewer instructions", metric("smsp__inst_executed.sum"), True),
    Reason("keeps more warps on each SM", metric(_WARPS), False),
    Reason("waits less at barriers", _barrier, True),
    Reason("sends fewer load requests", metric(_REQUESTS.format("ld")), True),
    Reason("sends fewer store requests", metric(_REQUESTS.format("st")), True),
)
_CLEAR, _NOT = 1.5, 1.05
"""A reason is right if the measure differs by half; it is wrong if it is not better at all."""
_FASTER = 1.15
_WORTH = 0.05


PAIR = ("P", "Q")
"""Names of the two profiles, which differ from the option letters."""


def pair_drafts(reports: Sequence[Facts]) -> list[Draft]:
    pairs = [
        (a, b)
        for a, b in later_variants(reports)
        if same_launch(a, b) and a.microseconds >= _FASTER * b.microseconds
    ]
    items = [Item(_pair_name(a, b), (a, b), _reasons(a, b)) for a, b in pairs]
    choices = balanced(items, 1, PAIR_SEED, _MOST)
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
    """Less waiting at barriers is no reason if there is hardly any."""
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
        f"Two programs, {PAIR[0]} and {PAIR[1]}, do the same work, each with a kernel that was "
        f"profiled on the same {GPU}. Whose launch takes less time, and which difference between "
        "the two profiles speaks for it?",
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
    """In the unit that the text uses."""
    return facts.microseconds if facts.microseconds < 1000 else facts.microseconds / 1e3


# --- what to edit


def edit_drafts(reports: Sequence[Facts]) -> list[Draft]:
    items = [
        Item(f"{f.sample.name}-{f.variant}", (f,), {known: _ruled_out(f, known)})
        for f in reports
        if (known := _known(f)) is not None
    ]
    only_wrong = [spec.id for spec in findings().values() if not spec.edit.is_answer]
    return [_edit_draft(choice) for choice in balanced(items, 3, EDIT_SEED, _MOST, only_wrong)]


def _known(facts: Facts) -> str | None:
    """What limits it, confirmed by a measured fix: for `slow`, and for each step before the
    last."""
    truth = facts.sample.truth
    if facts.variant == "slow":
        return truth.dominant
    return truth.left.get(facts.variant) if facts.variant != "fast" else None


def _ruled_out(facts: Facts, known: str) -> dict[str, str]:
    truth = facts.sample.truth
    real = {known, truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
    return {
        finding: reason
        for finding in findings()
        if finding not in real and not are_alike(finding, known) and is_plausible(finding, facts)
        if (reason := ruled_out(finding, facts)) is not None
    }


def _edit_draft(choice: Choice) -> Draft:
    (facts,) = choice.item.facts
    return Draft(
        "edit",
        choice.item.name,
        (facts,),
        f"{launch_of()} Which of these would save the most time of the whole computation?",
        tuple(findings()[label].edit.text for label in (choice.answer, *choice.wrong)),
        _edit_proof(facts),
        choice.reasons,
        from_source="plain" in facts.sample.kinds,
    )


def _edit_proof(facts: Facts) -> str:
    measured = facts.sample.measured
    assert measured is not None
    times = ", ".join(f"{name} {timing.median_us} us" for name, timing in measured.variants.items())
    return f"{facts.sample.truth.why} Measured: {times}"
