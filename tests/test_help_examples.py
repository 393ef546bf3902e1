"""Every example in the help of a command can be typed, and runs, or needs what a test lacks."""

from __future__ import annotations

import io
import os.path
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from keet.cli import COMMANDS, help_text, main
from keet.cli.eval import help_text as eval_help
from tests.conftest import REPORTS, Keet
from tests.rows import each_row
from tests.typed_commands import examples_of, needs, parsed
from tests.unit.corpus.pool_in_process import PoolInProcess


def examples(command: str) -> list[str]:
    module = import_module(f"keet.cli.{COMMANDS[command].module}")
    text = eval_help() if command == "eval" else module.EXAMPLES
    return [each for each in examples_of(text) if "ACTION" not in each]


TEXTS = [*examples_of(help_text()), *(each for name in COMMANDS for each in examples(name))]


@each_row("command", [each for each in dict.fromkeys(TEXTS) if "COMMAND" not in each])
def test_an_example_can_be_typed(command: str) -> None:
    if "--help" not in command:
        parsed(command)


def test_each_command_has_examples_and_most_can_be_run() -> None:
    assert [name for name in COMMANDS if not examples(name)] == []
    assert sum(needs(each) is None for each in TEXTS) > 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the files that examples name. A report is a snapshot, so that its kernels have the names
    that examples use."""
    folder = tmp_path_factory.mktemp("typed")
    for name in ("runs/main", "runs/branch", "profiles", "more", "src", "one"):
        (folder / name).mkdir(parents=True)
    snapshot = folder / "zoo.keet.json"
    assert main(["snapshot", str(REPORTS / "zoo.ncu-repz"), "-o", str(snapshot)]) == 0
    text = snapshot.read_text(encoding="utf-8").replace("zoo.cu", "kernel.cu")
    for old, new in (
        ("tensor_tiles", "gemm"),
        ("special_functions", "backproject"),
        ("histogram", "dot"),
    ):
        text = text.replace(old, new)
    reports = ["report", "before", "after", "a", "b", "new", "one", "runs/main/1", "runs/branch/1"]
    for name in (
        *(f"{each}.ncu-rep" for each in [*reports, "profiles/1", "more/1"]),
        "report.ncu-repz",
    ):
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("review.md", "answer.txt", "changes.md"):
        (folder / name).write_text("The kernel takes long.\n", encoding="utf-8")
    for name in ("a.csv", "b.csv", "kernels.csv"):
        (folder / name).write_text("kernel,launches,total_ms\ngemm,4,1.5\n", encoding="utf-8")
    (folder / "report.keet.json").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
        for store in ("store", "OUT"):
            assert main(["batch", "runs", "-o", store]) == 0
        assert main(["baseline", "save", "main", "report.ncu-rep"]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_runs(
    name: str, folder: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
    for command in examples(name):
        if needs(command):
            continue
        given = b"FROM launches" if "query" in command else Path("report.ncu-rep").read_bytes()
        if "verify" in command:
            given = b"The kernel takes long."
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        words = shlex.split(command.replace("$SLURM_ARRAY_TASK_ID", "1"))[1:]
        result = keet(*map(os.path.expanduser, words))
        assert result.code in (0, 1), (command, result.err)
