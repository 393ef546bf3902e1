"""Command lines of the documentation, and a folder in which they can be run.

A block of `bash` has one command per line, a block of `console` has them after `$`. A comment that
contains `needs a ...` or `takes minutes` marks its line, or the block if it is a line of its own:
such commands are only parsed.
"""

import re
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from keet.cli import dispatch, main

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "tests" / "data" / "reports"
_BLOCK = re.compile(r"^```(bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"needs? an? \w|needs nvcc|takes minutes")


class Typed(NamedTuple):
    page: str
    command: str
    """Without its comment; lines that a backslash or a quote continues are one command."""
    runs: bool
    """False if a mark says that it needs more than keet has in a test."""


def typed_commands(page: Path) -> Iterator[Typed]:
    name = page.relative_to(ROOT).as_posix()
    for kind, body in _BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = body.replace("\\\n", "").splitlines()
        alone = [line for line in lines if line.lstrip().startswith("#")]
        is_marked = any(map(_MARK.search, alone))
        command = ""
        for line in lines:
            if kind == "console" and not line.startswith("$ "):
                continue
            command += ("\n" if command else "") + line.removeprefix("$ ")
            if command.count('"') % 2 == 0:
                words, _, comment = command.partition(" #")
                if words.strip() and not words.lstrip().startswith("#"):
                    runs = not is_marked and not _MARK.search(comment)
                    yield Typed(name, words.strip(), runs)
                command = ""


NEEDS = {
    "a GPU": r"keet profile(?!.*--dry-run)|keet optimize",
    "a model": r"--model|--base-url|keet ask(?!.*--show-prompt)|keet eval ask",
    "a client": r"keet mcp",
    "a cluster": r"--dask",
    "minutes": r"keet eval",
}
"""Commands that tests only parse, and what it takes to run them."""


def parsed(command: str) -> Namespace:
    """What the command gets of keet's own parser: an unknown option or missing argument raises."""
    keet, name, *rest = shlex.split(command, comments=True)
    assert keet == "keet", f"{command}: not a keet command"
    module = import_module(f"keet.cli.{name}")
    action = module.find_action(rest) if hasattr(module, "find_action") else module
    given: list[Namespace] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(action, "run", given.append)
        dispatch([name, *rest])
    if hasattr(module, "TAKES_PROGRAM"):
        assert given[0].program or given[0].function, f"{command}: no program after --"
    return given[0]


NAMES = {
    "--kernel gemm": "--kernel turn",
    "--kernel backproject": "--kernel turn",
    "kernel.cu:29": "pipeline.cu:8",
    "^dot$": "turn",
    "--http 8765": "--http 0",
}
"""What the documentation calls a reader's own things, and what they are called in this folder."""
PROGRAMS = {
    "ssh": 'shift; exec "$@"',
    "ncu": f"exec cat '{REPORTS / 'tour_basic.live.csv'}'",
    "claude": "exit 0",
    "your-model": "exec cat",
    "less": "exec cat",
}
"""Programs of other machines and other people, as shell scripts that stand in for them."""


def make_workspace(folder: Path) -> None:
    """A folder with the reports, stores and texts that the documentation names."""
    before, after = REPORTS / "pipeline_before.ncu-repz", REPORTS / "pipeline_after.ncu-repz"
    for name in ("report", "before", "app", "old", "a", "one", "r", "runs/1", "runs/2"):
        _copy(before, folder / f"{name}.ncu-rep")
    for name in ("after", "new", "b", "profiles/1", "more/1"):
        _copy(after, folder / f"{name}.ncu-rep")
    for name in ("main", "branch", "base", "head"):
        report = after if name in ("branch", "head") else before
        for run in "12":
            _copy(report, folder / f"runs/{name}/{run}.ncu-rep")
    _copy(before, folder / "report.ncu-repz")
    for name in ("ncu.txt", "ncu.csv", "before.txt", "after.txt"):
        _copy(REPORTS / "tour_basic.live.csv", folder / name)
    for name in ("a.csv", "b.csv", "kernels.csv"):
        (folder / name).write_text("kernel,launches,total_ms\nscale,10,0.2\nturn,10,0.4\n")
    for name in ("review.md", "answer.txt", "changes.md", "prompt.txt"):
        (folder / name).write_text("The kernel turn is slow.\n")
    (folder / "gemm.cu").write_text("__global__ void turn() {}\n")
    (folder / "query.sql").write_text("SELECT count(*) FROM launches\n")
    for name in ("src", ".zfunc", ".config/fish/completions"):
        (folder / name).mkdir(parents=True)
    for name in ("kernels_samples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    for name, script in PROGRAMS.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
            ["batch", "runs/main", "-o", "store"],
            ["baseline", "save", "main", "before.ncu-rep"],
            ["snapshot", "report.ncu-rep"],
            ["diff", "baseline:main", "after.ncu-rep", "--gate=10", "-o", "diff.json"],
        ):
            assert main(arguments) == 0
    shutil.copytree(folder / "store", folder / "OUT")


def _copy(report: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(report, target)


def examples_of(text: str) -> Iterator[str]:
    """The keet commands of a help text, without comments and without what is around them in a
    pipe or a redirection."""
    examples = text.partition("examples:\n")[2].partition("\n\n")[0]
    whole = re.sub(r'"[^"]*"', lambda quoted: " ".join(quoted[0].split()), examples)
    for line in whole.splitlines():
        example = line.strip().partition("   ")[0]
        for part in re.split(r" \| | && | < | > |<\(|\)$", example):
            if match := re.match(r"(?:.* -- (?=keet))?(?:\w+=\S+ )?(keet .*)", part):
                yield match[1]


def needs(command: str) -> str | None:
    """What it takes to run the command; None: nothing."""
    return next((what for what, pattern in NEEDS.items() if re.search(pattern, command)), None)
