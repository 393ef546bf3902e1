"""What must be said of times of whole runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.comparison.account import Part
from keet.comparison.comparability import WARM_CACHES
from keet.comparison.pairing import Pairing
from keet.comparison.reasons import Reason
from keet.comparison.timing import Timing
from keet.comparison.whole_run import WholeRun
from keet.profile.run_table import RECORDER_NAMES
from keet.units import Quantity

_SIDES = ("before", "after")
_MIGRATING = 0.2
"""Seen on an H200: ten runs of one program with managed flags differed by 20 %, two by 44 %
(evals.plain_runs)."""


def run_reasons(runs: WholeRun, pairings: Sequence[Pairing]) -> Iterator[Reason]:
    yield from _recorders(runs)
    yield from _migrations(runs)
    for which, word in enumerate(_SIDES):
        names = [pairings[number].kernel for number in runs.missing(which)]
        if names:
            text = (
                f"the table of the run {word} has no kernel of this name: {', '.join(names[:3])}; "
                "its time in the run is not known"
            )
            yield Reason("not_in_run", "note", text)


def _recorders(runs: WholeRun) -> Iterator[Reason]:
    one, other = runs.recorder(0), runs.recorder(1)
    if one == other:
        return
    text = f"the times before are {RECORDER_NAMES[one]}, those after {RECORDER_NAMES[other]}"
    if "ncu" in (one, other):
        yield Reason("recorders", "weakens", text, WARM_CACHES)
    else:
        yield Reason("recorders", "note", text)


def _migrations(runs: WholeRun) -> Iterator[Reason]:
    words = [word for which, word in enumerate(_SIDES) if runs.migrates(which)]
    if words:
        text = (
            f"managed memory moved during the run {' and '.join(words)}: the times of such a run "
            "differ by a fifth from one run to the next"
        )
        yield Reason("migrations", "weakens", text, _MIGRATING)


def replay_differs(runs: WholeRun, parts: Sequence[Sequence[Part]]) -> Iterator[Reason]:
    """Launches whose replay does not show what happened in the run."""
    for which, word in enumerate(_SIDES):
        for launch in (part.told.launch for part in parts[which]):
            if gap := runs.replay_gap(which, launch):
                replay, plain = (Quantity(ns, "ns") for ns in (gap.replay_ns, gap.plain_ns))
                text = (
                    f"{launch.kernel} took {replay} under replay and {plain} in the run {word}: "
                    "its counters do not explain the difference, so no causes are given"
                )
                yield Reason("replay_differs", "note", text)


def overlap(runs: WholeRun, pairing: Pairing | None, timing: Timing) -> Iterator[Reason]:
    """Where the launches' durations tell another story than the time that they took."""
    before, after = runs.durations(pairing)
    durations = timing._replace(before=before, after=after)
    if {timing.word, durations.word} == {"faster", "slower"}:
        name = pairing.kernel if pairing else "all kernels"
        text = (
            f"{name}: the sum of the launches' durations moved the other way "
            f"({Quantity(before, 'ns')} → {Quantity(after, 'ns')}), because kernels overlap; what "
            "counts is the time in which the GPU ran kernels"
        )
        yield Reason("overlap", "note", text)
