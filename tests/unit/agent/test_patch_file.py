"""All edits of an explanation as one patch that `git apply` accepts."""

import difflib
import subprocess
from functools import cache
from pathlib import Path

import pytest

from keet.agent.edits.patch_making import patch_file
from keet.documents.model_explanation import EditDocument
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.ingest import read_profile
from tests import model_parts

SAMPLE = Path("kernels_samples/column_physics")
SOURCE = (SAMPLE / "slow.cu").read_text(encoding="utf-8")
FALL, EVAPORATION, MASS = "0.02f", "0.05f", "    float mass[kClasses];\n"


def diff_of(old: str, new: str) -> str:
    """With counts in all hunk headers, as keet writes them."""
    texts = [text.splitlines(keepends=True) for text in (SOURCE, SOURCE.replace(old, new, 1))]
    assert texts[0] != texts[1]
    return "".join(difflib.unified_diff(*texts, "a/slow.cu", "b/slow.cu"))


def edit(diff: str, build: str = "compiles", problem: str | None = None) -> EditDocument:
    parts = {"places": ("slow.cu:1",), "problem": problem, "build": build, "build_text": "text"}
    return model_parts.edit(None, diff=diff, **parts)


@cache
def explained() -> Explanation:
    profile = read_profile(SAMPLE / "slow.ncu-rep")
    return explain(profile, profile.launches, 5)


def with_edits(*edits: EditDocument) -> Explanation:
    told = explained()
    said = model_parts.said(edits=edits)
    launches = tuple(each._replace(model_explanation=said) for each in told.launches)
    return told._replace(launches=launches)


def applied(diff: str, folder: Path) -> str:
    (folder / "slow.cu").write_text(SOURCE, encoding="utf-8")
    (folder / "fix.patch").write_text(diff, encoding="utf-8")
    subprocess.run(["git", "apply", "fix.patch"], cwd=folder, check=True, capture_output=True)
    return (folder / "slow.cu").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return tmp_path


def test_edits_are_combined(folder: Path) -> None:
    """Two lines next to each other, and one further down."""
    made = patch_file(
        with_edits(
            edit(diff_of(FALL, "0.03f")),
            edit(diff_of(EVAPORATION, "0.06f"), "not checked"),
            edit(diff_of(MASS, "    float* mass;\n")),
        )
    )
    assert (made.edits, made.left_out) == (3, ())
    expected = SOURCE.replace(FALL, "0.03f", 1).replace(EVAPORATION, "0.06f", 1)
    assert applied(made.diff, folder) == expected.replace(MASS, "    float* mass;\n", 1)


def test_an_edit_of_the_same_lines_is_skipped(folder: Path) -> None:
    first, second = edit(diff_of(FALL, "0.03f")), edit(diff_of(FALL, "0.04f"))
    made = patch_file(with_edits(first, second, first))
    assert made.edits == 2  # the same edit twice is no conflict
    ((left, reason),) = made.left_out
    assert left == second
    assert reason == "it changes the same lines as an edit before it"
    assert applied(made.diff, folder) == SOURCE.replace(FALL, "0.03f", 1)


def test_edits_that_cannot_be_written() -> None:
    sketch = edit("", "not checked", "the old lines are not there")
    broken = edit(diff_of(FALL, "0.03f"), "fails")
    other = edit(diff_of(FALL, "0.03f").replace(" of the mass", " of a mass"))
    made = patch_file(with_edits(sketch, broken, other))
    assert (made.diff, made.edits) == ("", 0)
    assert [reason for _, reason in made.left_out] == [
        "the old lines are not there",
        "it does not build: text",
        "it does not apply to the source",
    ]


def test_no_edits() -> None:
    assert patch_file(with_edits()) == ("", "", 0, ())
    assert patch_file(explained()) == ("", "", 0, ())
