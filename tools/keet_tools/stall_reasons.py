"""The tool `stall_reasons`: what warps wait for, and whether that matters."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.catalog import stalls
from keet_tools.answer_text import AnswerText, one_page
from keet_tools.tool_input import Abstention, Answer, ToolInput

_SIZE = 8
_STARVED = 50.0
"""Per cent of the issue slots in use below which schedulers wait for warps, not warps for them."""
HEALTHY_SHARE = 0.75
"""Of its peak from which a unit is what warps wait for, however they do it."""
_SCHEDULERS = (
    ("no_eligible_pct", "cycles without an eligible warp"),
    ("eligible_warps_per_scheduler", "eligible warps a scheduler"),
    ("active_warps_per_scheduler", "active warps a scheduler"),
    ("warp_cycles_per_issued_inst", "cycles between two instructions of a warp"),
)


def stall_reasons(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Shares of warp time by stall reason, what each means, and whether schedulers starve."""
    view = tool_input.launch(launch, report).view
    say = AnswerText()
    if not view.stalls:
        raise Abstention("warp states were not collected; profile with `--section WarpStateStats`")
    ranked = sorted(view.stalls, key=lambda reason: -view.stalls[reason])
    shown, more = one_page(ranked, page, _SIZE)
    rows = [row for reason in shown if (row := _row(view, reason, say))]
    return say.answer(_judgement(view, say), *_schedulers(view, say), *rows, more)


def _judgement(view: LaunchView, say: AnswerText) -> str:
    """Stalls cost nothing while other warps issue."""
    issue = view.ceilings.reached("issue")
    if issue is None:
        return "It is not known how busy the issue slots were, or whether stalls matter."
    busiest = view.ceilings.nearest
    if issue.value < _STARVED and busiest and busiest[0].share >= HEALTHY_SHARE:
        unit = f"{busiest[0].spoken} at {say(busiest[0].reached)} of peak"
        return f"Issue slots are {say(issue)} busy; warps wait since {unit} serves no faster."
    if issue.value < _STARVED:
        return f"Schedulers starve, issue slots are {say(issue)} busy: stalls cost time."
    return f"Issue slots are {say(issue)} busy: most stalls are hidden by other warps."


def _schedulers(view: LaunchView, say: AnswerText) -> list[str]:
    found = [(view.get(metric), label) for metric, label in _SCHEDULERS]
    texts = [f"{label} {say(value)}" for value, label in found if value is not None]
    return ["; ".join(texts)] if texts else []


def _row(view: LaunchView, reason: str, say: AnswerText) -> str:
    share = view.stall(reason)
    if share is None:
        return ""
    stall = stalls()[reason]
    means = f"waits for {stall.waits_for}" if stall.counts_as_stall else "no real stall"
    return f"{stall.label} {say(share)}: {means}"
