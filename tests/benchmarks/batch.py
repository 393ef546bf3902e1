"""`keet batch` as ratios: per core against a plain loop, on two cores against one, and memory.

    python -m tests.benchmarks.batch [FILES]

The files are copies of the samples' reports, each with other bytes in ncu's command line. They are of
the same size as their like, so that keet looks at each twice: the worst case.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from keet.cli.batch import ANALYSE
from keet.corpus.pool import Limits, Pool
from keet.corpus.worker import Task
from tests.varied import varied

SAMPLES = Path(__file__).parent.parent.parent / "kernels_samples"
ROUNDS = 3
COMPARED = 400
"""Files for the plain loop: NVIDIA's reader keeps 3 MB of each launch that it touches."""
MANY = 2_000
"""Files for keet: the second that a run takes to start is not what is asked here."""

PLAIN_LOOP = """
import sys, ncu_report
count = 0
for path in sys.stdin.read().split("\\n"):
    for part in ncu_report.load_report(path):
        for action in part:
            count += 1
            for name in action.metric_names():
                action.metric_by_name(name).value()
print(count)
"""
"""What a user would write without keet, to get the numbers of many reports."""

WITH_INSTANCES = PLAIN_LOOP.replace(
    "action.metric_by_name(name).value()",
    """metric = action.metric_by_name(name)
                metric.value()
                for at in range(metric.num_instances()): metric.value(at)""",
)
"""The same with every value of each instruction; keet reads those of some fifteen metrics."""


class Rate(NamedTuple):
    """Launches a second: of the clock, and of all processors together."""

    wall: float
    core: float


def write_copies(folder: Path, count: int) -> list[Path]:
    """Every sample in turn."""
    originals = [path.read_bytes() for path in sorted(SAMPLES.glob("*/*.ncu-rep"))]
    paths = [folder / f"{number // 100:03}" / f"{number:05}.ncu-rep" for number in range(count)]
    for number, (path, data) in enumerate(zip(paths, islice(cycle(originals), count))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(varied(data, number))
    return paths


def measured(command: Sequence[str], given: str = "") -> tuple[str, Rate]:
    """Run it; `Rate` is of one launch here."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return done.stdout, Rate(1 / wall, 1 / spent)


def plain_loop(code: str, paths: Sequence[Path]) -> Rate:
    out, one = measured([sys.executable, "-c", code], "\n".join(map(str, paths)))
    return Rate(*(int(out) * each for each in one))


def keet_batch(folder: Path, launches: int, jobs: int) -> Rate:
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "keet", "batch", str(folder), "-o", f"{out}/store"]
        _, one = measured([*command, "--jobs", str(jobs)])
    return Rate(*(launches * each for each in one))


def launches_of(paths: Sequence[Path]) -> int:
    from keet.ingest import read_profile

    return sum(len(read_profile(path).launches) for path in paths)


def rates(folder: Path, paths: Sequence[Path]) -> list[str]:
    """Medians of interleaved runs."""
    launches, some = launches_of(paths), paths[:COMPARED]
    runs = [
        (
            keet_batch(folder, launches, 1),
            keet_batch(folder, launches, 2),
            plain_loop(PLAIN_LOOP, some),
        )
        for _ in range(ROUNDS)
    ]
    one, two, plain = (_median(column) for column in zip(*runs))
    whole = plain_loop(WITH_INSTANCES, some[::4])
    return [
        _line(one.core / plain.core, ">= 8", one.core / plain.core >= 8)
        + f"{one.core:6.0f} / {plain.core:6.0f} launches a second and core  "
        "keet batch, against a plain loop over every metric through ncu_report",
        _line(one.core / whole.core, "", None)
        + f"{one.core:6.0f} / {whole.core:6.0f} launches a second and core  "
        "the same, where the loop reads every value of each instruction too (no budget)",
        _line(two.wall / one.wall, ">= 1.8", two.wall / one.wall >= 1.8)
        + f"{two.wall:6.0f} / {one.wall:6.0f} launches a second  keet batch --jobs 2, against 1",
    ]


def _median(runs: Sequence[Rate]) -> Rate:
    return Rate(*(statistics.median(column) for column in zip(*runs)))


def _line(ratio: float, budget: str, holds: bool | None) -> str:
    word = "" if holds is None else f"(budget {budget}, {'holds' if holds else 'MISSED'})"
    return f"  {ratio:5.2f} {word:24}"


class Memory(NamedTuple):
    """Bytes that a worker holds after a file: in the second tenth of the files, and in the last."""

    early: float
    late: float
    most: int


def worker_memory(paths: Sequence[Path]) -> Memory:
    """One worker that is never replaced."""
    held: list[int] = []
    waiting = [Task(n, "analyse", str(path)) for n, path in enumerate(paths)][::-1]
    with Pool(ANALYSE, 1, Limits(files=len(paths) + 1, memory=1 << 40)) as pool:
        while len(held) < len(paths):
            while waiting and pool.room() > 0:
                pool.submit(waiting.pop())
            held += [answer.memory for answer in pool.wait(1.0)]
    some = max(len(held) // 10, 1)
    return Memory(
        statistics.median(held[some : 2 * some]), statistics.median(held[-some:]), max(held)
    )


def memory(paths: Sequence[Path]) -> list[str]:
    seen = worker_memory(paths)
    ratio = seen.late / seen.early
    return [
        _line(ratio, "<= 1.1", ratio <= 1.1)
        + f"{seen.late / 1e6:6.0f} / {seen.early / 1e6:6.0f} MB  "
        f"memory of a worker at the end of {len(paths):,} files, against the beginning"
    ]


def lines(many: int = MANY) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        paths = write_copies(Path(name), many)
        return [*rates(Path(name), paths), *memory(paths)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(*map(int, sys.argv[1:]))) + "\n")
