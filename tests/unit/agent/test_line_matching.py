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
LINE, BETTER = SAXPY.splitlines()[7], "        y[i] = fmaf(a, x[i], y[i]);"
OLD = f"    if (i < n) {{\n{LINE}\n    }}\n"
NEW = OLD.replace(LINE, BETTER)
CHANGED = SAXPY.replace(LINE, BETTER)
DIFF = f"""\
--- a/demo/slow.cu
+++ b/demo/slow.cu
@@ -{{line}},7 +{{line}},7 @@ __global__ void saxpy
     const int i = blockIdx.x * blockDim.x + threadIdx.x;
     if (i < n) {{{{
-{LINE}
+{BETTER}
     }}}}
 }}}}
"""
BODY = DIFF.format(line=6).split("@@ __global__ void saxpy\n")[1]
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


SPELLINGS = {
    "as it is": change(OLD, NEW),
    "tabs": change(OLD.replace("    ", "\t"), NEW.replace("    ", "\t")),
    "no indentation": change(OLD.replace("    ", ""), NEW.replace("    ", "")),
    "stripped": change(OLD.strip(), NEW.strip()),
    "spaces in the line": change(OLD.replace(" * ", "*"), NEW),
    "blank lines": change(OLD.replace("\n", "\n\n"), NEW),
    "fences": change(f"```cuda\n{OLD}```\n", f"```cuda\n{NEW}```"),
    "line numbers": change(*(f"7|     if (i < n) {{\n8| {line}" for line in (LINE, BETTER))),
    "signs": change(f"-{LINE}", f"+{BETTER}"),
    "a diff": change(diff=DIFF.format(line=6)),
    "wrong line": change(diff=DIFF.format(line=90)),
    "fenced diff": change(diff="```diff\n" + DIFF.format(line=6) + "```"),
    "no space before context": change(diff=BODY.replace("\n ", "\n")),
    "a diff as old lines": change(BODY),
    "a diff as new lines": change("", BODY),
    "a format": change(diff=f"*** Begin Patch\n*** Update File: slow.cu\n@@\n{BODY}*** End Patch"),
}


@each_row("spelling", SPELLINGS)
def test_lines_with_other_white_space_are_found(spelling: str) -> None:
    for end in ("\n", "\r\n"):
        patch = placed(SPELLINGS[spelling], files={"/work/demo/slow.cu": SAXPY.replace("\n", end)})
        assert list(patch.files.values()) == [CHANGED.replace("\n", end)]


def test_new_lines_get_the_indentation_of_a_file_with_tabs() -> None:
    """And a diff that skips lines silently is several changes."""
    files = {"k.cu": "void f() {\n\tif (a) {\n\t\tx = 1;\n\t}\n}\n"}
    new = "    if (a) {\n        if (b) {\n            x = 2;\n        }"
    patch = placed(change("    if (a) {\n        x = 1;", new, file="k.cu"), files=files)
    expected = "void f() {\n\tif (a) {\n\t\tif (b) {\n\t\t\tx = 2;\n\t\t}\n\t}\n}\n"
    assert patch.files["k.cu"] == expected
    constant = "-constexpr int kThreads = 256;\n+constexpr int kThreads = 128;\n"
    patch = placed(change(diff=f"{constant}-{LINE}\n+{BETTER}\n"))
    assert list(patch.files.values()) == [CHANGED.replace("256", "128")]


def test_lines_in_two_places_need_more_context_or_a_line() -> None:
    old, new = SAXPY.splitlines()[5], "    const int i = 1;"
    message = misfit(change(old, new))
    for part in ("2 places", "6|     const int i", "14|     const int i"):
        assert part in message
    assert placed(change(old, new, 13)).places == ("slow.cu:14",)
    assert placed(change(old, new, 5)).places == ("slow.cu:6",)
    assert "2 places" in misfit(change(old, new, 10))


ONE_RIGHT = "It has no line 'y[i] = a * x[i] + z[i];'.\nThe nearest lines:\n6|     const int i = b"
DOTS = "    if (i < n) {\n    // ...\n    }"


@each_row(
    ("said", "quoted"),
    [
        (change("    if (i < n) {\n        y[i] = a * x[i] + z[i];", "x"), ONE_RIGHT),
        (change("y[i] *= b;", "x"), "\n15|     if (i < n) y[i] *= a;"),  # similar
        (change("nothing(like)", "x", 9), "\n8|         y[i] = a"),  # at the line
        (change("qqq", "x"), "write all of them."),  # nowhere
        (change(DOTS, "x"), '`old` has "..."'),
        (change(OLD, DOTS), '`new` has "..."'),
        (change("", "// note", 3), "`old` is empty"),
        (change(OLD, OLD), "changes nothing"),
        (change(OLD, "    if (i < n) {\n"), "leave 1 brace(s) open"),
        (change("int a;", "int b;", file="gone.h"), "No file 'gone.h' with the old"),
    ],
)
def test_what_does_not_fit_is_told_with_the_nearest_lines(said: RawChange, quoted: str) -> None:
    assert quoted in misfit(said)


def test_changes_must_not_overlap(wording) -> None:
    wording(misfit(change(OLD, NEW), change(OLD, NEW + "// 2\n")))


def test_braces_opened_by_one_change_and_closed_by_another_are_whole() -> None:
    one = change("    if (i < n) y[i] *= a;", '    if (i < n) {  // "{"\n        y[i] *= a;')
    two = change(OLD, OLD.replace("    }\n", "    }}\n"))
    assert len(placed(one, two).places) == 2


def test_a_file_is_found_by_any_of_its_names() -> None:
    of_path = ("slow.cu", "./slow.cu", "demo/slow.cu", "b/slow.cu", "/work/demo/slow.cu")
    for name in (*of_path, "", "other.cu"):
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


def test_ends_of_files_odd_characters_and_names(folder: Path) -> None:
    texts = {
        "1.txt": ("a;\nb;", "b;", "c;", "a;\nc;"),
        "2.txt": ("a;\nb;", "a;", "c;", "c;\nb;"),
        "3.txt": ("a;\nb;", "b;", "b;\nc;", "a;\nb;\nc;"),
        "4.txt": ("a;\nb;", "b;", "", "a;"),
        "5.txt": ("a;\nb;\n", "a;\nb;\n", "", ""),
        "6.txt": ("a;\r\nb;", "b;", "b;\nc;", "a;\r\nb;\r\nc;"),
        "7.txt": ("a;\x0cx\nb;\n", "b;", "c;", "a;\x0cx\nc;\n"),
        "8.txt": ("a;\u2028x\nb;\n", "b;", "c;", "a;\u2028x\nc;\n"),
        "9.txt": ("\udcffa;\nb;\n", "b;", "c;", "\udcffa;\nc;\n"),
    }
    changes = [change(old, new, file=name) for name, (_, old, new, _) in texts.items()]
    patch = placed(*changes, files={name: text for name, (text, *_) in texts.items()})
    assert patch.files == {name: expected for name, (*_, expected) in texts.items()}
    check_with_git(patch, folder)
    names = [f"/p/{name}.cu" for name in ("my kernel", 'quo"ted', "back\nline", "tab\t", "ü")]
    changes = (change(OLD, NEW, file=name) for name in names)
    check_with_git(placed(*changes, files=dict.fromkeys(names, SAXPY)), folder)


def test_names_in_a_diff_stay_in_the_folder() -> None:
    for paths, root, names in (
        (["/a/b/k.cu"], "/a/b", ["k.cu"]),
        (["k.cu"], "", ["k.cu"]),
        (["C:\\work\\src\\k.cu", "C:\\work\\k.h"], "/C/work", ["src/k.cu", "k.h"]),
        (["/a/b/../c/k.cu"], "/a/c", ["k.cu"]),
        (["../../etc/passwd"], "", ["passwd"]),
        (["/a/k.h", "../k.h"], "", ["a/k.h", "k.h"]),
    ):
        assert diff_names(paths) == (root, dict(zip(paths, names)))


@pytest.mark.slow
@each_row(
    ("text", "old"),
    [
        ("a" * 200_000 + "\n", "a" * 5000),
        ("a b\n" * 20_000, "a b\n" * 300 + "c\n"),
        ("x = y;\n" * 10_000, "x = z;\n" * 300),
        ("/*" * 100_000, "/*" * 1000 + "\nq"),
        ("...\n" * 5000, "...\n...\n"),
        ("\n" * 1000, "\n\n\n"),
    ],
    ids=lambda text: text[:6],
)
def test_texts_made_to_be_slow_are_answered(text: str, old: str) -> None:
    """None makes it fail. How the time grows with the text, `make bench` tells."""
    found = place(change(old, "new", file="k.cu"), files={"k.cu": text})
    assert len(found if isinstance(found, Misfit) else "") <= 1600


LINES = st.lists(st.sampled_from(["a;", "  b;", "", "{", "}", "c = d;", "\te;"]), max_size=12)


@given(LINES, LINES, LINES, LINES, st.sampled_from(["", "\n"]))
def test_any_lines_are_replaced_or_refused(
    before: list[str], old: list[str], behind: list[str], new: list[str], end: str
) -> None:
    said = change("\n".join(old), "\n".join(new), len(before) + 1, file="k.txt")
    found = place(said, files={"k.txt": "\n".join([*before, *old, *behind]) + end})
    if isinstance(found, Patch):
        expected = "".join([*before, *new, *behind]).split()
        assert "".join(found.files["k.txt"].split()) == "".join(expected)


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
        (s["sample"], [change("", "", s["line"], diff=s["code"], file=s["file"])]) for s in sketches
    ]
    for path in sorted((ROOT / "tests" / "transcripts").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            text = json.loads(line).get("text") or ""
            for edit in json.loads(text).get("edits", []) if text.startswith("{") else ():
                edits.append((path.stem, [RawChange(**each) for each in edit["changes"]]))
    return edits


def test_edits_that_models_wrote_apply(folder: Path) -> None:
    """All but two sketches: one has no place for its lines, one a remark among the old lines."""
    failed, edits = [], recorded()
    for sample, changes in edits:
        paths = [p for p in (SAMPLES / sample).iterdir() if p.suffix in (".cu", ".h", ".py")]
        sources = [path for path in paths if path.stem == "slow" or path.suffix == ".h"]
        files = {str(path): path.read_text(encoding="utf-8") for path in sources}
        patch = place(*changes, files=files)
        if isinstance(patch, Patch):
            check_with_git(patch, folder)
        else:
            failed.append(sample)
    assert len(edits) == 18
    assert failed == ["sparse_apply", "xs_lookup"]
