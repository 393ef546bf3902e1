"""`keet ask` on a terminal: the answer, the numbers that it cites, and what it took."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.statement import Answered
from keet.render.ask_text import Block, blocks_of, origin_of, paths_of, verified_text
from keet.render.show import describe_device
from keet.render.statement import CITATION, author_view, code_view, dropped_view
from keet.render.statement_text import claim_text, flat

_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")


def ask_view(answered: Answered) -> Group:
    return Group(
        *_heading(answered),
        *_answer(answered),
        *_numbers(answered),
        "",
        *_closing(answered),
    )


def _heading(answered: Answered) -> Iterator[RenderableType]:
    several = len(answered.explanations) > 1
    for number, told in enumerate(answered.explanations):
        devices = ", ".join(describe_device(device) for device in told.profile.devices)
        prefix = f"report {number}: " if several else ""
        yield Text.assemble(prefix, (told.profile.provenance.path, "bold"), f" on {devices}")
    yield ""
    yield Text(flat(answered.question), "bold cyan")


def _answer(answered: Answered) -> Iterator[RenderableType]:
    for block in blocks_of(answered.text):
        yield ""
        yield from _block(block)


def _block(block: Block) -> Iterator[RenderableType]:
    if block.is_code:
        yield code_view("\n".join(block.lines), 2)
        return
    for line in block.lines:
        yield _line(line)


def _line(line: str) -> RenderableType:
    """An item of a list hangs below its mark."""
    mark = _ITEM.match(line)
    text = Text(one_line(line[mark.end() :] if mark else line.strip()))
    text.highlight_regex(CITATION, "dim")
    if mark is None:
        return text
    grid = Table.grid()
    grid.add_column(width=min(mark.end(), 12), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(one_line(mark[0])), text)
    return grid


def _numbers(answered: Answered) -> Iterator[RenderableType]:
    if not answered.evidence:
        return
    yield ""
    yield Padding(_table(answered), (0, 0, 0, 2), expand=False)


def _table(answered: Answered) -> Table:
    """Without the column of source lines where no number is of one."""
    has_lines = any(entry.line for entry in answered.evidence)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", style="dim", no_wrap=True)
    table.add_column("number cited", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    if has_lines:
        table.add_column("line", style="cyan", overflow="fold")
    table.add_column("launch", overflow="fold")
    for entry in answered.evidence:
        line = [Text(flat(entry.line or ""))] if has_lines else []
        launch = Text(_launch_of(answered, entry))
        table.add_row(Text(entry.id), Text(flat(entry.label)), Text(str(entry)), *line, launch)
    return table


def _launch_of(answered: Answered, entry: Evidence) -> str:
    origin = origin_of(entry, answered)
    if origin is None:
        return ""
    launch = origin.launch.launch
    report = f" (report {origin.report})" if len(paths_of(answered)) > 1 else ""
    return f"#{launch.id} {launch.kernel}{report}"


def _closing(answered: Answered) -> Iterator[RenderableType]:
    yield Text(verified_text(answered), "dim")
    yield from dropped_view(map(claim_text, answered.dropped))
    yield from author_view(answered.author, answered=bool(answered.text.strip()), part="answer")
    for number, command in enumerate(answered.followups):
        yield Text.assemble(("Go on with: " if not number else " " * 12, "bold"), flat(command))
