"""The library that records a plain run, compiled once per source, CUPTI and compiler; its files.

It writes one file per process, which may be truncated anywhere if the process crashed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
    except subprocess.TimeoutExpired:
        partial.unlink(missing_ok=True)
        raise NoRecorder("compiling the recorder took too long") from None
    if done.returncode:
        partial.unlink(missing_ok=True)
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise NoRecorder(f"the recorder could not be compiled ({first.strip()[:160]})")
    partial.replace(target)


_HEAD = struct.Struct("=II")
_KERNEL = struct.Struct("=QQ10I")
_DEVICE = struct.Struct("=I16s")
_NAME = struct.Struct("=I")
_START = struct.Struct("=QQQ")
_END = struct.Struct("=QQ")
_MIGRATION = struct.Struct("=QQ")
_COUNT = struct.Struct("=Q")
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

    def __init__(self, number: int) -> None:
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

    def read(self, data: bytes) -> None:
        for tag, content in _parts(data):
            if tag == b"k" and len(content) == _KERNEL.size:
                fields = _KERNEL.unpack(content)
                start, end, name, gx, gy, gz, bx, by, bz, device, correlation, _ = fields
                names = self._names.get(name, ("?", "?"))
                grid, block = (gx, gy, gz), (bx, by, bz)
                at = device, self.number, correlation
                self.records.append(Record(*names, grid, block, start, end, *at))
            elif tag == b"n" and len(content) >= _NAME.size:
                mangled, _, full = content[_NAME.size :].partition(b"\0")
                self._names[_NAME.unpack_from(content)[0]] = (_text(mangled), _text(full))
            else:
                self._other(tag, content)

    def _other(self, tag: bytes, content: bytes) -> None:
        if tag == b"s" and len(content) == _START.size:
            self.status = _START.unpack(content)[2]
        elif tag == b"e" and len(content) == _END.size:
            self.ended = _END.unpack(content)
        elif tag == b"a" and len(content) == _COUNT.size:
            self.managed.append(_COUNT.unpack(content)[0])
        elif tag == b"m" and len(content) == _COUNT.size:
            self.counting = _COUNT.unpack(content)[0]
        elif tag == b"d" and len(content) == _DEVICE.size:
            number, uuid = _DEVICE.unpack(content)
            self.devices[number] = uuid
        elif tag == b"u" and len(content) == _MIGRATION.size:
            self.migrated.append(_MIGRATION.unpack(content))


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
    processes: list[_Process] = []
    for path in sorted(folder.glob("*.rec")):
        process = _Process(len(processes))
        process.read(path.read_bytes())
        processes.append(process)
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
    moved = {_TO_GPU: 0, _TO_HOST: 0, _FAULTS: 0}
    for process in processes:
        for kind, value in process.migrated:
            if kind in moved:  # a record of faults is one group of them
                moved[kind] += 1 if kind == _FAULTS else value
    return Migrations(moved[_TO_GPU], moved[_TO_HOST], moved[_FAULTS])
