"""The tool `amounts`: how much work a launch does, and how much of it is needed."""

from __future__ import annotations

from keet.explanation.launch_amounts import PARTS, amount_rows, launch_amounts
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput, packed_page, quote


def amounts(
    tool_input: ToolInput, part: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """How much work is done and needed: per item, array, loop; bounds. `part`: one of them."""
    wanted = part.strip().lower()
    if wanted and wanted not in PARTS:
        raise Abstention(f"there is no such part; they are {', '.join(PARTS)}")
    found = launch_amounts(tool_input.launch(launch, report).view)
    say = AnswerText()
    rows = [
        f"- {PARTS[row.part]}{f', {quote(row.label)}' if row.label else ''}: "
        f"{say.sentence(row.text)}"
        for row in amount_rows(found)
        if wanted in ("", row.part)
    ]
    if not rows:
        reason = found.unknown[0].reason if found.unknown else "the report does not tell"
        raise Abstention(f"nothing is known of {PARTS.get(wanted, 'amounts')}: {reason}")
    shown, more = packed_page(rows, [len(row) for row in rows], page)
    return say.answer(*shown, more)
