"""The steps of the engine: what is kept, told to the next round, and continued after any end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keet.agent.model.messages import ModelFault
from keet.documents.model_explanation import UsageDocument
from keet.errors import NotAvailable, UsageError
from keet.optimize.engine import Engine
from keet.optimize.journal import Journal
from keet.optimize.judging import Times
from keet.optimize.proposers import PersonProposer, Proposal, Round
from keet.optimize.runners import Request, Result
from keet.optimize.task import Limits, Waiting
from tests.unit.optimize.bench import (
    FASTER,
    KERNEL,
    Edit,
    ScriptedProposer,
    added,
    outcomes,
    replaced,
    task_of,
)
from tests.unit.optimize.fake_runner import FakeRunner

MakeEngine = Callable[..., Engine]


@pytest.fixture
def make(source: Path, tmp_path: Path) -> MakeEngine:
    """An engine for the folder `rounds`, with a proposer or the edits of one; `values` of the task."""

    def engine(*by: Any, runner: FakeRunner | None = None, **values: object) -> Engine:
        proposer = ScriptedProposer(*by) if not by or callable(by[0]) else by[0]
        task = task_of(source, **values)
        return Engine(task, tmp_path / "rounds", proposer, runner or FakeRunner())

    return engine


def story(folder: Path) -> dict[str, Any]:
    """The report without what differs between two runs: times of this machine, paths."""
    report = json.loads((folder / "report.json").read_text())
    for each in (report, *report["rounds"]):
        each.pop("seconds")
    text = json.dumps(report).replace(str(folder), "FOLDER")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    patches = [(folder / name).read_text() for name in files if name.endswith(".patch")]
    return {"report": json.loads(text), "files": files, "patches": patches}


TASK, WORK, TIMES = "# Task\n", "# How much work is needed\n", "# Where the GPU time goes\n"
FILES, ANSWER = "# Files\n", "# Answer\n"
NEW, OTHER = "// no line end", "// by the user\n"
EDITS: tuple[Edit, ...] = (
    FASTER,
    replaced("TIME=1000", "TIME=400"),
    lambda folder: (folder / "check.sh").unlink(),
)


def engine_of(source: Path, folder: Path) -> Engine:
    task = task_of(source, rounds=len(EDITS))
    return Engine(task, folder, ScriptedProposer(*EDITS), FakeRunner())


def run_killed(source: Path, folder: Path, files: int, *, is_written: bool) -> bool:
    """Runs in a process that is killed (signal 9) when it has written so many files of the journal,
    and done the work for the next one, or written that, too. False if it came to its end."""
    process = os.fork()
    if process == 0:
        write = Journal.write_file

        def write_file(self: Journal, *arguments: Any) -> None:
            nonlocal files
            files -= 1
            if files >= 0 or is_written:
                write(self, *arguments)
            if files < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        Journal.write_file = write_file  # type: ignore[method-assign]
        try:
            engine_of(source, folder).run()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent reports it
            os._exit(1)
    status = os.waitpid(process, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.slow
def test_killed_at_every_file_of_the_journal(source: Path, tmp_path: Path) -> None:
    """Before it is written, and when the run goes on, once more after it is."""
    engine_of(source, tmp_path / "whole").run()
    whole = story(tmp_path / "whole")
    for files in range(0, 100, 2):
        folder = tmp_path / f"killed_{files}"
        if not run_killed(source, folder, files, is_written=False):
            break
        run_killed(source, folder, 0, is_written=True)
        engine_of(source, folder).run()
        assert story(folder) == whole, files
        shutil.rmtree(folder)
    assert files > 20


def test_measurements_that_were_killed_leave_nothing(source: Path, tmp_path: Path) -> None:
    """The script writes beside the result until it is whole."""

    class Killed(FakeRunner):
        def measure(self, request: Request, target: Path) -> Result:
            for name in ("request.result", "request.result.0a1b2c3d.partial"):
                (target.with_name(name) / "before.records").mkdir(parents=True)
            return super().measure(request, target)

    task = task_of(source, rounds=2)
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    Engine(task, tmp_path / "rounds", proposer, Killed()).run()
    left = [path for path in (tmp_path / "rounds").rglob("*") if path.name.startswith("request")]
    assert [path.name for path in left if path.suffix != ".json"] == []


def test_what_earlier_rounds_did_is_told(make: MakeEngine) -> None:
    """The work that is needed comes before the limits."""
    proposer = ScriptedProposer(FASTER, replaced("42.0", "41.0"), added("X=1"), FASTER)
    assert outcomes(make(proposer, rounds=3).run()) == ["kept", "wrong", "no_gain"]
    first, second, third = proposer.prompts
    order = [first.index(heading) for heading in (TASK, WORK, TIMES, FILES, ANSWER)]
    assert order == sorted(order)
    assert "TIME=2000" in first
    assert "TIME=1000" in files_of(second)  # the best program so far
    assert "-VALUE=42.0" in third
    assert "VALUE=42.0" in files_of(third)


def test_the_prompt_says_how_the_time_of_the_program_counts(make: MakeEngine) -> None:
    rules = []
    for is_checked in (True, False):
        engine = make(wall_check=is_checked)
        rules.append(engine.shown_prompt().partition(WORK)[0].count("\n- "))
        shutil.rmtree(engine.folder)
    assert rules[0] == rules[1] + 1


def files_of(prompt: str) -> str:
    return prompt.partition("# Files")[2]


def test_odd_names_of_files(source: Path, make: MakeEngine) -> None:
    """Not UTF-8, with control characters, quotes and spaces."""
    for name in (b"\xff.cu", b"\x1b[1m.cu", b'it\'s "one".cu'):
        Path(os.fsdecode(bytes(source) + b"/" + name)).write_text("x\n")
    proposer = ScriptedProposer(FASTER)
    assert outcomes(make(proposer).run()) == ["kept"]
    assert "\x1b" not in proposer.prompts[0]


def test_the_same_proposal_is_not_measured_again(make: MakeEngine) -> None:
    slower, runner = replaced("TIME=2000", "TIME=3000"), FakeRunner()
    engine = make(slower, slower, runner=runner, rounds=2)
    assert outcomes(engine.run()) == ["slower", "no_change"]
    assert len(runner.asked) == 2  # the original, and round 1


def test_more_rounds_can_be_added_and_another_task_needs_another_folder(make: MakeEngine) -> None:
    """As does another run at the same time."""
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    assert len(make(proposer).run().rounds) == 1
    assert outcomes(make(proposer, rounds=2, repeats=9).run()) == ["kept", "kept"]
    with pytest.raises(UsageError):
        make(kernel="x").run()
    with make(proposer).journal.locked(), pytest.raises(UsageError, match="another keet"):
        make(proposer).run()


# --- ends


class Costly(ScriptedProposer):
    def propose(self, about: Round) -> Proposal:
        usage = UsageDocument(calls=1, input_tokens=900, output_tokens=100, cost=0.5)
        return super().propose(about)._replace(usage=usage)


@pytest.mark.parametrize(
    ("limits", "stopped"),
    [
        (Limits(tokens=2000), "tokens"),
        (Limits(cost=1.0), "cost"),
        (Limits(minutes=1e-9), "minutes"),
    ],
)
def test_limits(limits: Limits, stopped: str, make: MakeEngine) -> None:
    edits = [added(f"// {number}") for number in range(5)]
    found = make(Costly(*edits), rounds=5, limits=limits).run()
    assert (found.stopped, len(found.rounds)) == (stopped, 0 if stopped == "minutes" else 2)


class Dying(ScriptedProposer):
    """Fails in round 2, the first time."""

    problem: BaseException | None = ModelFault("network", "the server does not answer")

    def propose(self, about: Round) -> Proposal:
        if about.number == 2 and self.problem:
            self.problem, problem = None, self.problem
            raise problem
        return super().propose(about)


@pytest.mark.parametrize("problem", [Dying.problem, KeyboardInterrupt()])
def test_a_dead_model_and_ctrl_c(problem: BaseException, make: MakeEngine) -> None:
    """What was found is the result, and the next call continues with the same round."""
    proposer = Dying(FASTER, replaced("TIME=1000", "TIME=400"))
    proposer.problem = problem
    engine = make(proposer, rounds=2)
    found = engine.run()
    assert found.stopped == ("model" if isinstance(problem, ModelFault) else "interrupted")
    assert found.best
    assert outcomes(engine.run()) == ["kept", "kept"]


@pytest.mark.parametrize("files", [0, 6])
def test_a_full_disk(files: int, make: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    left = files
    write = Journal.write_file

    def write_file(self: Journal, *arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *arguments)

    engine = make(FASTER)
    with monkeypatch.context() as full:
        full.setattr(Journal, "write_file", write_file)
        with pytest.raises(NotAvailable):
            engine.run()
    assert outcomes(engine.run()) == ["kept"]


def test_a_damaged_step_is_named(make: MakeEngine, tmp_path: Path) -> None:
    engine = make(FASTER)
    engine.run()
    step = tmp_path / "rounds/rounds/01/outcome.json"
    step.write_text("{")
    with pytest.raises(UsageError, match=step.name):
        engine.run()
    step.unlink()
    assert outcomes(engine.run()) == ["kept"]


# --- what is repeated


@pytest.mark.parametrize("values", [{}, {"may_change": ("*.cu", "*.txt")}, {"kernel": "step"}])
def test_an_original_that_fails_can_be_corrected(
    values: dict[str, Any], source: Path, make: MakeEngine
) -> None:
    """The source, or the commands: nothing of the failed start is used again."""
    if not values:
        (source / "kernel.cu").write_text(KERNEL.replace("42.0", "41.0"))
    nothing: dict[str, Any] = {"may_change": ("x",), "kernel": "other"}
    engine = make(FASTER)
    right, wrong = engine.task._replace(**values), {name: nothing[name] for name in values}
    engine.task = engine.task._replace(**wrong)
    with pytest.raises(UsageError):
        engine.run()
    (source / "kernel.cu").write_text(KERNEL)
    engine.task = right
    assert outcomes(engine.run()) == ["kept"]


@pytest.mark.parametrize(
    ("step", "number", "last", "speedup"),
    [
        *(("prompt", 1, "no_gain", 4.0), ("measured", 1, "no_gain", 2.0)),
        *(("proposal", 3, "no_gain", 2.0), ("request_made", 3, "kept", 5.0)),
        ("outcome", 3, "kept", 5.0),
    ],
)
def test_a_step_is_repeated_with_all_that_follows(
    step: str, number: int, last: str, speedup: float, make: MakeEngine, tmp_path: Path
) -> None:
    """When its file is removed. Here the proposer has other ideas the second time."""
    edits = (FASTER, added("X=1"), replaced("TIME=1000", "TIME=400"))
    runner = FakeRunner()
    first = make(*edits, runner=runner, rounds=3).run()
    assert outcomes(first) == ["kept", "no_gain", "kept"]
    (tmp_path / f"rounds/rounds/{number:02}/{step}.json").unlink()
    runner.asked.clear()
    edits = (replaced("TIME=2000", "TIME=500"), added("Y=1"), added("Z=1"))
    found = make(*edits, runner=runner, rounds=3).run()
    assert outcomes(found) == ["kept", "no_gain", last]
    assert found.best.times.speedup == pytest.approx(speedup)
    assert f"+TIME={2000 / speedup:.0f}" in Path(found.best.patch).read_text()
    assert (f"app-rounds_{number:02}" in str(runner.asked)) == (step != "outcome")


def test_nothing_is_left_of_a_proposal_that_is_repeated(make: MakeEngine, tmp_path: Path) -> None:
    make(added("VALUE=1")).run()
    (tmp_path / "rounds/rounds/01/proposal.json").unlink()
    (found,) = make(lambda _: None).run().rounds
    assert (found.outcome, found.lines_added) == ("no_change", 0)


def test_another_proposer_gets_a_prompt_of_its_own(make: MakeEngine) -> None:
    """It has another way to answer."""
    with pytest.raises(Waiting):
        make(PersonProposer()).run()
    proposer = ScriptedProposer(FASTER)
    make(proposer).run()
    assert proposer.prompts[0].rstrip().endswith("# Answer")


def test_a_kernel_that_was_new_counts_in_later_rounds(source: Path, make: MakeEngine) -> None:
    """But not another one of the original, whatever its mangled name is in the new build."""
    moved = replaced("TIME=2000", "TIME=500\nHELPER=500")
    again = replaced("TIME=500\nHELPER=500", "TIME=400\nHELPER=590")
    engine = make(moved, again, rounds=2, kernel="step")
    speedups = [each.times and each.times.speedup for each in engine.run().rounds]
    assert speedups == pytest.approx([2.0, 1000 / 990])
    shutil.rmtree(engine.folder)
    (source / "kernel.cu").write_text(KERNEL + "HELPER=1000\n")
    found = make(FASTER, kernel="step").run()
    assert found.best.times.speedup == pytest.approx(2.0)


def test_gains_that_are_not_seen_in_the_end(make: MakeEngine, monkeypatch) -> None:
    engine = make(replaced("TIME=2000", "TIME=1900"), replaced("TIME=1900", "TIME=1800"), rounds=2)
    times = Times(800.0, 801.0, 0.999, 0.01)
    monkeypatch.setattr("keet.optimize.engine.compare_times", lambda *_: times)
    found = engine.run()
    assert (outcomes(found), found.best.is_faster) == (["kept", "kept"], False)


# --- the patch


def test_the_patch_is_applied_on_request_only(source: Path, make, tmp_path: Path) -> None:
    def edit(folder: Path) -> None:
        FASTER(folder)
        (folder / "sub dir").mkdir()
        (folder / "sub dir/new.cu").write_text(NEW)

    engine = make(edit)
    found = engine.run()
    assert (source / "kernel.cu").read_text() == KERNEL
    assert engine.apply(found).applied
    assert "TIME=1000" in (source / "kernel.cu").read_text()
    assert (source / "sub dir/new.cu").read_text() == NEW
    found = engine.run()
    assert found.applied
    (tmp_path / "rounds/applied.json").unlink()  # killed between the patch and its file
    engine.apply(found)
    assert (source / "sub dir/new.cu").read_text() == NEW


def test_a_better_patch_can_be_applied_later(source: Path, make: MakeEngine) -> None:
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    for rounds, wanted in ((1, "TIME=1000"), (2, "TIME=400")):
        engine = make(proposer, rounds=rounds)
        found = engine.run()
        assert not found.applied
        assert engine.apply(found).applied
        assert wanted in (source / "kernel.cu").read_text()


def test_a_patch_that_does_not_apply_changes_nothing(source: Path, make: MakeEngine) -> None:
    engine = make(FASTER)
    found = engine.run()
    (source / "kernel.cu").write_text(OTHER)
    with pytest.raises(UsageError):
        engine.apply(found)
    assert (source / "kernel.cu").read_text() == OTHER
    assert not engine.run().applied
