"""The result of a comparison: `Difference`, with one `PairDifference` per pair of kernels.

They are the documents of `keet diff --format json`, with what pages and the gate need besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.ledger import Ledger
from keet.comparison.causes.account_changes import PartChange
from keet.comparison.causes.attribution import Attribution
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.finding_changes import NextStep
from keet.comparison.comparability import Caveat
from keet.comparison.numbers import NumberChange, Speedup
from keet.comparison.pairs import Pairing
from keet.comparison.same_kernel import Side
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.weighting import NoTotal
from keet.documents.diff import (
    DiffDocument,
    GateDocument,
    PairDocument,
    RegressionDocument,
    TimesDocument,
)
from keet.documents.document import live
from keet.evidence import Evidence, Sentence


class PairDifference(PairDocument):
    """Kernels that do the same work, before and after."""

    attribution: Sequence[Attribution] = ()
    account: Sequence[PartChange] = ()
    pairing: Pairing = live()
    timing: Timing = live()
    time: NumberChange | None = live()
    """Evidence for the times of both sides, of the launches that the basis covers."""
    measured: Speedup | None = live()
    """Evidence for the speed-up."""
    caveats: tuple[Caveat, ...] = live()
    weighted: tuple[tuple[WeightedLaunch, ...], tuple[WeightedLaunch, ...]] = live()
    """The launches of both sides that were explained."""
    counted: NumberChange | None = live(default=None)
    """Evidence for `launches`, if they are those of the runs."""
    known_time: Evidence | None = live(default=None)
    """Time in the run of the known side, if the other side is not known."""

    @property
    def on_both(self) -> bool:
        """Each side has the kernel, in its report or in its run."""
        timing = self.timing
        both = timing.before is not None and timing.after is not None
        return both or bool(self.before and self.after)

    @property
    def cited(self) -> Iterator[Evidence]:
        """Evidence for its own sentences; the launches have more."""
        changes = [each for each in (self.time, self.counted) if each]
        yield from (piece for change in changes for piece in change.evidence)
        yield from [self.known_time] if self.known_time else []
        yield from self.measured or ()
        yield from (piece for each in self.attribution for piece in each.evidence)


class TimeChange(TimesDocument):
    """A time of both runs."""

    time: NumberChange = live()
    factor: Evidence | None = live(default=None)
    """How many times as long the longer one is."""


class Regression(RegressionDocument):
    """Something that got worse by more than is allowed."""

    change: Sentence = live()
    """`text` without the kernel and the metric."""


class Gate(GateDocument):
    """The limit and the result."""

    regressions: Sequence[Regression]
    verdict: Sentence = live()
    """`gate of 5% passed`"""
    checked: int = live()
    alone: list[str] = live()
    """Kernels on one side only: they count only in the total."""


class Difference(DiffDocument):
    """Everything that is known about the difference of two sides."""

    pairs: Sequence[PairDifference]
    not_profiled: TimeChange | None = None
    span: TimeChange | None = None
    next: NextStep | None = None
    gate: Gate | None = None
    sides: tuple[Side, Side] = live()
    caveats: tuple[Caveat, ...] = live()
    """Of the sides as a whole; pairs have their own."""
    timing: Timing = live()
    time: NumberChange | None = live()
    measured: Speedup | None = live()
    noise: Evidence = live()
    no_total: NoTotal | None = live()
    chosen_only: bool = live(default=False)
    """Of whole runs: the total covers the chosen launches only."""
    launches: NumberChange | None = live(default=None)
    """Launches of the runs; None: the times are not of whole runs."""
    shared: bool = live(default=False)
    """Of whole runs: kernels ran at the same time, and the time was divided among them."""
    unprofiled_share: Evidence | None = live(default=None)
    """Share of the time after in kernels that were not profiled, if it is more than half."""
    book: Ledger = live()
    """Takes the numbers that are computed from both sides."""

    @property
    def run_unknown(self) -> bool:
        """The reports contain some launches of the run, and the time of the whole run is not
        known."""
        counts_given = any(side.times is not None for side in self.sides)
        return (
            self.verdict.basis == "reports"
            and not counts_given
            and not all(side.knows_run for side in self.sides)
        )

    @property
    def per_launch(self) -> bool:
        """Each time is that of a single launch."""
        return self.rows == 1 and all(len(side.first.launches) == 1 for side in self.sides)

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
        slower = [pair for pair in self.pairs if pair.verdict.word == "slower"]
        return tuple(sorted(slower, key=lambda pair: pair.timing.saved))
