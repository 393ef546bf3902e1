"""keet's layout prints exactly what rich prints, for random parts at random widths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich._unicode_data import load
from rich.cells import cell_len as rich_cell_len
from rich.cells import chop_cells, get_character_cell_size, set_cell_size

from keet.render.terminal.console import to_text
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.render.terminal.layout.cell_widths import DOUBLE, WIDENED, ZERO
from keet.render.terminal.layout.cells import cell_len, folded, set_cell_len
from tests.rich_oracle import Terminal, plain_by_rich, printed, printed_by_rich
from tests.rows import each_row

STYLES = ("", "bold", "dim", "cyan", "bold red", "dim not bold", "not bold", "italic", "underline")
LETTERS = "ab ,.-—→…█漢字é\u0301👩❤\u200d\ufe0f#"
WORDS = st.text(st.sampled_from(LETTERS), max_size=12)
PLAIN = st.lists(WORDS, max_size=8).map(" ".join)
LINES = st.lists(PLAIN, min_size=1, max_size=3).map("\n".join) | st.text(
    st.sampled_from("ab \t漢\n"), max_size=30
)
STYLE = st.sampled_from(STYLES)
OVERFLOW = st.sampled_from([None, "fold", "ellipsis", "ignore"])
WIDTH = st.integers(1, 70)


@st.composite
def texts(draw: st.DrawFn) -> Text:
    text = Text(
        draw(LINES), draw(STYLE), overflow=draw(OVERFLOW), no_wrap=draw(st.none() | st.booleans())
    )
    for _ in range(draw(st.integers(0, 3))):
        text.append(draw(PLAIN), draw(STYLE))
    return text


SMALL = st.none() | st.integers(1, 12)
CELL = LINES | texts() | texts().map(lambda text: Indented(text, 2, is_filled=True))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    is_grid = draw(st.booleans())
    table = Table(
        is_ruled=not is_grid and draw(st.booleans()),
        has_edge=draw(st.booleans()),
        has_heading=not is_grid,
        heading_style=draw(st.sampled_from(["bold", "dim"])),
        padding=draw(st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 1)])),
        pads_edge=draw(st.booleans()),
    )
    for _ in range(draw(st.integers(0, 4))):
        table.add_column(
            draw(PLAIN),
            justify=draw(st.sampled_from(["left", "right"])),
            style=draw(STYLE),
            overflow=draw(st.sampled_from(["fold", "ellipsis"])),
            no_wrap=draw(st.booleans()),
            width=draw(SMALL),
            min_width=draw(SMALL),
            max_width=draw(SMALL),
        )
    for _ in range(draw(st.integers(0, 4))):
        table.add_row(*draw(st.lists(CELL, max_size=5)))
    table.caption = draw(st.none() | st.just("and 3 more rows of it"))
    return table


PARTS: st.SearchStrategy[Renderable] = LINES | texts() | tables()
VIEWS = st.lists(
    PARTS | st.builds(Indented, PARTS, st.integers(0, 6), is_filled=st.booleans()), max_size=3
).map(lambda parts: Group(*parts))


def same(view: Group, width: int) -> None:
    plain = plain_by_rich(view, width)
    assert to_text(view, width) == (plain or "\n")
    coloured = printed_by_rich(view, width, Terminal(), TERM="xterm")
    assert printed(view, width, Terminal(), TERM="xterm") == coloured


@given(st.lists(texts(), max_size=3), WIDTH)
@pytest.mark.slow
def test_texts_print_as_in_rich(parts: list[Text], width: int) -> None:
    same(Group(*parts), width)


@given(tables(), WIDTH)
@settings(max_examples=150)
@pytest.mark.slow
def test_tables_print_as_in_rich(table: Table, width: int) -> None:
    same(Group(table), width)


@given(VIEWS, WIDTH)
@settings(max_examples=150)
@pytest.mark.slow
def test_views_print_as_in_rich(view: Group, width: int) -> None:
    same(view, width)


MODES = {
    "colours": {"TERM": "xterm-256color"},
    "no colours": {"TERM": "xterm", "NO_COLOR": "1"},
    "an empty NO_COLOR": {"TERM": "xterm", "NO_COLOR": ""},
    "forced": {"TERM": "xterm", "FORCE_COLOR": "1"},
    "forced off": {"TERM": "xterm", "FORCE_COLOR": ""},
    "compatible": {"TERM": "xterm", "TTY_COMPATIBLE": "1"},
    "not compatible": {"TERM": "xterm", "TTY_COMPATIBLE": "0"},
    "dumb": {"TERM": "dumb"},
    "unknown": {"TERM": "UNKNOWN"},
    "nothing": {},
}


def a_view() -> Group:
    table = Table(is_ruled=True, has_edge=True, padding=(0, 1))
    table.add_column("#", justify="right", style="dim")
    table.add_column("kernel", overflow="fold", min_width=12)
    table.add_row("1", Text("gemm", "bold").append("\ngrid 12", "dim not bold"))
    table.add_row("12", Text.assemble(("a", "cyan"), " name that is folded and folded again"))
    return Group(Text("heading", "bold underline"), "", Indented(Text("red", "bold red"), 2), table)


@each_row("mode", MODES)
def test_terminals_print_as_in_rich(mode: str) -> None:
    environment = MODES[mode]
    for width in (30, 100):
        expected = printed_by_rich(a_view(), width, Terminal(), **environment)
        assert printed(a_view(), width, Terminal(), **environment) == expected


def test_terminal_without_unicode_gets_an_ascii_frame() -> None:
    """The frame of a table is ASCII."""
    expected = printed_by_rich(a_view(), 60, Terminal("latin-1"), TERM="xterm")
    assert "|-" in expected
    assert printed(a_view(), 60, Terminal("latin-1"), TERM="xterm") == expected


# --- cells


def test_widths_of_characters() -> None:
    """The width tables match those of rich."""
    table = load("17.0.0")
    for width, ranges in ((0, ZERO), (2, DOUBLE)):
        found = [(start, end + 1) for start, end, size in table.widths if size == width]
        assert [edge for both in found for edge in both] == [*ranges]
    assert table.narrow_to_wide == WIDENED
    for code in (*range(0x300), *(code + by for code in (*ZERO, *DOUBLE) for by in (-1, 0, 1))):
        if code >= 0:
            character = chr(code)
            assert cell_len(character) == get_character_cell_size(character), hex(code)


@given(st.text(st.sampled_from(LETTERS + "\t\n\xa0"), max_size=12), st.integers(1, 9))
@settings(max_examples=300)
def test_cell_counts_match_rich(text: str, cells: int) -> None:
    assert cell_len(text) == rich_cell_len(text)
    assert set_cell_len(text, cells) == set_cell_size(text, cells)
    assert folded(text, cells) == chop_cells(text, cells)


# --- texts


def test_text_assembled_from_parts() -> None:
    text = Text("; ").join([Text("a", "red"), Text.assemble("b", ("c", "bold"))])
    assert (text.plain, len(text), text.cell_len) == ("a; bc", 5, 5)
    assert text.spans == [(0, 1, "red"), (4, 5, "bold")]
    text.right_crop(1)
    assert (text.plain, text.spans) == ("a; b", [(0, 1, "red")])


def test_text_is_cut_to_a_width() -> None:
    text = Text("a long line", "italic")
    text.truncate(6, overflow="ellipsis")
    assert text.plain == "a lon…"


def test_control_characters_do_not_move_the_cursor() -> None:
    assert to_text(Text("a\x08\rb\x1b[31m"), 40) == "ab\\x1b[31m\n"
