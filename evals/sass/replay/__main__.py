"""Replays the kernels of evals/sass/reuse_truth.toml and says what differs from it and from the
reports.

    python -m evals.sass.replay

The exact number of distinct bytes that kernels load: a C++ program (`*.cc`) goes through all
threads of a launch one by one, on the CPU, and computes their index expressions. It needs a C++20
compiler and about half a minute. Exit status: 0 if all agree, 1 if something differs, 2 if there is
no C++ compiler.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keet.profile.launch import Launch
from keet.report import read_profile

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]
TABLE = _HERE.with_name("reuse_truth.toml")
_COMPILERS = ("c++", "g++", "clang++")
_OPTIONS = ("-std=c++20", "-O2", "-Wall", "-Wextra")
TOLERANCE = 0.01
"""Largest allowed difference between bytes counted and bytes replayed, relative to the former."""

_GLOBAL = 4
_LOAD = 2
"""Bits of ncu's columns `memory_type` and `memory_access_type`. An asynchronous copy from global
to shared memory has both types of memory, and is a load and a store."""
_BYTES = {1: 1, 2: 1, 4: 2, 8: 2, 32: 4, 64: 8, 128: 16}
"""Bytes per thread by ncu's column `memory_access_size_type`. Above 16 the value is the number of
bits; 8-bit and 16-bit accesses have one value for signed and one for unsigned numbers."""

Kernel = dict[str, Any]
"""One launch, as a line of the replay's output: `report` (relative to the repository), `launch`,
`name`, `how`, `grid`, `block`, and `arrays`: all loads of one pointer, and in `loads` those on the
same source lines, each with its requested and distinct bytes."""


def main() -> int:
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        sys.stderr.write(f"the replay needs a C++20 compiler: one of {', '.join(_COMPILERS)}\n")
        return 2
    kernels = replay(compiler)
    told = [
        f"{kernel['report']} #{kernel['launch']}: {problem}"
        for kernel in kernels
        for problem in problems(kernel)
    ]
    told += table_differences(kernels)
    sys.stdout.writelines(f"{line}\n" for line in told)
    sys.stdout.write(f"{len(kernels)} kernels replayed, {len(told)} differences\n")
    return 1 if told else 0


def replay(compiler: str) -> list[Kernel]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "replay"
        sources = [str(path) for path in sorted(_HERE.glob("*.cc"))]
        subprocess.run([compiler, *_OPTIONS, *sources, "-o", str(program)], check=True)
        done = subprocess.run([str(program)], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- the table of true values


def table_differences(kernels: list[Kernel]) -> Iterator[str]:
    """One message per kernel whose entry differs from the replay."""
    stored = _by_launch(tomllib.loads(TABLE.read_text(encoding="utf-8"))["kernel"])
    replayed = _by_launch(map(_entry, kernels))
    for key in stored.keys() | replayed.keys():
        if stored.get(key) != replayed.get(key):
            told = f"the table has {stored.get(key)}, the replay gives {replayed.get(key)}"
            yield f"{key[0]} #{key[1]}: {told}"


def _by_launch(entries: Iterator[Kernel] | list[Kernel]) -> dict[tuple[str, int], Kernel]:
    return {(entry["report"], entry["launch"]): entry for entry in entries}


def _entry(kernel: Kernel) -> Kernel:
    """As the table has it."""
    entry: Kernel = {name: kernel[name] for name in ("report", "launch", "name", "how")}
    entry["load"], entry["pointer"] = [], []
    for array in kernel["arrays"]:
        own = {name: array[name] for name in ("pointer", "argument")}
        if "." in array["pointer"]:
            own["offset"] = array["offset"]
        entry["load"] += [{**own, **loads} for loads in array["loads"]]
        amounts = {name: array[name] for name in ("requested_bytes", "distinct_bytes")}
        entry["pointer"].append({**own, **amounts})
    return entry


# --- the reports


def problems(kernel: Kernel) -> Iterator[str]:
    """One message per difference from the report: launch size, bytes requested per source line."""
    launch = read_profile(_ROOT / kernel["report"]).launches[kernel["launch"]]
    reported = (launch.kernel, launch.grid, launch.block)
    expected = (kernel["name"], tuple(kernel["grid"]), tuple(kernel["block"]))
    if reported != expected:
        yield f"the report is of {reported}, the replay of {expected} (name, grid, block)"
    counted = _counted(launch)
    replayed: Counter[tuple[int, ...]] = Counter()
    for array in kernel["arrays"]:
        for loads in array["loads"]:
            replayed[tuple(loads["lines"])] += loads["requested_bytes"]
    for lines, requested in replayed.items():
        yield from _compared(f"lines {lines}", sum(counted[line] for line in lines), requested)
    yield from _compared("all lines", sum(counted.values()), sum(replayed.values()))


def _compared(where: str, counted: int, replayed: int) -> Iterator[str]:
    if abs(counted - replayed) > TOLERANCE * counted:
        yield f"{where}: {counted:,} bytes requested in the report, {replayed:,} in the replay"


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
    column = launch.instances(name)
    if column is None:
        raise ValueError(f"the report has no column {name}")
    return {int(address): int(value) for address, value in column.pairs() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
