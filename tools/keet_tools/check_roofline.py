"""The tool `check_roofline`: how close a launch came to each ceiling."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.roofline.launch_roofline import SHOWN_WORK, LaunchRoofline, find_roofline
from keet.evidence import Evidence
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
        reasons = "; ".join(f"{a.reason}: {a.remedy}" for a in found.skipped[:2])
        raise Abstention(f"no share of any peak is known; {shorten(reasons, 400)}")
    ranked = sorted(found.ceilings, key=lambda ceiling: -ceiling.share)
    busy = [each for each in ranked if each.reached_pct >= SHOWN_WORK or each.busiest]
    shown, more = one_page(busy or ranked, page, _SIZE)
    say = AnswerText()
    rows = []
    for ceiling in shown:
        parts = [_reached(ceiling.label, ceiling.evidence, say)]
        if stage := ceiling.busiest:
            parts.append(f"{stage.part} {say(stage.evidence)} busy")
        for entry in found.lead_intensities():
            if entry.level == ceiling.id:
                value, ridge, _ = entry.evidence
                parts.append(f"intensity {say(value)}, ridge {say(ridge)}")
        rows.append(", ".join(parts))
    if link := found.host_link:
        known = [each for each in (link.reached, link.achieved, link.peak) if each]
        rows.append(f"{_reached(link.name, known, say)} ({link.source})")
    idle = ", ".join(ceiling.label for ceiling in ranked if busy and ceiling not in busy)
    notes = [f"idle: {idle}"] if idle else []
    notes += [
        say.with_names(note.text, note.evidence) for note in each.notes if note.id in _OF_MEMORY
    ]
    notes += [shorten(note, 160) for note in found.notes[:2]]
    return say.answer(_reading(found), *rows, *_unknown(found), *notes, more)


def _reading(found: LaunchRoofline) -> str:
    """Without what it tells people at a terminal to type."""
    return found.reading.replace(": keet hotspots shows where", "").replace(
        "; keet show REPORT tells how to", ""
    )


def _reached(label: str, evidence: Sequence[Evidence], say: AnswerText) -> str:
    reached, *rates = map(say, evidence)
    return ", ".join([f"{label} {reached} of peak", *([" of ".join(rates)] if rates[1:] else [])])


def _unknown(found: LaunchRoofline) -> list[str]:
    reasons = dict.fromkeys(absent.reason for absent in found.skipped)
    return [f"not known: {shorten('; '.join(reasons), 200)}"] if reasons else []
