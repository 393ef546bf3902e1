"""What to fix next: after, the finding that costs most time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keet.analysis.findings import Finding
from keet.analysis.ledger import Ledger
from keet.analysis.replay.reasons import REASON_NAMES, ReplayReason
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.timing.run_weighting import ALIKE
from keet.comparison.timing.weighting import RunDoubt
from keet.evidence import Evidence
from keet.explanation.gain_texts import forecast_text
from keet.formatting import capitalized, share_text
from keet.records import NamedTuple
from keet.units import Quantity

_LEAST = 0.01
"""Share of the whole below which no number is said."""
_ALL = 0.995
"""Part of the time in launches like the profiled one from which it counts as all of it."""
_NOT_KNOWN = "how much it saves in the run is not known"
_DOUBTS: dict[RunDoubt, str] = {
    "replay": f" under replay; {_NOT_KNOWN}",
    "unlike": (
        "; most of the kernel's time is in launches much longer or shorter than the profiled one: "
        f"{_NOT_KNOWN}"
    ),
    "mixed": f"; the run table does not distinguish the launches of this kernel: {_NOT_KNOWN}",
}


class NextStep(NamedTuple):
    """The costliest thing that is left."""

    weighted: WeightedLaunch
    finding: Finding | None
    """None: the replay is not what happened in the run, and `reason` is likely why."""
    saved: float
    """Nanoseconds that it would save, by its forecast; of a `reason`, those of the kernel."""
    whole: float | None
    """Nanoseconds of everything; None: not known."""
    of: str = "the total time"
    """What `whole` is, in words."""
    share: Evidence | None = None
    """`saved` of `whole` in per cent, where both are of the run."""

    @property
    def reason(self) -> ReplayReason | None:
        return None if self.finding else next(iter(_likely(self.weighted)), None)

    @property
    def text(self) -> str:
        kernel = self.weighted.explanation.launch.kernel
        if self.finding is None:
            return f"{kernel}: {_gap_text(self.weighted)}"
        said = f"{self.finding.title.lower()}{self.finding.here}, {forecast_text(self.finding)}"
        return f"{kernel}: {said}{self.of_whole}"

    @property
    def action(self) -> str:
        if self.finding:
            return self.finding.action
        told = self.reason.how_to_tell if self.reason else ""
        return f"{capitalized(told)}."

    @property
    def of_whole(self) -> str:
        """What that is of everything."""
        if self.weighted.doubt:
            return _DOUBTS[self.weighted.doubt]
        if self.whole is None:
            return ""
        counting = (
            "counting only launches like the profiled one, " if _some_alike(self.weighted) else ""
        )
        return f"; {counting}that saves {self._gain} of {self.of} after"

    @property
    def _gain(self) -> str:
        share = self.saved / self.whole if self.whole else 0.0
        if share < _LEAST:
            return "less than 1%"
        return f"{self.share:.0f}" if self.share else share_text(share)


def find_next_step(
    launches: Iterable[WeightedLaunch], whole: float | None, of: str = "the total time"
) -> NextStep | None:
    """`launches`: of the side after, as far as they were explained. Where what a forecast saves in
    the run is not known, it comes last."""
    left = [step for weighted in launches for step in _steps(weighted, whole, of)]
    return max(left, key=lambda step: (step.weighted.doubt is None, step.saved), default=None)


def _steps(weighted: WeightedLaunch, whole: float | None, of: str) -> Iterator[NextStep]:
    if weighted.doubt == "replay" and _likely(weighted):
        yield NextStep(
            weighted, None, weighted.weight * weighted.explanation.launch.rank_time, whole, of
        )
        return
    for finding in weighted.explanation.findings:
        yield NextStep(weighted, finding, _cost(weighted, finding), whole, of)


def with_share_of_run(step: NextStep, book: Ledger) -> NextStep:
    """With evidence of its share of the run, where one is said."""
    if step.weighted.doubt or not step.whole or step.saved / step.whole < _LEAST:
        return step
    share = Quantity(100 * step.saved / step.whole, "%")
    label = "of the time after, saved by the next step (estimated)"
    return step._replace(share=book.derived("share of the next step", share, label))


def _cost(weighted: WeightedLaunch, finding: Finding) -> float:
    """In launches like the profiled one: for the others, the forecast was not made."""
    alike = 1.0 if weighted.alike is None else weighted.alike
    time = weighted.weight * weighted.explanation.launch.rank_time * alike
    return time * (1 - 1 / finding.forecast.likely)


def _some_alike(weighted: WeightedLaunch) -> bool:
    return weighted.alike is not None and ALIKE <= weighted.alike < _ALL


# --- replays that are not what happened in the run


def _likely(weighted: WeightedLaunch) -> tuple[ReplayReason, ...]:
    """Those that somebody may want to fix: kernels that share the GPU take longer, and that is
    mostly meant."""
    reasons = weighted.explanation.replay.likely_reasons if weighted.explanation.replay else ()
    return tuple(reason for reason in reasons if reason.id != "concurrency")


def _gap_text(weighted: WeightedLaunch) -> str:
    """`116x as long in the run as under replay, likely because of managed or host memory`"""
    replay = weighted.explanation.replay
    if replay is None:
        raise ValueError("the replay of this launch is what happened in the run")
    factor = f"{replay.factor.value:,.{0 if replay.factor.value >= 9.95 else 1}f}x"
    where = "in the run as under replay" if replay.ratio > 1 else "under replay as in the run"
    names = " and ".join(REASON_NAMES[reason.id] for reason in _likely(weighted))
    return f"{factor} as long {where}, likely because of {names}"
