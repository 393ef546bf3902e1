"""Tables line up, and no cell breaks out of its column."""

from __future__ import annotations

import pytest

from evals.tables import markdown_table, text_table
from tests.rows import each_row

ROWS = [("name", "times", "why"), ("a", "1.5", "short"), ("longer", "-", ""), ("b", "12,000", "x")]


def test_numbers_are_set_to_the_right() -> None:
    assert text_table(ROWS) == [
        "name     times  why",
        "a          1.5  short",
        "longer       -",
        "b       12,000  x",
    ]


def test_markdown_says_which_columns_are_numbers() -> None:
    assert markdown_table(ROWS)[:3] == [
        "| name | times | why |",
        "| --- | ---: | --- |",
        "| a | 1.5 | short |",
    ]


@each_row("cell", ["1", "-3.5", "+0.1", "95 %", "95%", "2.31x", "1e-3", "12.5 us"])
def test_what_counts_as_a_number(cell: str) -> None:
    assert markdown_table([("n",), (cell,)])[1] == "| ---: |"


@each_row("cell", ["a", "1 of 3", "0.95 (0.90 to 1.00)", "3 apples", "", "-"])
def test_text_columns_are_not_aligned_right(cell: str) -> None:
    assert markdown_table([("n",), (cell,)])[1] == "| --- |"


def test_a_cell_stays_in_its_column() -> None:
    assert markdown_table([("n",), ("a | b\nc \\| d",)])[2] == "| a \\| b c \\\\\\| d |"


def test_an_empty_table_prints_nothing() -> None:
    assert text_table([]) == markdown_table([]) == []


def test_rows_of_unequal_length_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="shorter"):
        text_table([("a", "b"), ("c",)])
