"""Why a cause is only possible, in words."""

from __future__ import annotations

from keet.analysis.account import UNKNOWN, Account, TimePart
from keet.analysis.kernel.archetype import is_debug_build
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import WORTH
from keet.diagnosis.diagnosis import MOSTLY_UNKNOWN
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.evidence import Sentence


def why_only_possible(finding: Finding, view: LaunchView, account: Account) -> Sentence:
    """Empty where the cause is certain or likely."""
    if finding.cause_certainty != "possible":
        return Sentence()
    return Sentence("Only possible: {reason}.", reason=_reason(finding, view, account))


def _reason(finding: Finding, view: LaunchView, account: Account) -> str:
    if is_debug_build(view):
        return "a build without -G may have other causes and other gains"
    if finding.variant in BETWEEN_LAUNCHES:  # they rest on equal amounts of bytes
        return "a report holds no pointers, so equal amounts of bytes are only a hint"
    if not view.ceilings.ranked:
        return "the report does not have the load of any unit, so keet assumes one"
    unknown = _largest_unknown(account)
    if unknown is not None and unknown.share.value >= 100 * MOSTLY_UNKNOWN:
        return Sentence("{n:.0f} of the time is {part}", n=unknown.share, part=unknown.label)
    if finding.expected < WORTH:
        return "good kernels often have as much of it"
    return "the report does not show whether a change can remove it"


def _largest_unknown(account: Account) -> TimePart | None:
    unknown = [part for part in account.all() if part.id.rpartition(".")[2] == UNKNOWN]
    return max(unknown, key=lambda part: float(part.share.value), default=None)
