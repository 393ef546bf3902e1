"""Edits as models write them, with typical mistakes, become patches that apply."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.agent.edits import patch_making
from keet.agent.edits.line_search import LIMIT_NEAR
from keet.agent.edits.patch_making import (
    LineReplacement,
    Misfit,
    Patch,
    combined,
    encoded,
    git_apply_check,
    parse_diff,
    place_changes,
)
from keet.agent.edits.unified_diff import applied, diff_names

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "kernels_samples"
RECORDED = ROOT / "tests" / "data" / "model_edits.json"

SAXPY = """\
#include <cstdio>

constexpr int kThreads = 256;

__global__ void saxpy(const float* x, float* y, float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];  // one element per thread
    }
}

__global__ void scale(float* y, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] *= a;
}

void launch(const float* x, float* y, int n) {
    saxpy<<<(n + kThreads - 1) / kThreads, kThreads>>>(x, y, 2.0f, n);
    scale<<<(n + kThreads - 1) / kThreads, kThreads>>>(y, 0.5f, n);
}
"""
FILES = {"/work/demo/slow.cu": SAXPY}


def placed(*changes: LineReplacement, files: dict[str, str] | None = None) -> Patch:
    files = files or FILES
    patch = place_changes(files, changes)
    assert isinstance(patch, Patch), patch
    assert git_apply_check(patch, files) is None
    return patch


def new_text(*changes: LineReplacement) -> str:
    return placed(*changes).files["/work/demo/slow.cu"]


def misfit(*changes: LineReplacement, files: dict[str, str] | None = None) -> str:
    found = place_changes(files or FILES, changes)
    assert isinstance(found, Misfit), found
    return found.message


def test_a_patch_has_exact_context_and_right_line_numbers() -> None:
    patch = placed(
        LineReplacement("slow.cu", "    if (i < n) y[i] *= a;", "    if (i < n) y[i] = a * y[i];")
    )
    assert patch.diff == (
        "--- a/slow.cu\n+++ b/slow.cu\n@@ -12,7 +12,7 @@\n"
        " __global__ void scale(float* y, float a, int n)\n {\n"
        "     const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "-    if (i < n) y[i] *= a;\n+    if (i < n) y[i] = a * y[i];\n"
        " }\n \n void launch(const float* x, float* y, int n) {\n"
    )
    assert patch.root == "/work/demo"
    assert [str(place) for place in patch.places] == ["slow.cu:15"]
    assert patch.places[0].match == "exact"


OLD = "    if (i < n) {\n        y[i] = a * x[i] + y[i];  // one element per thread\n    }\n"
NEW = "    if (i < n) {\n        y[i] = fmaf(a, x[i], y[i]);\n    }\n"
CHANGED = SAXPY.replace(
    "y[i] = a * x[i] + y[i];  // one element per thread", "y[i] = fmaf(a, x[i], y[i]);"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OLD, NEW, id="as it is"),
        pytest.param(OLD.replace("    ", "\t"), NEW.replace("    ", "\t"), id="tabs"),
        pytest.param(OLD.replace("    ", ""), NEW.replace("    ", ""), id="no indentation"),
        pytest.param(OLD.strip(), NEW.strip(), id="stripped"),
        pytest.param(OLD.replace(" * ", "*"), NEW, id="spaces in the line"),
        pytest.param(f"```cuda\n{OLD}```\n", f"```cuda\n{NEW}```", id="fences"),
        pytest.param(
            "7|     if (i < n) {\n8|         y[i] = a * x[i] + y[i];  // one element per thread\n9|     }",
            "7|     if (i < n) {\n8|         y[i] = fmaf(a, x[i], y[i]);\n9|     }",
            id="line numbers",
        ),
        pytest.param(
            "7|     if (i < n) {\n8|         y[i] = a * x[i] + y[i];  // one element per thread\n",
            "    if (i < n) {\n        y[i] = fmaf(a, x[i], y[i]);\n",
            id="line numbers in the old lines only",
        ),
        pytest.param(
            "-        y[i] = a * x[i] + y[i];  // one element per thread",
            "+        y[i] = fmaf(a, x[i], y[i]);",
            id="signs",
        ),
        pytest.param(
            "-8|         y[i] = a * x[i] + y[i];  // one element per thread",
            "+8|         y[i] = fmaf(a, x[i], y[i]);",
            id="signs and numbers",
        ),
        pytest.param(OLD.replace("element", "item"), NEW, id="another word in a comment"),
        pytest.param(
            "if (i < n) { y[i] = a * x[i] + y[i];  // one element per thread\n }",
            NEW,
            id="other line breaks",
        ),
        pytest.param(
            "    if (i < n) {\n        y[i] = a * x[i] + y[i];\n    }\n", NEW, id="comment left out"
        ),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_old_lines_copied_badly_are_found(old: str, new: str, line_end: str) -> None:
    files = {"/work/demo/slow.cu": SAXPY.replace("\n", line_end)}
    patch = placed(LineReplacement("slow.cu", old, new), files=files)
    assert patch.files["/work/demo/slow.cu"] == CHANGED.replace("\n", line_end)


def test_new_lines_get_the_indentation_of_a_file_with_tabs() -> None:
    files = {"k.cu": "void f() {\n\tif (a) {\n\t\tx = 1;\n\t}\n}\n"}
    change = LineReplacement(
        "k.cu",
        "    if (a) {\n        x = 1;",
        "    if (a) {\n        if (b) {\n            x = 2;\n        }",
    )
    assert placed(change, files=files).files["k.cu"] == (
        "void f() {\n\tif (a) {\n\t\tif (b) {\n\t\t\tx = 2;\n\t\t}\n\t}\n}\n"
    )


def test_a_part_of_a_line_can_be_replaced() -> None:
    assert new_text(
        LineReplacement("slow.cu", "a * x[i] + y[i]", "fmaf(a, x[i], y[i])")
    ) == SAXPY.replace("a * x[i] + y[i]", "fmaf(a, x[i], y[i])")


def test_a_part_of_a_word_is_not_a_part_of_a_line() -> None:
    assert "not in slow.cu" in misfit(LineReplacement("slow.cu", "Threads = 25", "Threads = 51"))


def test_a_line_that_was_left_out_stays() -> None:
    """Losing a barrier would be worse than a refused edit."""
    text = "void f() {\n    load(tile, from);\n    __syncthreads();\n    use(tile, sum);\n    store(sum, out);\n}\n"
    change = LineReplacement(
        "k.cu",
        "    load(tile, from);\n    use(tile, sum);\n    store(sum, out);\n",
        "    load(tile, from);\n    use(tile, sum);\n    store(2 * sum, out);\n",
    )
    assert placed(change, files={"k.cu": text}).files["k.cu"] == text.replace("(sum,", "(2 * sum,")


def test_a_line_left_out_between_replaced_lines_is_asked_for() -> None:
    text = "void f() {\n    load(tile, from, 1);\n    __syncthreads();\n    use(tile, sum, 1);\n    store(sum, out);\n}\n"
    change = LineReplacement(
        "k.cu",
        "    load(tile, from, 1);\n    use(tile, sum, 1);\n    store(sum, out);\n",
        "    load(tile, from, 2);\n    use(tile, sum, 2);\n    store(sum, out);\n",
    )
    message = misfit(change, files={"k.cu": text})
    assert "3|     __syncthreads();" in message


def test_lines_left_out_with_dots_stay() -> None:
    change = LineReplacement(
        "slow.cu",
        "__global__ void saxpy(const float* x, float* y, float a, int n) {\n    // ...\n        y[i] = a * x[i] + y[i];  // one element per thread\n",
        "__global__ void saxpy(const float* __restrict__ x, float* y, float a, int n) {\n    // ...\n        y[i] = fmaf(a, x[i], y[i]);\n",
    )
    assert new_text(change) == CHANGED.replace(
        "const float* x, float* y, float a", "const float* __restrict__ x, float* y, float a"
    )


def test_dots_in_the_old_lines_alone_stand_for_what_is_replaced() -> None:
    change = LineReplacement(
        "slow.cu",
        "    if (i < n) {\n        ...\n    }",
        "    if (i < n) y[i] = fmaf(a, x[i], y[i]);",
    )
    assert new_text(change) == SAXPY.replace(OLD, "    if (i < n) y[i] = fmaf(a, x[i], y[i]);\n")


def test_dots_in_the_new_lines_alone_are_refused() -> None:
    message = misfit(LineReplacement("slow.cu", OLD, "    if (i < n) {\n        // ...\n    }\n"))
    assert '`new` has "..."' in message


def test_dots_in_the_file_are_ordinary_text() -> None:
    files = {"k.py": "def f():\n    ...\n\nX = 1\n"}
    change = LineReplacement("k.py", "def f():\n    ...\n", "def g():\n    ...\n")
    assert placed(change, files=files).files["k.py"] == "def g():\n    ...\n\nX = 1\n"


def test_lines_in_two_places_need_more_context_or_a_line() -> None:
    old = "    const int i = blockIdx.x * blockDim.x + threadIdx.x;"
    new = "    const int i = threadIdx.x;"
    message = misfit(LineReplacement("slow.cu", old, new))
    assert "2 places" in message
    assert "6|     const int i" in message
    assert "14|     const int i" in message
    assert [str(p) for p in placed(LineReplacement("slow.cu", old, new, 13)).places] == [
        "slow.cu:14"
    ]
    assert [str(p) for p in placed(LineReplacement("slow.cu", old, new, 5)).places] == ["slow.cu:6"]
    assert "2 places near line 10" in misfit(LineReplacement("slow.cu", old, new, 10))


def test_lines_that_are_not_there_are_not_guessed() -> None:
    message = misfit(
        LineReplacement("slow.cu", "    y[i] = sqrtf(x[i]);", "    y[i] = rsqrtf(x[i]);")
    )
    assert message.startswith("The old lines are not in slow.cu. Copy them from the source.")


def test_similar_lines_far_from_the_named_line_need_more_in_common() -> None:
    old = "    if (i < count) y[i] *= b;"
    change = LineReplacement("slow.cu", old, "    y[i] = 0;")
    assert LIMIT_NEAR < 0.87
    assert isinstance(place_changes(FILES, [change]), Misfit)
    assert [str(p) for p in placed(change._replace(line=15)).places] == ["slow.cu:15"]


@pytest.mark.parametrize("line", [0, 3, 7, 20, 21])
def test_lines_are_inserted_after_a_line(line: int) -> None:
    new = "// note\n"
    lines = SAXPY.splitlines(keepends=True)
    after = new_text(LineReplacement("slow.cu", "", new, line)).splitlines(keepends=True)
    assert [row.strip() for row in after] == [
        row.strip() for row in [*lines[:line], new, *lines[line:]]
    ]


def test_inserted_lines_are_indented_like_their_neighbours() -> None:
    assert "    if (i < n) {\n        // note\n        y[i]" in new_text(
        LineReplacement("slow.cu", "", "// note", 7)
    )


@pytest.mark.parametrize("line", [None, -1, 22])
def test_an_insertion_needs_a_line_of_the_file(line: int | None) -> None:
    assert "0 to 21" in misfit(LineReplacement("slow.cu", "", "// note", line))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "__global__ void saxpy(const float* x, float* y, float a, int n) {",
            "__global__ void saxpy(const float* x, float* y, float a, int n) {\n    const int i = threadIdx.x;\n    y[i] = a;\n}",
            "closing brace at line 10",
            id="brace on the line",
        ),
        pytest.param(
            "__global__ void scale(float* y, float a, int n)",
            "__global__ void scale(float* y, float a, int n)\n{\n    y[threadIdx.x] *= a;\n}",
            "to line 16",
            id="brace on the next line",
        ),
        pytest.param(
            "__global__ void scale(float* y, float a, int n)",
            "__global__ void scale(float4* y, float a, int n)\n{\n    y[threadIdx.x].x *= a;\n}",
            "to line 16",
            id="other signature",
        ),
        pytest.param(OLD, "    if (i < n) {\n", "leave", id="a brace lost"),
    ],
)
def test_an_edit_that_leaves_the_end_of_a_block_is_rejected(old: str, new: str, said: str) -> None:
    assert said in misfit(LineReplacement("slow.cu", old, new))


def test_a_python_function_in_place_of_its_head_is_refused() -> None:
    files = {"k.py": "def f(x):\n    y = x + 1\n    z = y * 2\n    return z\n"}
    change = LineReplacement(
        "k.py", "def f(x):", "def f(x):\n    y = x + 1\n    z = y * 4\n    return z\n"
    )
    assert "Give all lines" in misfit(change, files=files)
    inserted = LineReplacement("k.py", "def f(x):", "def f(x):\n    x = abs(x)\n")
    assert (
        placed(inserted, files=files).files["k.py"].startswith("def f(x):\n    x = abs(x)\n    y")
    )


def test_braces_opened_by_one_change_and_closed_by_another_are_whole() -> None:
    text = new_text(
        LineReplacement(
            "slow.cu", "    if (i < n) y[i] *= a;", "    if (i < n) {\n        y[i] *= a;"
        ),
        LineReplacement("slow.cu", "", "    }", 15),
    )
    assert "    if (i < n) {\n        y[i] *= a;\n    }\n}\n" in text


def test_braces_in_strings_and_comments_do_not_count() -> None:
    change = LineReplacement(
        "slow.cu", "#include <cstdio>", '#include <cstdio>\nconst char* kOpen = "{";  // {'
    )
    assert 'kOpen = "{"' in new_text(change)


@pytest.mark.parametrize(
    "name",
    [
        "slow.cu",
        "./slow.cu",
        "demo/slow.cu",
        "b/slow.cu",
        "a/demo/slow.cu",
        "/work/demo/slow.cu",
        "",
        "other.cu",
    ],
)
def test_a_file_is_found_by_any_of_its_names(name: str) -> None:
    assert new_text(LineReplacement(name, OLD, NEW)) == CHANGED


def test_two_files_of_one_name() -> None:
    files = {"/p/one/k.h": "int a = 1;\n", "/p/two/k.h": "int b = 1;\n"}
    assert list(placed(LineReplacement("k.h", "int b = 1;", "int b = 2;"), files=files).files) == [
        "/p/two/k.h"
    ]
    files["/p/two/k.h"] = files["/p/one/k.h"] + "int c;\n"
    assert "one/k.h, two/k.h" in misfit(
        LineReplacement("k.h", "int a = 1;", "int a = 2;"), files=files
    )


def test_a_missing_file_is_named() -> None:
    message = misfit(LineReplacement("gone.h", "int a;", "int b;"))
    assert message == "No file 'gone.h' with the old lines. Files at hand: slow.cu."


def test_changes_of_two_files_are_one_patch_from_their_folder() -> None:
    files = {"/p/src/k.cu": "int a;\n", "/p/include/k.h": "int b;\n"}
    patch = placed(
        LineReplacement("k.cu", "int a;", "long a;"),
        LineReplacement("k.h", "int b;", "long b;"),
        files=files,
    )
    assert patch.root == "/p"
    assert "--- a/src/k.cu\n" in patch.diff
    assert "--- a/include/k.h\n" in patch.diff


def test_changes_must_differ_and_not_overlap() -> None:
    assert "nothing" in misfit(LineReplacement("slow.cu", OLD, OLD))
    assert "same lines" in misfit(
        LineReplacement("slow.cu", OLD, NEW), LineReplacement("slow.cu", OLD, NEW + "// 2\n")
    )
    assert "Change 2 of 2: " in misfit(
        LineReplacement("slow.cu", OLD, NEW), LineReplacement("slow.cu", "x", "z")
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a;\nb;", "b;", "c;", "a;\nc;"),
        ("a;\nb;", "a;", "c;", "c;\nb;"),
        ("a;\nb;", "b;", "b;\nc;", "a;\nb;\nc;"),
        ("a;\nb;", "b;", "", "a;\n"),
        ("a;\nb;\n", "a;\nb;\n", "", ""),
        ("a;\r\nb;", "b;", "b;\nc;", "a;\r\nb;\r\nc;"),
        ("a;\x0cx\nb;\n", "b;", "c;", "a;\x0cx\nc;\n"),
        ("a;\u2028x\nb;\n", "b;", "c;", "a;\u2028x\nc;\n"),
        ("\udcffa;\nb;\n", "b;", "c;", "\udcffa;\nc;\n"),
    ],
)
def test_ends_of_files_and_odd_characters(text: str, old: str, new: str, expected: str) -> None:
    patch = placed(LineReplacement("k.txt", old, new), files={"k.txt": text})
    assert patch.files == {"k.txt": expected}
    assert applied(patch.diff, {"k.txt": text}) == patch.files


def test_an_insertion_after_a_last_line_without_end() -> None:
    patch = placed(LineReplacement("k.txt", "", "b;", 1), files={"k.txt": "a;"})
    assert patch.files == {"k.txt": "a;\nb;"}
    assert patch.diff.count("\\ No newline at end of file\n") == 2


DIFF = """\
--- a/demo/slow.cu
+++ b/demo/slow.cu
@@ -{line},7 +{line},7 @@ __global__ void saxpy
     const int i = blockIdx.x * blockDim.x + threadIdx.x;
     if (i < n) {{
-        y[i] = a * x[i] + y[i];  // one element per thread
+        y[i] = fmaf(a, x[i], y[i]);
     }}
 }}
"""


@pytest.mark.parametrize(
    "diff",
    [
        pytest.param(DIFF.format(line=6), id="right"),
        pytest.param(DIFF.format(line=90), id="wrong line"),
        pytest.param("```diff\n" + DIFF.format(line=6) + "```", id="fenced"),
        pytest.param(
            DIFF.format(line=6).replace("\n     ", "\n    "), id="no space before context"
        ),
        pytest.param(
            "\n".join(
                r for r in DIFF.format(line=6).splitlines() if r[0] in "-+" and r[1] not in "-+"
            ),
            id="no context and no headers",
        ),
        pytest.param(
            "@@\n" + DIFF.format(line=6).split("@@ __global__ void saxpy\n")[1], id="bare @@"
        ),
        pytest.param(
            "*** Begin Patch\n*** Update File: slow.cu\n@@\n"
            + DIFF.format(line=6).split("@@ __global__ void saxpy\n")[1]
            + "*** End Patch",
            id="another format",
        ),
        pytest.param(
            DIFF.format(line=6).replace(" }\n", " }\n \n // no such line\n"), id="wrong context"
        ),
    ],
)
def test_diffs_of_models_are_understood(diff: str) -> None:
    changes = parse_diff(diff, "slow.cu")
    assert len(changes) == 1
    assert new_text(*changes) == CHANGED


def test_a_diff_in_either_field_is_understood() -> None:
    diff = DIFF.format(line=6)
    assert new_text(LineReplacement("slow.cu", diff, "")) == CHANGED
    assert new_text(LineReplacement("slow.cu", "", diff)) == CHANGED


def test_a_diff_that_skips_lines_silently_is_placed() -> None:
    diff = (
        "-constexpr int kThreads = 256;\n+constexpr int kThreads = 128;\n"
        "-        y[i] = a * x[i] + y[i];  // one element per thread\n"
        "+        y[i] = fmaf(a, x[i], y[i]);\n"
    )
    assert new_text(*parse_diff(diff, "slow.cu")) == CHANGED.replace("256", "128")


def test_a_sketch_is_not_a_diff() -> None:
    assert parse_diff("load four floats at once:\n    float4 v = x4[i];\n") == []


@pytest.mark.parametrize(("hunk", "line"), [("@@ -3,0 +4 @@", 3), ("@@ -3,4 +3,5 @@", None)])
def test_added_lines_without_context_need_an_exact_header(hunk: str, line: int | None) -> None:
    assert parse_diff(f"{hunk}\n+int x;\n", "k.cu") == [
        LineReplacement("k.cu", "", "int x;\n", line)
    ]


def test_edits_that_do_not_overlap_are_combined() -> None:
    one = placed(LineReplacement("slow.cu", OLD, NEW))
    two = placed(
        LineReplacement("slow.cu", "constexpr int kThreads = 256;", "constexpr int kThreads = 128;")
    )
    other = placed(LineReplacement("slow.cu", OLD, NEW.replace("fmaf", "__fmaf_rn")))
    all_three = combined([one, two, other])
    assert (all_three.used, all_three.left_out) == ((0, 1), (2,))
    assert all_three.patch is not None
    assert all_three.patch.files["/work/demo/slow.cu"] == CHANGED.replace("256", "128")
    assert git_apply_check(all_three.patch, FILES) is None
    assert len(all_three.patch.places) == 2
    assert combined([]).patch is None


def test_the_same_hunk_in_two_edits_is_taken_once() -> None:
    one = placed(LineReplacement("slow.cu", OLD, NEW))
    both = placed(
        LineReplacement("slow.cu", OLD, NEW),
        LineReplacement("slow.cu", "kThreads = 256", "kThreads = 128"),
    )
    merged = combined([one, both])
    assert merged.used == (0, 1)
    assert merged.patch is not None
    assert merged.patch.files == both.files


def test_a_patch_for_other_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = placed(LineReplacement("slow.cu", OLD, NEW))
    other = {"/work/demo/slow.cu": SAXPY.replace("if (i < n) {", "if (i < m) {")}
    assert "patch does not apply" in str(git_apply_check(patch, other))
    monkeypatch.setattr(patch_making.shutil, "which", lambda name: None)
    assert "patch does not apply" in str(git_apply_check(patch, other))
    assert git_apply_check(patch, FILES) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_patch_applies_in_the_folder_of_the_file_inside_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, capture_output=True)
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "slow.cu").write_text(SAXPY)
    (folder / "edit.patch").write_bytes(encoded(placed(LineReplacement("slow.cu", OLD, NEW)).diff))
    subprocess.run(["git", "apply", "edit.patch"], cwd=folder, check=True)
    assert (folder / "slow.cu").read_text() == CHANGED


@pytest.mark.parametrize(
    ("paths", "root", "names"),
    [
        (["/a/b/k.cu"], "/a/b", ["k.cu"]),
        (["k.cu"], "", ["k.cu"]),
        (["C:\\work\\src\\k.cu", "C:\\work\\k.h"], "/C/work", ["src/k.cu", "k.h"]),
        (["/a/b/../c/k.cu"], "/a/c", ["k.cu"]),
        (["../../etc/passwd"], "", ["passwd"]),
        (["/a/k.cu", "k.h"], "", ["k.cu", "k.h"]),
        (["/a/k.h", "../k.h"], "", ["a/k.h", "k.h"]),
    ],
)
def test_names_in_a_diff_stay_in_the_folder(paths: list[str], root: str, names: list[str]) -> None:
    assert diff_names(paths) == (root, dict(zip(paths, names)))


@pytest.mark.parametrize(
    "name", ["my kernel.cu", 'quo"ted.cu', "back\nline.cu", "tab\t.cu", "grün.cu", "--- a.cu"]
)
def test_odd_file_names_apply(name: str) -> None:
    files = {f"/p/{name}": SAXPY}
    patch = placed(LineReplacement(f"/p/{name}", OLD, NEW), files=files)
    assert applied(patch.diff, {name: SAXPY}) == {name: CHANGED}


def test_a_name_that_no_file_can_have_is_a_problem_and_no_crash() -> None:
    files = {"nul\0.cu": SAXPY}
    patch = place_changes(files, [LineReplacement("nul\0.cu", OLD, NEW)])
    assert isinstance(patch, Patch)
    assert "could not be checked" in str(git_apply_check(patch, files))


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a" * 200_000 + "\n", "a" * 5000),
        ("a b\n" * 50_000, "a b\n" * 300 + "c\n"),
        ("x = y;\n" * 20_000, "x = z;\n" * 300),
        ("/*" * 100_000, "/*" * 1000 + "\nq"),
        ("(" * 2000 + "\n" + "(;" * 20_000 + "\n", "(" * 1000 + ";\n"),
        ("...\n" * 5000, "...\n...\n"),
        ("", "x"),
        ("\n" * 1000, "\n\n\n"),
    ],
)
@pytest.mark.slow
def test_texts_made_to_be_slow_are_answered(text: str, old: str) -> None:
    """None makes it fail. How the time grows with the text, `make bench` tells."""
    found = place_changes({"k.cu": text}, [LineReplacement("k.cu", old, "new")])
    assert len(found.message if isinstance(found, Misfit) else "") <= 1600


@given(
    st.text(max_size=80), st.text(max_size=60), st.text(max_size=60), st.none() | st.integers(-2, 9)
)
def test_any_text_is_placed_so_that_it_applies_or_refused(
    text: str, old: str, new: str, line: int | None
) -> None:
    patch = place_changes({"k.cu": text}, [LineReplacement("k.cu", old, new, line)])
    if isinstance(patch, Patch):
        assert applied(patch.diff, {"k.cu": text}) == {"k.cu": patch.files["k.cu"]}
        assert patch.files["k.cu"] != text


# A random edit of a random file, distorted.

NAMES = ["sum", "tile", "row", "value", "next", "index", "load", "store"]
name = st.sampled_from(NAMES)
form = st.sampled_from(["{} = {}[{}] + {};", "{} += {}[{}] * {};", "// {} of {} {} and {}", ""])
row = st.tuples(st.integers(0, 3), form, name, name, name)


def written(drawn: list[tuple[int, str, str, str, str]], start: int) -> list[str]:
    """Lines of code; no two are the same, but for empty ones."""
    return [
        ("    " * depth + form.format(a, b, n, c)).rstrip()
        for n, (depth, form, a, b, c) in enumerate(drawn, start)
    ]


class Edit(NamedTuple):
    lines: list[str]
    first: int
    last: int
    new: list[str]
    line_end: str
    ended: bool

    @property
    def text(self) -> str:
        text = "".join(line + self.line_end for line in self.lines)
        return text if self.ended else text[: -len(self.line_end)]

    @property
    def old(self) -> list[str]:
        return self.lines[self.first : self.last]

    @property
    def expected(self) -> str:
        lines = [*self.lines[: self.first], *self.new, *self.lines[self.last :]]
        text = "".join(line + self.line_end for line in lines)
        return text if self.ended or not lines else text[: -len(self.line_end)]


@st.composite
def edits(draw: st.DrawFn, start: int = 1000) -> Edit:
    lines = written(draw(st.lists(row, min_size=4, max_size=30)), start)
    lines = [lines[0] or f"first[{start}];", *lines[1:-1], lines[-1] or f"last[{start}];"]
    full = [n for n, line in enumerate(lines) if line]
    first = draw(st.sampled_from(full))
    last = draw(st.sampled_from([n + 1 for n in full if first <= n < first + 6]))
    new = [
        line or "x;" for line in written(draw(st.lists(row, min_size=1, max_size=6)), start + 500)
    ]
    return Edit(lines, first, last, new, draw(st.sampled_from(["\n", "\r\n"])), draw(st.booleans()))


def rows(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def check(edit: Edit, changes: list[LineReplacement], *, dense: bool = False) -> None:
    files = {"/p/k.cu": edit.text}
    patch = place_changes(files, changes)
    assert isinstance(patch, Patch), patch
    after = patch.files["/p/k.cu"]
    if dense:
        assert "".join(after.split()) == "".join(edit.expected.split())
    else:
        assert after.rstrip() == edit.expected.rstrip()
    assert applied(patch.diff, {"k.cu": edit.text}) == {"k.cu": after}
    assert git_apply_check(patch, files) is None


@given(edits())
def test_exact_old_lines_place_back(edit: Edit) -> None:
    check(edit, [LineReplacement("k.cu", rows(edit.old), rows(edit.new))])


@given(edits(), st.sampled_from(["{}| {}", "{}: {}", "{:4}| {}", "{}\t{}"]))
@pytest.mark.slow
def test_numbered_old_lines_place_back(edit: Edit, form: str) -> None:
    numbered = [form.format(n, line) for n, line in enumerate(edit.old, edit.first + 1)]
    check(edit, [LineReplacement("k.cu", rows(numbered), rows(edit.new))])


@given(edits())
@pytest.mark.slow
def test_signed_lines_place_back(edit: Edit) -> None:
    old, new = ["-" + line for line in edit.old], ["+" + line for line in edit.new]
    check(edit, [LineReplacement("k.cu", rows(old), rows(new))])


@given(edits(), st.sampled_from([" ", "\t", "   "]), st.sampled_from([0, 2, 4]))
@pytest.mark.slow
def test_lines_with_other_white_space_place_back(edit: Edit, space: str, step: int) -> None:
    def distorted(line: str) -> str:
        depth = (len(line) - len(line.lstrip())) // 4
        return " " * (step * depth) + space.join(line.split())

    old, new = map(distorted, edit.old), map(distorted, edit.new)
    check(edit, [LineReplacement("k.cu", rows(list(old)), rows(list(new)))], dense=True)


@given(edits())
@pytest.mark.slow
def test_stripped_texts_place_back(edit: Edit) -> None:
    check(
        edit, [LineReplacement("k.cu", rows(edit.old).strip(), rows(edit.new).strip())], dense=True
    )


@given(edits(), st.integers(0, 3), st.integers(0, 3), st.integers(-40, 400), st.booleans())
@pytest.mark.slow
def test_diffs_with_wrong_numbers_place_back(
    edit: Edit, before: int, behind: int, shift: int, headed: bool
) -> None:
    context = edit.lines[max(edit.first - before, 0) : edit.first]
    trailing = edit.lines[edit.last : edit.last + behind]
    body = [
        *(f" {line}" for line in context),
        *(f"-{line}" for line in edit.old),
        *(f"+{line}" for line in edit.new),
        *(f" {line}" for line in trailing),
    ]
    head = f"--- a/k.cu\n+++ b/k.cu\n@@ -{max(edit.first + 1 + shift, 0)},9 +1,7 @@\n"
    check(edit, parse_diff((head if headed else "") + rows(body), "k.cu"), dense=True)


@given(edits(), edits(start=3000))
@pytest.mark.slow
def test_lines_left_out_in_the_middle_place_back(edit: Edit, other: Edit) -> None:
    """Two edited places with "..." between them."""
    lines = [*edit.lines, "int between = 1;", *other.lines]
    start = len(edit.lines) + 1
    middle = lines[edit.last : start + other.first]
    after = [*lines[: edit.first], *edit.new, *middle, *other.new, *lines[start + other.last :]]
    old, new = [*edit.old, "...", *other.old], [*edit.new, "...", *other.new]
    patch = place_changes({"k.cu": rows(lines)}, [LineReplacement("k.cu", rows(old), rows(new))])
    assert isinstance(patch, Patch), patch
    assert patch.files["k.cu"] == rows(after)
    assert applied(patch.diff, {"k.cu": rows(lines)}) == patch.files


@given(edits(), st.integers(0, 5), st.sampled_from(["x", " // why", ";", ")"]))
def test_a_wrong_line_among_right_ones_places_back(edit: Edit, at: int, added: str) -> None:
    """Where the others say which place it is; nothing but that place is ever changed."""
    old = [line + added if n == at and line else line for n, line in enumerate(edit.old)]
    change = LineReplacement("k.cu", rows(old), rows(edit.new), edit.first + 1)
    patch = place_changes({"k.cu": edit.text}, [change])
    if isinstance(patch, Patch):
        assert patch.files["k.cu"].rstrip() == edit.expected.rstrip()
        assert applied(patch.diff, {"k.cu": edit.text}) == patch.files
    else:
        assert len([line for line in edit.old if line]) < 3 or "leaves out" in patch.message


# Real sources and real answers.

SOURCES = sorted(p for p in SAMPLES.glob("*/*.cu") if p.parent.name != "harness")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_each_line_of_a_sample_can_be_edited_through_its_listing(path: Path) -> None:
    """As a model sees it: numbered, and with tabs as spaces."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for n in [n for n, line in enumerate(lines, 1) if line.strip().endswith(";")][::7]:
        old = f"{n}| {lines[n - 1].expandtabs(4)}"
        new = f"{n}| {lines[n - 1].expandtabs(4)}  // seen"
        patch = place_changes({str(path): text}, [LineReplacement(path.name, old, new)])
        assert isinstance(patch, Patch), patch
        assert patch.files[str(path)].splitlines()[n - 1] == f"{lines[n - 1]}  // seen"
        assert applied(patch.diff, {path.name: text}) == {path.name: patch.files[str(path)]}


def recorded_edits() -> list[tuple[str, dict[str, str]]]:
    """Of runs with a capable model on samples."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [(edit["sample"], edit) for edit in recorded]


def test_edits_that_a_model_wrote_apply() -> None:
    """Recorded when a sketch was allowed: one of them adds lines that can't be placed."""
    good = 0
    given_edits = recorded_edits()
    for sample, edit in given_edits:
        files = {
            str(path): path.read_text(encoding="utf-8")
            for path in (SAMPLES / sample).iterdir()
            if path.stem == "slow" or path.suffix == ".h"
            if path.suffix in (".cu", ".h", ".py")
        }
        changes = parse_diff(edit["code"], edit["file"], int(edit["line"]))
        patch = place_changes(files, changes)
        if isinstance(patch, Patch):
            assert git_apply_check(patch, files) is None
            good += 1
    assert len(given_edits) >= 12
    assert good >= len(given_edits) - 1
