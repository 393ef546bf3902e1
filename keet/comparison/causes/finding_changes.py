"""Findings of both sides compared: which were fixed, are new or remain; and the next step.

Findings are ranked by their forecast gain; below 10 % they are minor. Crossing this limit is not
enough to be fixed or new: the cost and the number of the finding must have changed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.replay_gap_reasons import REASON_NAMES
from keet.catalog import capabilities, metric_named, metric_with_id, stalls
from keet.comparison.causes.explained_pair import ExplainedPair, WeightedLaunch, longest_launch
from keet.comparison.numbers import LaunchTimes, NumberChange
from keet.comparison.timing.basis_choice import share_or_less
from keet.comparison.timing.weighting import ALIKE, RunDoubt
from keet.diagnosis.diagnosis import MAX_FINDINGS
from keet.diagnosis.finding import Finding
from keet.documents.diff import NextDocument
from keet.documents.document import live
from keet.documents.explain import ReplayReasonDocument
from keet.evidence import Evidence, Sentence
from keet.explanation.finding_notes import forecast_text
from keet.findings import findings
from keet.formatting import capitalized
from keet.profile import Launch
from keet.units import Quantity

_MOVED = 0.05
"""Relative change of a finding's number, at least, to count as fixed or new."""
_LEFT = 0.5
"""Remaining part of a finding's cost (as a share of the time), at most, to count as fixed."""
_NOTHING = 0.005
"""Cost of a finding, as a share of the time, below which it is called gone."""
_GONE = 0.8
"""Relative fall of the number that counts a flaw, at least, for the flaw to be called gone."""
_AMOUNTS = ("ns", "byte", "sector", "inst", "request", "wavefront", "conflict")
"""Units of amounts that depend on how much work a launch does."""
_STALL_SHARE = "stall_share_"
_BETTER_HIGHER = (
    *("access_width", "active_threads_per_warp", "grid_size", "issue_active_pct"),
    *("sm_evenness", "theoretical_occupancy_pct"),
)
_BETTER_LOWER = (
    *("bank_conflict_share", "dram_reads_per_byte", "excess_sectors_share", "fp64_share"),
    *("l2_reads_per_byte", "l2_slice_skew", "local_share", "overhead_share"),
)
"""Numbers of findings, by id of the catalog or keet's own name, that are better if higher or
lower."""


class FindingChange(NamedTuple):
    """A finding whose cost changed."""

    id: str
    saved: float
    """Cost before minus cost after in nanoseconds, by the forecasts; negative if it costs more."""
    finding: Finding
    """The finding of the side where it costs more."""
    on: WeightedLaunch
    shown_by: NumberChange | LaunchTimes | None
    """The number of the finding on both sides; None if the other side does not have it."""
    whole: bool
    """On the other side it costs next to nothing."""
    worth: bool
    """It would gain 10 % or more on one of the sides."""

    @property
    def label(self) -> str:
        return findings()[self.id].label

    @property
    def became(self) -> str:
        if self.whole and not self._is_still_there:
            return "gone" if self.saved >= 0 else "new"
        return "costs less" if self.saved >= 0 else "costs more"

    @property
    def _is_still_there(self) -> bool:
        """Its number on the other side is not near zero, although it costs nothing there."""
        shown = self.shown_by
        return isinstance(shown, NumberChange) and _is_flaw(shown) and shown.moved < _GONE


def outcome(sides: ExplainedPair) -> dict[str, list[str]]:
    """Ids of findings by what became of them, the costliest first. `unknown`: on one side, and the
    other report lacks the data."""
    before, after = _worth(sides.before), _worth(sides.after)
    gone = {each: _fate(each, sides.before, sides.after) for each in before}
    came = {each: _fate(each, sides.after, sides.before) for each in after}
    return {
        "fixed": [each for each, fate in gone.items() if fate == "alone"],
        "new": [each for each, fate in came.items() if fate == "alone"],
        "remaining": [each for each, fate in (gone | came).items() if fate == "both"],
        "unknown": [each for each, fate in (gone | came).items() if fate == "unknown"],
    }


def _fate(
    finding_id: str, here: Sequence[WeightedLaunch], there: Sequence[WeightedLaunch]
) -> Literal["alone", "both", "unknown"]:
    """Whether a finding of this side is on the other side too. It is if its numbers or its cost are
    about the same there: then the other side only just missed the limit."""
    if finding_id in _worth(there):
        return "both"
    # A launch with the maximum number of findings may have another one that was cut off.
    is_cut = any(len(each.explanation.findings) >= MAX_FINDINGS for each in there)
    if is_cut or not _judged(finding_id, here, there):
        return "unknown"
    shown = [f for each in here for f in each.explanation.findings if f.id == finding_id]
    alone = len(here) == len(there) == 1
    changes = [c for f in shown for c in _changes(f, there, forwards=True, alone=alone)]
    fell = _cost_share(finding_id, there) <= _LEFT * _cost_share(finding_id, here)
    return "alone" if fell and _has_moved(changes) else "both"


def _has_moved(changes: Sequence[NumberChange]) -> bool:
    """Uses the finding's first number; the others may change for other reasons (more registers make
    more waves of the same grid). True if there is no number."""
    return not changes or changes[0].moved >= _MOVED


def _worth(launches: Sequence[WeightedLaunch]) -> list[str]:
    """Findings that would gain 10 % or more, the costliest first."""
    costs: dict[str, float] = {}
    for launch in launches:
        for finding in launch.explanation.findings:
            costs[finding.id] = costs.get(finding.id, 0.0) + _cost(launch, finding)
    return sorted(costs, key=lambda finding_id: -costs[finding_id])


def _judged(
    finding_id: str, here: Sequence[WeightedLaunch], there: Sequence[WeightedLaunch]
) -> bool:
    """Both sides have the metrics that the finding depends on. Without them, a finding may be
    missing or replaced by another one although nothing changed."""
    shown = [each for each in here if finding_id in {finding.id for finding in _raised(each)}]
    return all(
        _lacks(each) == _lacks(other)
        and all(
            _has(other.explanation.launch, name)
            for name in each.explanation.judged_by
            if _has(each.explanation.launch, name)  # others are computed by keet
        )
        for each in shown
        for other in there
    )


def _lacks(each: WeightedLaunch) -> set[str]:
    """Labels of what was not collected."""
    judging = {capability.label for capability in capabilities().values()}
    return judging & {skipped.check for skipped in each.explanation.skipped}


def _has(launch: Launch, name: str) -> bool:
    """Under this name or the name in other versions of ncu."""
    metric = launch.metric(name)
    spec = metric_named(name)
    if metric is not None and metric.value is not None:
        return True
    return spec is not None and launch.find(spec.id) is not None


# --- what a finding costs


def _cost(each: WeightedLaunch, finding: Finding) -> float:
    """Nanoseconds saved if only this were fixed."""
    return (each.time or 0.0) * (1 - 1 / finding.forecast.likely)


def _side_cost(finding_id: str, launches: Sequence[WeightedLaunch]) -> float:
    raised = ((launch, f) for launch in launches for f in _raised(launch) if f.id == finding_id)
    return sum(_cost(each, finding) for each, finding in raised)


def _cost_share(finding_id: str, launches: Sequence[WeightedLaunch]) -> float:
    """Of the time of the side, 0 to 1."""
    whole = sum(launch.time or 0.0 for launch in launches)
    return _side_cost(finding_id, launches) / whole if whole else 0.0


def changed_findings(sides: ExplainedPair) -> list[FindingChange]:
    """Findings by the change of their cost, those that are minor on both sides last. Without
    findings whose numbers did not change: they only crossed a limit."""
    ids = dict.fromkeys(f.id for each in (*sides.before, *sides.after) for f in _raised(each))
    costs = {i: _side_cost(i, sides.before) - _side_cost(i, sides.after) for i in ids}
    causes = [cause for i, saved in costs.items() if (cause := _cause(sides, i, saved))]
    return sorted(causes, key=lambda cause: (not cause.worth, -abs(cause.saved)))


def _cause(sides: ExplainedPair, finding_id: str, saved: float) -> FindingChange | None:
    here, there = (sides.before, sides.after) if saved >= 0 else (sides.after, sides.before)
    shown = [(each, f) for each in here for f in _raised(each) if f.id == finding_id]
    left, share = _cost_share(finding_id, there), _cost_share(finding_id, here)
    # A finding that takes a larger share of a shorter time does not explain why it is shorter.
    if not shown or left >= share:
        return None
    whole = left < _NOTHING
    if whole and not _judged(finding_id, here, there):
        return None
    each, finding = max(shown, key=lambda item: _cost(*item))
    alone = len(here) == len(there) == 1
    changes = list(_changes(finding, there, forwards=saved >= 0, alone=alone))
    if not (changes or whole) or not _has_moved(changes):
        return None
    shown_by = _shown_by(sides, finding, changes)
    if isinstance(shown_by, NumberChange) and _contradicts(shown_by, saved):
        return None
    worth = finding_id in (*_worth(here), *_worth(there))
    return FindingChange(finding_id, saved, finding, each, shown_by, whole, worth)


def _contradicts(change: NumberChange, saved: float) -> bool:
    """The number got worse although the cost fell, or better although it rose."""
    if _name(change) in _BETTER_HIGHER:
        return change.fell * saved > 0
    return _is_flaw(change) and change.fell * saved < 0


def _is_flaw(change: NumberChange) -> bool:
    """The number counts something that should not be there."""
    name = _name(change)
    return name in _BETTER_LOWER or name.startswith(_STALL_SHARE)


def _name(change: NumberChange) -> str:
    spec = metric_named(change.before.metric)
    return spec.id if spec else change.before.metric


# --- the number that shows it


def _shown_by(
    sides: ExplainedPair, finding: Finding, changes: Sequence[NumberChange]
) -> NumberChange | LaunchTimes | None:
    """The finding's first number, else what it was computed from; later numbers may belong to many
    findings. If the number of launches changed, amounts per launch are not comparable."""
    launches, shown = sides.launches, next(_own(finding, changes), None)
    if shown is None or launches is None or shown.before.unit not in _AMOUNTS:
        return shown
    if _is_metric(shown.before, "duration"):
        return launches
    return shown if launches.as_many else None


def _own(finding: Finding, changes: Sequence[NumberChange]) -> Iterator[NumberChange]:
    """Without the number of executed instructions that a share was divided by: it may fall for
    any reason."""
    first = finding.evidence[0]
    for own in (first.id, *(first.derived_from or ())[:1]):
        yield from (
            change
            for change in changes
            if own in (change.before.id, change.after.id)
            and (own == first.id or not _is_metric(change.before, "inst_executed"))
        )


def _is_metric(evidence: Evidence, metric_id: str) -> bool:
    return metric_named(evidence.metric) == metric_with_id(metric_id)


def _raised(each: WeightedLaunch) -> tuple[Finding, ...]:
    return (*each.explanation.findings, *each.explanation.lesser)


def _changes(
    finding: Finding, there: Sequence[WeightedLaunch], *, forwards: bool, alone: bool
) -> Iterator[NumberChange]:
    """The finding's numbers, with the same numbers of the other side. With several kernels per
    side: of the longest kernel, and only shares, because counts would have to be added."""
    longest = longest_launch(there)
    for evidence in finding.evidence:
        other = _same_number(evidence, longest) if alone or evidence.unit == "%" else None
        if other is not None:
            pair = (evidence, other) if forwards else (other, evidence)
            yield NumberChange(evidence.label, *pair)


def _same_number(evidence: Evidence, each: WeightedLaunch) -> Evidence | None:
    view = each.explanation.view
    if evidence.metric.startswith(_STALL_SHARE):
        return _stall_share(view, evidence)
    known = view.ledger.entry_named(evidence.metric)
    if known is not None or evidence.derived_from is not None:
        return known
    return view.ledger.named(evidence.metric, evidence.label)


def _stall_share(view: LaunchView, evidence: Evidence) -> Evidence | None:
    """0 % if the report says that no warp waited for this."""
    reason = evidence.metric.removeprefix(_STALL_SHARE)
    if share := view.stall(reason):
        return share
    measured = (view.ledger.named(name, evidence.label) for name in stalls()[reason].metrics)
    cycles = next((each for each in measured if each is not None), None)
    if not view.stalls or cycles is None or cycles.value:
        return None
    return view.ledger.derived(evidence.metric, Quantity(0.0, "%"), evidence.label, cycles)


# --- the next step: the finding of the side after that costs most time

_ALL_ALIKE = 0.995
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

    @property
    def is_only_possible(self) -> bool:
        return self.cause is not None and self.cause.cause_certainty == "possible"


def find_next_step(
    launches: Iterable[WeightedLaunch], whole: float | None, of: str, book: Ledger
) -> NextStep | None:
    """`launches`: the explained launches of the side after. `whole`: its nanoseconds, None if not
    known; `of`: what they are the time of, in words. Steps whose saving in the run is not known
    come last, and before them causes that are only possible."""
    left = [step for weighted in launches for step in _candidates(weighted)]
    best = max(
        left,
        key=lambda step: (step.weighted.doubt is None, not step.is_only_possible, step.saved),
        default=None,
    )
    return _step(best, whole, of, book) if best else None


def _candidates(weighted: WeightedLaunch) -> Iterator[_Candidate]:
    time = weighted.weight * weighted.explanation.launch.rank_time
    if weighted.doubt == "replay" and _likely(weighted):
        yield _Candidate(weighted, None, time)
        return
    if weighted.alike is not None:
        time *= weighted.alike  # the forecast does not apply to launches of other lengths
    for finding in weighted.explanation.findings:
        yield _Candidate(weighted, finding, time * (1 - 1 / finding.forecast.likely))


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
    some = weighted.alike is not None and ALIKE <= weighted.alike < _ALL_ALIKE
    return Sentence(
        "; {counting}that saves {gain} of {of} after",
        counting="counting only launches like the profiled one, " if some else "",
        gain=share_or_less(share),
        of=of,
    )


def _likely(weighted: WeightedLaunch) -> tuple[ReplayReasonDocument, ...]:
    """Reasons that one may want to fix. Not `concurrency`: kernels that share the GPU take longer,
    mostly on purpose."""
    reasons = weighted.explanation.replay.likely_reasons if weighted.explanation.replay else ()
    return tuple(reason for reason in reasons if reason.id != "concurrency")


def _gap_text(weighted: WeightedLaunch, book: Ledger) -> Sentence:
    """`116x as long in the run as under replay, likely because of managed or host memory`"""
    replay = weighted.explanation.replay
    if not replay:
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
