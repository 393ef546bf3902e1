"""What is said of two sides: the result of a comparison."""

from __future__ import annotations

from collections.abc import Iterator

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.causes.attribution import Attribution
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.finding_changes import Outcome
from keet.comparison.causes.next_step import NextStep
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.number_change import NumberChange
from keet.comparison.pairing.pairs import How, Pairing
from keet.comparison.pairing.sides import Side
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.time_evidence import Speedup
from keet.comparison.timing.weighting import Basis, NoTotal
from keet.evidence import Evidence
from keet.records import NamedTuple


class PairDifference(NamedTuple):
    """Kernels that do the same work, before and after."""

    pairing: Pairing
    timing: Timing
    time: NumberChange | None
    """Evidence of the times of both sides, all launches together."""
    speedup: Speedup | None
    caveats: tuple[Caveat, ...]
    attribution: tuple[Attribution, ...]
    outcome: Outcome
    weighted: tuple[tuple[WeightedLaunch, ...], tuple[WeightedLaunch, ...]] = ((), ())
    """The launches of both sides that were explained."""
    account: tuple[PartChange, ...] = ()
    """Where the time of both sides went; empty: not known, or the replays do not show it."""
    limiters: tuple[str, str] | None = None
    basis: Basis = "reports"
    launches: tuple[float | None, float | None] = (None, None)
    """What the times are of: see `Basis`; of `per_launch`, the launches of the reports."""
    counted: NumberChange | None = None
    """Evidence of `launches`, where they are those of the runs."""
    by_durations: bool = False
    """The times are sums of the launches' durations, which may overlap."""
    known_time: Evidence | None = None
    """Time in the run of the one side that is known, where that of the other side is not."""

    @property
    def on_both(self) -> bool:
        """Nothing was gone or new: each side has it, in its report or in its run."""
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
        """Of its own sentences; the launches have more."""
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
    """Everything that is said of two sides."""

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
    """Of whole runs: the total is of launches that were chosen."""
    launches: NumberChange | None = None
    """Launches of the runs; None: times are not of whole runs."""
    not_profiled: NumberChange | None = None
    """Time of the kernels that no launch of either report stands for, in the runs."""
    by_durations: bool = False
    """Of whole runs: times are sums of durations, because a table does not tell which kernels ran
    at the same time."""
    shared: bool = False
    """Of whole runs: kernels ran at the same time, and each counts for a part of it."""
    span: Spans | None = None
    """Of whole runs with much idle time."""
    unprofiled_share: Evidence | None = None
    """Of the time after, in kernels that were not profiled, where that is most of it."""
    next_step: NextStep | None = None
    """The costliest thing that is left."""

    @property
    def run_unknown(self) -> bool:
        """The reports hold some launches of the run, and nothing tells what the whole run took."""
        sides = (self.before, self.after)
        told = any(side.times is not None for side in sides)
        return self.basis == "reports" and not told and not all(side.knows_run for side in sides)

    @property
    def per_launch(self) -> bool:
        """Each time is that of a single launch."""
        sides = (self.before, self.after)
        return self.rows == 1 and all(len(side.first.launches) == 1 for side in sides)

    @property
    def rows(self) -> int:
        """What the total is made of."""
        return len(self.pairs) + (self.not_profiled is not None)

    @property
    def forbidden(self) -> tuple[Caveat, ...]:
        """Why the two can't be compared, where they can't."""
        return tuple(caveat for caveat in self.all_caveats if caveat.severity == "forbids")

    @property
    def all_caveats(self) -> tuple[Caveat, ...]:
        return (*self.caveats, *(r for pair in self.pairs for r in pair.caveats))

    @property
    def worst(self) -> tuple[PairDifference, ...]:
        """Pairs that got slower, the costliest first."""
        slower = [pair for pair in self.pairs if pair.timing.word == "slower"]
        return tuple(sorted(slower, key=lambda pair: pair.timing.saved))
