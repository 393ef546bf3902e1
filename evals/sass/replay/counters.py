"""Checks a replay against the report: launch size, and bytes requested per source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from evals.sass.replay.program import Replayed
from keet.ingest import read_profile
from keet.profile.launch import Launch

TOLERANCE = 0.01
"""Largest allowed difference between bytes counted and bytes replayed, relative to the former."""

_GLOBAL = 4
_LOAD = 2
"""Bits of ncu's columns `memory_type` and `memory_access_type`. An asynchronous copy from global
to shared memory has both types of memory, and is a load and a store."""

_BYTES = {1: 1, 2: 1, 4: 2, 8: 2, 32: 4, 64: 8, 128: 16}
"""Bytes per thread by ncu's column `memory_access_size_type`. Above 16 the value is the number of
bits; 8-bit and 16-bit accesses have one value for signed and one for unsigned numbers."""


def problems(root: Path, kernel: Replayed) -> Iterator[str]:
    """One message per difference between the report and the replay."""
    launch = read_profile(root / kernel.report).launches[kernel.launch]
    reported = (launch.kernel, launch.grid, launch.block)
    expected = (kernel.name, kernel.grid, kernel.block)
    if reported != expected:
        yield f"the report is of {reported}, the replay of {expected} (name, grid, block)"
    counted = _counted(launch)
    replayed = _by_lines(kernel)
    for lines, requested in replayed.items():
        yield from _compared(f"lines {lines}", sum(counted[line] for line in lines), requested)
    yield from _compared("all lines", sum(counted.values()), sum(replayed.values()))


def _compared(where: str, counted: int, replayed: int) -> Iterator[str]:
    if abs(counted - replayed) > TOLERANCE * counted:
        yield f"{where}: {counted:,} bytes requested in the report, {replayed:,} in the replay"


def _by_lines(kernel: Replayed) -> Counter[tuple[int, ...]]:
    requested: Counter[tuple[int, ...]] = Counter()
    for array in kernel.arrays:
        for loads in array.loads:
            requested[loads.lines] += loads.requested_bytes
    return requested


def _counted(launch: Launch) -> Counter[int]:
    """Bytes that the threads of executed global loads requested, by source line."""
    memory = _column(launch, "memory_type")
    access = _column(launch, "memory_access_type")
    size = _column(launch, "memory_access_size_type")
    threads = _column(launch, "thread_inst_executed_true")
    lines = launch.data.locations()
    requested: Counter[int] = Counter()
    for address, types in memory.items():
        if types & _GLOBAL and access.get(address, 0) & _LOAD and threads.get(address):
            requested[lines[address].line] += threads[address] * _BYTES[size[address]]
    return requested


def _column(launch: Launch, name: str) -> dict[int, int]:
    found = launch.instances(name)
    if found is None:
        raise ValueError(f"the report has no column {name}")
    return {int(address): int(value) for address, value in found.pairs() if value is not None}
