"""Edits as models write them: placed where the old lines are, or refused with what to write."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.agent.answer_schemas import RawChange
from keet.agent.edits.line_matching import Misfit, place_changes, replacements
from keet.agent.edits.patches import Patch, diff_names, encoded
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "kernels_samples"

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
"""
FILES = {"/work/demo/slow.cu": SAXPY}


def change(old: str = "", new: str = "", line: int | None = None, **more: Any) -> RawChange:
    return RawChange(old=old, new=new, line=line, **({"file": "slow.cu"} | more))


def place(*changes: RawChange, files: dict[str, str] | None = None) -> Patch | Misfit:
    wanted = [found for said in changes for found in replacements(said)]
    return place_changes(files or FILES, wanted)


def placed(*changes: RawChange, files: dict[str, str] | None = None) -> Patch:
    patch = place(*changes, files=files)
    assert isinstance(patch, Patch), patch
    return patch


def misfit(*changes: RawChange, files: dict[str, str] | None = None) -> str:
    found = place(*changes, files=files)
    assert isinstance(found, Misfit), found
    return found


def check_with_git(patch: Patch, folder: Path) -> None:
    """The diff makes the new files of the old ones."""
    names = diff_names(list(patch.files))[1]
    for path, name in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(patch.before[path]))
    command = ["git", "-c", "core.autocrlf=false", "apply", "-"]
    subprocess.run(command, cwd=folder, input=encoded(patch.diff), check=True, capture_output=True)
    for path, name in names.items():
        file = folder / name
        assert (file.read_bytes() if file.exists() else b"") == encoded(patch.files[path])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return tmp_path


def test_a_patch_has_exact_context_and_right_line_numbers(folder: Path) -> None:
    patch = placed(change("    if (i < n) y[i] *= a;", "    if (i < n) y[i] = a * y[i];"))
    assert patch.diff == (
        "--- a/slow.cu\n+++ b/slow.cu\n@@ -12,5 +12,5 @@\n"
        " __global__ void scale(float* y, float a, int n)\n {\n"
        "     const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "-    if (i < n) y[i] *= a;\n+    if (i < n) y[i] = a * y[i];\n }\n"
    )
    assert (patch.root, patch.places) == ("/work/demo", ("slow.cu:15",))
    check_with_git(patch, folder)


OLD = "    if (i < n) {\n        y[i] = a * x[i] + y[i];  // one element per thread\n    }\n"
NEW = "    if (i < n) {\n        y[i] = fmaf(a, x[i], y[i]);\n    }\n"
CHANGED = SAXPY.replace(
    "y[i] = a * x[i] + y[i];  // one element per thread", "y[i] = fmaf(a, x[i], y[i]);"
)
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
BODY = DIFF.format(line=6).split("@@ __global__ void saxpy\n")[1]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(change(OLD, NEW), id="as it is"),
        pytest.param(change(OLD.replace("    ", "\t"), NEW.replace("    ", "\t")), id="tabs"),
        pytest.param(change(OLD.replace("    ", ""), NEW.replace("    ", "")), id="no indentation"),
        pytest.param(change(OLD.strip(), NEW.strip()), id="stripped"),
        pytest.param(change(OLD.replace(" * ", "*"), NEW), id="spaces in the line"),
        pytest.param(change(OLD.replace("\n", "\n\n"), NEW), id="blank lines"),
        pytest.param(change(f"```cuda\n{OLD}```\n", f"```cuda\n{NEW}```"), id="fences"),
        pytest.param(
            change(
                "7|     if (i < n) {\n8|         y[i] = a * x[i] + y[i];  // one element per thread",
                "7|     if (i < n) {\n8|         y[i] = fmaf(a, x[i], y[i]);",
            ),
            id="line numbers",
        ),
        pytest.param(
            change(
                "-        y[i] = a * x[i] + y[i];  // one element per thread",
                "+        y[i] = fmaf(a, x[i], y[i]);",
            ),
            id="signs",
        ),
        pytest.param(change(diff=DIFF.format(line=6)), id="a diff"),
        pytest.param(change(diff=DIFF.format(line=90)), id="wrong line"),
        pytest.param(change(diff="```diff\n" + DIFF.format(line=6) + "```"), id="fenced diff"),
        pytest.param(change(diff=BODY.replace("\n ", "\n")), id="no space before context"),
        pytest.param(change(BODY), id="a diff as old lines"),
        pytest.param(change("", BODY), id="a diff as new lines"),
        pytest.param(
            change(diff=f"*** Begin Patch\n*** Update File: slow.cu\n@@\n{BODY}*** End Patch"),
            id="another format",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_with_other_white_space_are_found(said: RawChange, line_end: str) -> None:
    files = {"/work/demo/slow.cu": SAXPY.replace("\n", line_end)}
    assert list(placed(said, files=files).files.values()) == [CHANGED.replace("\n", line_end)]


def test_a_diff_that_skips_lines_silently_is_several_changes() -> None:
    diff = (
        "-constexpr int kThreads = 256;\n+constexpr int kThreads = 128;\n"
        "-        y[i] = a * x[i] + y[i];  // one element per thread\n"
        "+        y[i] = fmaf(a, x[i], y[i]);\n"
    )
    assert list(placed(change(diff=diff)).files.values()) == [CHANGED.replace("256", "128")]


def test_new_lines_get_the_indentation_of_a_file_with_tabs() -> None:
    files = {"k.cu": "void f() {\n\tif (a) {\n\t\tx = 1;\n\t}\n}\n"}
    said = change(
        "    if (a) {\n        x = 1;",
        "    if (a) {\n        if (b) {\n            x = 2;\n        }",
        file="k.cu",
    )
    expected = "void f() {\n\tif (a) {\n\t\tif (b) {\n\t\t\tx = 2;\n\t\t}\n\t}\n}\n"
    assert placed(said, files=files).files["k.cu"] == expected


def test_lines_in_two_places_need_more_context_or_a_line() -> None:
    old, new = "    const int i = blockIdx.x * blockDim.x + threadIdx.x;", "    const int i = 1;"
    message = misfit(change(old, new))
    assert "2 places" in message
    assert "6|     const int i" in message
    assert "14|     const int i" in message
    assert placed(change(old, new, 13)).places == ("slow.cu:14",)
    assert placed(change(old, new, 5)).places == ("slow.cu:6",)
    assert "2 places" in misfit(change(old, new, 10))


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        pytest.param(
            change("    if (i < n) {\n        y[i] = a * x[i] + z[i];", "x"),
            "It has no line 'y[i] = a * x[i] + z[i];'.\nThe nearest lines:\n6|     const int i = b",
            id="one line is right",
        ),
        pytest.param(change("y[i] *= b;", "x"), "\n15|     if (i < n) y[i] *= a;", id="similar"),
        pytest.param(change("nothing(like)", "x", 9), "\n8|         y[i] = a", id="at the line"),
        pytest.param(change("qqq", "x"), "write all of them.", id="nowhere"),
        pytest.param(
            change("    if (i < n) {\n    // ...\n    }", "x"), '`old` has "..."', id="dots"
        ),
        pytest.param(change(OLD, "    if (i < n) {\n    // ...\n    }"), '`new` has "..."', id="new"),
        pytest.param(change("", "// note", 3), "`old` is empty", id="no old lines"),
        pytest.param(change(OLD, OLD), "changes nothing", id="nothing new"),
        pytest.param(change(OLD, "    if (i < n) {\n"), "leave 1 brace(s) open", id="a brace lost"),
        pytest.param(
            change("int a;", "int b;", file="gone.h"), "No file 'gone.h' with the old", id="no file"
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_the_nearest_lines(said: RawChange, quoted: str) -> None:
    assert quoted in misfit(said)


def test_changes_must_not_overlap(wording) -> None:
    message = misfit(change(OLD, NEW), change(OLD, NEW + "// 2\n"))
    wording(message)


def test_braces_opened_by_one_change_and_closed_by_another_are_whole() -> None:
    one = change("    if (i < n) y[i] *= a;", '    if (i < n) {  // "{"\n        y[i] *= a;')
    two = change(OLD, OLD.replace("    }\n", "    }}\n"))
    assert len(placed(one, two).places) == 2


@each_row(
    "name",
    ["slow.cu", "./slow.cu", "demo/slow.cu", "b/slow.cu", "/work/demo/slow.cu", "", "other.cu"],
)
def test_a_file_is_found_by_any_of_its_names(name: str) -> None:
    assert placed(change(OLD, NEW, file=name)).files == {"/work/demo/slow.cu": CHANGED}


def test_two_files_of_one_name(folder: Path) -> None:
    files = {"/p/one/k.h": "int a = 1;\n", "/p/two/k.h": "int b = 1;\n"}
    said = change("int b = 1;", "int b = 2;", file="k.h")
    assert list(placed(said, files=files).files) == ["/p/two/k.h"]
    both = placed(said, change("int a = 1;", "int a;", file="k.h"), files=files)
    assert both.root == "/p"
    check_with_git(both, folder)
    files["/p/two/k.h"] += "int a = 1;\n"
    assert "one/k.h, two/k.h" in misfit(change("int a = 1;", "x", file="k.h"), files=files)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a;\nb;", "b;", "c;", "a;\nc;"),
        ("a;\nb;", "a;", "c;", "c;\nb;"),
        ("a;\nb;", "b;", "b;\nc;", "a;\nb;\nc;"),
        ("a;\nb;", "b;", "", "a;"),
        ("a;\nb;\n", "a;\nb;\n", "", ""),
        ("a;\r\nb;", "b;", "b;\nc;", "a;\r\nb;\r\nc;"),
        ("a;\x0cx\nb;\n", "b;", "c;", "a;\x0cx\nc;\n"),
        ("a;\u2028x\nb;\n", "b;", "c;", "a;\u2028x\nc;\n"),
        ("\udcffa;\nb;\n", "b;", "c;", "\udcffa;\nc;\n"),
    ],
)
def test_ends_of_files_and_odd_characters(
    text: str, old: str, new: str, expected: str, folder: Path
) -> None:
    patch = placed(change(old, new, file="k.txt"), files={"k.txt": text})
    assert patch.files == {"k.txt": expected}
    check_with_git(patch, folder)


@pytest.mark.parametrize(
    "name", ["my kernel.cu", 'quo"ted.cu', "back\nline.cu", "tab\t.cu", "ü.cu"]
)
def test_odd_file_names_apply(name: str, folder: Path) -> None:
    patch = placed(change(OLD, NEW, file=f"/p/{name}"), files={f"/p/{name}": SAXPY})
    check_with_git(patch, folder)


@each_row(
    ("paths", "root", "names"),
    [
        (["/a/b/k.cu"], "/a/b", ["k.cu"]),
        (["k.cu"], "", ["k.cu"]),
        (["C:\\work\\src\\k.cu", "C:\\work\\k.h"], "/C/work", ["src/k.cu", "k.h"]),
        (["/a/b/../c/k.cu"], "/a/c", ["k.cu"]),
        (["../../etc/passwd"], "", ["passwd"]),
        (["/a/k.h", "../k.h"], "", ["a/k.h", "k.h"]),
    ],
)
def test_names_in_a_diff_stay_in_the_folder(paths: list[str], root: str, names: list[str]) -> None:
    assert diff_names(paths) == (root, dict(zip(paths, names)))


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a" * 200_000 + "\n", "a" * 5000),
        ("a b\n" * 50_000, "a b\n" * 300 + "c\n"),
        ("x = y;\n" * 20_000, "x = z;\n" * 300),
        ("/*" * 100_000, "/*" * 1000 + "\nq"),
        ("...\n" * 5000, "...\n...\n"),
        ("\n" * 1000, "\n\n\n"),
    ],
)
@pytest.mark.slow
def test_texts_made_to_be_slow_are_answered(text: str, old: str) -> None:
    """None makes it fail. How the time grows with the text, `make bench` tells."""
    found = place(change(old, "new", file="k.cu"), files={"k.cu": text})
    assert len(found if isinstance(found, Misfit) else "") <= 1600


LINES = st.lists(st.sampled_from(["a;", "  b;", "", "{", "}", "c = d;", "\te;"]), max_size=12)


@given(LINES, LINES, LINES, LINES, st.booleans())
def test_any_lines_are_replaced_or_refused(
    before: list[str], old: list[str], behind: list[str], new: list[str], ended: bool
) -> None:
    text = "\n".join([*before, *old, *behind]) + "\n" * ended
    expected = "\n".join([*before, *new, *behind]) + "\n" * ended
    found = place(
        change("\n".join(old), "\n".join(new), len(before) + 1, file="k.txt"), files={"k.txt": text}
    )
    if isinstance(found, Patch):
        assert "".join(found.files["k.txt"].split()) == "".join(expected.split())


@each_row("sample", sorted(p.parent.name for p in SAMPLES.glob("*/slow.cu")))
def test_each_line_of_a_sample_can_be_edited_through_its_listing(sample: str) -> None:
    """As a model sees it: numbered, and with tabs as spaces."""
    path = SAMPLES / sample / "slow.cu"
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for n in [n for n, line in enumerate(lines, 1) if line.strip().endswith(";")][::7]:
        old = f"{n}| {lines[n - 1].expandtabs(4)}"
        patch = placed(change(old, f"{old}  // seen"), files={str(path): text})
        assert patch.files[str(path)].splitlines()[n - 1] == f"{lines[n - 1]}  // seen"


def recorded() -> list[tuple[str, list[RawChange]]]:
    """Edits of capable models on samples: sketches from before edits had to apply, then edits."""
    sketches = json.loads((ROOT / "tests/data/model_edits.json").read_text(encoding="utf-8"))
    edits = [
        (each["sample"], [change("", "", each["line"], diff=each["code"], file=each["file"])])
        for each in sketches
    ]
    for path in sorted((ROOT / "tests" / "transcripts").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            text = json.loads(line).get("text") or ""
            for edit in json.loads(text).get("edits", []) if text.startswith("{") else ():
                edits.append((path.stem, [RawChange(**each) for each in edit["changes"]]))
    return edits


def test_edits_that_models_wrote_apply(folder: Path) -> None:
    """All but two sketches: one has no place for its lines, one a remark among the old lines."""
    failed = []
    for sample, changes in recorded():
        suffixes = (".cu", ".h", ".py")
        files = {
            str(path): path.read_text(encoding="utf-8")
            for path in (SAMPLES / sample).iterdir()
            if path.suffix in suffixes and (path.stem == "slow" or path.suffix == ".h")
        }
        patch = place(*changes, files=files)
        if isinstance(patch, Patch):
            check_with_git(patch, folder)
        else:
            failed.append(sample)
    assert len(recorded()) == 18
    assert failed == ["sparse_apply", "xs_lookup"]
