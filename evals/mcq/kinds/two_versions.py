"""Makes questions about two versions of a program, P and Q.

Both sources and P's profile are shown.

The prompt does not describe the change, because that would give the answer away. P is the slower or
the faster one. Options are fixed ranges (see `fixed_ranges`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.mcq.fixed_ranges import Candidate, Range, RangeQuestion, evenly, mixed, wrong_reasons
from evals.mcq.option_design import Draft
from evals.mcq.report_facts import GPU, Facts, metric

OTHER_WORK = {
    "fan_update": ("fast",),
    "ring_steps": ("fast",),
    "row_layers": ("step1", "fast"),
    "lookup_records": ("fast",),
    "rate_table": ("fast",),
    "cell_update": ("fast",),
}
"""Variants whose launch does another part of the work than that of `slow`: the launches cannot be
compared."""
_SPEED_EACH = 4
_TWO = (
    f"Two versions of a program, P and Q, do the same work on an {GPU}. Of P's kernel there is a "
    "profile."
)


def later_variants(reports: Sequence[Facts]) -> list[tuple[Facts, Facts]]:
    """A launch and one after further edits, for samples that are not healthy."""
    by_name = {(facts.sample.name, facts.variant): facts for facts in reports}
    return [
        (before, by_name[before.sample.name, after])
        for before in reports
        if not before.sample.healthy
        for after in before.sample.variants[before.sample.variants.index(before.variant) + 1 :]
    ]


def same_launch(before: Facts, after: Facts) -> bool:
    return after.variant not in OTHER_WORK.get(before.sample.name, ())


def _both_ways(reports: Sequence[Facts]) -> Iterator[tuple[Facts, Facts]]:
    for before, after in later_variants(reports):
        yield before, after
        yield after, before


def _name(one: Facts, other: Facts) -> str:
    return f"{one.sample.name}-{one.variant[0]}{other.variant[0]}"


# --- how much faster


SPEEDS = (
    Range("Q takes longer than P", 0.0, 0.87),
    Range("Q is faster, up to 2.5 times as fast as P", 1.15, 2.3),
    Range("Q is 2.5 to 5 times as fast as P", 2.7, 4.6),
    Range("Q is more than 5 times as fast as P", 5.4, float("inf")),
)


def speed_drafts(reports: Sequence[Facts]) -> list[Draft]:
    pairs = (
        Candidate(_name(p, q), p, _microseconds(p) / _microseconds(q), q)
        for p, q in _both_ways(reports)
    )
    placed = evenly(mixed(pairs, "speed"), SPEEDS, _SPEED_EACH, Counter())
    return [_speed_draft(each) for each in placed]


def _microseconds(facts: Facts) -> float:
    """Time of the whole computation, without a profiler."""
    assert facts.sample.measured is not None
    return facts.sample.measured.variants[facts.variant].median_us


def _speed_draft(placed: RangeQuestion) -> Draft:
    name, p, ratio, q = placed.candidate
    assert q is not None
    told = f"medians: {_microseconds(p)} us for P, {_microseconds(q)} us for Q, {ratio:.2f} times"
    return Draft(
        "speed",
        name,
        (p,),
        f"{_TWO} The time of the whole computation was measured for both, without a profiler. "
        "Which is true?",
        placed.options,
        told,
        wrong_reasons(told),
        later=q,
    )


# --- what differs


class Measure(NamedTuple):
    name: str
    question: str
    metric: str


MEASURES = (
    Measure(
        "inst",
        "How many warp instructions did the launch of Q's kernel execute?",
        "smsp__inst_executed.sum",
    ),
    Measure(
        "l2",
        "How many sectors did L1 ask of L2 in the launch of Q's kernel?",
        "lts__t_sectors_srcunit_tex.sum",
    ),
    Measure(
        "ipc",
        "How many instructions per cycle did an active SM execute in the launch of Q's kernel?",
        "sm__inst_executed.avg.per_cycle_active",
    ),
)
RATIOS = (
    Range("Less than half of P's number", 0.0, 0.45),
    Range("About as many as P's, within 15 %", 0.9, 1.11),
    Range("1.2 to 3 times P's number", 1.3, 2.75),
    Range("More than 3 times P's number", 3.3, float("inf")),
)


def change_drafts(reports: Sequence[Facts]) -> list[Draft]:
    used: Counter[str] = Counter()
    pairs = [(p, q) for p, q in _both_ways(reports) if same_launch(p, q) and same_launch(q, p)]
    return [
        _change_draft(measure, placed)
        for measure in MEASURES
        for placed in evenly(_changes(measure, pairs), RATIOS, 1, used)
    ]


def _changes(measure: Measure, pairs: Sequence[tuple[Facts, Facts]]) -> list[Candidate]:
    read = metric(measure.metric)
    known = (
        Candidate(_name(p, q), p, after / before, q)
        for p, q in pairs
        if (before := read(p)) and (after := read(q))
    )
    return mixed(known, measure.name)


def _change_draft(measure: Measure, placed: RangeQuestion) -> Draft:
    name, p, ratio, q = placed.candidate
    assert q is not None
    told = (
        f"{measure.metric}: {p.need(measure.metric):.5g} for P, {q.need(measure.metric):.5g} for "
        f"Q, {ratio:.3g} times"
    )
    return Draft(
        "change",
        f"{name}-{measure.name}",
        (p,),
        f"{_TWO} {measure.question}",
        placed.options,
        told,
        wrong_reasons(told),
        later=q,
    )
