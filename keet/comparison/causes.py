"""Causes that went, came or stayed: the findings of both sides, held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from keet.analysis.findings import Finding
from keet.analysis.view import View
from keet.catalog import capabilities, findings, metric_named, metric_with_id, stalls
from keet.comparison.account import Account, Change, LaunchTimes, Part
from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity

_MOVED = 0.05
"""Of a finding's number: less is no reason to say that a cause is gone."""
_AMOUNTS = ("ns", "byte", "sector", "inst", "request", "wavefront", "conflict")
"""Units of what a launch takes, moves or executes: it depends on how much a launch has to do."""
_STALL_SHARE = "stall_share_"


class Outcome(NamedTuple):
    """What became of the findings, by id, the costliest first."""

    fixed: tuple[str, ...]
    new: tuple[str, ...]
    remaining: tuple[str, ...]
    unknown: tuple[str, ...]
    """On one side, and the other report does not say."""


class Cause(NamedTuple):
    """A finding whose cost changed."""

    id: str
    saved: float
    """Nanoseconds that it cost before and no longer does, as the forecasts have them; negative
    where it is new."""
    finding: Finding
    """As told by the side where it costs more."""
    on: Part
    shown_by: Change | LaunchTimes | None
    """The number of the finding on both sides; None where the other side does not have it."""
    whole: bool
    """Only one side has it."""

    @property
    def label(self) -> str:
        return findings()[self.id].label

    @property
    def became(self) -> str:
        if self.whole:
            return "gone" if self.saved >= 0 else "new"
        return "costs less" if self.saved >= 0 else "costs more"


def outcome(account: Account) -> Outcome:
    before, after = _worth(account.before), _worth(account.after)
    gone = {each: _fate(each, account.before, account.after) for each in before}
    came = {each: _fate(each, account.after, account.before) for each in after}
    return Outcome(
        tuple(each for each, fate in gone.items() if fate == "alone"),
        tuple(each for each, fate in came.items() if fate == "alone"),
        tuple(dict.fromkeys(e for e, fate in (gone | came).items() if fate == "both")),
        tuple(dict.fromkeys(e for e, fate in (gone | came).items() if fate == "unknown")),
    )


def _fate(
    finding_id: str, here: Sequence[Part], there: Sequence[Part]
) -> Literal["alone", "both", "unknown"]:
    """Whether a finding of this side is one of the other side too. Where its numbers are the same
    there, it is: the other side only just missed a threshold."""
    if finding_id in _any(there):
        return "both"
    if not _judged(finding_id, here, there):
        return "unknown"
    shown = [f for part in here for f in part.told.findings if f.id == finding_id]
    alone = len(here) == len(there) == 1
    changes = [c for f in shown for c in _changes(f, there, forwards=True, alone=alone)]
    return "alone" if _has_moved(changes) else "both"


def _has_moved(changes: Sequence[Change]) -> bool:
    """A finding's first number is what it is about: the others may change for other reasons (more
    registers make more waves of the same grid). True where there is none to go by."""
    return not changes or changes[0].moved >= _MOVED


def _worth(parts: Sequence[Part]) -> list[str]:
    """Findings that are worth a change, the costliest first."""
    costs: dict[str, float] = {}
    for part in parts:
        for finding in part.told.findings:
            costs[finding.id] = costs.get(finding.id, 0.0) + _cost(part, finding)
    return sorted(costs, key=lambda each: -costs[each])


def _any(parts: Sequence[Part]) -> set[str]:
    """Everything that was raised, small and folded findings too: what shrank is not yet gone."""
    told = [part.told for part in parts]
    raised = {finding.id for each in told for finding in (*each.findings, *each.minor)}
    return raised | {symptom for each in told for symptom, _ in each.folded}


def _judged(finding_id: str, here: Sequence[Part], there: Sequence[Part]) -> bool:
    """Both sides were judged by the same numbers: a check that lacks one is silent, or takes what
    it sees for something else, and neither is news then."""
    shown = [part for part in here if finding_id in {finding.id for finding in _raised(part)}]
    return all(
        _lacks(part) == _lacks(other)
        and all(_has(other.told.launch, m) for m in part.told.judged_by)
        for part in shown
        for other in there
    )


def _lacks(part: Part) -> set[str]:
    """Sections that were not collected, by what they tell."""
    judging = {capability.label for capability in capabilities().values()}
    return judging & {skipped.check for skipped in part.told.skipped}


def _has(launch: Launch, name: str) -> bool:
    """Under this name or one that other versions of ncu give it."""
    found = launch.metric(name)
    spec = metric_named(name)
    if found is not None and found.value is not None:
        return True
    return spec is not None and launch.find(spec.id) is not None


def _cost(part: Part, finding: Finding) -> float:
    """Nanoseconds that would go if it were fixed alone."""
    duration = float(part.duration.value) if part.duration else 0.0
    return part.weight * duration * (1 - 1 / finding.forecast.likely)


def changed_causes(account: Account) -> list[Cause]:
    """Findings by what they cost less (or more) after; those whose numbers did not move are left
    out, for then a threshold was crossed and nothing was fixed."""
    costs: dict[str, float] = {}
    for sign, parts in ((1, account.before), (-1, account.after)):
        for part in parts:
            for finding in (*part.told.findings, *part.told.minor):
                costs[finding.id] = costs.get(finding.id, 0.0) + sign * _cost(part, finding)
    causes = [cause for each, saved in costs.items() if (cause := _cause(account, each, saved))]
    return sorted(causes, key=lambda cause: -abs(cause.saved))


def _cause(account: Account, finding_id: str, saved: float) -> Cause | None:
    here, there = (account.before, account.after) if saved >= 0 else (account.after, account.before)
    shown = [(p, f) for p in here for f in _raised(p) if f.id == finding_id]
    if not shown:
        return None
    part, finding = max(shown, key=lambda each: _cost(*each))
    whole = finding_id not in _any(there)
    if whole and not _judged(finding_id, here, there):
        return None
    alone = len(here) == len(there) == 1
    changes = list(_changes(finding, there, forwards=saved >= 0, alone=alone))
    if not (changes or whole) or not _has_moved(changes):
        return None
    return Cause(finding_id, saved, finding, part, _shown_by(account, finding, changes), whole)


def _shown_by(
    account: Account, finding: Finding, changes: Sequence[Change]
) -> Change | LaunchTimes | None:
    """The finding's first number, else what that was computed from: others may be there for many
    findings. Where launches changed in number, what one of them has to do changed with it."""
    launches, shown = account.launches, next(_own(finding, changes), None)
    if shown is None or launches is None or shown.before.unit not in _AMOUNTS:
        return shown
    if _is_duration(shown.before):
        return launches
    return shown if launches.as_many else None


def _own(finding: Finding, changes: Sequence[Change]) -> Iterator[Change]:
    first = finding.evidence[0]
    for own in (first.id, *(first.derived_from or ())[:1]):
        yield from (each for each in changes if own in (each.before.id, each.after.id))


def _is_duration(evidence: Evidence) -> bool:
    return metric_named(evidence.metric) == metric_with_id("duration")


def _raised(part: Part) -> tuple[Finding, ...]:
    return (*part.told.findings, *part.told.minor)


def _changes(
    finding: Finding, there: Sequence[Part], *, forwards: bool, alone: bool
) -> Iterator[Change]:
    """The finding's numbers, with the same number of the other side. Where several kernels do the
    work, that of the longest, and shares only: their counts would have to be added."""
    longest = max(there, key=lambda part: part.weight * part.told.launch.rank_time)
    for evidence in finding.evidence:
        found = _same_number(evidence, longest) if alone or evidence.unit == "%" else None
        if found is not None:
            pair = (evidence, found) if forwards else (found, evidence)
            yield Change(evidence.label, *pair)


def _same_number(evidence: Evidence, part: Part) -> Evidence | None:
    ledger = part.told.view.ledger
    if evidence.metric.startswith(_STALL_SHARE):
        return _stall_share(part.told.view, evidence)
    known = ledger.known(evidence.metric)
    if known is not None or evidence.derived_from is not None:
        return known
    return ledger.named(evidence.metric, evidence.label)


def _stall_share(view: View, evidence: Evidence) -> Evidence | None:
    """0 % where the report says that no warp waited for this."""
    reason = evidence.metric.removeprefix(_STALL_SHARE)
    if share := view.stall(reason):
        return share
    found = (view.ledger.named(name, evidence.label) for name in stalls()[reason].metrics)
    cycles = next((each for each in found if each is not None), None)
    if not view.stalls or cycles is None or cycles.value:
        return None
    return view.ledger.derived(evidence.metric, Quantity(0.0, "%"), evidence.label, cycles)
