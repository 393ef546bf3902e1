"""The tool `check_roofline`: how close a launch came to each ceiling."""

from __future__ import annotations

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, Roofline, find_roofline, stage_name
from keet_tools.answer_text import AnswerText, one_page, shorten
from keet_tools.tool_input import Abstention, Answer, ToolInput

_SIZE = 10
_OF_MEMORY = ("l2_stage", "bytes_moved")
"""Notes that say more about a ceiling of memory."""


def check_roofline(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Share of peak of each arithmetic type and memory level, with arithmetic intensity."""
    each = tool_input.launch(launch, report)
    found = find_roofline(each.launch, each.view.ledger)
    if not found.ceilings:
        reasons = "; ".join(f"{a.reason}: {a.remedy}" for a in [*found.absent.values()][:2])
        raise Abstention(f"no share of any peak is known; {shorten(reasons, 400)}")
    ranked = sorted(found.ceilings, key=lambda ceiling: -ceiling.share)
    busy = [
        ceiling for ceiling in ranked if ceiling.reached.value >= SHOWN_WORK or ceiling.busier_stage
    ]
    shown, more = one_page(busy or ranked, page, _SIZE)
    say = AnswerText()
    rows = [_row(found, ceiling, say) for ceiling in shown]
    if link := found.host_link:
        rows.append(f"{_row(found, link, say)} ({link.source})")
    idle = ", ".join(ceiling.name for ceiling in ranked if busy and ceiling not in busy)
    notes = [f"idle: {idle}"] if idle else []
    notes += [
        say.with_names(note.text, note.evidence) for note in each.notes if note.id in _OF_MEMORY
    ]
    notes += [shorten(note, 160) for note in found.notes[:2]]
    return say.answer(_reading(found), *rows, *_unknown(found), *notes, more)


def _reading(found: Roofline) -> str:
    """Without what it tells people at a terminal to type."""
    return found.reading.replace(": keet hotspots shows where", "").replace(
        "; keet show REPORT tells how to", ""
    )


def _row(found: Roofline, ceiling: Ceiling, say: AnswerText) -> str:
    parts = [f"{ceiling.name} {say(ceiling.reached)} of peak"]
    if ceiling.achieved and ceiling.peak:
        parts.append(f"{say(ceiling.achieved)} of {say(ceiling.peak)}")
    if stage := ceiling.busier_stage:
        parts.append(f"{stage_name(stage)} {say(stage.busy)} busy")
    for entry in found.lead_intensities():
        if entry.level == ceiling.id:
            parts.append(f"intensity {say(entry.value)}, ridge {say(entry.ridge)}")
    return ", ".join(parts)


def _unknown(found: Roofline) -> list[str]:
    reasons = dict.fromkeys(absent.reason for absent in found.absent.values())
    return [f"not known: {shorten('; '.join(reasons), 200)}"] if reasons else []
