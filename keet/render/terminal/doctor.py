"""The view of `keet doctor` for a terminal: one line per check, and how to fix what fails."""

from __future__ import annotations

from collections.abc import Sequence

from keet.documents.doctor import CheckDocument
from keet.render.terminal.layout import Group, Table, Text

_MARKS = {"ok": ("ok", "green"), "missing": ("missing", "yellow"), "broken": ("broken", "red")}


def doctor_view(checks: Sequence[CheckDocument]) -> Group:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for check in checks:
        word, colour = _MARKS[check.status]
        if check.name == "model" and check.status == "missing":
            word = "not set"  # a setting, not a part of keet
        if check.status != "ok" and check.needed:
            colour = "bold red"
        grid.add_row(Text(word, style=colour), check.name, check.found)
        if check.remedy:
            grid.add_row("", "", Text(check.remedy, style="dim"))
    wrong = [check for check in checks if check.needed and check.status != "ok"]
    verdict = (
        Text(f"keet can't work without: {', '.join(c.name for c in wrong)}", style="bold red")
        if wrong
        else Text("keet can read reports here.", style="green")
    )
    return Group(grid, "", verdict)
