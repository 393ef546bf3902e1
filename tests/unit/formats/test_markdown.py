"""Markdown: text that is not markup is escaped."""

import re

from hypothesis import given
from hypothesis import strategies as st

from keet.formats.markdown import code, markdown, prose
from keet.pages.blocks import Column, Span, Table, around, fence, indentation, language, runs
from tests.rows import each_row

SIGNS = st.text(alphabet="ab `*_[]<>|~$&#-1.)\\\n\t", max_size=30)


@each_row(
    ("text", "escaped"),
    [
        ("plain text, 83 % of it", "plain text, 83 % of it"),
        ("gemm<float, 32>", r"gemm\<float, 32\>"),
        ("a snake_case name", "a snake_case name"),
        ("__launch_bounds__", r"\_\_launch_bounds\_\_"),
        ("a|b", r"a\|b"),
        ("at `out[x * n]` now", "at `out[x * n]` now"),
        ("one ` alone", r"one \` alone"),
        ("1. no list", r"1\. no list"),
        ("2.1x faster", "2.1x faster"),
        ("# no heading", r"\# no heading"),
        ("$a$ &lt;", r"\$a\$ \&lt;"),
        ("two\nlines", r"two\\nlines"),
    ],
)
def test_prose(text: str, escaped: str) -> None:
    assert prose(text) == escaped


@each_row(("name", "span"), [
    ("flip", "`flip`"),
    ("a`b", "``a`b``"),
    ("`", "`` ` ``"),
    ("gemm<A|B, __half>", "`gemm<A|B, __half>`"),
    ("", "(no name)"),
])  # fmt: skip
def test_code(name: str, span: str) -> None:
    assert code(name) == span


@given(st.lists(SIGNS, min_size=1, max_size=4))
def test_a_cell_stays_in_its_column(names: list[str]) -> None:
    cells = [[Span(name, "code"), name] for name in names]
    rows = markdown([Table([Column("a"), Column("b")], cells)]).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


@given(st.lists(SIGNS, max_size=5))
def test_no_code_line_closes_the_fence(lines: list[str]) -> None:
    first, *inside, last = fence(lines, "cuda").splitlines()
    assert first == f"{last}cuda"
    assert len(inside) == len(lines)
    assert not [line for line in inside if line.strip().startswith(last)]


@given(st.sets(st.integers(1, 40)), st.integers(0, 5))
def test_excerpts(numbers: set[int], radius: int) -> None:
    shown = around(numbers, radius, 30)
    assert {n for n in numbers if n <= 30} <= set(shown)
    assert all(any(abs(n - centre) <= radius for centre in numbers) for n in shown)
    assert [n for run in runs(shown) for n in run] == shown
    assert all(run == list(range(run[0], run[-1] + 1)) for run in runs(shown))


def test_indentation_and_language() -> None:
    assert indentation(["    a", "\tb", "", "      c"]) == 4
    assert [language(p) for p in ("a.cu", "b.PY", "c.hpp", "d")] == ["cuda", "python", "cpp", "cpp"]
