"""The number of lines of a view equals the lines that keet and rich print."""

from collections.abc import Callable

import pytest

from keet.cli import main
from keet.explanation.analyst import explain
from keet.explanation.program import program_of
from keet.profile import Profile
from keet.render.terminal import console
from keet.render.terminal.console import plain_lines, to_text
from keet.render.terminal.explain import _launch, explain_view
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.render.terminal.line_count import line_count
from keet.render.terminal.program import program_view
from keet.render.terminal.show import show_view
from tests.conftest import REPORTS
from tests.rich_oracle import Terminal, plain_by_rich, printed, printed_by_rich
from tests.rows import each_row

WIDTHS = [60, 80, 120, 160]


@each_row("width", WIDTHS)
@pytest.mark.slow
def test_line_count_of_real_views(profile_of: Callable[[str], Profile], width: int) -> None:
    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches, 5, sass=False)
    program = program_of(explanation)
    assert program is not None
    parts = list(program_view(program, width))
    for each in explanation.launches:
        for detail in ("full", "middle", "brief"):
            parts += _launch(each, width, program, detail, verbose=False)
    text = to_text(Group(*parts), width)
    assert line_count(parts, width) == text.count("\n")
    assert text == plain_by_rich(Group(*parts), width)


@each_row("width", WIDTHS)
@pytest.mark.slow
def test_line_count_of_real_views_on_a_terminal(
    profile_of: Callable[[str], Profile], width: int
) -> None:
    from keet.analysis.capture.coverage import find_coverage, shown_launch

    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches, 5, sass=False)
    shown = [shown_launch(profile, launch) for launch in profile.launches]
    views = [
        show_view(profile, find_coverage(profile), shown, width),
        explain_view(explanation, width),
        explain_view(explanation, width, everything=True, verbose=True),
    ]
    for view in views:
        expected = printed_by_rich(view, width, Terminal(), TERM="xterm")
        assert printed(view, width, Terminal(), TERM="xterm") == expected


COMMANDS = [
    ("roofline",),
    ("metrics",),
    ("hotspots",),
    ("hotspots", "--by", "instruction", "--launch", "0"),
    ("diff", str(REPORTS / "tour_full.ncu-rep")),
]


@each_row("command", COMMANDS)
@pytest.mark.slow
def test_line_count_of_command_views(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each view that a command prints, compared with both."""
    shown: list[tuple[Renderable, int]] = []

    def keep(view: Renderable, width: int) -> list[str]:
        shown.append((view, width))
        return []

    monkeypatch.setattr(console, "plain_lines", keep)
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        name, *options = command
        assert main([name, str(REPORTS / "tour_full.ncu-rep"), *options]) == 0
    assert [width for _, width in shown] == WIDTHS
    for view, width in shown:
        assert "".join(plain_lines(view, width)) == plain_by_rich(view, width)
        expected = printed_by_rich(view, width, Terminal(), TERM="xterm")
        assert printed(view, width, Terminal(), TERM="xterm") == expected


def test_line_count_of_parts() -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("12%", Text("waiting"))
    grid.add_row("5%", "issuing\nand more")
    long = "A sentence that is wrapped. " * 9
    assert line_count(["", Text(long), Indented(grid, 2)], 60) == 1 + 5 + 3
