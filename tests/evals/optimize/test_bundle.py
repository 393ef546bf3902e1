"""The folder for the GPU machine: what is in it, and what is counted as left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evals.optimize import bundle as module
from evals.optimize.bundle import SCRIPT, collect, write_bundle
from evals.optimize.problems import load_problems
from evals.optimize.prompts import RULES, prompts
from evals.runs import Answer, Prompt, Run, RunFolder, now
from keet.cli import main
from keet.errors import NotAvailable, UsageError
from kernels_samples.samples import HERE, load_sample
from tests.rows import each_row

SAMPLES = ("gas_state", "matrix_flip")


def program(sample: str) -> str:
    return (HERE / sample / "slow.cu").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return a_run(tmp_path / "run")


def a_run(path: Path, task: str = "optimize") -> RunFolder:
    made = list(prompts([load_sample(HERE / name) for name in SAMPLES], ["none", "keet"]))
    run = Run(
        task=task,  # type: ignore[arg-type]
        created=now(),
        keet="7.7",
        prompt_version="v1",
        conditions=("none", "keet"),
        samples=SAMPLES,
    )
    return RunFolder.create(path, run, made)


def answer(folder: RunFolder, prompt: Prompt, text: str, model: str = "m", **more: str) -> None:
    folder.add(
        Answer(
            id=prompt.id,
            model=model,
            date=now(),
            keet="7.7",
            prompt_version="v1",
            text=text,
            **more,
        )  # type: ignore[arg-type]
    )


@pytest.fixture
def answered(folder: RunFolder) -> RunFolder:
    """Two models; one refuses once, one fails once."""
    first, second, third, _ = folder.prompts
    for model in ("openai:gpt x/1", "m"):
        answer(folder, first, f"```cuda\n{program('gas_state')}```", model)
        answer(folder, third, program("matrix_flip"), model)
    answer(folder, second, "I would rather not.")
    answer(folder, second, "", "openai:gpt x/1", error="too long")
    return folder


def read(target: Path) -> dict[str, object]:
    return json.loads((target / "manifest.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_programs_of_all_models_are_carried_and_the_others_are_counted(
    answered: RunFolder,
    wording,
) -> None:
    found = collect(answered)
    assert [(c.model, c.id) for c in found.candidates] == [
        ("m", "optimize.gas_state.none.1"),
        ("m", "optimize.matrix_flip.none.1"),
        ("openai:gpt x/1", "optimize.gas_state.none.1"),
        ("openai:gpt x/1", "optimize.matrix_flip.none.1"),
    ]
    wording([(w.model, w.why) for w in found.without_code])


def test_a_program_for_another_prompt_is_left_out_of_the_bundle(folder: RunFolder, wording) -> None:
    answer(folder, folder.prompts[0], program("gas_state"), prompt_digest="0" * 12)
    found = collect(folder)
    assert found.candidates == []
    wording(found.without_code[0].why)


def test_names_of_files_are_safe_and_unique(answered: RunFolder) -> None:
    files = [candidate.file for candidate in collect(answered).candidates]
    assert len(set(files)) == 4
    for file in files:
        place, name = file.split("/")
        assert place == "candidates"
        assert name.replace(".", "").replace("_", "").replace("-", "").isalnum()
        assert len(name) < 120


def test_models_that_differ_in_signs_alone_do_not_share_a_file() -> None:
    one, other = (module.Candidate("a", "a", model, "") for model in ("x/y", "x:y"))
    assert one.file != other.file


def test_the_folder_holds_all_that_the_machine_needs(answered: RunFolder, tmp_path: Path) -> None:
    target = tmp_path / "out"
    write_bundle(answered, target, "sm_90")
    assert (target / SCRIPT).read_bytes() == (module.GPU / SCRIPT).read_bytes()
    assert {path.name for path in (target / "harness").iterdir()} >= {"harness.h", "referee.cu"}
    assert (target / "scorer" / "__main__.py").is_file()
    here = {path.name for path in (target / "samples" / "gas_state").iterdir()}
    assert here == {"slow.cu", "problem.cu", "problem.h", "state_math.h"}
    told = read(target)
    assert (told["schema_version"], told["arch"]) == (1, "sm_90")
    for each in told["candidates"]:  # type: ignore[attr-defined]
        text = (target / each["file"]).read_text(encoding="utf-8")
        assert text == program(each["sample"])
    assert not list(target.rglob("fast.cu"))
    assert not list(target.rglob("sample.toml"))
    assert not list(target.rglob("__pycache__"))


def test_the_manifest_says_what_the_floor_rests_on(answered: RunFolder, tmp_path: Path) -> None:
    write_bundle(answered, tmp_path / "out", "native")
    told = read(tmp_path / "out")["samples"]["matrix_flip"]  # type: ignore[index]
    facts = load_problems()["matrix_flip"]
    assert told["compulsory_bytes"] == facts.compulsory_bytes == 2 * 8192 * 8192 * 4
    assert told["compulsory_flops"] == facts.compulsory_flops
    assert (told["headers"], told["flags"]) == ([], [])


def test_the_script_knows_every_pipe_of_every_floor() -> None:
    from evals.optimize.gpu.scorer.floor import FLOPS_A_CLOCK

    told = [module._floor(facts)["compulsory_flops"] for facts in load_problems().values()]
    assert {pipe for flops in told for pipe in flops} <= set(FLOPS_A_CLOCK)
    assert any(told)


def test_the_script_refuses_no_baseline_and_nothing_that_the_rules_allow() -> None:
    from evals.optimize.gpu.scorer.source import source_refusal

    own = ("state_math.h",)
    names = re.findall(r"`([\w./]+\.h)`", RULES)
    allowed = "".join(f"#include <{name}>\n" for name in names)
    assert len(names) >= 6
    assert source_refusal(allowed + "__device__ float room[1 << 20];\n", own) is None
    for sample in load_problems():
        assert source_refusal(program(sample), own) is None, sample


@each_row("code", ['printf("x");', 'extern "C" void f();', "#include <fstream>"])
def test_what_the_rules_forbid_is_refused(code: str) -> None:
    from evals.optimize.gpu.scorer.source import source_refusal

    assert source_refusal(f"{code}\n") is not None


def test_a_missing_minimum_time_is_not_zero() -> None:
    assert module._floor(None)["compulsory_bytes"] is None


def test_a_bundle_without_answers_or_into_a_used_folder_is_refused(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="let a model answer first"):
        write_bundle(folder, tmp_path / "out", "native")
    answer(folder, folder.prompts[0], program("gas_state"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "measured.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="is there already; name a new folder"):
        write_bundle(folder, tmp_path / "full", "native")
    with pytest.raises(UsageError, match=r"full/measured\.json/x cannot be made \(.*\); name ano"):
        write_bundle(folder, tmp_path / "full" / "measured.json" / "x", "native")
    with pytest.raises(UsageError, match="a run of mcq, which writes no programs"):
        collect(a_run(tmp_path / "mcq", "mcq"))
    monkeypatch.setattr(module, "GPU", tmp_path)
    with pytest.raises(NotAvailable, match="run this in a whole clone"):
        write_bundle(folder, tmp_path / "out", "native")


def test_the_command_says_what_to_run_there(
    answered: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    out = str(tmp_path / "a folder")
    assert main(["eval", "bundle", str(answered.path), "-o", out, "--arch", "sm_90a"]) == 0
    said = capsys.readouterr()
    assert "4 programs in" in said.out
    assert "cd 'a folder' && python3 score_candidates.py . -o measured.json" in said.out
    wording(said.err)
    assert main(["eval", "bundle", str(answered.path), "-o", out, "--arch", "sm_90; rm"]) == 2
    assert "is no architecture" in capsys.readouterr().err
