"""Chooses what the times cover (whole runs, the reports, one launch), with the caveats of that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keet.comparison.caveat import (
    BEFORE_TABLE,
    Caveat,
    DiffOption,
    advised,
    listed,
    note,
    weakens,
)
from keet.comparison.comparability import compare_launches
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import Pairing
from keet.comparison.sides import Side, all_captured
from keet.comparison.timing.pair_timing import Timing, total_timing
from keet.comparison.timing.run_weighting import SIDES, RunWeighting
from keet.comparison.timing.time_caveats import run_caveats
from keet.comparison.timing.weighting import (
    Weighting,
    weighting_without_tables,
    with_suspected_work,
)
from keet.evidence import Sentence
from keet.profile.run_table import USE_ANYWAY

_UNDER_PROFILER = "times are those under the profiler"
_OPTIONS = (BEFORE_TABLE, "--run-table")


def pair_caveats(
    pairing: Pairing, before: Side, after: Side, numbers: Numbers
) -> tuple[Caveat, ...]:
    profiles = (before.first.profile, after.first.profile)
    caveats = compare_launches(pairing, *profiles, numbers=numbers)
    return with_suspected_work(pairing, caveats, before, after, numbers)


def choose_weighting(
    pairings: Sequence[Pairing], caveats: Sequence[Sequence[Caveat]], before: Side, after: Side
) -> Weighting:
    if _of_runs(before, after):
        return RunWeighting(before, after, pairings)
    return weighting_without_tables(before, after, pairings, caveats)


def _of_runs(before: Side, after: Side) -> bool:
    """Not for two launches of one report, which are in the same run."""
    counts_given = before.times is not None or after.times is not None
    return (
        before.has_tables
        and after.has_tables
        and not counts_given
        and not _within_report(before, after)
    )


def _within_report(before: Side, after: Side) -> bool:
    one, other = before.first, after.first
    same = one.profile.provenance.sha256 == other.profile.provenance.sha256
    return same and [e.id for e in one.launches] != [e.id for e in other.launches]


def table_caveats(weighting: Weighting, pairings: Sequence[Pairing]) -> Iterator[Caveat]:
    """Caveats of the run tables, and of a missing total."""
    if isinstance(weighting, RunWeighting):
        yield from run_caveats(weighting, pairings)
        return
    if weighting.no_total:
        yield weighting.no_total.caveat
    before, after = weighting.sides
    if before.has_tables and after.has_tables and _within_report(before, after):
        text = "launches of one report are compared as the profiler measured them, one by one"
        yield note("run_table", text)
    for side, word in ((before, "before"), (after, "after")):
        if side.cut_short:
            text = (
                f"the {word.upper()} run table lacks launches (the run ended early, or not all "
                "launches were recorded), so it is not used"
            )
            yield note("run_table", text)
    yield from (note("run_table", text) for text in _not_used(before, after))


def _not_used(before: Side, after: Side) -> Iterator[str]:
    """Run tables that exist but are not used."""
    sides = (before, after)
    problems = [list(_problems(side, which)) for which, side in enumerate(sides)]
    if not _within_report(before, after):
        yield from (text for texts in problems for text in texts)
    if before.has_tables == after.has_tables or before.cut_short or after.cut_short:
        return
    lacks = 1 if before.has_tables else 0
    has = SIDES[1 - lacks]
    if problems[lacks]:
        yield f"the {has.upper()} run table is not used either: {_UNDER_PROFILER}"
        return
    give = "store a run table next to each report of the other side"
    if len(sides[lacks].captures) == 1:  # the option is for one report
        give = Sentence("add the other table with {option} FILE", option=_OPTIONS[lacks])
    yield Sentence(
        "only the side {has} has a run table, so it is not used: {times}; {give}",
        has=has,
        times=_UNDER_PROFILER,
        give=give,
    )


def _problems(side: Side, which: int) -> Iterator[str]:
    """Why run tables next to the reports of a side are not used, with the option of this side."""
    problems = [run.profile.run_problem for run in side.captures if run.profile.run_problem]
    for problem in dict.fromkeys(problems):
        what, use_anyway, advice = problem.partition(USE_ANYWAY)
        text = Sentence("{side}: {what}", side=SIDES[which], what=what)
        if advice and len(side.captures) == 1:
            words, option, behind = advice.partition("--run-table")
            how = (text, use_anyway, words, option and _OPTIONS[which], behind)
            text = Sentence("").join(how)
        yield text


def no_pair_caveat(pairings: Sequence[Pairing]) -> Iterator[Caveat]:
    if not any(pairing.before and pairing.after for pairing in pairings):
        what = "no kernel was found on both sides by name, source or position"
        how = "compare two launches of one report with"
        yield advised("no_pair", what, how, DiffOption("--launch A:B"))


def guessed_pair_caveats(pairings: Sequence[Pairing], sure: Sequence[Pairing]) -> Iterator[Caveat]:
    for pairing in pairings:
        if pairing not in sure and pairing.before and pairing.after:
            text = f"{pairing.kernel}: matched by position only; these may be different kernels"
            yield note("guessed", text)


def one_sided_caveat(
    weighting: Weighting, pairings: Sequence[Pairing], timings: Sequence[Timing], whole: Timing
) -> Caveat | None:
    """Kernels of one side count in the total, unless they may just not have been captured on the
    other."""
    timed = list(zip(pairings, timings, strict=True))
    lone = [each for each, timing in timed if _is_lone(weighting, each, timing)]
    paired = total_timing([timing for each, timing in timed if each.before and each.after])
    if not lone:
        return None
    names = listed([f"{x.kernel} (only {'before' if x.before else 'after'})" for x in lone])
    included = Sentence("{names}: included in the total", names=names)
    if weighting.basis == "run":
        return note("one_sided", included)
    if weighting.basis == "reports" and (paired.speedup is None or whole.speedup is None):
        return None
    if all(all_captured(side.first.profile) for side in weighting.sides):
        return note("one_sided", included)
    text = Sentence("{names}: removed or added, or not captured on the other side", names=names)
    factor = (whole.speedup or 1.0) / (paired.speedup or 1.0)
    doubt = abs(math.log(factor)) if weighting.basis == "reports" else 0.0
    return weakens("one_sided", text, doubt)


def _is_lone(weighting: Weighting, pairing: Pairing, timing: Timing) -> bool:
    if pairing.before and pairing.after:
        return False
    if not isinstance(weighting, RunWeighting):
        return True
    if not weighting.counts(pairing):
        return False
    return not timing.unmeasured and (timing.before is None or timing.after is None)
