"""The view of `keet ask` for a terminal: the answer in short paragraphs, calls and tokens used."""

from __future__ import annotations

from collections.abc import Iterator

from keet.explanation.explain_document import AnsweredQuestion, CitedNumber
from keet.pages.device import describe_device
from keet.render.common.answer import Block, Line, blocks_of
from keet.render.common.computations import computation_lines, in_short
from keet.render.terminal.code_block import code_block
from keet.render.terminal.finding import indented
from keet.render.terminal.layout import Group, Renderable, Table, Text
from keet.render.terminal.model_explanation import author_view, own_words_view, reasons_view, words
from keet.safe_text import flat

_WIDEST_MARK = 5


def ask_view(answered: AnsweredQuestion, *, verbose: bool = False) -> Group:
    """`verbose`: also prints the numbers that the answer refers to, and why sentences are
    unchecked."""
    return Group(
        *_heading(answered),
        *_answer(answered, verbose=verbose),
        *(_numbers(answered) if verbose else ()),
        "",
        *_closing(answered, verbose=verbose),
    )


def _heading(answered: AnsweredQuestion) -> Iterator[Renderable]:
    several = len(answered.explanations) > 1
    for number, explanation in enumerate(answered.explanations):
        devices = ", ".join(describe_device(device) for device in explanation.profile.devices)
        prefix = f"report {number}: " if several else ""
        yield Text.assemble(prefix, (explanation.profile.provenance.path, "bold"), f" on {devices}")
    yield ""
    yield Text(flat(answered.question), "bold cyan")


def _answer(answered: AnsweredQuestion, *, verbose: bool) -> Iterator[Renderable]:
    """Without `verbose`, how numbers were computed is printed below the paragraph or list."""
    printed: set[str] = set()
    for block in blocks_of(answered.answer):
        yield ""
        if block.code:
            yield code_block(block.code, 2)
        elif verbose:
            yield from map(_line, block.lines)
        else:
            yield from (_line(line._replace(text=in_short(line.text))) for line in block.lines)
            yield from _computations(block, printed)


def _computations(block: Block, printed: set[str]) -> Iterator[Renderable]:
    for line in block.lines:
        yield from (Text(computed, "dim") for computed in computation_lines(line.text, printed))


def _line(line: Line) -> Renderable:
    """Lines of a list item are aligned after its mark."""
    if not line.mark:
        return words(line.text)
    grid = Table.grid()
    grid.add_column(width=min(len(line.mark), _WIDEST_MARK) + 1, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(flat(line.mark)), words(line.text))
    return grid


def _numbers(answered: AnsweredQuestion) -> Iterator[Renderable]:
    if answered.evidence:
        yield ""
        yield indented(_table(answered), 2)


def _table(answered: AnsweredQuestion) -> Table:
    """The column of source lines is left out if no number has one."""
    cited = answered.evidence.values()
    has_lines = any(entry.line for entry in cited)
    table = Table(padding=(0, 2), heading_style="dim")
    table.add_column("number", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    if has_lines:
        table.add_column("line", style="cyan", overflow="fold")
    table.add_column("launch", overflow="fold")
    table.add_column("id", style="dim", overflow="fold")
    for entry in cited:
        line = [Text(flat(entry.line or ""))] if has_lines else []
        launch, number = Text(_launch_of(answered, entry)), entry.number
        table.add_row(
            Text(flat(entry.label)), Text(str(number)), *line, launch, Text(flat(number.id))
        )
    return table


def _launch_of(answered: AnsweredQuestion, entry: CitedNumber) -> str:
    if entry.report is None:
        return ""
    report = f" (report {entry.report})" if len(answered.reports) > 1 else ""
    return f"#{entry.launch} {entry.kernel}{report}"


def _closing(answered: AnsweredQuestion, *, verbose: bool) -> Iterator[Renderable]:
    if answered.answer:
        yield from own_words_view(len(answered.unchecked))
    if verbose:
        yield from reasons_view([each.line for each in answered.unchecked])
    yield from author_view(answered.authorship, answered=bool(answered.answer), part="answer")
    for number, command in enumerate(answered.followups):
        yield Text.assemble(("Next: " if not number else " " * 6, "bold"), flat(command))
