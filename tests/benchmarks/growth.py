"""How the time of a command grows with the launches of one report: linear, at any size.

    python -m tests.benchmarks.growth [--share S] [--only WORD] [--folder DIR]
        [--launches 100000] [--gigabytes 5]

Each command reads synthetic reports of N and of 8 N launches (tests/giant_reports.py). What it takes
for 1 launch is subtracted from both, so that the start of a program does not hide how it grows.
--share multiplies all N: 0.1 for a quick look. With --launches N, the reports have N / 8 and N, and
seconds and memory are printed, too. With --gigabytes G, `keet explain` reads one report of that size,
with launches of the set `full`. The files lie in --folder until the end of the run.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import KEET, Point, Spent, at_most, exponent, line, spent
from tests.giant_reports import write_giant

GROWTH = 8
LINEAR = at_most(1.05)
SECONDS, MEGABYTES = at_most(30), at_most(500)
"""For the default view of `keet explain` of a report of 5 GB."""
_SMALLER = {"full": 16}
"""Launches of the set `full` are that many times as large: large reports have so many fewer."""
KERNELS = 40
ROUNDS = 3
CLAIMS = "The kernel takes 3.4 us. DRAM throughput is 61 %.\n" * 20
"""For `keet verify`: sentences that are looked up in every launch."""

Runner = Callable[[Path, Path], Spent]
"""Runs a command on a report. The folder is for what it writes."""


class Command(NamedTuple):
    what: str
    run: Runner
    launches: int
    """N: a second or so of work, so that the start of the program is small against it; more than
    the 400 that are kept in memory, because beyond them a launch costs more, once."""
    kind: str = "small"
    """Which launches the reports have (tests/giant_reports.py)."""


def keet(*words: str, accepted: Sequence[int] = (0,)) -> Runner:
    """`{report}` and `{folder}` are replaced by the paths."""

    def run(report: Path, folder: Path) -> Spent:
        named = [word.format(report=report, folder=folder) for word in words]
        return spent([KEET, *named], accepted=accepted)

    return run


def _batch(report: Path, folder: Path) -> Spent:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return spent([KEET, "batch", "-q", str(report), "-o", f"{out}/store", "--jobs", "1"])


def _verify(report: Path, folder: Path) -> Spent:
    (folder / "text.md").write_text(CLAIMS)
    run = keet("verify", "--report", "{report}", "{folder}/text.md", accepted=(0, 1))
    return run(report, folder)


_EXPLAIN = ("explain", "--no-model", "--no-sass", "{report}")
COMMANDS = (
    Command("show", keet("show", "{report}"), 4_000),
    Command("explain --no-sass", keet(*_EXPLAIN), 4_000),
    Command("explain --no-sass --format json", keet(*_EXPLAIN, "--format", "json"), 500),
    Command("metrics", keet("metrics", "{report}"), 4_000),
    Command("hotspots --no-sass", keet("hotspots", "--no-sass", "{report}"), 40, "full"),
    Command("batch", _batch, 500),
    Command("verify", _verify, 500),
)


class Growth(NamedTuple):
    """The fastest of some runs for each size: disturbances only make a run slower."""

    start: float
    """CPU seconds for one launch."""
    runs: dict[int, Spent]
    """By the number of launches, the smallest first."""

    @property
    def exponent(self) -> float:
        points = [Point(count, run.cpu) for count, run in self.runs.items()]
        return exponent(points, self.start)


@contextmanager
def reports(counts: Sequence[int], kind: str, folder: Path | None) -> Iterator[dict[int, Path]]:
    """Synthetic reports with these numbers of launches."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        made = {count: Path(name) / f"launches_{count}.ncu-rep" for count in counts}
        for count, path in made.items():
            write_giant(path, launches=count, kernels=min(count, KERNELS), kind=kind)
        yield made


def fastest(command: Command, report: Path, rounds: int) -> Spent:
    return min((command.run(report, report.parent) for _ in range(rounds)), key=lambda run: run.cpu)


def measured(command: Command, counts: Sequence[int], folder: Path | None = None) -> Growth:
    with reports([1, *counts], command.kind, folder) as made:
        start = fastest(command, made[1], ROUNDS)
        runs = {count: fastest(command, made[count], _rounds(count, counts)) for count in counts}
    return Growth(start.cpu, runs)


def _rounds(count: int, counts: Sequence[int]) -> int:
    """The largest takes long enough to be exact."""
    return 1 if count == counts[-1] else ROUNDS


def growth_line(command: Command, growth: Growth) -> str:
    (few, small), (many, large) = list(growth.runs.items())[:: len(growth.runs) - 1]
    amounts = f"{large.cpu:6.2f} s / {small.cpu:6.2f} s"
    what = f"exponent of `keet {command.what}`: {many:,} launches against {few:,}"
    return line(growth.exponent, LINEAR, amounts, what)


def lines(
    share: float = 1.0, only: str = "", folder: Path | None = None, launches: int = 0
) -> Iterator[str]:
    for command in COMMANDS:
        if only not in command.what:
            continue
        few = max(int(command.launches * share), 8)
        if launches:
            few = max(launches // _SMALLER.get(command.kind, 1) // GROWTH, 1)
        growth = measured(command, [few, GROWTH * few], folder)
        yield growth_line(command, growth)
        for count, run in growth.runs.items() if launches else ():
            seconds = f"{run.cpu:7.1f} s of CPU time, {run.wall:7.1f} s by the clock"
            yield f"        {count:9,} launches: {seconds}, {run.peak / 1e6:6.0f} MB"


def view_lines(gigabytes: float, folder: Path | None) -> list[str]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        report = Path(name) / "large.ncu-rep"
        launches = write_giant(report, size=int(gigabytes * 1e9), kernels=20, kind="full")
        run = keet("explain", "--no-model", "{report}")(report, Path(name))
    of = f"keet explain of {gigabytes:g} GB with {launches:,} launches"
    return [
        line(run.wall, SECONDS, f"{run.cpu:.1f} s of CPU time", f"seconds of {of}"),
        line(run.peak / 1e6, MEGABYTES, "", f"MB of memory of {of}"),
    ]


def main() -> Iterator[str]:
    parser = ArgumentParser(prog="python -m tests.benchmarks.growth")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", metavar="WORD", default="", help="commands that have this word")
    parser.add_argument("--folder", type=Path, metavar="DIR")
    parser.add_argument("--launches", type=int, metavar="N", default=0)
    parser.add_argument("--gigabytes", type=float, metavar="G", default=0.0)
    args = parser.parse_args()
    if args.launches or not args.gigabytes:
        yield from lines(args.share, args.only, args.folder, args.launches)
    if args.gigabytes:
        yield from view_lines(args.gigabytes, args.folder)


if __name__ == "__main__":
    for each in main():
        sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
