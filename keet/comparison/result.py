"""The result of a comparison: `Difference`, with one `PairDifference` per pair of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.causes.attribution import Attribution
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.finding_changes import Outcome
from keet.comparison.causes.next_step import DiffNextStep
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.number_change import NumberChange
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.pairing.sides import Side
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.time_ledger import Speedup
from keet.comparison.timing.weighting import NoTotal
from keet.documents.diff import Basis, How
from keet.evidence import Evidence


class PairDifference(NamedTuple):
    """Kernels that do the same work, before and after."""

    pairing: Pairing
    timing: Timing
    time: NumberChange | None
    """Evidence for the times of both sides, summed over all launches."""
    speedup: Speedup | None
    caveats: tuple[Caveat, ...]
    attribution: tuple[Attribution, ...]
    outcome: Outcome
    weighted: tuple[tuple[WeightedLaunch, ...], tuple[WeightedLaunch, ...]] = ((), ())
    """The launches of both sides that were explained."""
    account: tuple[PartChange, ...] = ()
    """Time by part of the account; empty: not known, or the replays do not show it."""
    limiters: tuple[str, str] | None = None
    basis: Basis = "reports"
    launches: tuple[float | None, float | None] = (None, None)
    """Launches that the times cover, see `Basis`; for `per_launch`, the launches of the reports."""
    counted: NumberChange | None = None
    """Evidence for `launches`, if they are those of the runs."""
    by_durations: bool = False
    """The times are sums of launch durations, which may overlap."""
    known_time: Evidence | None = None
    """Time in the run of the known side, if the other side is not known."""

    @property
    def on_both(self) -> bool:
        """Each side has the kernel, in its report or in its run."""
        timing = self.timing
        both = timing.before is not None and timing.after is not None
        return both or bool(self.pairing.before and self.pairing.after)

    @property
    def kernel(self) -> str:
        return self.pairing.kernel

    @property
    def how(self) -> How:
        return self.pairing.how

    @property
    def evidence(self) -> Iterator[Evidence]:
        """Evidence for its own sentences; the launches have more."""
        changes = [each for each in (self.time, self.counted) if each]
        yield from (piece for change in changes for piece in (change.before, change.after))
        yield from [self.known_time] if self.known_time else []
        yield from self.speedup or ()
        for each in self.attribution:
            yield from each.evidence
            if each.share:
                yield each.share


class Spans(NamedTuple):
    """From the start of the first kernel of a run to the end of its last kernel."""

    time: NumberChange
    factor: Evidence
    """How many times as long the longer one is."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (self.time.before, self.time.after, self.factor)


class Difference(NamedTuple):
    """Everything that is known about the difference of two sides."""

    before: Side
    after: Side
    caveats: tuple[Caveat, ...]
    pairs: tuple[PairDifference, ...]
    timing: Timing
    time: NumberChange | None
    speedup: Speedup | None
    noise: Evidence
    evidence: tuple[Evidence, ...]
    basis: Basis = "reports"
    no_total: NoTotal | None = None
    chosen_only: bool = False
    """Of whole runs: the total covers the chosen launches only."""
    launches: NumberChange | None = None
    """Launches of the runs; None: the times are not of whole runs."""
    not_profiled: NumberChange | None = None
    """Time in the runs of the kernels that no launch of either report represents."""
    by_durations: bool = False
    """Of whole runs: times are sums of durations, because a table does not record which kernels ran
    at the same time."""
    shared: bool = False
    """Of whole runs: kernels ran at the same time, and the time was divided among them."""
    span: Spans | None = None
    """Of whole runs with much idle time."""
    unprofiled_share: Evidence | None = None
    """Share of the time after in kernels that were not profiled, if it is more than half."""
    next_step: DiffNextStep | None = None
    """The costliest thing that is left."""

    @property
    def run_unknown(self) -> bool:
        """The reports contain some launches of the run, and the time of the whole run is not
        known."""
        sides = (self.before, self.after)
        counts_given = any(side.times is not None for side in sides)
        return (
            self.basis == "reports"
            and not counts_given
            and not all(side.knows_run for side in sides)
        )

    @property
    def per_launch(self) -> bool:
        """Each time is that of a single launch."""
        sides = (self.before, self.after)
        return self.rows == 1 and all(len(side.first.launches) == 1 for side in sides)

    @property
    def rows(self) -> int:
        """Number of rows that add up to the total."""
        return len(self.pairs) + (self.not_profiled is not None)

    @property
    def forbidden(self) -> tuple[Caveat, ...]:
        """Caveats that forbid the comparison; empty if the sides are comparable."""
        return tuple(caveat for caveat in self.all_caveats if caveat.severity == "forbids")

    @property
    def all_caveats(self) -> tuple[Caveat, ...]:
        return (*self.caveats, *(r for pair in self.pairs for r in pair.caveats))

    @property
    def worst(self) -> tuple[PairDifference, ...]:
        """Pairs that got slower, the costliest first."""
        slower = [pair for pair in self.pairs if pair.timing.word == "slower"]
        return tuple(sorted(slower, key=lambda pair: pair.timing.saved))
