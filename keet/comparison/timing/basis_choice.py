"""Chooses what the times cover (whole runs, the reports, one launch), with the caveats of that.

Caveats are about run tables that do not fit, replays that differ, kernels that overlap.

While n kernels run at once, each is counted with 1/n of the GPU's busy time. So the share of a
kernel changes when another one starts or stops to overlap it, although its launches take as long as
before. And sums of durations, which is all that some tables have, grow when kernels overlap,
although the program gets faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from keet.analysis.replay_gap import ReplayGap
from keet.comparison.comparability import (
    BEFORE_TABLE,
    WARM_CACHES,
    Caveat,
    DiffOption,
    advised,
    compare_launches,
    forbids,
    listed,
    no_verdict,
    note,
    weakens,
)
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import Pairing
from keet.comparison.same_kernel import Side, all_captured
from keet.comparison.timing.pair_timing import Timing, total_timing
from keet.comparison.timing.weighting import (
    SIDES,
    RunWeighting,
    Weighting,
    weighting_without_tables,
    with_suspected_work,
)
from keet.evidence import Evidence, Sentence, constant
from keet.profile import Launch
from keet.profile.launch import file_name
from keet.profile.run_table import RECORDER_NAMES, USE_ANYWAY

_USUAL_MIGRATING, _MOST_MIGRATING = 20, 44
"""Per cent by which runs of one program with managed flags differed: root mean square, and at most.
Measured on an H200 (evals.recording_cost)."""
_MIGRATING = 0.4
"""Two standard deviations."""
_MAX_LISTED_LAUNCHES = 3


def run_caveats(runs: RunWeighting, pairings: Sequence[Pairing]) -> Iterator[Caveat]:
    for which, word in enumerate(SIDES):
        yield from _other_program(runs, which, word)
    yield from _recorders(runs)
    yield from _durations(runs)
    yield from _migrations(runs)
    for which, word in enumerate(SIDES):
        names = [pairings[number].kernel for number in runs.missing(which)]
        if names:
            text = Sentence(
                "the {side} run table does not have {kernels}: the time in this run is not known",
                side=word.upper(),
                kernels=listed(names),
            )
            yield note("not_in_run", text)


def _other_program(runs: RunWeighting, which: int, word: str) -> Iterator[Caveat]:
    for run in runs.reports_not_in_table(which):
        table = file_name(run.profile.run.path) if run.profile.run and run.profile.run.path else ""
        named = f" ({table})" if table else ""
        text = (
            f"no kernel of {file_name(run.profile.provenance.path)} is in the {word.upper()} run "
            f"table{named}: it belongs to another program, or names its kernels differently"
        )
        yield forbids("other_program", text)
    if not runs.has_time(which):
        text = "the {side} run table has no times: all its kernels took {none}"
        none = constant(0, "ns", "time of all kernels")
        yield forbids("no_run_time", Sentence(text, side=word.upper(), none=none))


def _recorders(runs: RunWeighting) -> Iterator[Caveat]:
    one, other = runs.recorder(0), runs.recorder(1)
    if one == other:
        return
    text = f"the times before are {RECORDER_NAMES[one]}, those after {RECORDER_NAMES[other]}"
    if "ncu" in (one, other):
        yield weakens("recorders", text, WARM_CACHES)
    else:
        yield note("recorders", text)


def _durations(runs: RunWeighting) -> Iterator[Caveat]:
    words = [word for which, word in enumerate(SIDES) if not runs.overlap_known(which)]
    if words:
        names, tables = " and ".join(map(str.upper, words)), "run tables do"
        if len(words) == 1:
            tables = "run table does"
        text = (
            f"the {names} {tables} not record which kernels ran at the same time, so launch "
            "durations are summed on both sides; where kernels overlap, this sum exceeds the GPU "
            "time"
        )
        yield note("durations", text)


def _migrations(runs: RunWeighting) -> Iterator[Caveat]:
    words = [word for which, word in enumerate(SIDES) if runs.migrates(which)]
    if words:
        label = "per cent by which runs of one program with managed memory differed"
        text = Sentence(
            "managed memory migrated during the {sides} {runs}: runs of one program with managed "
            "memory differed by {usual} % (root mean square), and by {most} % at most",
            sides=" and ".join(map(str.upper, words)),
            runs="runs" if len(words) > 1 else "run",
            usual=constant(_USUAL_MIGRATING, "", f"{label}, root mean square"),
            most=constant(_MOST_MIGRATING, "", f"{label} at most"),
        )
        yield weakens("migrations", text, _MIGRATING)


# --- replay and run


def replay_differs(runs: RunWeighting, pairing: Pairing, numbers: Numbers) -> Iterator[Caveat]:
    """Launches whose replay does not show what happened in the run."""
    for which, gaps in _gaps(pairing, runs.replay_gap):
        one = len(gaps) == 1 and not runs.average_times(which, *gaps[0])
        text = Sentence(
            "{took}: {whose} counters do not explain the difference, so no causes are given",
            took=_took(runs, which, gaps, numbers),
            whose="its" if one else "their",
        )
        yield note("replay_differs", text)


def replay_not_scaled(runs: RunWeighting, pairing: Pairing, numbers: Numbers) -> Iterator[Caveat]:
    """Launches so short that the profiler's overhead is a large part of the replay."""
    for which, gaps in _gaps(pairing, runs.replay_ratio):
        took = _took(runs, which, gaps, numbers)
        text = Sentence("{took}: too short to scale the replay's counters to the run", took=took)
        yield note("replay_not_scaled", text)


_Gaps = list[tuple[Launch, ReplayGap]]


def _gaps(
    pairing: Pairing, gap_of: Callable[[int, Launch], ReplayGap | None]
) -> Iterator[tuple[int, _Gaps]]:
    """Launches of each side that have one."""
    for which in (0, 1):
        launches = pairing.launches(which)
        if gaps := [(launch, gap) for launch in launches if (gap := gap_of(which, launch))]:
            yield which, gaps


def few_like_profiled(runs: RunWeighting, pairing: Pairing, numbers: Numbers) -> Iterator[Caveat]:
    """Pairs whose time is mostly in launches that took much longer or shorter than the profiled
    ones."""
    for which, word in enumerate(SIDES):
        part = runs.small_similar_share(which, pairing)
        if part is not None:
            share = numbers(f"share of launches like the profiled ones {word}", 100 * part, "%")
            text = Sentence(
                "{kernel}: in the {side} run, launches between half and twice as long as the "
                "profiled ones make up only {share} of its time; the counters may not apply to the "
                "other launches, so no account is given",
                kernel=pairing.kernel,
                side=word.upper(),
                share=share_or_less(share),
            )
            yield note("launches_unlike", text)


_LEAST_SHARE = constant(1, "%", "smallest share that is printed")


def share_or_less(share: Evidence) -> Sentence:
    """`12%`, or `less than 1%`."""
    if share.value < _LEAST_SHARE.value:
        return Sentence("less than {least:.0f}", least=_LEAST_SHARE)
    return Sentence("{share:.0f}", share=share)


def _took(runs: RunWeighting, which: int, gaps: _Gaps, numbers: Numbers) -> Sentence:
    """`relax took 5.25 us under replay and 549 us in the BEFORE run`; of several, each."""
    launch, first = gaps[0]
    word, kernel = SIDES[which], launch.kernel

    def both(gap: ReplayGap, of: str) -> Sentence:
        replay = numbers(f"time of {of} {word} under replay", gap.replay_ns, "ns")
        plain = numbers(f"time of {of} {word} in the run", gap.plain_ns, "ns")
        return Sentence("{replay} under replay and {plain}", replay=replay, plain=plain)

    if average := runs.average_times(which, launch, first):
        return Sentence(
            "launches of {kernel} took {both} in the {run} run, on average",
            kernel=kernel,
            both=both(average, f"launches like launch {launch.id}"),
            run=word.upper(),
        )
    times = [
        (f"launch {each.id}", both(gap, f"launch {each.id}"))
        for each, gap in gaps[:_MAX_LISTED_LAUNCHES]
    ]
    one = Sentence(
        "{kernel} took {both} in the {run} run", kernel=kernel, both=times[0][1], run=word.upper()
    )
    if len(gaps) == 1:
        return one
    others = [Sentence("{name}: {both}", name=name, both=each) for name, each in times[1:]]
    if len(gaps) > _MAX_LISTED_LAUNCHES:
        more = constant(len(gaps) - _MAX_LISTED_LAUNCHES, "", "launches that are not listed")
        others.append(Sentence("and {more} more", more=more))
    return Sentence(
        "{one} ({name}; {others})", one=one, name=times[0][0], others=Sentence(", ").join(others)
    )


def pair_overlap_caveat(
    runs: RunWeighting, pairing: Pairing, timing: Timing, numbers: Numbers
) -> Caveat | None:
    """Set if there can be no verdict on a pair."""
    if timing.speedup is None:
        return None
    why = _of_durations if runs.by_durations else _shared
    reason = why(runs, pairing, timing, numbers)
    return no_verdict("overlap", pairing.kernel, reason) if reason else None


def mixed_launches_caveat(runs: RunWeighting, *pairings: Pairing, of: str) -> Caveat | None:
    """`of`: a kernel, or the total of some."""
    if not runs.mixed(pairings):
        return None
    whose = "this kernel" if len(pairings) == 1 else "these kernels"
    why = f"the run table does not distinguish the launches of {whose}"
    return no_verdict("mixed_launches", of, why)


def _shared(
    runs: RunWeighting, pairing: Pairing, timing: Timing, numbers: Numbers
) -> Sentence | None:
    """The share of the busy time and the durations must change alike, unless the launches of the
    pair overlap only each other."""
    if not any((runs.concurrency(which, pairing) or 1.0) > 1 for which in (0, 1)):
        return None
    if not any(runs.overlaps_others(which, pairing) for which in (0, 1)):
        return None
    before, after = runs.durations(pairing)
    durations = timing._replace(before=before, after=after)
    if timing.speedup is None or durations.speedup is None:
        return None
    apart = abs(math.log(timing.speedup / durations.speedup))
    if apart <= timing.noise + timing.doubt and timing.word == durations.word:
        return None
    return Sentence(
        "launches ran at the same time, and the durations of its launches ({durations}) changed "
        "differently from its share of the GPU time ({times})",
        durations=_sides(durations, "summed durations", numbers),
        times=_sides(timing, "time", numbers),
    )


def _of_durations(
    runs: RunWeighting, pairing: Pairing, timing: Timing, numbers: Numbers
) -> str | None:
    slowed = _slowed(runs, pairing, numbers)
    return next(_overlapping(runs, pairing, timing), None) or next(slowed, None)


def _overlapping(runs: RunWeighting, pairing: Pairing | None, timing: Timing) -> Iterator[str]:
    """One side is known to overlap, and for the other it is not known."""
    for which, word in enumerate(SIDES):
        concurrency = runs.concurrency(which, pairing)
        if concurrency and math.log(concurrency) > timing.noise:
            yield (
                f"kernels ran at the same time in the {word.upper()} run; the "
                f"{SIDES[1 - which].upper()} run table does not record whether they did"
            )


def _slowed(runs: RunWeighting, pairing: Pairing, numbers: Numbers) -> Iterator[Sentence]:
    """Launches that took much longer than alone on the GPU."""
    for which, word in enumerate(SIDES):
        if runs.overlap_known(which):
            continue
        for launch in pairing.launches(which):
            gap = runs.replay_gap(which, launch)
            if gap is None or not gap.run_is_longer:
                continue
            average = runs.average_times(which, launch, gap)
            who, how = ("launches", ", on average") if average else ("a launch", "")
            gap = average or gap
            of = f"{'launches like ' if average else ''}launch {launch.id} {word}"
            yield Sentence(
                "{who} took {plain} in the {run} run and {replay} under replay{how}: kernels may "
                "have run at the same time, and then the sum of durations grows although the GPU "
                "finishes sooner",
                who=who,
                plain=numbers(f"time of {of} in the run", gap.plain_ns, "ns"),
                run=word.upper(),
                replay=numbers(f"time of {of} under replay", gap.replay_ns, "ns"),
                how=how,
            )


def total_overlap_caveat(
    runs: RunWeighting, open_pairs: Sequence[tuple[Pairing, Timing]], whole: Timing
) -> Caveat | None:
    """Set if there can be no verdict on the total. A total of busy time always has one.
    `open_pairs`: those whose launches may overlap."""
    if not runs.by_durations or whole.speedup is None:
        return None
    reason: str | None = None
    if not runs.chosen_only:
        reason = next(_overlapping(runs, None, whole), None)
    if reason is None:
        if _part(open_pairs, whole) <= whole.noise:
            return None
        reason = Sentence(
            "launches of {names} may have overlapped, and the tables do not record that",
            names=listed([pairing.kernel for pairing, _ in open_pairs]),
        )
    return no_verdict("overlap", "the total", reason)


def _part(pairs: Sequence[tuple[Pairing, Timing]], whole: Timing) -> float:
    """Share of these pairs in the total, 0 to 1, on the side where it is larger."""
    before = sum(timing.before or 0.0 for _, timing in pairs) / (whole.before or 1.0)
    after = sum(timing.after or 0.0 for _, timing in pairs) / (whole.after or 1.0)
    return max(before, after)


def opposite_durations_caveat(
    runs: RunWeighting, timing: Timing, numbers: Numbers
) -> Iterator[Caveat]:
    """Note if the sum of durations and the busy time changed in opposite directions."""
    before, after = runs.durations(None)
    durations = timing._replace(before=before, after=after)
    if {timing.word, durations.word} == {"faster", "slower"}:
        text = Sentence(
            "all kernels: the sum of launch durations changed in the opposite direction ({sums}) "
            "because kernels overlap; keet compares the time in which the GPU ran kernels",
            sums=_sides(durations, "summed durations", numbers),
        )
        yield note("overlap", text)


def _sides(timing: Timing, what: str, numbers: Numbers) -> Sentence:
    before, after = (
        numbers(f"{what} {word}", ns or 0.0, "ns")
        for word, ns in zip(SIDES, (timing.before, timing.after), strict=True)
    )
    return Sentence("{before} → {after}", before=before, after=after)


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
    has_tables = before.has_tables and after.has_tables
    return has_tables and not counts_given and not _within_report(before, after)


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
