"""The steps of the engine: what is kept, told to the next round, and continued after any end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
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
from keet.optimize.task import Limits, Waiting
from tests.unit.optimize.bench import (
    FASTER,
    KERNEL,
    ScriptedProposer,
    added,
    make_source,
    outcomes,
    replaced,
    task_of,
)
from tests.unit.optimize.fake_runner import FakeRunner


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path, Path("/nowhere"))


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
EDITS = (
    FASTER,
    replaced("VALUE=42.0", "VALUE=41.0"),
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
    for files in range(100):
        folder = tmp_path / f"killed_{files}"
        if not run_killed(source, folder, files, is_written=False):
            break
        run_killed(source, folder, 0, is_written=True)
        engine_of(source, folder).run()
        assert story(folder) == whole, files
        shutil.rmtree(folder)
    assert files > 25


def test_what_earlier_rounds_did_is_told(source: Path, tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER, replaced("42.0", "41.0"), added("X=1"), FASTER)
    task = task_of(source, rounds=3)
    found = Engine(task, tmp_path / "rounds", proposer, FakeRunner()).run()
    assert outcomes(found) == ["kept", "wrong", "no_gain"]
    first, second, third = proposer.prompts
    assert "TIME=2000" in first
    assert "TIME=1000" in files_of(second)  # the best program so far
    assert "-VALUE=42.0" in third
    assert "VALUE=42.0" in files_of(third)


def test_odd_names_of_files(source: Path, tmp_path: Path) -> None:
    """Not UTF-8, with control characters, quotes and spaces."""
    for name in (b"\xff.cu", b"\x1b[1m.cu", b'it\'s "one".cu'):
        Path(os.fsdecode(bytes(source) + b"/" + name)).write_text("x\n")
    proposer = ScriptedProposer(FASTER)
    found = Engine(task_of(source), tmp_path / "rounds", proposer, FakeRunner()).run()
    assert outcomes(found) == ["kept"]
    assert "\x1b" not in proposer.prompts[0]


def files_of(prompt: str) -> str:
    return prompt.partition("# Files")[2]


def test_the_work_that_is_needed_comes_before_the_limits(source: Path, tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER)
    Engine(task_of(source), tmp_path / "rounds", proposer, FakeRunner()).run()
    (prompt,) = proposer.prompts
    order = [prompt.index(heading) for heading in (TASK, WORK, TIMES, FILES, ANSWER)]
    assert order == sorted(order)


def test_the_same_proposal_is_not_measured_again(source: Path, tmp_path: Path) -> None:
    slower, runner = replaced("TIME=2000", "TIME=3000"), FakeRunner()
    engine = Engine(
        task_of(source, rounds=2), tmp_path / "rounds", ScriptedProposer(slower, slower), runner
    )
    assert outcomes(engine.run()) == ["slower", "no_change"]
    assert len(runner.asked) == 2  # the original, and round 1


def test_more_rounds_can_be_added(source: Path, tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    folder = tmp_path / "rounds"
    assert len(Engine(task_of(source), folder, proposer, FakeRunner()).run().rounds) == 1
    found = Engine(task_of(source, rounds=2, repeats=9), folder, proposer, FakeRunner()).run()
    assert outcomes(found) == ["kept", "kept"]


def test_another_task_needs_another_folder(source: Path, tmp_path: Path) -> None:
    Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner()).run()
    with pytest.raises(UsageError):
        Engine(
            task_of(source, kernel="x"), tmp_path / "rounds", ScriptedProposer(), FakeRunner()
        ).run()


def test_two_at_a_time_do_not_share_a_folder(source: Path, tmp_path: Path) -> None:
    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner())
    with engine.journal.locked(), pytest.raises(UsageError):
        engine.run()


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
def test_limits(limits: Limits, stopped: str, source: Path, tmp_path: Path) -> None:
    edits = [added(f"// {number}") for number in range(5)]
    task = task_of(source, rounds=5, limits=limits)
    found = Engine(task, tmp_path / "rounds", Costly(*edits), FakeRunner()).run()
    assert found.stopped == stopped
    assert len(found.rounds) == (0 if stopped == "minutes" else 2)


class Dying(ScriptedProposer):
    """Fails in round 2, the first time."""

    problem: BaseException | None = ModelFault("network", "the server does not answer")

    def propose(self, about: Round) -> Proposal:
        if about.number == 2 and self.problem:
            self.problem, problem = None, self.problem
            raise problem
        return super().propose(about)


@pytest.mark.parametrize("problem", [Dying.problem, KeyboardInterrupt()])
def test_a_dead_model_and_ctrl_c(problem: BaseException, source: Path, tmp_path: Path) -> None:
    """What was found is the result, and the next call continues with the same round."""
    proposer = Dying(FASTER, replaced("TIME=1000", "TIME=400"))
    proposer.problem = problem
    engine = Engine(task_of(source, rounds=2), tmp_path / "rounds", proposer, FakeRunner())
    found = engine.run()
    assert found.stopped == ("model" if isinstance(problem, ModelFault) else "interrupted")
    assert found.best is not None
    assert outcomes(engine.run()) == ["kept", "kept"]


@pytest.mark.parametrize("files", range(0, 12, 3))
def test_a_full_disk(
    files: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = files
    write = Journal.write_file

    def write_file(self: Journal, *arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *arguments)

    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner())
    with monkeypatch.context() as full:
        full.setattr(Journal, "write_file", write_file)
        with pytest.raises(NotAvailable):
            engine.run()
    assert outcomes(engine.run()) == ["kept"]


def test_a_damaged_step_is_named(source: Path, tmp_path: Path) -> None:
    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner())
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
    values: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    """The source, or the commands: nothing of the failed start is used again."""
    if not values:
        (source / "kernel.cu").write_text(KERNEL.replace("42.0", "41.0"))
    nothing: dict[str, Any] = {"may_change": ("x",), "kernel": "other"}
    wrong = task_of(source)._replace(**{name: nothing[name] for name in values})
    with pytest.raises(UsageError):
        Engine(wrong, tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner()).run()
    (source / "kernel.cu").write_text(KERNEL)
    task = task_of(source)._replace(**values)
    found = Engine(task, tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner()).run()
    assert outcomes(found) == ["kept"]


@pytest.mark.parametrize("step", ["prompt", "proposal", "request_made", "measured", "outcome"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_step_is_repeated_with_all_that_follows(
    step: str, number: int, source: Path, tmp_path: Path
) -> None:
    """When its file is removed. Here the proposer has other ideas the second time."""
    edits = (FASTER, added("X=1"), replaced("TIME=1000", "TIME=400"))
    task, folder, runner = task_of(source, rounds=3), tmp_path / "rounds", FakeRunner()
    first = Engine(task, folder, ScriptedProposer(*edits), runner).run()
    assert outcomes(first) == ["kept", "no_gain", "kept"]
    (folder / f"rounds/{number:02}/{step}.json").unlink()
    runner.asked.clear()
    edits = (replaced("TIME=2000", "TIME=500"), added("Y=1"), added("Z=1"))
    found = Engine(task, folder, ScriptedProposer(*edits), runner).run()
    is_new = step in ("prompt", "proposal")
    if number == 1:
        wanted = ["kept", "no_gain", "no_gain"]
        speedup = 4.0 if is_new else 2.0
    else:
        wanted = ["kept", "no_gain", "no_gain" if is_new else "kept"]
        speedup = 2.0 if is_new else 5.0
    assert outcomes(found) == wanted
    assert found.best is not None
    assert found.best.times.speedup == pytest.approx(speedup)
    patch = Path(found.best.patch).read_text()
    assert f"+TIME={2000 / speedup:.0f}" in patch
    assert (f"app-rounds_{number:02}" in str(runner.asked)) == (step != "outcome")


def test_nothing_is_left_of_a_proposal_that_is_repeated(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "rounds"
    Engine(task_of(source), folder, ScriptedProposer(added("VALUE=1")), FakeRunner()).run()
    (folder / "rounds/01/proposal.json").unlink()
    nothing = ScriptedProposer(lambda _: None)
    (found,) = Engine(task_of(source), folder, nothing, FakeRunner()).run().rounds
    assert (found.outcome, found.lines_added) == ("no_change", 0)


def test_another_proposer_gets_a_prompt_of_its_own(source: Path, tmp_path: Path) -> None:
    """It has another way to answer."""
    person = PersonProposer()
    with pytest.raises(Waiting):
        Engine(task_of(source), tmp_path / "rounds", person, FakeRunner()).run()
    proposer = ScriptedProposer(FASTER)
    Engine(task_of(source), tmp_path / "rounds", proposer, FakeRunner()).run()
    assert proposer.prompts[0].rstrip().endswith("# Answer")


def test_a_kernel_that_was_new_counts_in_later_rounds(source: Path, tmp_path: Path) -> None:
    moved = replaced("TIME=2000", "TIME=500\nHELPER=500")
    again = replaced("TIME=500\nHELPER=500", "TIME=400\nHELPER=590")
    task = task_of(source, rounds=2, kernel="step")
    engine = Engine(task, tmp_path / "rounds", ScriptedProposer(moved, again), FakeRunner())
    found = engine.run()
    assert [each.times and each.times.speedup for each in found.rounds] == pytest.approx(
        [2.0, 1000 / 990]
    )


def test_another_kernel_of_the_original_does_not_count(source: Path, tmp_path: Path) -> None:
    """Whatever its mangled name is in the new build."""
    (source / "kernel.cu").write_text(KERNEL + "HELPER=1000\n")
    task = task_of(source, kernel="step")
    found = Engine(task, tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner()).run()
    assert found.best is not None
    assert found.best.times.speedup == pytest.approx(2.0)


def test_gains_that_are_not_seen_in_the_end(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = (replaced("TIME=2000", "TIME=1900"), replaced("TIME=1900", "TIME=1800"))
    engine = Engine(
        task_of(source, rounds=2), tmp_path / "rounds", ScriptedProposer(*edits), FakeRunner()
    )
    times = Times(800.0, 801.0, 0.999, 0.01)
    monkeypatch.setattr("keet.optimize.engine.compare_times", lambda *_: times)
    found = engine.run()
    assert outcomes(found) == ["kept", "kept"]
    assert found.best is not None
    assert not found.best.is_faster


# --- parts that are passed in


def test_the_prompt_can_be_replaced(source: Path, tmp_path: Path) -> None:
    """As evals do."""
    proposer = ScriptedProposer(FASTER)
    engine = Engine(
        task_of(source),
        tmp_path / "rounds",
        proposer,
        FakeRunner(),
        prompt=lambda facts: f"condition none, round {facts.number}\n",
    )
    assert outcomes(engine.run()) == ["kept"]
    assert [prompt.split()[-1] for prompt in proposer.prompts] == ["1"]


# --- the patch


def test_the_patch_is_applied_on_request_only(source: Path, tmp_path: Path) -> None:
    def edit(folder: Path) -> None:
        FASTER(folder)
        (folder / "sub dir").mkdir()
        (folder / "sub dir/new.cu").write_text(NEW)

    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(edit), FakeRunner())
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


def test_a_better_patch_can_be_applied_later(source: Path, tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    for rounds, wanted in ((1, "TIME=1000"), (2, "TIME=400")):
        task = task_of(source, rounds=rounds)
        engine = Engine(task, tmp_path / "rounds", proposer, FakeRunner())
        found = engine.run()
        assert not found.applied
        assert engine.apply(found).applied
        assert wanted in (source / "kernel.cu").read_text()


def test_a_patch_that_does_not_apply_changes_nothing(source: Path, tmp_path: Path) -> None:
    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner())
    found = engine.run()
    (source / "kernel.cu").write_text(OTHER)
    with pytest.raises(UsageError):
        engine.apply(found)
    assert (source / "kernel.cu").read_text() == OTHER
    assert not engine.run().applied
