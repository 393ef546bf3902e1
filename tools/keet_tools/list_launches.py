"""The tool `list_launches`: the launches of a report, and the verdict on each."""

from __future__ import annotations

from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import shape_text
from keet_tools.answer_text import AnswerText, one_page, quote
from keet_tools.tool_input import Answer, ToolInput

_SIZE = 6
_PARTS = 2
"""Of the time of a launch."""


def list_launches(tool_input: ToolInput, report: int = 0, page: int = 1) -> Answer:
    """Launches of a report: kernel, grid, block, duration, verdict."""
    explanation = tool_input.report(report)
    shown, more = one_page(explanation.launches, page, _SIZE)
    say = AnswerText()
    device = explanation.launches[0].launch.device.name if explanation.launches else None
    rows = [_row(each, say) for each in shown]
    return say.answer(f"report {quote(f'{report}')} on {quote(device or 'unknown')}", *rows, more)


def _row(each: LaunchExplanation, say: AnswerText) -> str:
    launch = each.launch
    duration = each.view.get("duration")
    took = f" {say(duration)}" if duration else ""
    shapes = f"grid {shape_text(launch.grid)} block {shape_text(launch.block)}"
    headline = say.headline(each, 150)
    what = f"#{launch.id} {quote(launch.kernel, 50)} {quote(shapes)}"
    return f"{what}{took}{_run(each, say)}: {headline}{_time(each, say)}"


def _time(each: LaunchExplanation, say: AnswerText) -> str:
    """The largest parts of the account."""
    parts = [f"{say(part.share)} {part.label}" for part in each.account.leading(_PARTS)]
    return f" Time: {'; '.join(parts)}." if parts else ""


def _run(each: LaunchExplanation, say: AnswerText) -> str:
    """What the launch represents in the run, where that is known."""
    found = each.in_run
    if found is None:
        return ""
    launches, share, *_ = found.evidence
    represented = f", represents {say(launches)} launches, {say(share)} of the run"
    if found.warning:
        alike = next(each for each in found.evidence if each.metric == "run_alike_share")
        represented += f", of which {say(alike)} is in launches about as long"
    if each.replay is None:
        return represented
    _, plain, _ = each.replay.evidence
    return f"{represented}; {say(plain)} in the run, so the rest is of the replay alone"
