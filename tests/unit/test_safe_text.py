"""Untrusted texts: lines as compilers count them, names of limited length."""

from __future__ import annotations

import re
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from keet import safe_text
from keet.safe_text import LONGEST, bounded_line, bounded_lines, code_lines, shortened, visible


def test_only_a_line_feed_ends_a_line() -> None:
    """Old sources have form feeds between functions; `str.splitlines` would count them."""
    text = "int a;\f\nint b;\x0b \x85 \u2028\r\nint c;\n"
    assert code_lines(text) == ["int a;\f", "int b;\x0b \x85 \u2028", "int c;"]
    assert len(bounded_lines(text)) == 3
    assert code_lines("") == []


@given(st.lists(st.text("ab \f\u2028"), max_size=6))
def test_lines_join_to_the_text(lines: list[str]) -> None:
    assert code_lines("".join(f"{line}\n" for line in lines)) == lines


@given(st.text(max_size=90), st.integers(1, 60))
def test_a_shortened_text_is_within_its_limit(text: str, limit: int) -> None:
    """The mark with the length and the hash may be longer than the limit."""
    short = shortened(text * 3, limit)
    assert len(short) <= limit
    assert short == text * 3 or len(text) * 3 > limit


def test_a_long_name_of_control_characters_is_cut_before_it_is_escaped() -> None:
    """Escaped first, 10 million of them took 20 s and 0.8 GB."""
    name = bounded_line("\x1b" * 10_000_000)
    assert len(name) == LONGEST
    assert name.startswith("\\x1b\\x1b")
    assert "10,000,000 characters" in name
    assert name != bounded_line("\x1b" * 9_999_999)


@given(st.text("a\x1b\n\u202eé"), st.integers(1, 3 * LONGEST))
@example("\x1b", LONGEST - 1)
@example("a", LONGEST)
@example("a", LONGEST + 1)
def test_a_bounded_line_is_one_line_within_the_limit(text: str, times: int) -> None:
    text = (text * times)[: 3 * LONGEST]
    line = bounded_line(text)
    assert len(line) <= LONGEST
    assert line.isprintable()
    assert line == text or not text.isprintable() or len(text) > LONGEST


@given(st.text() | st.text("ab \n\t\r·é\u00a0\u202e\u2028\x1b\x85\ud800"))
@example("\r\n")
@example("a\r")
@example("".join(map(chr, range(0x300))))
def test_safe_text_is_returned_without_a_search(text: str) -> None:
    """Only the characters beyond ASCII decide whether a text is searched."""
    assert visible(text) == re.sub(
        safe_text._UNSAFE, lambda found: safe_text._escaped(found[0]), text
    )


def test_every_unsafe_character_is_escaped() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    unsafe = re.findall(safe_text._UNSAFE, every)
    assert len(unsafe) > 4000
    assert [ascii(each) for each in unsafe if visible(each) == each] == []
