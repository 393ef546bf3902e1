"""Every command line of the README, the documentation and the help runs."""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from keet.cli import COMMANDS, help_text, main
from keet.cli.eval import help_text as eval_help
from tests.typed_commands import (
    NAMES,
    ROOT,
    Typed,
    examples_of,
    make_workspace,
    needs,
    parsed,
    typed_commands,
)
from tests.unit.corpus.pool_in_process import PoolInProcess

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def help_examples(command: str) -> list[Typed]:
    module = import_module(f"keet.cli.{command}")
    text = eval_help() if command == "eval" else module.EXAMPLES
    return _typed(f"keet {command} --help", text)


def _typed(page: str, text: str) -> list[Typed]:
    shown = (each for each in examples_of(text) if not {"ACTION", "COMMAND"} & {*each.split()})
    return [Typed(page, each, needs(each) is None) for each in shown]


HELP = [
    *_typed("keet --help", help_text()),
    *(row for name in COMMANDS for row in help_examples(name)),
]
IN_DOCS = [typed for page in reversed(PAGES) for typed in typed_commands(page)]
ALL = {typed.command: typed for typed in (*HELP, *IN_DOCS)}
"""By command line: each is run once, even if several pages have it."""


SHARED = ("-o", "--open", "--format", "--launch", "--kernel", "--top", "--source")
"""Options that are the same in all commands: keet/cli/arguments.py."""


def parts_of(command: str) -> set[tuple[str, str]]:
    """What could be wrong in a command line: a command's options, its standard input, filters of
    jq, which name fields, and the kinds of other words."""
    parts, program, at_start = set[tuple[str, str]](), "", True
    for word in shlex.split(command):
        if at_start:
            program = word
        is_own = program == "jq" or (word.startswith("-") and word not in SHARED)
        parts.add((program, word) if is_own or at_start else ("", _kind(word)))
        at_start = word in ("keet", "|", "<", "--")
    return parts


def _kind(word: str) -> str:
    """`.csv`, `x:x`, `x/`; names and numbers are alike."""
    ending = re.search(r"(?:\.[a-z-]+)+$", word)
    return ending[0] if ending else re.sub(r"\w+", "x", "text" if " " in word else word)


def chosen(rows: Iterable[Typed]) -> Iterator[Typed]:
    """All of the README. Of the others those that have a part which none before has, the longest
    first; each is run with KEET_TEST_ALL_COMMANDS=1."""
    tried = set[tuple[str, str]]()
    for row in sorted(rows, key=lambda row: (row.page != "README.md", -len(parts_of(row.command)))):
        is_new = not parts_of(row.command) <= tried
        if row.page == "README.md" or is_new or "KEET_TEST_ALL_COMMANDS" in os.environ:
            yield row
            tried |= parts_of(row.command)


ROWS = [
    pytest.param(
        each, id=each.command, marks=[] if each.page == "README.md" else [pytest.mark.slow]
    )
    for each in chosen(typed for typed in ALL.values() if typed.runs)
]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
        make_workspace(folder)
    return folder


@pytest.mark.parametrize("typed", ROWS)
def test_a_command_runs(typed: Typed, workspace: Path, tmp_path: Path, monkeypatch) -> None:
    """In this process, unless the line needs a shell or another program."""
    folder = tmp_path / "here"
    shutil.copytree(workspace, folder, symlinks=True, copy_function=os.link)
    command = typed.command
    for name, here in NAMES.items():
        command = re.sub(rf"(?<![\w/]){re.escape(name)}(?![.\w])", here, command)
    monkeypatch.chdir(folder)
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    surroundings = {"HOME": str(folder), "BROWSER": "true", "SLURM_ARRAY_TASK_ID": "1"}
    for name, value in {**surroundings, "PATH": path}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
    program, *rest = shlex.split(command)
    if program == "make":
        done = ["make", "--dry-run", "-C", str(ROOT), *rest]
        assert subprocess.run(done, check=False, capture_output=True).returncode == 0
    elif program == "pip":  # tests/test_install.py installs it
        project = (ROOT / "pyproject.toml").read_text()
        extras = ",".join(re.findall(r"\[(.*)\]", command)).split(",")
        assert all(f"\n{extra} = [" in project for extra in extras if extra)
    elif program == "keet" and rest[:1] != ["mcp"] and not set("|<>$&~") & set(command):
        if "-" in rest:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(_standard_input(rest))))
        assert main(rest) in ((0, 1) if {"--gate", "verify"} & {*rest} else (0,))
    elif "--http" in rest:  # a server runs until it is stopped
        with subprocess.Popen([program, *rest], stderr=subprocess.PIPE) as server:
            assert server.stderr
            assert b"listening" in server.stderr.readline()
            server.terminate()
    else:
        shell = ["bash", "-o", "pipefail", "-c", f"exec < /dev/null; {command}"]
        ran = subprocess.run(shell, check=False, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr


def _standard_input(rest: list[str]) -> bytes:
    given = {"query": "query.sql", "verify": "review.md"}.get(rest[0], "report.ncu-rep")
    return Path(given).read_bytes()


def test_commands_can_be_typed() -> None:
    """Also those that need more than a test has."""
    assert [name for name in COMMANDS if not help_examples(name)] == []
    assert sum(not typed.runs for typed in ALL.values()) > 20
    for command in ALL:
        keet, *rest = command.split()
        is_plain = not set("|<>") & set(command) and "--help" not in command
        if keet == "keet" and rest[0] in COMMANDS and is_plain:
            parsed(command)
        named = re.findall(r"\b(?:kernels_samples|tests)/\S*\.\S+", command)
        assert [name for name in named if not (ROOT / name).exists()] == []
