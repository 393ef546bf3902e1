"""The prompts of optimize: the same but for the context, and with nothing that gives away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evals.contexts import context
from evals.optimize import prompts as module
from evals.optimize.prompts import prompt_version, prompts, sizes_of, task_facts, user_text
from evals.runs import CONDITIONS, RunFolder, digest
from keet.cli import main
from keet.errors import UsageError
from kernels_samples.samples import HERE, Sample, load_sample, load_samples
from tests.rows import each_row

CUDA = [each for each in load_samples() if each.language == "cuda"]


def sample(name: str) -> Sample:
    return load_sample(HERE / name)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["raw", "keet"])
def test_conditions_differ_in_their_context_alone(condition: str) -> None:
    for each in CUDA:
        without = user_text(each, "none")
        shown = context(each, "slow", condition).strip()  # type: ignore[arg-type]
        section = module.PROFILE.format(context=shown) + "\n\n"
        assert shown
        assert user_text(each, condition).replace(section, "", 1) == without  # type: ignore[arg-type]


def test_no_prompt_names_its_condition_or_the_others() -> None:
    for each in CUDA:
        words = user_text(each, "none") + module.SYSTEM + module.PROFILE
        assert not re.search(
            r"\b(?:keet|ncu|nsight|baseline|condition|planted|sample)\b", words, re.I
        )
        assert str(HERE) not in words


def test_the_truth_is_in_no_prompt() -> None:
    for each in CUDA:
        words = user_text(each, "none")
        told = [each.truth.dominant, *each.truth.others, each.truth.why, each.truth.fix]
        assert not [text for text in told if text in words]
        assert "fast.cu" not in words
        assert "sample.toml" not in words


@each_row(
    ("name", "secret"),
    [
        ("sparse_apply", "600 k"),
        ("tile_scores", "144"),
        ("cell_update", "0.13"),
        ("lookup_records", "one array each"),
        ("decay_ratios", "divisions"),
    ],
)
def test_sizes_do_not_tell_what_the_profile_is_there_to_show(name: str, secret: str) -> None:
    assert secret in sample(name).problem
    assert secret not in sizes_of(sample(name))


def test_every_task_says_its_tolerance_as_the_check_has_it() -> None:
    assert set(task_facts()) == {each.name for each in CUDA}
    for each in CUDA:
        check = (each.folder / "problem.cu").read_text(encoding="utf-8")
        told = task_facts()[each.name].tolerance
        for number in re.findall(r"\d+e-\d+", told):
            assert re.search(rf"\{{[^{{}}]*\b{number}\b[^{{}}]*\}}", check), (each.name, number)
        checked = set(re.findall(r"check\([^;]*?problem\.(\w+)", check))
        named = set(re.findall(r"\w+", told))
        assert checked - {"problem"} <= named, each.name
        assert ("exact" in told) == ("{0, 0}" in check), each.name


def test_a_prompt_holds_all_that_is_needed() -> None:
    text = user_text(sample("gas_state"), "none")
    for part in ("state_math.h", "void launch(const Problem& problem);", "NVIDIA H200", "132 SMs"):
        assert part in text
    assert "8 000 000 cells" in text
    assert "-arch=sm_90" in text
    assert "1e-5 * |expected|" in text
    assert "{" not in module.RULES.format(
        source="", headers="", build="", tolerance=""
    )  # no field was forgotten


def test_attempts_are_the_same_words_under_ids_of_their_own() -> None:
    made = list(prompts([sample("matrix_flip")], ["none", "keet"], attempts=2))
    assert [prompt.id for prompt in made] == [
        "optimize.matrix_flip.none.1",
        "optimize.matrix_flip.none.2",
        "optimize.matrix_flip.keet.1",
        "optimize.matrix_flip.keet.2",
    ]
    assert made[0].user == made[1].user != made[2].user


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(UsageError, match="softmax_rows is written in triton"):
        user_text(sample("softmax_rows"), "none")
    with pytest.raises(UsageError, match="no condition blind; choose from none"):
        user_text(sample("matrix_flip"), "blind")


def test_another_template_text_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = prompt_version()
    monkeypatch.setattr(module, "RULES", module.RULES + " ")
    assert prompt_version() != before


def test_the_command_makes_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    run = str(tmp_path / "run")
    names = ["--samples", "matrix_flip,key_count", "--conditions", "keet,none"]
    assert main(["eval", "prompts", "optimize", run, *names, "--attempts", "2"]) == 0
    said = capsys.readouterr().out
    assert "none       4 prompts, about" in said
    assert f"keet eval ask {run}" in said
    folder = RunFolder(tmp_path / "run")
    assert folder.run.prompt_version == prompt_version()
    assert folder.run.conditions == ("none", "keet")
    assert len(folder.prompts) == 8
    assert main(["eval", "prompts", "optimize", run, *names]) == 2
    wording(capsys.readouterr().err)


def test_a_run_says_which_explanations_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "matrix_flip.md").write_text("Tiles.\n", encoding="utf-8")
    (tmp_path / "key_count.md").write_text("of no sample of this run", encoding="utf-8")
    run, named = str(tmp_path / "run"), ["--samples", "matrix_flip"]
    agent = ["--conditions", "none,agent", "--explanations", str(tmp_path)]
    assert main(["eval", "prompts", "optimize", run, *named, *agent]) == 0
    folder = RunFolder(tmp_path / "run")
    assert folder.run.options == {"explanations": {"matrix_flip": digest("Tiles.\n")}}
    assert len({prompt.digest for prompt in folder.prompts}) == 2
    assert main(["eval", "prompts", "optimize", str(tmp_path / "bare"), *named]) == 0
    assert RunFolder(tmp_path / "bare").run.options == {}


def test_another_explanation_is_another_prompt_of_the_same_version(tmp_path: Path) -> None:
    def made(text: str) -> str:
        (tmp_path / "matrix_flip.md").write_text(text, encoding="utf-8")
        (prompt,) = prompts([sample("matrix_flip")], ["agent"], explanations=tmp_path)
        return prompt.digest

    assert made("one") != made("other")
    assert made("one") == made("one")


@pytest.mark.parametrize("place", ["notes.txt", "notes.txt/run", "."])
def test_a_place_that_is_no_new_folder_is_refused_in_one_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    path = tmp_path / place
    assert main(["eval", "prompts", "optimize", str(path), "--samples", "matrix_flip"]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert said.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--samples", "no_such"], "there is no sample 'no_such'"),
        (["--samples", "token_mix"], "token_mix is written in triton"),
        (["--conditions", "wrong"], "is no condition; there are blind"),
        (["--conditions", "none,blind"], "optimize has no condition blind"),
        (["--conditions", "agent"], "needs --explanations DIR"),
        (["--explanations", "x"], "is for the condition agent"),
        (["--questions", "3"], "optimize has no questions"),
        (["--samples", ","], "no name"),
    ],
)
def test_meaningless_option_combinations_are_refused(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [] if "--samples" in options else ["--samples", "matrix_flip"]
    assert main(["eval", "prompts", "optimize", str(tmp_path / "run"), *named, *options]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert "blind" in CONDITIONS
