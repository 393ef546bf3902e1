"""Diffs on the first screen: the changed lines with line numbers and little context."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from keet.pages.short_diff import short_diff
from tests.rows import each_row


def diff_of(before: list[str], after: list[str], file: str = "k.cu") -> str:
    texts = [[f"{line}\n" for line in lines] for lines in (before, after)]
    return "".join(difflib.unified_diff(*texts, f"a/{file}", f"b/{file}"))


def rows(diff: str, most: int = 99) -> list[tuple[str, str]]:
    return [tuple(row) for row in short_diff(diff, most)]


BEFORE = ["int a;", "", "int b;", "int c;", "int d;", "int e;", "int f;", "", "int g;"]


def changed(*names: str) -> str:
    """The diff after these variables became floats."""
    after = [line.replace("int", "float") if line[4:5] in names else line for line in BEFORE]
    return diff_of(BEFORE, after)


def test_one_line_of_context_that_is_not_blank() -> None:
    expected = [("4", " int c;"), ("5", "-int d;"), ("", "+float d;"), ("6", " int e;")]
    assert rows(changed("d")) == expected
    assert rows(changed("g")) == [("9", "-int g;"), ("", "+float g;")]
    assert ("8", " ") in rows(changed("f", "g"))  # between two changes


def test_little_room() -> None:
    """Only lines that locate the change; removed ones make room for new ones."""
    after = [*BEFORE[:3], "int new;", "int c;", "float d;", *BEFORE[5:]]
    expected = [("3", " int b;"), ("", "+int new;"), ("5", "-int d;"), ("", "+float d;")]
    assert rows(diff_of(BEFORE, after), 4) == expected
    assert len(rows(diff_of(BEFORE, after))) == 6
    diff = diff_of(BEFORE, ["float a;", "float b;", *BEFORE[-1:]])
    assert rows(diff, 4) == [("1", "-(8 lines)"), ("", "+float a;"), ("", "+float b;")]
    assert len(rows(diff, 11)) == 11
    assert rows(diff_of(BEFORE, []), 2) == [(str(n), f"-{x}") for n, x in enumerate(BEFORE, 1)]


def test_files_and_names() -> None:
    first, second = (diff_of(["x"], ["y"], file) for file in ("k.cu", "k.h"))
    change = [("1", "-x"), ("", "+y")]
    assert rows(first + second) == [("", "k.cu"), *change, ("", "k.h"), *change]
    diff = "--- a/k.cu\n+++ b/k.cu\n@@ -7,2 +7,1 @@\n--- i;\n+++ j;\n-x;\n"
    assert rows(diff) == [("7", "--- i;"), ("", "+++ j;"), ("8", "-x;")]


@each_row("text", ["", "no diff", "@@ nothing @@\n+x", "+a\n-b"])
def test_text_that_is_not_a_diff_is_unchanged(text: str) -> None:
    assert [line for _, line in rows(text)] == text.splitlines()


LINES = st.lists(st.sampled_from(["a;", "b;", "", "--c;", "++d;", "}"]), max_size=30)


@given(LINES, LINES, st.integers(1, 20))
def test_every_change_is_there_with_its_number(
    before: list[str], after: list[str], most: int
) -> None:
    diff = diff_of(before, after)
    added = [row.text for row in short_diff(diff, most) if row.text.startswith("+")]
    assert added == [line for line in diff.splitlines()[2:] if line.startswith("+")]
    shown = short_diff(diff, 99)
    body = [line for line in diff.splitlines()[2:] if line[:1] in ("+", "-")]
    assert [row.text for row in shown if row.is_changed] == body
    for row in shown:
        if row.number:
            assert before[int(row.number) - 1] == row.text[1:]
