"""The tool `read_source`: source lines with their cost."""

from __future__ import annotations

from keet.profile import Location
from keet.units import Quantity
from keet_tools.answer_text import AnswerText, packed_page, quote
from keet_tools.code_places import Code
from keet_tools.tool_input import Abstention, Answer, ToolInput

_LONGEST = 160
_MARK = 18
"""Characters that a line's number and share take."""
_LEAST = 0.001


def read_source(  # noqa: PLR0913, PLR0917 - the arguments of a question
    tool_input: ToolInput,
    file: str = "",
    line: int = 1,
    launch: int | None = None,
    report: int = 0,
    page: int = 1,
) -> Answer:
    """Source text from a line on, with each line's share of samples."""
    if not tool_input.show_source:
        raise Abstention("source text is not shown in this session")
    code = Code(tool_input.launch(launch, report))
    path = code.file(file)
    text = code.lines_of(path)
    name = code.names[path]
    if not text:
        raise Abstention(f"the text of `{name}` is not in the report; give it with `--source DIR`")
    if not 1 <= line <= len(text):
        raise Abstention(f"`{name}` has no such line; its last is `{len(text)}`")
    numbers = range(line, len(text) + 1)
    costs = [min(_LONGEST, len(text[number - 1].expandtabs(4))) + _MARK for number in numbers]
    shown, more = packed_page(numbers, costs, page)
    say = AnswerText()
    rows = [_row(code, Location(path, number), say) for number in shown]
    return say.answer(f"{quote(name)}, L is the line's number:", *rows, more)


def _row(code: Code, location: Location, say: AnswerText) -> str:
    text = code.text_of(location)
    shown = f" {quote(text, _LONGEST)}" if text.strip() else ""
    return f"L{location.line}{_share(code, location, say)}{shown}"


def _share(code: Code, location: Location, say: AnswerText) -> str:
    weight, total = code.weights.get(location, 0), code.table.total
    if not total or weight < _LEAST * total:
        return ""
    of = "samples" if code.table.samples else "executed"
    share = Quantity(100 * weight / total, "%")
    label = "share of samples" if of == "samples" else "share of executed instructions"
    where = code.where(location)
    return f" {say(code.ledger.derived(f'{of}_share', share, label, line=where))}"
