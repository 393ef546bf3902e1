"""Builds and runs the C++ replay."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict

_HERE = Path(__file__).parent
_COMPILERS = ("c++", "g++", "clang++")
_OPTIONS = ("-std=c++20", "-O2", "-Wall", "-Wextra")


class NoCompiler(Exception):
    """There is no C++ compiler on the PATH."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Loads(_Record):
    """The loads of one pointer on the same source lines."""

    lines: tuple[int, ...]
    requested_bytes: int
    distinct_bytes: int


class Array(_Record):
    """All loads of one pointer."""

    pointer: str
    argument: int
    offset: int
    """Of the pointer in a parameter that is a struct, in bytes."""
    requested_bytes: int
    distinct_bytes: int
    loads: tuple[Loads, ...]


class Replayed(_Record):
    """One kernel launch."""

    report: str
    """Path, relative to the repository."""
    launch: int
    name: str
    how: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: tuple[Array, ...]


def replay() -> list[Replayed]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "replay"
        sources = [str(path) for path in sorted(_HERE.glob("*.cc"))]
        subprocess.run([_compiler(), *_OPTIONS, *sources, "-o", str(program)], check=True)
        done = subprocess.run([str(program)], check=True, stdout=subprocess.PIPE, text=True)
    return [Replayed.model_validate_json(line) for line in done.stdout.splitlines()]


def _compiler() -> str:
    for name in _COMPILERS:
        if found := shutil.which(name):
            return found
    raise NoCompiler(f"the replay needs a C++20 compiler: one of {', '.join(_COMPILERS)}")
