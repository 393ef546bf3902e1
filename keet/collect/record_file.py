"""Reads the files of recorder/recorder.c: one per process, truncated anywhere if it crashed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keet.profile.run_table import Migrations
from keet.profile.timeline import Record
from keet.safe_text import bounded_line

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
                self.records.append(self._kernel(_KERNEL.unpack(content)))
            elif tag == b"n" and len(content) >= _NAME.size:
                mangled, _, full = content[_NAME.size :].partition(b"\0")
                self._names[_NAME.unpack_from(content)[0]] = (_text(mangled), _text(full))
            else:
                self._other(tag, content)

    def _kernel(self, fields: Sequence[int]) -> Record:
        start, end, name, gx, gy, gz, bx, by, bz, device, correlation, _ = fields
        mangled, full = self._names.get(name, ("?", "?"))
        return Record(
            mangled, full, (gx, gy, gz), (bx, by, bz), start, end, device, self.number, correlation
        )

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
    """All processes of a run; the first to launch a kernel comes first."""
    processes: list[_Process] = []
    for path in sorted(folder.glob("*.rec")):
        process = _Process(len(processes))
        process.read(path.read_bytes())
        processes.append(process)
    ended = [process.ended for process in processes if process.ended]
    return Recording(
        tuple(_with_common_devices(processes)),
        len(processes),
        tuple(process.status for process in processes if process.status),
        sum(end[1] for end in ended),
        sum(end[0] for end in ended),
        len(ended) == len(processes),
        _managed(processes),
        _migrations(processes),
    )


def _with_common_devices(processes: Sequence[_Process]) -> Iterator[Record]:
    """With the same device numbers for all processes: CUDA_VISIBLE_DEVICES may differ."""
    numbers: dict[bytes | int, int] = {}
    for process in processes:
        for record in process.records:
            gpu = process.devices.get(record.device, record.device)
            yield record._replace(device=numbers.setdefault(gpu, len(numbers)))


def _managed(processes: Sequence[_Process]) -> int | None:
    """None if the allocations of a process were not recorded."""
    if not processes or any(process.counting is None for process in processes):
        return None
    return sum(sum(process.managed) for process in processes)


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
