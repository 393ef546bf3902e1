"""Caveats for kernels that run at the same time: times may not show which way a kernel changed.

While n kernels run at once, each is counted with 1/n of the GPU's busy time. So the share of a
kernel changes when another one starts or stops to overlap it, although its launches take as long as
before. And sums of durations, which is all that some tables have, grow when kernels overlap,
although the program gets faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keet.comparison.caveats.caveat import Caveat, listed, no_verdict, note
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.run_weighting import SIDES, RunWeighting
from keet.comparison.timing.time_ledger import Numbers
from keet.evidence import Sentence


def pair_overlap_caveat(
    runs: RunWeighting, pairing: Pairing, timing: Timing, numbers: Numbers
) -> Caveat | None:
    """Set if there can be no verdict on a pair."""
    if timing.speedup is None:
        return None
    why = _of_durations if runs.by_durations else _shared
    found = why(runs, pairing, timing, numbers)
    return no_verdict("overlap", pairing.kernel, found) if found else None


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
    found: str | None = None
    if not runs.chosen_only:
        found = next(_overlapping(runs, None, whole), None)
    if found is None:
        if _part(open_pairs, whole) <= whole.noise:
            return None
        found = Sentence(
            "launches of {names} may have overlapped, and the tables do not record that",
            names=listed([pairing.kernel for pairing, _ in open_pairs]),
        )
    return no_verdict("overlap", "the total", found)


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
