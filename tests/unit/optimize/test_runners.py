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
from keet.optimize.protocol import BadResult, Request, read_request, take_result
from keet.optimize.runners import CommandRunner, FolderRunner, open_runner
from keet.optimize.task import Waiting
from tests.unit.collect.toolkit import needs_compiler, use_toolkit
from tests.unit.optimize.bench import (
    FASTER,
    ScriptedProposer,
    make_source,
    outcomes,
    task_of,
)
from tests.unit.optimize.fake_runner import answer, result_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path, Path("/nowhere"))


def waiting_request(source: Path, folder: Path) -> Request:
    """That of the original, in the folder of requests."""
    engine = Engine(
        task_of(source), folder / "rounds", ScriptedProposer(FASTER), FolderRunner(folder / "at")
    )
    with pytest.raises(Waiting):
        engine.run()
    (placed,) = (folder / "at").iterdir()
    return read_request(placed)


def test_a_folder_of_requests(source: Path, tmp_path: Path) -> None:
    """Also with several optimizations that wait at the same time, each in its own process."""
    tasks = [task_of(source), task_of(source, kernel="step")]
    engines = [
        lambda n=number: Engine(
            tasks[n],
            tmp_path / f"rounds_{n}",
            ScriptedProposer(FASTER),
            FolderRunner(tmp_path / "at"),
        )
        for number in range(2)
    ]
    for waits in (2, 2, 0):
        ended, told = [], []
        for engine in engines:
            try:
                ended.append(engine().run())
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
    made.mkdir()
    (made / "result.json").write_text(json.dumps(document))
    return made


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(id="another"),
        lambda d: d.update(digest="0" * 64),
        lambda d: d.update(protocol=2),
        lambda d: d.update(variants={}),
        lambda d: d["variants"].update(other=d["variants"]["before"]),
        lambda d: d["variants"]["before"].update(runs=[{"exit": 0}]),
        lambda d: d["variants"]["before"]["runs"][0].update(busy_ns="1"),
        lambda d: d["variants"]["before"]["runs"][0].update(seconds=None),
        lambda d: d.pop("gpu"),
    ],
)
def test_results_that_are_refused(
    change: Callable[[dict[str, Any]], object], source: Path, tmp_path: Path
) -> None:
    request = waiting_request(source, tmp_path)
    with pytest.raises(BadResult):
        take_result(with_result(request, change), tmp_path / "taken", request)
    assert not (tmp_path / "taken").exists()


def test_files_of_a_result(source: Path, tmp_path: Path) -> None:
    """Links and names that nobody asked for are left out."""
    request = waiting_request(source, tmp_path)
    made = with_result(request, lambda _: None)
    (made / "before.ncu-rep").symlink_to("/etc/passwd")
    (made / "evil.ncu-rep").write_text("x")
    (made / "before.records").mkdir()
    (made / "before.records/1.rec").write_bytes(b"")
    (made / "before.records/2.rec").symlink_to("/etc/passwd")
    take_result(made, tmp_path / "taken", request)
    names = {
        path.relative_to(tmp_path / "taken").as_posix() for path in (tmp_path / "taken").rglob("*")
    }
    assert names == {"result.json", "before.records", "before.records/000.rec"}


def test_a_result_that_is_no_json(source: Path, tmp_path: Path) -> None:
    request = waiting_request(source, tmp_path)
    made = request.folder / "result"
    made.mkdir()
    for text in ("", "[]", "[" * 100_000, '{"id": ' + "9" * 10_000 + "}"):
        (made / "result.json").write_text(text)
        with pytest.raises(BadResult):
            take_result(made, tmp_path / "taken", request)


@pytest.mark.parametrize("name", ["", "remote", "command:", "folder:", "command:ssh gpu"])
def test_runners_that_do_not_exist(name: str) -> None:
    with pytest.raises(UsageError):
        open_runner(name, lambda _: None)


@needs_compiler
@pytest.mark.slow
def test_a_command_runs_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(tmp_path, use_toolkit(monkeypatch))
    template = f"{shlex.quote(sys.executable)} {{request}}/measure.py {{request}} -o {{result}}"
    engine = Engine(
        task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), CommandRunner(template)
    )
    assert outcomes(engine.run()) == ["kept"]
    broken = Engine(
        task_of(source),
        tmp_path / "broken",
        ScriptedProposer(FASTER),
        CommandRunner("echo no route >&2; exit 255 # {request} {result}"),
    )
    with pytest.raises(NotAvailable, match="no route"):
        broken.run()


@needs_compiler
@pytest.mark.slow
def test_the_script_measures_all_requests_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(tmp_path, use_toolkit(monkeypatch))
    request = waiting_request(source, tmp_path)
    script = request.folder / "measure.py"
    words = [sys.executable, "-I", "-S", str(script), str(tmp_path / "at")]
    assert subprocess.run(words, check=False).returncode == 0
    assert (request.folder / "result/result.json").exists()
    assert subprocess.run(words, check=False).returncode == 0  # nothing is left to do
    shutil.rmtree(request.folder / "result")
    (request.folder / "variants/before/kernel.cu").write_text("TIME=1\n")
    assert subprocess.run(words, check=False).returncode == 1  # damaged on the way
