"""The library that records a plain run: compiled once per source, CUPTI and compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keet.files import cache_folder

SOURCE = Path(__file__).with_name("recorder.c")
_COMPILE_SECONDS = 60


class Toolkit(NamedTuple):
    """Where CUPTI is."""

    include: Path
    library: Path
    """The folder of libcupti.so."""


class NoRecorder(Exception):
    """Why the recorder can't be had here, in a few words."""


def build_recorder(otherwise: Path | None = None) -> Path:
    """The compiled library; from the cache where it was compiled before. Raises NoRecorder.

    `otherwise`: a folder for it where the cache can't be written.
    """
    toolkit, compiler = find_toolkit(), _compiler()
    name = f"recorder_{_fingerprint(toolkit, compiler)}.so"
    target = (cache_folder() / "recorder" / name).resolve()
    if target.exists():
        return target
    try:
        _compile(compiler, toolkit, target)
    except OSError:
        if otherwise is None:
            raise NoRecorder(f"{target.parent} can't be written") from None
        target = otherwise.resolve() / name
        _compile(compiler, toolkit, target)
    return target


def find_toolkit() -> Toolkit:
    for home in _homes():
        for include in (home / "include", home / "extras/CUPTI/include"):
            if (include / "cupti.h").is_file() and (library := _library(home)):
                return Toolkit(include, library)
    raise NoRecorder("there is no CUDA toolkit with CUPTI (cupti.h and libcupti.so)")


def _homes() -> Iterator[Path]:
    """Toolkits, the one that the user points at first; some keep their parts by target."""
    for home in _roots():
        yield home
        yield from sorted(home.glob("targets/*-linux"))


def _roots() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home)
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)


def _library(home: Path) -> Path | None:
    folders = (home / "lib64", home / "lib", home / "extras/CUPTI/lib64")
    return next((folder for folder in folders if (folder / "libcupti.so").exists()), None)


def _compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise NoRecorder("there is no C compiler (cc, gcc or clang)")


def _fingerprint(toolkit: Toolkit, compiler: str) -> str:
    library = (toolkit.library / "libcupti.so").resolve()
    parts = [SOURCE.read_bytes(), str(toolkit).encode(), compiler.encode(), str(library).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(compiler: str, toolkit: Toolkit, target: Path) -> None:
    """Into the cache, where it appears whole: another keet may compile it at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.partial")
    command = [compiler, "-O2", "-shared", "-fPIC", f"-I{toolkit.include}", "-o", str(partial)]
    command += [str(SOURCE), f"-L{toolkit.library}", f"-Wl,-rpath,{toolkit.library}"]
    command += ["-lcupti", "-ldl", "-lpthread"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        partial.unlink(missing_ok=True)
        raise NoRecorder("compiling the recorder took too long") from None
    if done.returncode:
        partial.unlink(missing_ok=True)
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise NoRecorder(f"the recorder could not be compiled ({first.strip()[:160]})")
    partial.replace(target)
