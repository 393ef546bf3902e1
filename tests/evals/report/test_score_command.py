"""`keet eval score`: where measurements come from, and what is left in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from evals.commands import score as command
from evals.optimize import measurements
from evals.optimize.measured_file import read_machines
from evals.optimize.scoring import OptimizeScore
from evals.runs import CUT, Answer, Prompt, Run, RunFolder, read_lines
from keet.errors import NotAvailable, UsageError
from kernels_samples.samples import HERE

ID = "optimize.matrix_flip.none.1"
RESULT = {"id": ID, "model": "m:m", "sample": "matrix_flip", "status": "PASSED", "speedup": 4.0}
MEASURED = json.dumps({"schema_version": 1, "results": [RESULT]})


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "can_measure", lambda: False)
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 400)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = Run(
        task="optimize",
        created="2026-01-01",
        keet="7.7",
        prompt_version="v",
        conditions=("none",),
        samples=("matrix_flip",),
    )
    prompt = Prompt(id=ID, sample="matrix_flip", condition="none", system="s", user="u")
    return RunFolder.create(tmp_path / "run", run, [prompt])


@pytest.fixture
def answered(folder: RunFolder) -> RunFolder:
    code = (HERE / "matrix_flip" / "fast.cu").read_text()
    text = f"```cuda\n{code}```"
    folder.add(Answer(id=ID, model="m:m", date="d", keet="7.7", prompt_version="v", text=text))
    return folder


def scored(folder: RunFolder, *arguments: object) -> list[OptimizeScore]:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    command.run(parser.parse_args([str(folder.path), *map(str, arguments)]))
    return list(read_lines(folder.path / "scores.jsonl", OptimizeScore))


def test_a_named_file(
    answered: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "there.json"
    file.write_text(MEASURED)
    assert [each.speedup for each in scored(answered, "--measured", file)] == [4]
    told = capsys.readouterr()
    assert "4.00 (4.00 to 4.00)" in told.out
    assert told.err.startswith("1 scores in ")


def test_a_file_in_the_run_is_found(answered: RunFolder) -> None:
    (answered.path / "measured.json").write_text(MEASURED)
    assert [each.speedup for each in scored(answered)] == [4]


def test_without_gpu_and_file_it_says_how(answered: RunFolder) -> None:
    with pytest.raises(
        NotAvailable, match=r"keet eval bundle .* -o FOLDER, or name its result"
    ) as e:
        scored(answered)
    assert e.value.exit_code == 3
    assert not (answered.path / "scores.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [("I would use shared memory.", None), ("", CUT), ("", "the model said nothing")],
)
def test_answers_without_a_program_need_no_measurement(
    folder: RunFolder, text: str, error: str | None
) -> None:
    folder.add(
        Answer(id=ID, model="m:m", date="d", keet="7.7", prompt_version="v", text=text, error=error)
    )
    assert [each.status for each in scored(folder)] == ["COMPILE_ERROR"]


def test_the_machine_stays_with_the_scores(answered: RunFolder) -> None:
    document = {**json.loads(MEASURED), "machine": {"gpu": "H200"}, "settings": {"rounds": 7}}
    (answered.path / "measured.json").write_text(json.dumps(document))
    scored(answered)
    assert [(m.gpu, m.rounds, m.results) for m in read_machines(answered.path)] == [("H200", 7, 1)]


def test_existing_scores_survive_an_empty_measurement(answered: RunFolder, tmp_path: Path) -> None:
    (answered.path / "measured.json").write_text(MEASURED)
    scored(answered)
    before = {path.name: path.read_bytes() for path in answered.path.iterdir()}
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"schema_version": 1, "results": []}))
    said = "none of 1 attempts is scored: 1 not measured yet; .*scores.jsonl is left as it was$"
    with pytest.raises(UsageError, match=said):
        scored(answered, "--measured", empty)
    assert {path.name: path.read_bytes() for path in answered.path.iterdir()} == before


def test_nothing_scored_is_said_without_one_answers_details(
    answered: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"schema_version": 1, "results": []}))
    scored(answered, "--measured", empty)
    told = capsys.readouterr().out
    wording(told)


def test_without_answers_it_says_so(folder: RunFolder) -> None:
    with pytest.raises(UsageError, match="has no answer yet; ask: keet eval ask"):
        scored(folder)


def test_with_a_gpu_programs_are_measured_here(
    answered: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a script that measures nothing, and finds what the real one is given."""

    def write(folder: RunFolder, target: Path, arch: str) -> None:
        target.mkdir()
        text = f"import sys, pathlib\nassert sys.argv[2] == '-o'\npathlib.Path(sys.argv[3]).write_text({MEASURED!r})\n"
        (target / "score_candidates.py").write_text(text)

    monkeypatch.setattr(measurements, "can_measure", lambda: True)
    monkeypatch.setattr("evals.optimize.bundle.write_bundle", write)
    assert [each.speedup for each in scored(answered)] == [4]
    assert [each.speedup for each in scored(answered)] == [4]  # the bundle is made anew


def test_a_script_that_fails_is_not_silent(
    answered: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: RunFolder, target: Path, arch: str) -> None:
        target.mkdir()
        (target / "score_candidates.py").write_text("raise SystemExit(7)")

    monkeypatch.setattr(measurements, "can_measure", lambda: True)
    monkeypatch.setattr("evals.optimize.bundle.write_bundle", write)
    with pytest.raises(
        NotAvailable, match="ended with status 7 and measured nothing; run it by hand"
    ):
        scored(answered)


def test_an_aborted_script_is_not_taken_for_a_finished_one(
    answered: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: RunFolder, target: Path, arch: str) -> None:
        target.mkdir()
        (target / "score_candidates.py").write_text("raise SystemExit(3)")

    (answered.path / "measured.json").write_text(MEASURED)
    monkeypatch.setattr(measurements, "can_measure", lambda: True)
    monkeypatch.setattr("evals.optimize.bundle.write_bundle", write)
    with pytest.raises(NotAvailable, match=r"ended with status 3; .* --measured .*measured\.json"):
        scored(answered)


@pytest.mark.parametrize(
    ("listing", "there"), [("GPU 0: NVIDIA H200", True), ("No devices were found", False)]
)
def test_a_gpu_is_one_that_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str, there: bool
) -> None:
    monkeypatch.undo()
    for name, said in (("nvcc", ""), ("nvidia-smi", listing)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{said}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert measurements.can_measure() is there
    (tmp_path / "nvcc").unlink()
    assert measurements.can_measure() is False


def test_a_driver_that_hangs_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in ("nvcc", "nvidia-smi"):
        (tmp_path / name).write_text("#!/bin/sh\nexec /bin/sleep 20\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(measurements, "_ANSWER", 0.2)
    assert measurements.can_measure() is False


def test_a_bundle_that_cannot_be_removed_is_reported(answered: RunFolder) -> None:
    (answered.path / "gpu").write_text("")
    with pytest.raises(NotAvailable, match=r"gpu cannot be removed \(not a directory\); remove it"):
        measurements.measure(answered)
