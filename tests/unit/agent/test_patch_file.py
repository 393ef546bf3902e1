"""All edits of an explanation as one patch, without those whose cause is not confirmed."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from keet.agent.edits.line_matching import LineReplacement, place_changes
from keet.agent.edits.patches import UNCONFIRMED, Patch, patch_file, with_patch
from keet.documents.model_explanation import ClaimDocument, EditDocument, ModelEdit
from keet.evidence import Prose
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.report import read_profile
from tests import model_parts
from tests.rows import each_row

SAMPLE = Path("kernels_samples/column_physics")
SOURCE = (SAMPLE / "slow.cu").read_text(encoding="utf-8")
FALL, EVAPORATION, MASS = "0.02f", "0.05f", "    float mass[kClasses];\n"


def patch_of(old: str, new: str) -> Patch:
    line = next(line for line in SOURCE.splitlines() if old.strip("\n") in line)
    change = LineReplacement("slow.cu", line, f"{line}\n".replace(old, new))
    patch = place_changes({"slow.cu": SOURCE}, [change])
    assert isinstance(patch, Patch), patch
    return patch


def edit(patch: Patch | None, build: str = "compiles", problem: str | None = None) -> ModelEdit:
    parts = {"places": ("slow.cu:1",), "problem": problem, "build": build, "build_text": "text"}
    made = model_parts.edit(None, diff=patch.diff if patch else "", **parts)
    return ModelEdit(**{**vars(made), "patch": patch})


@cache
def explained() -> Explanation:
    profile = read_profile(SAMPLE / "slow.ncu-repz")
    return explain(profile, profile.launches, 5)


def with_edits(*edits: EditDocument) -> Explanation:
    told = explained()
    said = model_parts.said(edits=edits)
    launches = tuple(replace(each, model=said) for each in told.launches)
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
            edit(patch_of(FALL, "0.03f")),
            edit(patch_of(EVAPORATION, "0.06f"), "not checked"),
            edit(patch_of(MASS, "    float* mass;\n")),
        )
    )
    assert (made.edits, made.left_out) == (3, ())
    expected = SOURCE.replace(FALL, "0.03f", 1).replace(EVAPORATION, "0.06f", 1)
    assert applied(made.patch.diff, folder) == expected.replace(MASS, "    float* mass;\n", 1)


def test_an_edit_of_the_same_lines_is_skipped(folder: Path, wording) -> None:
    first, second = edit(patch_of(FALL, "0.03f")), edit(patch_of(FALL, "0.04f"))
    made = patch_file(with_edits(first, second, first))
    assert made.edits == 2  # the same edit twice is no conflict
    assert [left for left, _ in made.left_out] == [second]
    wording([reason for _, reason in made.left_out])
    assert applied(made.patch.diff, folder) == SOURCE.replace(FALL, "0.03f", 1)


def test_edits_that_cannot_be_written(wording) -> None:
    sketch = edit(None, "not checked", "the old lines are not there")
    broken = edit(patch_of(FALL, "0.03f"), "fails")
    made = patch_file(with_edits(sketch, broken))
    assert (made.patch.diff, made.edits) == ("", 0)
    wording([reason for _, reason in made.left_out])
    assert patch_file(with_edits()).edits == patch_file(explained()).edits == 0


def claim(supported: bool) -> ClaimDocument:
    parts = dict.fromkeys(("gain", "forecast", "next_limiter", "floor"))
    return ClaimDocument(supported=supported, reason="", **parts)  # type: ignore[arg-type]


@each_row(
    ("finding", "confirmed"),
    [("of_keet", True), ("supported", True), ("bare", False), ("refuted", False), (None, False)],
)
def test_only_a_confirmed_cause_brings_an_edit_into_the_patch(
    finding: str | None, confirmed: bool
) -> None:
    causes = (
        model_parts.cause("supported", Prose(), claim=claim(True)),
        model_parts.cause("bare", Prose(), claim=claim(False)),
        model_parts.cause("refuted", Prose(), claim=claim(True), problem="it is not so"),
    )
    edits = tuple(
        ModelEdit(**{**vars(edit(patch_of(FALL, new))), "finding": name})
        for name, new in ((finding, "0.03f"), ("of_keet", "0.04f"))
    )
    told = with_patch(model_parts.said(causes=causes, edits=edits), ["of_keet"])
    overlap = "it changes the same lines as an edit before it"
    marks = [(each.in_patch, each.cause_confirmed) for each in told.edits]
    assert marks == [(confirmed, confirmed), (not confirmed, True)]
    reasons = [each.not_in_patch for each in told.edits]
    assert reasons == ([None, overlap] if confirmed else [UNCONFIRMED, None])
    every = explained()
    whole = every._replace(launches=(replace(every.launches[0], model=told),))
    assert patch_file(whole).edits == 1
    assert patch_file(whole, confirmed=False).edits == (not confirmed)
