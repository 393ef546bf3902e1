"""How often each launch of a report counts, and whether there is a total.

- `reports` (`Weighting`): each launch counts as often as the reports have it, or as `--times` says.
- `per_launch` (`PerLaunchWeighting`): it is not known how often the program launches each kernel,
  and something suggests that this changed. Kernels are compared per launch; there is no total.
- `run` (`RunWeighting`): run tables say how many launches each profiled launch represents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.comparison.caveat import BEFORE_TABLE, COUNTS, Caveat, listed, note, weakens
from keet.comparison.comparability import work_of_many_caveat
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import Pairing
from keet.comparison.sides import KernelGroup, Side, duration_of
from keet.comparison.timing.pair_timing import Timing, Weights, time_pair, total_timing
from keet.documents.diff import Basis
from keet.evidence import Sentence, constant
from keet.profile import Launch

_ADDED_NS = 1200.0
"""Added by ncu for starting and ending a launch: 0.4 to 1.4 us were measured on an H200 against
CUPTI (docs/profiling.md), 1.2 us for a kernel of 1.2 us."""
_SHORT_NS = 10_000.0
"""Below this duration, ncu adds more than a tenth."""


def short_launches(pairing: Pairing, weights: Weights, numbers: Numbers) -> Caveat | None:
    """`weights`: of the groups of each side. If the times cover as many launches on both sides, ncu
    adds the same to both, which does not change the sign."""
    before, after = map(_launch_count, pairing.sides, weights)
    one, other = map(_one_launch, pairing.sides, weights)
    if one is None or other is None or math.isclose(before, after) or min(one, other) >= _SHORT_NS:
        return None
    doubt = abs(_added(one) - _added(other))
    word, shortest, wrong = ("before", one, "high") if one < other else ("after", other, "low")
    text = Sentence(
        "{kernel}: ncu adds about {added} to each launch, which takes {shortest} {word} including "
        "that: the speed-up may be {factor:.1f}x too {wrong}",
        kernel=pairing.kernel,
        added=constant(_ADDED_NS, "ns", "time that ncu adds to a launch"),
        shortest=numbers(f"average launch under ncu {word}", shortest, "ns"),
        word=word,
        factor=numbers("speed-up error from what ncu adds", math.exp(doubt), ""),
        wrong=wrong,
    )
    return weakens("short_launches", text, doubt)


def _launch_count(groups: Sequence[KernelGroup], weights: Sequence[float]) -> float:
    """Launches that the time of a side covers."""
    return sum(w * len(group.launches) for w, group in zip(weights, groups, strict=True))


def _one_launch(groups: Sequence[KernelGroup], weights: Sequence[float]) -> float | None:
    """Average time under ncu of the launches that the time of a side covers; None if a launch has
    none."""
    times = [group.times for group in groups]
    known = [w * sum(each) for w, each in zip(weights, times, strict=True) if each]
    return sum(known) / _launch_count(groups, weights) if known and all(times) else None


def _added(ns: float) -> float:
    """The logarithm of the measured time over the time without what ncu adds."""
    return -math.log1p(-min(_ADDED_NS / ns, 0.5))


_SIZE_CHANGED = ("work_per_launch", "launch_size", "launch_work", "problem_size")
_ABOUT_TIMES = ("work_per_launch", "launch_counts")

RunDoubt = Literal["replay", "unlike", "mixed"]
"""Why a launch does not show what its kernel would save in the run. `replay`: its replay took much
longer or shorter than in the run; `unlike`: most time is in launches of other lengths; `mixed`: the
run table does not distinguish its launches from others."""


class LaunchWeight(NamedTuple):
    """How many launches an analysed launch represents."""

    time: float
    """Time of its kernel over the time of this launch under replay."""
    volume: float | None
    """Work of its kernel over the work of this launch; None: not known."""
    alike: float | None = None
    """See `WeightedLaunch.alike`."""


class NoTotal(NamedTuple):
    """Why there is no total."""

    cause: str
    """`the number of launches changed`"""
    kernels: tuple[str, ...]
    why: str = "the reports do not contain all launches"
    remedy: Sentence = Sentence(
        "profile both with keet profile, which records the whole run, add the run tables of both "
        "with {before} FILE --run-table FILE, or give the launch counts with {counts}",
        before=BEFORE_TABLE,
        counts=COUNTS,
    )
    gated: str = "kernels are gated per launch"
    """What is gated instead of the total."""

    @property
    def caveat(self) -> Caveat:
        text = Sentence("{cause}: {kernels}", cause=self.cause, kernels=listed(self.kernels))
        return note("no_total", text)


class Weighting:
    """Each launch counts as often as the reports have it."""

    basis: Basis = "reports"
    no_total: NoTotal | None = None

    def __init__(self, before: Side, after: Side) -> None:
        self.sides = (before, after)

    def applicable(self, caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
        """The caveats that apply to this weighting, with their effect on it."""
        known = [r.as_note if r.id == "work_per_launch" else r for r in caveats]
        if self.sides[0].scale == self.sides[1].scale == 1:
            return tuple(known)
        # `--times` says how often each is launched.
        return tuple(caveat for caveat in known if caveat.id not in _ABOUT_TIMES)

    def caveats_of_pair(
        self, pairing: Pairing, caveats: Sequence[Caveat], numbers: Numbers
    ) -> tuple[Caveat, ...]:
        applicable = self.applicable(caveats)
        more = short_launches(pairing, self._weights(pairing), numbers)
        return (*applicable, more) if more else applicable

    def timing(self, pairing: Pairing, doubt: float) -> Timing:
        return time_pair(pairing, *self.sides, doubt, self._weights(pairing))

    def _weights(self, pairing: Pairing) -> Weights:
        one, other = (
            [float(side.scale)] * len(groups)
            for side, groups in zip(self.sides, pairing.sides, strict=True)
        )
        return one, other

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        del pairings
        return total_timing(timings)

    def launch_weight(
        self, which: int, pairing: Pairing, group: KernelGroup, launch: Launch
    ) -> LaunchWeight:
        """`which`: 0 before, 1 after."""
        weight = self._weights(pairing)[which][pairing.sides[which].index(group)]
        own, times = duration_of(launch), group.times
        counted = weight * (sum(times) / own if own and times else len(group.launches))
        return LaunchWeight(counted, counted)

    def launches(self, which: int, pairing: Pairing) -> float | None:
        """Launches that the time of the pair covers; None: not known."""
        return self.sides[which].scale * pairing.counts[which]


class PerLaunchWeighting(Weighting):
    """One launch is compared with one launch: the average launch of a kernel; of fused kernels, one
    launch of each."""

    basis: Basis = "per_launch"

    def __init__(self, before: Side, after: Side, why: NoTotal) -> None:
        super().__init__(before, after)
        self.no_total = why

    def applicable(self, caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
        """Launch counts do not affect the time of one launch."""
        return tuple(replace(r, doubt=0.0) if r.id == "launch_counts" else r for r in caveats)

    def _weights(self, pairing: Pairing) -> Weights:
        """Times of different kernels that together do the work of the other side add up. Of one
        kernel, it is not known which of its shapes became which, so they are not added."""
        one, other = (
            [1 / (len(group.launches) if pairing.has_parts else count) for group in groups]
            for groups, count in zip(pairing.sides, pairing.counts, strict=True)
        )
        return one, other

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        del pairings
        return total_timing(timings)._replace(before=None, after=None)

    def launches(self, which: int, pairing: Pairing) -> float | None:
        return float(pairing.counts[which])


# --- whether there is a total


def weighting_without_tables(
    before: Side,
    after: Side,
    pairings: Sequence[Pairing],
    caveats: Sequence[Sequence[Caveat]],
) -> Weighting:
    if before.times is not None or after.times is not None:
        return Weighting(before, after)
    paired = zip(pairings, caveats, strict=True)
    open_pairs = [(p, timing) for p, timing in paired if not _is_whole(p, before, after)]
    why = next(_changes(open_pairs), None)
    return PerLaunchWeighting(before, after, why) if why else Weighting(before, after)


def with_suspected_work(
    pairing: Pairing, caveats: Sequence[Caveat], before: Side, after: Side, numbers: Numbers
) -> tuple[Caveat, ...]:
    """The caveats of a pair, and one if a launch may do the work of several. This does not matter
    if the reports contain all launches or the launch counts are given."""
    counts_given = before.times is not None or after.times is not None
    sized = any(caveat.id in _SIZE_CHANGED for caveat in caveats)
    alone = not (pairing.before and pairing.after)
    if counts_given or sized or alone or _is_whole(pairing, before, after):
        return tuple(caveats)
    more = work_of_many_caveat(pairing, numbers)
    return (*caveats, more) if more else tuple(caveats)


def _is_whole(pairing: Pairing, before: Side, after: Side) -> bool:
    """The reports contain every launch of these kernels. A kernel that is missing on one side is
    missing in its whole report, and not just among the chosen launches."""
    names = {group.key.name for group in (*pairing.before, *pairing.after)}
    return all(side.first.has_all_launches_of(names) for side in (before, after))


def _changes(pairs: Sequence[tuple[Pairing, Sequence[Caveat]]]) -> Iterator[NoTotal]:
    sized = [p for p, caveats in pairs if any(caveat.id in _SIZE_CHANGED for caveat in caveats)]
    for cause, pairings in (
        ("the number of launches changed", [p for p, _ in pairs if _other_count(p)]),
        ("kernels were fused or split", [p for p, _ in pairs if p.has_parts]),
        ("the work per launch may have changed", sized),
        ("some kernels are in one report only", [p for p, _ in pairs if not all(p.sides)]),
    ):
        if pairings:
            yield NoTotal(cause, tuple(pairing.kernel for pairing in pairings))


def _other_count(pairing: Pairing) -> bool:
    if not (pairing.before and pairing.after) or pairing.has_parts:
        return False
    return pairing.counts[0] != pairing.counts[1]
