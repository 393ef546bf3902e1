"""Lines are counted without rendering: as many as are printed."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.explanation.analyst import explain
from keet.explanation.program import program_of
from keet.profile import Profile
from keet.render.terminal import line_count as counting
from keet.render.terminal.console import to_text
from keet.render.terminal.explain import _launch
from keet.render.terminal.line_count import line_count
from keet.render.terminal.program import program_view
from tests.rows import each_row

WORDS = st.text(st.sampled_from("ab -—漢é\t\n█"), max_size=60).map("a{}".format)


def printed(parts: list[RenderableType], width: int) -> int:
    return to_text(Group(*parts), width).count("\n")


@given(st.lists(st.tuples(WORDS, st.integers(0, 6)), min_size=1, max_size=4), st.integers(8, 60))
def test_texts(texts: list[tuple[str, int]], width: int) -> None:
    parts = [Padding(Text(text), (0, 0, 0, left), expand=False) for text, left in texts]
    assert line_count(parts, width) == printed(parts, width)
    plain = [text for text, _ in texts]
    assert line_count(plain, width) == printed(plain, width)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), st.integers(20, 160), st.booleans()
)
@pytest.mark.slow
def test_tables(rows: list[tuple[str, str]], width: int, grid: bool) -> None:
    table = Table.grid(padding=(0, 1, 0, 0)) if grid else Table("a", "b", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(row[0], Text(row[1]))
    parts = [Padding(table, (0, 0, 0, 2), expand=False)]
    assert line_count(parts, width) == printed(parts, width)


@each_row("width", [60, 80, 120, 160])
@pytest.mark.slow
def test_real_views(profile_of: Callable[[str], Profile], width: int) -> None:
    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches, 5, sass=False)
    program = program_of(explanation)
    assert program is not None
    parts = list(program_view(program, width))
    for each in explanation.launches:
        for detail in ("full", "middle", "brief"):
            parts += _launch(each, width, program, detail, verbose=False)
    assert line_count(parts, width) == printed(parts, width)


def test_what_fits_is_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering takes as long as printing: only tables that may be folded need it."""
    monkeypatch.setattr(counting, "to_text", lambda *_: pytest.fail("rendered"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row("12%", Text("waiting"))
    grid.add_row("5%", "issuing")
    long = "A sentence that is wrapped. " * 9
    assert line_count(["", Text(long), Padding(grid, (0, 0, 0, 2), expand=False)], 60) > 4
