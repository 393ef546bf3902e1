"""Pages fit the terminal, and lose nothing by it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.pages import (
    Heading,
    Points,
    Prose,
    Table,
    as_markdown,
    as_text,
    markdown_table,
    text_table,
)
from tests.rows import each_row

PARTS = [
    Heading("A heading that is rather long, as headings of difficulties are"),
    Prose("word " * 40),
    Points(["optimize.gas_state.keet.1 (claude): COMPILE_ERROR: " + "because " * 12]),
    Table(
        [
            ("model", "condition", "geomean", "why"),
            ("m", "none", "3.84 (2.34 to 6.32)", "so " * 30),
            ("m", "raw", "5.44 (3.02 to 10.07)", "-"),
        ],
        keys=2,
    ),
]


def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markdown does not depend on it."""
    pages = set()
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        text = as_text(PARTS)
        assert max(map(len, text.splitlines())) <= width
        assert text.split().count("word") == 40
        assert text.split().count("so") == 30
        pages.add(as_markdown("T", "keet eval x", PARTS))
    assert len(pages) == 1


def test_a_table_that_is_too_wide_goes_on_below_with_its_keys() -> None:
    rows = [("a", "b", "c" * 10, "d" * 10), ("x", "y", "1", "2")]
    assert text_table(rows, 17, keys=2) == [
        f"a  b  {'c' * 10}",
        "x  y           1",
        "",
        f"a  b  {'d' * 10}",
        "x  y           2",
    ]


CELLS = st.lists(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9), min_size=3, max_size=3
)


@settings(max_examples=60)
@given(st.lists(CELLS, min_size=1, max_size=5), st.integers(20, 60), st.integers(1, 2))
def test_no_cell_is_lost(rows: list[list[str]], width: int, keys: int) -> None:
    words = " ".join(text_table(rows, width, keys)).split()
    assert {cell for row in rows for cell in row} <= set(words)


ROWS = [("name", "times", "why"), ("a", "1.5", "short"), ("longer", "-", ""), ("b", "12,000", "x")]


def test_tables() -> None:
    assert text_table(ROWS) == [
        "name     times  why",
        "a          1.5  short",
        "longer       -",
        "b       12,000  x",
    ]
    assert markdown_table(ROWS)[:3] == [
        "| name | times | why |",
        "| --- | ---: | --- |",
        "| a | 1.5 | short |",
    ]
    assert markdown_table([("n",), ("a | b\nc \\| d",)])[2] == "| a \\| b c \\\\\\| d |"
    assert text_table([]) == markdown_table([]) == []
    with pytest.raises(ValueError, match="shorter"):
        text_table([("a", "b"), ("c",)])


NUMBERS = ("1", "-3.5", "+0.1", "95 %", "95%", "2.31x", "1e-3", "12.5 us")
TEXTS = ("a", "1 of 3", "0.95 (0.90 to 1.00)", "3 apples", "", "-")


@each_row("cell", [*NUMBERS, *TEXTS])
def test_columns_of_numbers_are_aligned_right(cell: str) -> None:
    aligned = "| ---: |" if cell in NUMBERS else "| --- |"
    assert markdown_table([("n",), (cell,)])[1] == aligned
