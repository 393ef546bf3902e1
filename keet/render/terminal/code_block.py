"""A part of views for a terminal: code and diffs that a model wrote."""

from __future__ import annotations

from collections.abc import Sequence

from keet.errors import one_line
from keet.render.terminal.layout import Indented, Renderable, Table, Text

_COLOURS = {"+": "green", "-": "red", "@": "dim"}


def code_block(
    lines: Sequence[str],
    indent: int,
    *,
    is_diff: bool = False,
    most: int | None = None,
    numbers: Sequence[str] = (),
) -> Renderable:
    """Code after a vertical bar, so that its end is visible whatever the code contains.

    `most`: maximum number of lines; if given, long lines are cut at the right edge instead of
    folded. `numbers`: line numbers, printed before the bar.
    """
    grid = Table.grid(padding=(0, 1))
    if any(numbers):
        grid.add_column(justify="right", no_wrap=True, style="dim")
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    colours = _COLOURS if is_diff else {}
    # Printing one more line is as short as a note that there is one.
    shown = lines if most is None or len(lines) <= most + 1 else lines[:most]
    for place, line in enumerate(shown):
        code = Text(one_line(line), colours.get(line[:1], ""))
        if (
            most is not None
        ):  # of the text, not the column: the layout would take the bar's room too
            code.no_wrap, code.overflow = True, "ellipsis"
        number = [Text(numbers[place])] if any(numbers) else []
        grid.add_row(*number, Text("│", "dim"), code)
    if len(shown) < len(lines):
        where = "--patch FILE or --format markdown" if is_diff else "--format markdown"
        rest = f"... {len(lines) - len(shown)} more lines: {where}"
        grid.add_row(*([""] if any(numbers) else []), Text("│", "dim"), Text(rest, "dim"))
    return Indented(grid, indent)
