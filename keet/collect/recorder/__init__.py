"""The library that records a plain run, compiled once per source, CUPTI and compiler; its files.

It writes one file per process, which may be truncated anywhere if the process crashed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keet.files import cache_folder
from keet.profile.run_table import Migrations, Record
from keet.safe_text import bounded_line

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
    library = (toolkit.library / "libcupti.so").resolve()
    parts = [SOURCE.read_bytes(), str(toolkit).encode(), compiler.encode(), str(library).encode()]
    joined = b"\0".join(parts)
    name = f"recorder_{hashlib.sha256(joined).hexdigest()[:16]}.so"
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
    homes = (  # some keep their parts by target
        home for root in _roots() for home in (root, *sorted(root.glob("targets/*-linux")))
    )
    for home in homes:
        folders = (home / "lib64", home / "lib", home / "extras/CUPTI/lib64")
        library = next((folder for folder in folders if (folder / "libcupti.so").exists()), None)
        for include in (home / "include", home / "extras/CUPTI/include"):
            if library is not None and (include / "cupti.h").is_file():
                return Toolkit(include, library)
    raise NoRecorder("there is no CUDA toolkit with CUPTI (cupti.h and libcupti.so)")


def _roots() -> Iterator[Path]:
    """Toolkits, the one that the user points at first."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home)
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)


def _compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise NoRecorder("there is no C compiler (cc, gcc or clang)")


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
        if done.returncode:
            errors = (line for line in done.stderr.splitlines() if "error" in line)
            first = next(errors, done.stderr).strip()[:160]
            raise NoRecorder(f"the recorder could not be compiled ({first})")
        partial.replace(target)
    except subprocess.TimeoutExpired:
        raise NoRecorder("compiling the recorder took too long") from None
    finally:
        partial.unlink(missing_ok=True)


_HEAD, _NAME = struct.Struct("=II"), struct.Struct("=I")
_FORMS = {"k": "=QQ10I", "s": "=QQQ", "e": "=QQ", "a": "=Q", "m": "=Q", "d": "=I16s", "u": "=QQ"}
_FIXED = {tag.encode(): struct.Struct(form) for tag, form in _FORMS.items()}
"""Records of a fixed length, by their tag."""
_TO_GPU, _TO_HOST, _FAULTS = 1, 2, 4
"""CUPTI's numbers of the counters for managed memory."""


class Recording(NamedTuple):
    """The records of a run, of all its processes."""

    records: tuple[Record, ...]
    processes: int
    """That used CUDA."""
    failures: tuple[int, ...] = ()
    """CUPTI's error codes, of processes that it did not record."""
    unfinished: int = 0
    """Launches that had not ended when their process did."""
    dropped: int = 0
    """Launches that CUPTI lost."""
    complete: bool = True
    """Every process wrote its last record; else the last launches may be missing."""
    managed_bytes: int | None = None
    migrations: Migrations | None = None


class _Process:
    """The file of one process."""

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.records: list[Record] = []
        self.status = 0
        self.ended: tuple[int, ...] | None = None
        self.managed: list[int] = []
        self.counting: int | None = None
        self.migrated: list[tuple[int, int]] = []
        self.devices: dict[int, bytes] = {}
        """By the number that the process knows them by: which GPU it is."""
        self._names: dict[int, tuple[str, str]] = {}
        for tag, content in _parts(data):
            form = _FIXED.get(tag)
            if form and len(content) == form.size:
                self._take(tag, form.unpack(content))
            elif tag == b"n" and len(content) >= _NAME.size:
                mangled, _, full = content[_NAME.size :].partition(b"\0")
                self._names[_NAME.unpack_from(content)[0]] = (_text(mangled), _text(full))

    def _take(self, tag: bytes, fields: tuple[Any, ...]) -> None:
        match tag, *fields:
            case b"k", start, end, name, gx, gy, gz, bx, by, bz, device, correlation, _:
                names = self._names.get(name, ("?", "?"))
                grid, block, at = (gx, gy, gz), (bx, by, bz), (device, self.number, correlation)
                self.records.append(Record(*names, grid, block, start, end, *at))
            case b"s", _, _, status:
                self.status = status
            case b"e", dropped, unfinished:
                self.ended = dropped, unfinished
            case b"a", size:
                self.managed.append(size)
            case b"m", counting:
                self.counting = counting
            case b"d", number, uuid:
                self.devices[number] = uuid
            case b"u", kind, value:
                self.migrated.append((kind, value))


def _parts(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Tag and content of each whole record."""
    at = 0
    while at + _HEAD.size <= len(data):
        tag, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + length > len(data):
            return
        yield bytes([tag & 0xFF]), data[at : at + length]
        at += length


def _text(name: bytes) -> str:
    """As the reader of reports decodes names, so that launches of both match."""
    return bounded_line(name.decode("utf-8", errors="replace"))


def read_recording(folder: Path) -> Recording:
    """All processes of a run; the first to launch a kernel comes first. GPUs have the same numbers
    in all of them: CUDA_VISIBLE_DEVICES may differ."""
    paths = sorted(folder.glob("*.rec"))
    processes = [_Process(number, path.read_bytes()) for number, path in enumerate(paths)]
    ended = [process.ended for process in processes if process.ended]
    numbers: dict[bytes | int, int] = {}
    records = []
    for process in processes:
        for record in process.records:
            gpu = process.devices.get(record.device, record.device)
            records.append(record._replace(device=numbers.setdefault(gpu, len(numbers))))
    is_counted = processes and all(process.counting is not None for process in processes)
    return Recording(
        tuple(records),
        len(processes),
        tuple(process.status for process in processes if process.status),
        sum(end[1] for end in ended),
        sum(end[0] for end in ended),
        len(ended) == len(processes),
        sum(sum(process.managed) for process in processes) if is_counted else None,
        _migrations(processes),
    )


def _migrations(processes: Sequence[_Process]) -> Migrations | None:
    """None where CUPTI refused to count."""
    if not processes or any(process.counting != 0 for process in processes):
        return None
    moved: Counter[int] = Counter()
    for kind, value in (each for process in processes for each in process.migrated):
        moved[kind] += 1 if kind == _FAULTS else value  # a record of faults is one group of them
    return Migrations(moved[_TO_GPU], moved[_TO_HOST], moved[_FAULTS])
