"""What commands print on a terminal, as SVG pictures for the README and the docs.

python -m docs_site.terminal_picture     or: make docs
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FLIP = "kernels_samples/matrix_flip"
PICTURES = {
    "terminal_explain": f"explain {_FLIP}/slow.ncu-rep",
    "terminal_diff": f"diff {_FLIP}/slow.ncu-rep {_FLIP}/fast.ncu-rep",
    "terminal_hotspots": "hotspots kernels_samples/stencil_march/slow.ncu-repz --top 3",
    "terminal_roofline": "roofline kernels_samples/column_physics/fast.ncu-repz",
    "terminal_chart": "chart kernels_samples/column_physics/slow.ncu-repz",
    "terminal_show": f"show {_FLIP}/slow.ncu-rep",
}
"""Commands by the name of their picture."""
COLUMNS = 80

CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.4, 19, 14  # pixels; a cell of a monospaced font at this size
MARGIN, TITLE_HEIGHT = 18, 34
BACKGROUND, TITLE_BAR, TEXT = "#10141a", "#1b212b", "#d7dde5"
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
COLOURS = {
    "30": "#5c6773",
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#f2cc60",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#56d4dd",
}
_STYLE = re.compile(r"\x1b\[([\d;]*)m")


class Run(NamedTuple):
    """Neighbouring characters of one line that have one style."""

    column: int
    text: str
    codes: frozenset[str]
    """Codes of the terminal: `1` is bold, `2` dim, `3` italic, `4` underlined, `36` cyan."""


def printed(command: str) -> str:
    """The output of a keet command as a terminal of 80 columns gets it."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "NO_COLOR": ""}
    run = [sys.executable, "-m", "keet", *command.split()]
    return subprocess.run(
        run, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout


def runs_of(line: str) -> list[Run]:
    """The line without its escapes. Blanks at the end are dropped."""
    runs: list[Run] = []
    column, codes = 0, frozenset[str]()
    for position, piece in enumerate(_STYLE.split(line.rstrip())):
        if position % 2:
            given = {code for code in piece.split(";") if code not in ("", "0")}
            codes = codes | given if given else frozenset()
        elif piece:
            runs.append(Run(column, piece, codes))
            column += len(piece)
    return runs


def picture(command: str, output: str) -> str:
    lines = [[Run(0, f"$ keet {command}", frozenset("1"))]]
    lines += [runs_of(line) for line in output.rstrip().splitlines()]
    width = 2 * MARGIN + COLUMNS * CELL_WIDTH
    height = TITLE_HEIGHT + 2 * MARGIN + LINE_HEIGHT * len(lines)
    parts = [_frame(width, height), *(_line(n, runs) for n, runs in enumerate(lines))]
    return "\n".join([*parts, "</svg>", ""])


def _frame(width: float, height: float) -> str:
    buttons = "".join(
        f'<circle cx="{MARGIN + 4 + 20 * n}" cy="{TITLE_HEIGHT / 2:g}" r="6" fill="{colour}"/>'
        for n, colour in enumerate(BUTTONS)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-size="{FONT_SIZE}" fill="{TEXT}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">\n'
        f'<rect width="100%" height="100%" rx="10" fill="{BACKGROUND}"/>'
        f'<path d="M0 {TITLE_HEIGHT}V10a10 10 0 0 1 10-10H{width - 10:g}a10 10 0 0 1 10 10'
        f'V{TITLE_HEIGHT}z" fill="{TITLE_BAR}"/>{buttons}'
    )


def _line(number: int, runs: list[Run]) -> str:
    baseline = TITLE_HEIGHT + MARGIN + LINE_HEIGHT * (number + 0.75)
    spans = "".join(_span(run) for run in runs if run.text.strip())
    return f'<text y="{baseline:g}" xml:space="preserve">{spans}</text>' if spans else ""


def _span(run: Run) -> str:
    """The width is given, so that columns are aligned in every font."""
    x = MARGIN + run.column * CELL_WIDTH
    length = len(run.text) * CELL_WIDTH
    place = f'x="{x:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs"'
    return f"<tspan {place}{_style(run.codes)}>{escape(run.text, quote=False)}</tspan>"


def _style(codes: frozenset[str]) -> str:
    style = "".join(f' fill="{COLOURS[code]}"' for code in sorted(codes & COLOURS.keys()))
    style += ' font-weight="bold"' if "1" in codes else ""
    style += ' opacity="0.65"' if "2" in codes else ""
    return style + (' font-style="italic"' if "3" in codes else "")


if __name__ == "__main__":
    for name, command in PICTURES.items():
        path = ROOT / "docs" / "pictures" / f"{name}.svg"
        path.write_text(picture(command, printed(command)), encoding="utf-8")
