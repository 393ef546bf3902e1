"""Edits of a model: placed in the source, compiled, sent back once, replaced."""

from __future__ import annotations

from typing import Any

import pytest

from keet.agent.answer_schemas import RawChange
from keet.agent.edits import line_matching
from keet.agent.edits.compiling import BuildComparison, CompilerMessage
from keet.agent.edits.line_matching import without_figures
from keet.documents.model_explanation import EditDocument
from tests.rows import each_row
from tests.unit.agent.conversations import (
    LINE,
    OTHER,
    Talk,
    change,
    conclusion,
    corrections,
    edit,
    talk,
)
from tests.unit.agent.source_launch import launch_of

MISFIT = change(old="from_item[j] = item_tile[j][item][k];", new="x = y;")
NOT_COMPILED = "not compiled: --no-compile was given"


def edited(*replies: Any, edits: Any, compiles: bool = False) -> Talk:
    return talk(conclusion(edits=edits), *replies, compiles=compiles)


def only(done: Talk) -> EditDocument:
    (found,) = done.model_explanation.edits
    return found


def test_an_edit_becomes_a_diff_that_applies() -> None:
    found = only(edited(edits=[edit(change())]))
    assert (found.problem, found.places, found.sketch) == (None, ("slow.cu:43",), "")
    assert f"-            {LINE}\n+            {OTHER}\n" in found.diff
    assert found.diff.startswith("--- a/slow.cu\n+++ b/slow.cu\n@@ ")
    assert (found.build, found.build_text) == ("not checked", NOT_COMPILED)


def test_an_edit_that_does_not_fit_is_sent_back_once() -> None:
    done = edited(corrections([change()]), edits=[edit(MISFIT)])
    assert "1. edit 1: Spread" in done.chat.requests[1].messages[-1].text
    assert only(done).problem is None
    assert OTHER in only(done).diff
    assert done.model_explanation.sent_back == 1
    nowhere = edited(corrections([MISFIT]), edits=[edit(MISFIT)])
    assert len(nowhere.chat.requests) == 2
    assert (only(nowhere).diff, bool(only(nowhere).problem)) == ("", True)
    assert only(nowhere).sketch == "-from_item[j] = item_tile[j][item][k];\n+x = y;"


def test_advice_without_changes_is_not_sent_back(wording) -> None:
    done = edited(edits=[edit()])
    assert len(done.chat.requests) == 1
    wording(str(only(done).what))
    assert (only(done).diff, only(done).sketch) == ("", "")


def test_only_the_faulty_edit_is_replaced() -> None:
    done = edited(corrections([change(line=43)]), edits=[edit(change()), edit(MISFIT)])
    first, second = done.model_explanation.edits
    assert second.diff == first.diff != ""
    assert "edit 2:" in done.chat.requests[1].messages[-1].text


PROGRAM = """\
__global__ void scale(float* x) { x[threadIdx.x] *= 2; }
void fill_inputs(float* x, int n) {
    for (int i = 0; i < n; ++i) x[i] = rand() % 7;
}
bool check(const float* x, int n) {
    for (int i = 0; i < n; ++i) if (fabs(x[i] - expected(i)) > 1e-3) return false;
    return true;
}
void run(float* x) { scale<<<1, 32>>>(x); }
"""


@each_row(
    ("line", "reason"),
    [
        (1, None),
        (3, "it changes line 3 of k.cu, which makes input data of the program: leave that as it is"),
        (6, "it changes line 6 of k.cu, which checks the results of the program: leave that as it is"),
        (9, None),
    ],
)  # fmt: skip
def test_data_generators_and_checks_are_not_edited(line: int, reason: str | None) -> None:
    placer = line_matching.EditPlacer(launch_of(PROGRAM, "scale", compiled=[1]), compiles=False)
    old = PROGRAM.splitlines()[line - 1]
    changes = [RawChange(file="k.cu", old=old, new=f"{old} // other")]
    placed = placer.place(changes)
    assert (placed.problem, placed.patch is None) == (reason, reason is not None)
    inserted = placer.place([RawChange(file="k.cu", old=old, new=f"// new\n{old}")])
    assert (inserted.patch is None) == (reason is not None)


# --- compiled


class Compiler:
    """Fails for code that has `bad` in it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, files: Any, patch: Any, *_: Any, **__: Any) -> BuildComparison:
        self.seen.append(patch.diff)
        if "bad" in patch.diff:
            error = CompilerMessage("slow.cu", 43, 'identifier "bad" is undefined')
            return BuildComparison("fails", str(error), errors=(error,))
        return BuildComparison("compiles", "registers 128 → 96")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = Compiler()
    monkeypatch.setattr(line_matching, "find_nvcc", lambda: "/bin/true")
    monkeypatch.setattr(line_matching, "compile_edit", found)
    return found


BAD = change(new="from_item[0] = bad;")


def test_a_compile_error_is_sent_back_and_the_edit_replaced(compiler: Compiler, wording) -> None:
    done = edited(corrections([change()]), edits=[edit(BAD)], compiles=True)
    prompt = done.chat.requests[1].messages[-1].text
    wording([line for line in prompt.splitlines() if '"bad"' in line])
    found = only(done)
    assert (found.build, found.build_text) == ("compiles", "registers 128 → 96")
    assert "bad" not in found.diff


def test_an_edit_that_still_fails_is_marked(compiler: Compiler) -> None:
    """A correction that fits nowhere does not replace a diff. Compiling can be turned off."""
    assert only(edited(edits=[edit(BAD)])).build == "not checked"
    assert not compiler.seen
    for again, tries in ((BAD, 2), (MISFIT, 3)):
        found = only(edited(corrections([again]), edits=[edit(BAD)], compiles=True))
        assert len(compiler.seen) == tries  # two of the first, and one of the second
        assert (found.build, "bad" in found.diff, "bad" in found.build_text) == (
            "fails",
            True,
            True,
        )


def test_without_source_there_is_nothing_to_change(wording) -> None:
    said = conclusion(summary="It waits.", edits=[edit(change())])
    report = "tests/data/reports/tour_nolines.ncu-repz"
    found = only(talk(said, {"corrections": []}, sample=report))
    wording(found.problem)
    assert found.sketch


@each_row(
    "comment",
    ["// 2x faster", "/* twice\n as fast */", "// DRAM at 99 %", "# halves the run time",
     "// saves 3 ms", "// three times the throughput", "// ５０ percent less"],
)  # fmt: skip
def test_comments_with_numbers_are_removed(comment: str) -> None:
    """With the blanks before them."""
    assert without_figures(f"x = y; \t {comment}\nz;", "") == "x = y;\nz;"
    two = f"a;  // 2x faster\n  /* 3x */  {comment}\n  b;"
    assert without_figures(two, "") == "a;\n\n  b;"


@each_row(
    "code",
    ["z = 1;  // 4 banks", "#pragma unroll 4", "#define A 2", "// the stores have to follow",
     "a = b / c;  // of row 17", "x = y;", "# one tile of 128 by 128"],
)  # fmt: skip
def test_code_and_comments_with_sizes_or_of_the_source_are_kept(code: str) -> None:
    assert without_figures(code, "") == code
    assert without_figures("x;  // 2x faster", "y;  // 2x faster\n") == "x;  // 2x faster"


def test_neither_diff_nor_sketch_has_figures() -> None:
    for old in (LINE, "no such line;"):
        boasting = change(old=old, new="from_item[0] = 1;  // 3x faster")
        found = only(edited({"corrections": []}, edits=[edit(boasting)]))
        assert "from_item[0] = 1;" in found.diff + found.sketch
        assert "faster" not in found.diff + found.sketch
