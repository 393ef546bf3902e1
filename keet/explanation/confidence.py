"""Why the confidence in a finding is low, in words."""

from __future__ import annotations

from keet.analysis.account import UNKNOWN, Account, TimePart
from keet.analysis.kernel.debug_build import is_debug_build
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.diagnosis.diagnosis import FITTED_ON
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding

BLAMED_UNKNOWN = Parameter(20.0, "unknown percent of the time: lowers confidence", "judgement")
BLAMED_GAIN = Parameter(1.2, "gain below which doubt explains a low confidence", "judgement")


_REMOVED = "the report does not show how much of the cause a fix would remove"
_NO_LOAD = "the report does not have the load of any unit, so keet assumes one"


def why_low(finding: Finding, view: LaunchView, account: Account) -> str:
    """A sentence; empty where the confidence is not low."""
    if finding.confidence != "low":
        return ""
    return f"Low confidence: {_reason(finding, view, account)}."


def _reason(finding: Finding, view: LaunchView, account: Account) -> str:
    if is_debug_build(view):
        return "a build without -G may have other causes and other gains"
    if finding.variant in BETWEEN_LAUNCHES:  # they rest on equal amounts of bytes
        return "a report holds no pointers, so equal amounts of bytes are only a hint"
    unknown = _largest_unknown(account)
    if unknown is not None and unknown.share.value >= BLAMED_UNKNOWN:
        return f"{unknown.share:.0f} of the time is {unknown.label}"
    if finding.forecast.likely < BLAMED_GAIN:
        return "gains that look this small are often not there"
    if view.capability != FITTED_ON:
        device = f" ({view.launch.device.name})" if view.launch.device.name else ""
        return f"the estimates were fitted on an H200, not on this GPU{device}"
    return _REMOVED if view.ceilings.ranked else _NO_LOAD


def _largest_unknown(account: Account) -> TimePart | None:
    unknown = [part for part in account.all() if part.id.rpartition(".")[2] == UNKNOWN]
    return max(unknown, key=lambda part: float(part.share.value), default=None)
