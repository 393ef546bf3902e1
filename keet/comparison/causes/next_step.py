"""The next step: the finding of the side after that costs most time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.replay_gap.reasons import REASON_NAMES
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.timing.run_weighting import ALIKE
from keet.comparison.timing.weighting import RunDoubt
from keet.diagnosis.finding import Finding
from keet.documents.whole_run import ReplayReasonDocument
from keet.evidence import Evidence
from keet.explanation.gain_texts import forecast_text
from keet.formatting import capitalized, share_text
from keet.units import Quantity

_LEAST = 0.01
"""Share of the total below which `less than 1%` is printed."""
_ALL = 0.995
"""Share of the time in launches like the profiled one from which it counts as all of it."""
_NOT_KNOWN = "how much it saves in the run is not known"
_DOUBTS: dict[RunDoubt, str] = {
    "replay": f" under replay; {_NOT_KNOWN}",
    "unlike": (
        "; most of the kernel's time is in launches much longer or shorter than the profiled one: "
        f"{_NOT_KNOWN}"
    ),
    "mixed": f"; the run table does not distinguish the launches of this kernel: {_NOT_KNOWN}",
}


class DiffNextStep(NamedTuple):
    """The costliest remaining finding, or the likely reason why the replay differs from the run."""

    weighted: WeightedLaunch
    finding: Finding | None
    """None: the replay differs from the run, and `reason` is the likely reason."""
    saved: float
    """Nanoseconds that it would save, by its forecast; for a `reason`, those of the kernel."""
    whole: float | None
    """Total nanoseconds of the side after; None: not known."""
    of: str = "the total time"
    """What `whole` is the time of, in words."""
    share: Evidence | None = None
    """`saved` in per cent of `whole`, if both are of the run."""

    @property
    def reason(self) -> ReplayReasonDocument | None:
        return None if self.finding else next(iter(_likely(self.weighted)), None)

    @property
    def text(self) -> str:
        kernel = self.weighted.explanation.launch.kernel
        if self.finding is None:
            return f"{kernel}: {_gap_text(self.weighted)}"
        forecast = forecast_text(self.finding, self.weighted.explanation.view.ledger)
        text = f"{self.finding.label}{self._here}, {forecast}"
        return f"{kernel}: {text}{self.of_whole}"

    @property
    def _here(self) -> str:
        """The place, without the code in brackets if the action repeats it."""
        here = self.finding.here if self.finding else ""
        return here.partition(" (")[0] if here and here in self.action else here

    @property
    def action(self) -> str:
        if self.finding:
            return self.finding.action
        advice = self.reason.how_to_tell if self.reason else ""
        return f"{capitalized(advice)}."

    @property
    def of_whole(self) -> str:
        """The saving as a share of the total, or why it is not known."""
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
) -> DiffNextStep | None:
    """`launches`: the explained launches of the side after. Steps whose saving in the run is not
    known come last."""
    left = [step for weighted in launches for step in _steps(weighted, whole, of)]
    return max(left, key=lambda step: (step.weighted.doubt is None, step.saved), default=None)


def _steps(weighted: WeightedLaunch, whole: float | None, of: str) -> Iterator[DiffNextStep]:
    if weighted.doubt == "replay" and _likely(weighted):
        yield DiffNextStep(
            weighted, None, weighted.weight * weighted.explanation.launch.rank_time, whole, of
        )
        return
    for finding in weighted.explanation.findings:
        yield DiffNextStep(weighted, finding, _cost(weighted, finding), whole, of)


def with_share_of_run(step: DiffNextStep, book: Ledger) -> DiffNextStep:
    """The step with evidence for its share of the run, if one is printed."""
    if step.weighted.doubt or not step.whole or step.saved / step.whole < _LEAST:
        return step
    share = Quantity(100 * step.saved / step.whole, "%")
    label = "of the time after, saved by the next step (estimated)"
    return step._replace(share=book.derived("share of the next step", share, label))


def _cost(weighted: WeightedLaunch, finding: Finding) -> float:
    """Only in launches like the profiled one: the forecast does not apply to others."""
    alike = 1.0 if weighted.alike is None else weighted.alike
    time = weighted.weight * weighted.explanation.launch.rank_time * alike
    return time * (1 - 1 / finding.forecast.likely)


def _some_alike(weighted: WeightedLaunch) -> bool:
    return weighted.alike is not None and ALIKE <= weighted.alike < _ALL


# --- replays that differ from the run


def _likely(weighted: WeightedLaunch) -> tuple[ReplayReasonDocument, ...]:
    """Reasons that one may want to fix. Not `concurrency`: kernels that share the GPU take longer,
    mostly on purpose."""
    reasons = weighted.explanation.replay.likely_reasons if weighted.explanation.replay else ()
    return tuple(reason for reason in reasons if reason.id != "concurrency")


def _gap_text(weighted: WeightedLaunch) -> str:
    """`116x as long in the run as under replay, likely because of managed or host memory`"""
    replay = weighted.explanation.replay
    if replay is None:
        raise ValueError("the replay of this launch is what happened in the run")
    factor = max(replay.ratio, 1 / replay.ratio)
    where = "in the run as under replay" if replay.ratio > 1 else "under replay as in the run"
    names = " and ".join(REASON_NAMES[reason.id] for reason in _likely(weighted))
    return f"{factor:,.{0 if factor >= 9.95 else 1}f}x as long {where}, likely because of {names}"
