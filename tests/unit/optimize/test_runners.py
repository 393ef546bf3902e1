"""Requests and results: which are refused, and the runners `command` and `folder`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keet.errors import NotAvailable, UsageError
from keet.optimize.engine import Engine
from keet.optimize.runners import (
    BadResult,
    CommandRunner,
    FolderRunner,
    LocalRunner,
    Request,
    filled,
    open_runner,
    read_request,
    take_result,
)
from keet.optimize.task import Waiting
from tests.unit.collect.toolkit import needs_compiler, use_toolkit
from tests.unit.optimize.bench import FASTER, ScriptedProposer, make_source, outcomes, task_of
from tests.unit.optimize.fake_runner import answer, result_of


def waiting_request(source: Path, folder: Path) -> Request:
    """That of the original, in the folder of requests."""
    proposer, runner = ScriptedProposer(FASTER), FolderRunner(folder / "at")
    with pytest.raises(Waiting):
        Engine(task_of(source), folder / "rounds", proposer, runner).run()
    (placed,) = (folder / "at").iterdir()
    return read_request(placed)


def test_a_folder_of_requests(source: Path, tmp_path: Path) -> None:
    """Also with several optimizations that wait at the same time, each in its own process."""
    tasks = {"rounds_0": task_of(source), "rounds_1": task_of(source, kernel="step")}
    for waits in (2, 2, 0):
        ended, told = [], []
        for name, task in tasks.items():
            runner = FolderRunner(tmp_path / "at")
            try:
                ended.append(Engine(task, tmp_path / name, ScriptedProposer(FASTER), runner).run())
            except Waiting as waiting:
                told.append(str(waiting))
        assert all("measure.py" in each for each in told)
        if waits:
            assert not ended
            assert len(list((tmp_path / "at").iterdir())) == waits
            answer(tmp_path / "at")
    assert [outcomes(found) for found in ended] == [["kept"], ["kept"]]
    assert list((tmp_path / "at").iterdir()) == []


def with_result(request: Request, change: Callable[[dict[str, Any]], object]) -> Path:
    document = result_of(request)
    change(document)
    made = request.folder / "result"
    made.mkdir(exist_ok=True)
    (made / "result.json").write_text(json.dumps(document))
    return made


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda d: d.update(id="another"),
    lambda d: d.update(digest="0" * 64),
    lambda d: d.update(protocol=2),
    lambda d: d.update(variants={}),
    lambda d: d["variants"].update(other=d["variants"]["before"]),
    lambda d: d["variants"]["before"].update(runs=[{"exit": 0}]),
    lambda d: d["variants"]["before"]["runs"][0].update(busy_ns="1"),
    lambda d: d["variants"]["before"]["runs"][0].update(seconds=None),
    lambda d: d.pop("gpu"),
)


def test_results_that_are_refused(source: Path, tmp_path: Path) -> None:
    request = waiting_request(source, tmp_path)
    for number, change in enumerate(CHANGES):
        with pytest.raises(BadResult):
            take_result(with_result(request, change), tmp_path / "taken", request)
        assert not (tmp_path / "taken").exists(), number
    for text in ("", "[]", "[" * 100_000, '{"id": ' + "9" * 10_000 + "}"):
        (request.folder / "result/result.json").write_text(text)
        with pytest.raises(BadResult):
            take_result(request.folder / "result", tmp_path / "taken", request)


def test_files_of_a_result(source: Path, tmp_path: Path) -> None:
    """Links and names that nobody asked for are left out."""
    request, taken = waiting_request(source, tmp_path), tmp_path / "taken"
    made = with_result(request, lambda _: None)
    (made / "before.ncu-rep").symlink_to("/etc/passwd")
    (made / "evil.ncu-rep").write_text("x")
    (made / "before.records").mkdir()
    (made / "before.records/1.rec").write_bytes(b"")
    (made / "before.records/2.rec").symlink_to("/etc/passwd")
    take_result(made, taken, request)
    names = {path.relative_to(taken).as_posix() for path in taken.rglob("*")}
    assert names == {"result.json", "before.records", "before.records/000.rec"}


def test_runners_that_do_not_exist() -> None:
    for name in ("", "remote", "command:", "folder:", "command:ssh gpu"):
        with pytest.raises(UsageError):
            open_runner(name)


def test_values_of_a_command_are_filled_in_once() -> None:
    """Folders may be named as a place in the template."""
    made = filled("run {request} -o {result} {other}", request="/a {result}/b", result="/{request}")
    assert shlex.split(made) == ["run", "/a {result}/b", "-o", "/{request}", "{other}"]


def test_the_local_runner_works_in_the_folder_of_the_request(source: Path, tmp_path: Path) -> None:
    request = waiting_request(source, tmp_path)
    (request.folder / "measure.py").write_text("import os; exit(os.getcwd())")
    with pytest.raises(NotAvailable) as problem:
        LocalRunner().measure(request, tmp_path / "taken")
    assert str(problem.value).endswith(str(request.folder.resolve()))


@needs_compiler
@pytest.mark.slow
def test_a_command_runs_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(tmp_path, use_toolkit(monkeypatch))
    template = f"{shlex.quote(sys.executable)} {{request}}/measure.py {{request}} -o {{result}}"

    def engine(name: str, command: str) -> Engine:
        proposer = ScriptedProposer(FASTER)
        return Engine(task_of(source), tmp_path / name, proposer, CommandRunner(command))

    assert outcomes(engine("rounds", template).run()) == ["kept"]
    with pytest.raises(NotAvailable, match="no route"):
        engine("broken", "echo no route >&2; exit 255 # {request} {result}").run()


@needs_compiler
@pytest.mark.slow
def test_the_script_measures_all_requests_of_a_folder(tmp_path: Path, monkeypatch) -> None:
    source = make_source(tmp_path, use_toolkit(monkeypatch))
    request = waiting_request(source, tmp_path)
    script = request.folder / "measure.py"
    words = [sys.executable, "-I", "-S", str(script), str(tmp_path / "at")]
    assert subprocess.run([*words, "--profile-within", "0"], check=False).returncode == 0
    result = json.loads((request.folder / "result/result.json").read_text())
    assert "no time" in result["variants"]["before"]["profile"]["problem"]
    assert subprocess.run(words, check=False).returncode == 0  # nothing is left to do
    shutil.rmtree(request.folder / "result")
    (request.folder / "variants/before/kernel.cu").write_text("TIME=1\n")
    assert subprocess.run(words, check=False).returncode == 1  # damaged on the way
