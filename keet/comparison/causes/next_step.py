"""The next step: the finding of the side after that costs most time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.replay_gap.reasons import REASON_NAMES
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.timing.run_caveats import share_or_less
from keet.comparison.timing.run_weighting import ALIKE
from keet.comparison.timing.weighting import RunDoubt
from keet.diagnosis.finding import Finding
from keet.documents.diff import NextDocument
from keet.documents.document import live
from keet.documents.explain import ReplayReasonDocument
from keet.evidence import Evidence, Sentence
from keet.explanation.gain_texts import forecast_text
from keet.formatting import capitalized
from keet.units import Quantity

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


class NextStep(NextDocument):
    """The costliest remaining finding, or the likely reason why the replay differs from the run."""

    weighted: WeightedLaunch = live()
    cause: Finding | None = live()
    """None: the replay differs from the run, and `reason` is the likely reason."""
    share: Evidence | None = live()
    """What it would save, in per cent of the total after; None: not known."""
    of_whole: Sentence = live()
    """The saving as a share of the total, or why it is not known."""


class _Candidate(NamedTuple):
    weighted: WeightedLaunch
    cause: Finding | None
    saved: float
    """Nanoseconds that it would save, by its forecast; for a `reason`, those of the kernel."""


def find_next_step(
    launches: Iterable[WeightedLaunch], whole: float | None, of: str, book: Ledger
) -> NextStep | None:
    """`launches`: the explained launches of the side after. `whole`: its nanoseconds, None if not
    known; `of`: what they are the time of, in words. Steps whose saving in the run is not known
    come last."""
    left = [step for weighted in launches for step in _candidates(weighted)]
    best = max(left, key=lambda step: (step.weighted.doubt is None, step.saved), default=None)
    return _step(best, whole, of, book) if best else None


def _candidates(weighted: WeightedLaunch) -> Iterator[_Candidate]:
    if weighted.doubt == "replay" and _likely(weighted):
        rank_time = weighted.explanation.launch.rank_time
        yield _Candidate(weighted, None, weighted.weight * rank_time)
        return
    for finding in weighted.explanation.findings:
        yield _Candidate(weighted, finding, _cost(weighted, finding))


def _step(best: _Candidate, whole: float | None, of: str, book: Ledger) -> NextStep:
    weighted, finding, saved = best
    launch = weighted.explanation.launch
    share = None
    if finding and whole is not None and not weighted.doubt:
        percent = Quantity(100 * saved / whole if whole else 0.0, "%")
        label = "of the time after, saved by the next step (estimated)"
        share = book.derived("share of the next step", percent, label)
    of_whole = _of_whole(weighted, share, of)
    if finding:
        action: str = finding.action
        # Without the code in brackets if the action repeats it.
        here = finding.here
        text = Sentence(
            "{kernel}: {label}{here}, {forecast}{of_whole}",
            kernel=launch.kernel,
            label=finding.label,
            here=here.partition(" (")[0] if here and here in action else here,
            forecast=forecast_text(finding, weighted.explanation.view.ledger),
            of_whole=of_whole,
        )
    else:
        action = f"{capitalized(_likely(weighted)[0].how_to_tell)}."
        text = Sentence("{kernel}: {gap}", kernel=launch.kernel, gap=_gap_text(weighted, book))
    return NextStep(
        launch=launch.id,
        kernel=launch.kernel,
        finding=finding.id if finding else None,
        reason=None if finding else _likely(weighted)[0].id,
        text=text,
        action=action,
        forecast=finding.forecast if finding else None,
        weighted=weighted,
        cause=finding,
        share=share,
        of_whole=of_whole,
    )


def _of_whole(weighted: WeightedLaunch, share: Evidence | None, of: str) -> Sentence:
    if weighted.doubt:
        return Sentence(_DOUBTS[weighted.doubt])
    if share is None:
        return Sentence("")
    some = weighted.alike is not None and ALIKE <= weighted.alike < _ALL
    return Sentence(
        "; {counting}that saves {gain} of {of} after",
        counting="counting only launches like the profiled one, " if some else "",
        gain=share_or_less(share),
        of=of,
    )


def _cost(weighted: WeightedLaunch, finding: Finding) -> float:
    """Only in launches like the profiled one: the forecast does not apply to others."""
    alike = 1.0 if weighted.alike is None else weighted.alike
    time = weighted.weight * weighted.explanation.launch.rank_time * alike
    return time * (1 - 1 / finding.forecast.likely)


# --- replays that differ from the run


def _likely(weighted: WeightedLaunch) -> tuple[ReplayReasonDocument, ...]:
    """Reasons that one may want to fix. Not `concurrency`: kernels that share the GPU take longer,
    mostly on purpose."""
    reasons = weighted.explanation.replay.likely_reasons if weighted.explanation.replay else ()
    return tuple(reason for reason in reasons if reason.id != "concurrency")


def _gap_text(weighted: WeightedLaunch, book: Ledger) -> Sentence:
    """`116x as long in the run as under replay, likely because of managed or host memory`"""
    replay = weighted.explanation.replay
    if replay is None:
        raise ValueError("the replay of this launch is what happened in the run")
    factor = Quantity(max(replay.ratio, 1 / replay.ratio), "x")
    return Sentence(
        "{factor:times} as long {where}, likely because of {reasons}",
        factor=book.derived(
            "gap of the next step", factor, "the longer of replay and run, over the other"
        ),
        where="in the run as under replay" if replay.ratio > 1 else "under replay as in the run",
        reasons=" and ".join(REASON_NAMES[reason.id] for reason in _likely(weighted)),
    )
