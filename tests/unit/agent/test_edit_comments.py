"""Comments of suggested code: those that state numbers are removed."""

from __future__ import annotations

import pytest

from keet.agent.edits.comments import without_figures
from tests.unit.agent.conversations import READING, change, conclusion, edit, talk


@pytest.mark.parametrize(
    "comment",
    ["// 2x faster", "/* twice\n as fast */", "// DRAM at 99 %", "# halves the run time",
     "// saves 3 ms", "// three times the throughput", "// ５０ percent less"],
)  # fmt: skip
def test_comments_with_numbers_are_removed(comment: str) -> None:
    assert without_figures(f"x = y;  {comment}\nz;", "") == "x = y;\nz;"


@pytest.mark.parametrize(
    "code",
    ["z = 1;  // 4 banks", "#pragma unroll 4", "#define A 2", "// the stores have to follow",
     "a = b / c;  // of row 17", "x = y;", "# one tile of 128 by 128"],
)  # fmt: skip
def test_code_and_comments_with_sizes_are_kept(code: str) -> None:
    assert without_figures(code, "") == code


def test_comments_of_the_source_are_kept() -> None:
    assert without_figures("x;  // 2x faster", "y;  // 2x faster\n") == "x;  // 2x faster"


@pytest.mark.parametrize("old", [change()["old"], "no such line;"])
def test_neither_diff_nor_sketch_has_figures(old: str) -> None:
    boasting = change(old=old, new="from_item[0] = 1;  // 3x faster")
    said = conclusion(edits=[edit(boasting)])
    (found,) = talk(READING, said, {"corrections": []}).model_explanation.edits
    assert "from_item[0] = 1;" in found.diff + found.sketch
    assert "faster" not in found.diff + found.sketch


def test_blanks_before_a_comment_are_removed_with_it() -> None:
    assert without_figures("a; \t // 2x faster\n  /* 3x */  // 4x faster\n  b;", "") == "a;\n\n  b;"
