"""Lines of source files, counted as compilers do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keet.texts import bounded_lines, code_lines


def test_only_a_line_feed_ends_a_line() -> None:
    """Old sources have form feeds between functions; `str.splitlines` would count them."""
    text = "int a;\f\nint b;\x0b \x85 \u2028\r\nint c;\n"
    assert code_lines(text) == ["int a;\f", "int b;\x0b \x85 \u2028", "int c;"]
    assert len(bounded_lines(text)) == 3
    assert code_lines("") == []


@given(st.lists(st.text("ab \f\u2028"), max_size=6))
def test_lines_come_back(lines: list[str]) -> None:
    assert code_lines("".join(f"{line}\n" for line in lines)) == lines
