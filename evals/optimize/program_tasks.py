"""The programs of the folder `programs` as tasks of keet.optimize."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

from keet.errors import one_line
from keet.optimize.task import Limits, Task

PROGRAMS = Path(__file__).with_name("programs")
STARTS = ("naive", "once")
_REFEREE = Path(__file__).with_name("referee.py")
_PROFILE_SECONDS = 90.0
"""GPUs are lent by the minute; what ncu has profiled by then counts."""


class Program(NamedTuple):
    name: str
    build: str
    run: str
    """A template with `{app}`, `{seed}` and `{out}`."""
    seeds: tuple[int, ...]
    """The first one is that of the runs that are timed."""
    headers: tuple[str, ...]
    tolerance: str
    """In words, for whoever changes the program."""


def load_programs() -> dict[str, Program]:
    return {path.parent.name: _load(path) for path in sorted(PROGRAMS.glob("*/program.toml"))}


def _load(path: Path) -> Program:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    headers = tuple(name for name in content["fixed"] if name.endswith(".h"))
    name = path.parent.name
    seeds, tolerance = tuple(content["seeds"]), one_line(content["tolerance"])
    return Program(name, content["build"], content["run"], seeds, headers, tolerance)


def write_source(program: Program, start: str, folder: Path) -> None:
    """The source as a proposer gets it, and `check/`, which only the check has. It appears when it
    is complete."""
    home, partial = PROGRAMS / program.name, folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    check = partial / "check"
    check.mkdir(parents=True)
    source = f"{program.name}.cu"
    for version, target in ((start, partial / source), ("naive", check / "reference.cu")):
        text = (home / version / source).read_text(encoding="utf-8")
        target.write_text(text.replace('#include "../', '#include "'), encoding="utf-8")
    shutil.copyfile(home / "check.py", check / "check.py")
    shutil.copyfile(_REFEREE, check / "referee.py")
    for header in program.headers:
        shutil.copyfile(home / header, partial / header)
        shutil.copyfile(home / header, check / header)
    commands = {"source": source, **program._asdict()}
    (check / "commands.json").write_text(json.dumps(commands), encoding="utf-8")
    partial.replace(folder)


def task_of(program: Program, source: Path, *, rounds: int, repeats: int) -> Task:
    file = f"{program.name}.cu"
    seeds = " and ".join(map(str, program.seeds))
    told = f"compares the results for seeds {seeds} with the original's: {program.tolerance}"
    return Task(
        source=source,
        build=program.build.format(app="app", source=file),
        run=program.run.format(app="./app", seed=program.seeds[0], out="out.bin"),
        may_change=(file,),
        check=f"python3 check/referee.py  # {told}",
        check_files=("check/*",),
        rounds=rounds,
        repeats=repeats,
        only_rounds=True,
        limits=Limits(profile_s=_PROFILE_SECONDS),
    )
