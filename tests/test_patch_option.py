"""`keet explain --patch FILE` and `--no-compile`, with given edits."""

from dataclasses import replace
from pathlib import Path

import pytest

from keet.agent.edits.patches import UNCONFIRMED
from keet.documents.model_explanation import Authorship, EditDocument
from tests.conftest import Keet
from tests.model_parts import usage
from tests.unit.agent.test_patch_file import FALL, SOURCE, applied, edit, patch_of, with_edits

REPORT = "kernels_samples/column_physics/slow.ncu-repz"
AUTHOR = Authorship("openai:gpt-5", usage(1, 0, 10, 10, "unknown", 1.0), None, None)
MODEL = ("--model", "scripted:nothing.jsonl")


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> list[EditDocument]:
    """What the model suggests; a plan that was used is put behind it."""
    suggested: list[EditDocument] = []

    def explain_with_model(explanation, plan, *_):
        suggested.append(plan)
        told = with_edits(*(each for each in suggested if isinstance(each, EditDocument)))
        return told._replace(author=AUTHOR)

    monkeypatch.setattr("keet.agent.run.explain_with_model", explain_with_model)
    return suggested


def test_a_patch_is_written(edits, keet, tmp_path, monkeypatch, wording) -> None:
    edits += [edit(patch_of(FALL, "0.03f")), edit(patch_of(FALL, "0.04f"))]
    file = tmp_path / "fix.patch"
    result = keet("explain", REPORT, *MODEL, "--patch", file)
    assert result.code == 0
    wording(result.err)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert applied(file.read_text(encoding="utf-8"), tmp_path) == SOURCE.replace(FALL, "0.03f", 1)
    assert keet("explain", REPORT, *MODEL, "--patch", file).code == 0  # over another patch
    result = keet("explain", REPORT, *MODEL, "--patch", tmp_path / "no" / "fix.patch")
    assert (result.code, "can't be written" in result.err) == (2, True)


def test_edits_of_unconfirmed_causes_go_beside_the_patch(
    edits: list[EditDocument], keet: Keet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    sure, unsure = edit(patch_of(FALL, "0.03f")), edit(patch_of(FALL, "0.04f"))
    unsure = replace(unsure, cause_confirmed=False, not_in_patch=UNCONFIRMED)
    file, other = tmp_path / "fix.patch", tmp_path / "fix.unconfirmed.patch"
    edits += [unsure, sure]
    result = keet("explain", REPORT, *MODEL, "--patch", file)
    assert result.code == 0
    told = f"wrote 1 edit whose cause the report does not confirm to {other}; to apply, in "
    assert told in result.err
    for path, new in ((file, "0.03f"), (other, "0.04f")):
        text = applied(path.read_text(encoding="utf-8"), tmp_path)
        assert text == SOURCE.replace(FALL, new, 1)
    edits.remove(sure)
    file.unlink()
    result = keet("explain", REPORT, *MODEL, "--patch", file)
    assert (result.code, file.exists()) == (3, False)
    wording(result.err)


def test_nothing_to_write(edits: list[EditDocument], keet: Keet, tmp_path: Path, wording) -> None:
    file = tmp_path / "fix.patch"
    edits.append(edit(None, "not checked", "the old lines are not in slow.cu"))
    result = keet("explain", REPORT, *MODEL, "--patch", file)
    assert result.code == 3
    wording(result.err)
    assert "1. Local memory" in result.out
    assert not file.exists()


def test_compiling_is_switched_off(edits: list[EditDocument], keet: Keet) -> None:
    keet("explain", REPORT, *MODEL)
    keet("explain", REPORT, *MODEL, "--no-compile")
    assert [plan.compile for plan in edits] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--patch", "P"), 3, "--patch needs a model"),
        (("--patch", "P", "--no-model"), 2, "--no-model and --patch exclude each other"),
        (("--patch", "P", "--show-prompt"), 2, "--patch and --show-prompt exclude each other"),
        (("--patch", "D", *MODEL), 2, "is a folder"),
        (("--patch", "S", *MODEL), 2, "exists and is not a patch"),
        (("--patch", "P", "-o", "P", "--format", "json", *MODEL), 2, "-o is the same file"),
        (("--patch", "P", "--transcript", "P", *MODEL), 2, "--transcript is the same file"),
        (("R", "--patch", "P", *MODEL), 2, "--patch is for a single report"),
        (("--patch", "R", *MODEL), 2, "the report itself"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...], code: int, text: str, edits, keet, tmp_path
) -> None:
    source = tmp_path / "slow.cu"
    source.write_text(SOURCE, encoding="utf-8")
    names = {"P": tmp_path / "fix.patch", "D": tmp_path, "S": source, "R": REPORT}
    before = Path(REPORT).read_bytes()
    result = keet("explain", REPORT, *(names.get(word, word) for word in arguments))
    assert (result.code, edits, text in result.err) == (code, [], True)
    assert (source.read_text(encoding="utf-8"), names["P"].exists()) == (SOURCE, False)
    assert before == Path(REPORT).read_bytes()
