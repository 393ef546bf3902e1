"""A finding in words: its forecast, the certainty of its cause, and remarks on both."""

from __future__ import annotations

from keet.diagnosis.finding import Finding
from keet.evidence import Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import (
    nearest_case,
    nearest_text,
    precedents_text,
    why_only_possible,
)
from keet.explanation.gain_texts import forecast_evidence, forecast_text, range_text


def forecast_of(each: LaunchExplanation, finding: Finding) -> Sentence:
    """The forecast. If the replay differs from the run, the text says that the gain is under
    replay."""
    forecast = forecast_text(finding, each.view.ledger)
    return Sentence("{forecast} under replay", forecast=forecast) if each.replay else forecast


def certainty_of(each: LaunchExplanation, finding: Finding) -> str:
    sure = finding.cause_certainty
    return f"{sure}, for the replay only" if each.replay else sure


def all_fixed_text(each: LaunchExplanation) -> Sentence:
    """The gain if all findings were fixed; empty if there is one, or if the others add nothing."""
    every = each.all_fixed
    if every is None or each.replay or round(every.likely, 1) <= round(_first_gain(each), 1):
        return Sentence()
    gains = forecast_evidence("all", every, "all of its causes", each.view.ledger)
    return Sentence("If all of these were fixed: {gain}.", gain=range_text(None, *gains))


def _first_gain(each: LaunchExplanation) -> float:
    return each.findings[0].forecast.likely if each.findings else 1.0


def is_disputed(finding: Finding, each: LaunchExplanation) -> bool:
    """Whether a model disputes the gain with facts that are true."""
    statement = each.model_explanation
    if statement is None or any(cause.finding == finding.id for cause in statement.causes):
        return False
    return any(x.finding == finding.id and not x.problem for x in statement.objections)


def nearest_changes(finding: Finding, each: LaunchExplanation) -> tuple[str, ...]:
    """The lines that the fix of the nearest measured case changed. Empty where a model explains the
    launch: its edits are of this code, and readers must not take these for one."""
    case = None if each.model_explanation else nearest_case(finding, each)
    return case.changes if case else ()


def new_remarks(finding: Finding, each: LaunchExplanation, printed: set[str]) -> list[str]:
    """Why it ranks first, if a larger part of the time does not; why the cause is only possible, if
    so; what the same fix gained in measured cases, and the nearest of them.

    `printed`: remarks printed for this launch so far. New ones are added, so that none is repeated.
    """
    is_first = each.findings[:1] == (finding,)
    texts = (
        each.order_reason if is_first else "",
        why_only_possible(finding, each.view, each.account),
        precedents_text(finding, each.view.ledger),
        nearest_text(case) if (case := nearest_case(finding, each)) else "",
    )
    new = [text for text in texts if text and text not in printed]
    printed.update(new)
    return new
