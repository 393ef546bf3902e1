"""`keet batch` as ratios: per core against a plain loop, on two cores against one, and memory.

    python -m tests.benchmarks.batch [FILES]

The files are copies of the samples' reports, each with other bytes in ncu's command line. They are of
the same size as their like, so that keet looks at each twice: the worst case.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from keet.corpus.batch.worker import Task, analyse
from keet.corpus.batch.worker_pool import Pool, WorkerLimits
from tests.benchmarks.measure import KEET, at_least, at_most, line, spent
from tests.kept_reports import unpacked
from tests.varied import varied

SAMPLES = Path(__file__).parent.parent.parent / "kernels_samples"
ROUNDS = 3
COMPARED = 400
"""Files for the plain loop: NVIDIA's reader keeps 3 MB of each launch that it touches."""
MANY = 2_000
"""Files for keet. The start of a run is part of what is measured."""
PER_CORE, TWO_WORKERS, MEMORY = at_least(2.5), at_least(1.8), at_most(1.1)

PLAIN_LOOP = """
from tests.kept_reports import unpacked
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


class Rate(NamedTuple):
    """Launches per second of wall time, and per second of CPU time of all processes."""

    wall: float
    core: float


def write_copies(folder: Path, count: int) -> list[Path]:
    """Every sample in turn."""
    originals = [unpacked(path) for path in sorted(SAMPLES.glob("*/*.ncu-rep*"))]
    paths = [folder / f"{number // 100:03}" / f"{number:05}.ncu-rep" for number in range(count)]
    for number, (path, data) in enumerate(zip(paths, islice(cycle(originals), count))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(varied(data, number))
    return paths


def rate(launches: int, command: Sequence[str], given: str = "") -> Rate:
    run = spent(command, given)
    return Rate(launches / run.wall, launches / run.cpu)


def plain_loop(code: str, paths: Sequence[Path]) -> Rate:
    names = "\n".join(map(str, paths))
    run = spent([sys.executable, "-c", code], names)
    return Rate(int(run.out) / run.wall, int(run.out) / run.cpu)


def keet_batch(folder: Path, launches: int, jobs: int) -> Rate:
    with tempfile.TemporaryDirectory() as out:
        command = [KEET, "batch", "-q", str(folder), "-o", f"{out}/store", "--jobs", str(jobs)]
        return rate(launches, command)


def launches_of(paths: Sequence[Path]) -> int:
    from keet.report import read_profile

    return sum(len(read_profile(path).launches) for path in paths)


def rates(folder: Path, paths: Sequence[Path]) -> list[str]:
    """Medians of interleaved runs."""
    launches, some = launches_of(paths), paths[:COMPARED]
    runs = [
        (*(keet_batch(folder, launches, jobs) for jobs in (1, 2)), plain_loop(PLAIN_LOOP, some))
        for _ in range(ROUNDS)
    ]
    one, two, plain = (_median(column) for column in zip(*runs))
    return [
        line(
            one.core / plain.core,
            PER_CORE,
            f"{one.core:6.0f} / {plain.core:6.0f} launches per second and core",
            "keet batch, against a plain loop over every metric through ncu_report",
        ),
        line(
            two.wall / one.wall,
            TWO_WORKERS,
            f"{two.wall:6.0f} / {one.wall:6.0f} launches per second",
            "keet batch --jobs 2, against --jobs 1, by the clock",
        ),
    ]


def _median(runs: Sequence[Rate]) -> Rate:
    return Rate(*(statistics.median(column) for column in zip(*runs)))


class Memory(NamedTuple):
    """Bytes of a worker after a file: in the second tenth of the files, and in the last."""

    early: float
    late: float
    most: int


def worker_memory(paths: Sequence[Path]) -> Memory:
    """One worker that is never replaced."""
    held: list[int] = []
    waiting = [Task(n, "analyse", str(path)) for n, path in enumerate(paths)][::-1]
    with Pool(analyse, 1, WorkerLimits(files=len(paths) + 1, memory=1 << 40)) as pool:
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
    return [
        line(
            seen.late / seen.early,
            MEMORY,
            f"{seen.late / 1e6:6.0f} / {seen.early / 1e6:6.0f} MB",
            f"memory of a worker at the end of {len(paths):,} files, against the beginning",
        )
    ]


def lines(many: int = MANY) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        paths = write_copies(Path(name), many)
        return [*rates(Path(name), paths), *memory(paths)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(*map(int, sys.argv[1:]))) + "\n")
