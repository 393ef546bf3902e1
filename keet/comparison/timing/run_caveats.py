"""Caveats of times of whole runs: run tables that do not fit, replays that differ from the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.replay_gap.gap import ReplayGap
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.caveats.comparability import WARM_CACHES
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.timing.run_weighting import SIDES, RunWeighting
from keet.formatting import share_text
from keet.profile import Launch
from keet.profile.names import file_name
from keet.profile.run_table import RECORDER_NAMES
from keet.units import Quantity

_MIGRATING = 0.4
"""Two standard deviations. Measured on an H200: runs of one program with managed flags differed by
20 % (root mean square), and by 44 % at most (evals.recording_cost)."""
_LISTED = 3


def run_caveats(runs: RunWeighting, pairings: Sequence[Pairing]) -> Iterator[Caveat]:
    for which, word in enumerate(SIDES):
        yield from _other_program(runs, which, word)
    yield from _recorders(runs)
    yield from _durations(runs)
    yield from _migrations(runs)
    for which, word in enumerate(SIDES):
        names = [pairings[number].kernel for number in runs.missing(which)]
        if names:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            text = (
                f"the {word.upper()} run table does not have {', '.join(names[:_LISTED])}{more}: "
                "the time in this run is not known"
            )
            yield Caveat("not_in_run", "note", text)


def _other_program(runs: RunWeighting, which: int, word: str) -> Iterator[Caveat]:
    for run in runs.reports_not_in_table(which):
        table = file_name(run.profile.run.path) if run.profile.run and run.profile.run.path else ""
        named = f" ({table})" if table else ""
        text = (
            f"no kernel of {file_name(run.profile.provenance.path)} is in the {word.upper()} run "
            f"table{named}: it belongs to another program, or names its kernels differently"
        )
        yield Caveat("other_program", "forbids", text)
    if not runs.has_time(which):
        text = f"the {word.upper()} run table has no times: all its kernels took 0 ns"
        yield Caveat("no_run_time", "forbids", text)


def _recorders(runs: RunWeighting) -> Iterator[Caveat]:
    one, other = runs.recorder(0), runs.recorder(1)
    if one == other:
        return
    text = f"the times before are {RECORDER_NAMES[one]}, those after {RECORDER_NAMES[other]}"
    if "ncu" in (one, other):
        yield Caveat("recorders", "weakens", text, WARM_CACHES)
    else:
        yield Caveat("recorders", "note", text)


def _durations(runs: RunWeighting) -> Iterator[Caveat]:
    words = [word for which, word in enumerate(SIDES) if not runs.overlap_known(which)]
    if words:
        text = (
            f"the {_run_tables(words)} not record which kernels ran at the same time, so launch "
            "durations are summed on both sides; where kernels overlap, this sum exceeds the GPU "
            "time"
        )
        yield Caveat("durations", "note", text)


def _run_tables(words: Sequence[str]) -> str:
    """`BEFORE run table does`, `BEFORE and AFTER run tables do`."""
    names = " and ".join(word.upper() for word in words)
    return f"{names} run tables do" if len(words) > 1 else f"{names} run table does"


def _migrations(runs: RunWeighting) -> Iterator[Caveat]:
    words = [word for which, word in enumerate(SIDES) if runs.migrates(which)]
    if words:
        text = (
            f"managed memory migrated during the {' and '.join(map(str.upper, words))} "
            f"run{'s' * (len(words) > 1)}: runs of one program with managed memory differed by "
            "20 % (root mean square), and by 44 % at most"
        )
        yield Caveat("migrations", "weakens", text, _MIGRATING)


# --- replay and run


def replay_differs(runs: RunWeighting, pairing: Pairing) -> Iterator[Caveat]:
    """Launches whose replay does not show what happened in the run."""
    for which in (0, 1):
        launches = [launch for group in pairing.sides[which] for launch in group.launches]
        gaps = [(each, gap) for each in launches if (gap := runs.replay_gap(which, each))]
        if gaps:
            one = len(gaps) == 1 and not runs.average_times(which, *gaps[0])
            text = (
                f"{_took(runs, which, gaps)}: {'its' if one else 'their'} counters do not explain "
                "the difference, so no causes are given"
            )
            yield Caveat("replay_differs", "note", text)


def replay_not_scaled(runs: RunWeighting, pairing: Pairing) -> Iterator[Caveat]:
    """Launches so short that the profiler's overhead is a large part of the replay."""
    for which in (0, 1):
        launches = [launch for group in pairing.sides[which] for launch in group.launches]
        found = [(each, gap) for each in launches if (gap := runs.replay_ratio(which, each))]
        if found:
            text = (
                f"{_took(runs, which, found)}: too short to scale the replay's counters to the run"
            )
            yield Caveat("replay_not_scaled", "note", text)


def few_like_profiled(runs: RunWeighting, pairing: Pairing) -> Iterator[Caveat]:
    """Pairs whose time is mostly in launches that took much longer or shorter than the profiled
    ones."""
    for which, word in enumerate(SIDES):
        part = runs.small_similar_share(which, pairing)
        if part is not None:
            share = share_text(part) if part >= 0.01 else "less than 1%"
            text = (
                f"{pairing.kernel}: in the {word.upper()} run, launches between half and twice as "
                f"long as the profiled ones make up only {share} of its time; the counters may not "
                "apply to the other launches, so no account is given"
            )
            yield Caveat("launches_unlike", "note", text)


def _took(runs: RunWeighting, which: int, gaps: Sequence[tuple[Launch, ReplayGap]]) -> str:
    """`relax took 5.25 us under replay and 549 us in the BEFORE run`; of several, each."""
    launch, first = gaps[0]
    run = f"in the {SIDES[which].upper()} run"
    if average := runs.average_times(which, launch, first):
        return f"launches of {launch.kernel} took {_both(average)} {run}, on average"
    one = f"{launch.kernel} took {_both(first)} {run}"
    if len(gaps) == 1:
        return one
    others = ", ".join(f"launch {each.id}: {_both(gap)}" for each, gap in gaps[1:_LISTED])
    more = f", and {len(gaps) - _LISTED} more" if len(gaps) > _LISTED else ""
    return f"{one} (launch {launch.id}; {others}{more})"


def _both(gap: ReplayGap) -> str:
    replay, plain = (Quantity(ns, "ns") for ns in (gap.replay_ns, gap.plain_ns))
    return f"{replay} under replay and {plain}"
