"""Reports of any size: exponents, seconds and memory of commands on one large report.

    python -m tests.benchmarks.size [--launches 100000] [--gigabytes 5] [--only WORD] [--folder DIR]

With --launches N, every command reads synthetic reports of N / 8 and N small launches, once each.
With --gigabytes G, `keet explain` reads one report of that size, with launches of the set `full`.
The files lie in --folder (default: the folder for temporary files) until the end of the run.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.growth import COMMANDS, GROWTH, Command, growth_line, keet, measured
from tests.benchmarks.measure import Spent, at_most, line
from tests.giant_reports import write_giant

SECONDS, MEGABYTES = at_most(30), at_most(500)
"""For the default view of `keet explain` of a report of 5 GB."""
_SMALLER = {"full": 16}
"""Launches of the set `full` are that many times as large: reports have so many fewer."""
VIEW = keet("explain", "--no-model", "{report}")


def growth_lines(command: Command, launches: int, folder: Path | None) -> Iterator[str]:
    count = max(launches // _SMALLER.get(command.kind, 1), GROWTH)
    growth = measured(command, [count // GROWTH, count], folder)
    yield growth_line(command, growth)
    yield from (_details(count, run) for count, run in growth.runs.items())


def _details(launches: int, run: Spent) -> str:
    return (
        f"        {launches:9,} launches: {run.cpu:7.1f} s of CPU time, {run.wall:7.1f} s by the "
        f"clock, {run.peak / 1e6:6.0f} MB"
    )


def view_lines(gigabytes: float, folder: Path | None) -> list[str]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        report = Path(name) / "large.ncu-rep"
        launches = write_giant(report, size=int(gigabytes * 1e9), kernels=20, kind="full")
        run = VIEW(report, Path(name))
    of = f"keet explain of {gigabytes:g} GB with {launches:,} launches"
    return [
        line(run.wall, SECONDS, f"{run.cpu:.1f} s of CPU time", f"seconds of {of}"),
        line(run.peak / 1e6, MEGABYTES, "", f"MB of memory of {of}"),
    ]


def arguments(words: Sequence[str]) -> Namespace:
    parser = ArgumentParser(description="commands on one large report")
    parser.add_argument("--launches", type=int, metavar="N", default=0)
    parser.add_argument("--gigabytes", type=float, metavar="G", default=0.0)
    parser.add_argument("--only", metavar="WORD", default="", help="commands that have this word")
    parser.add_argument("--folder", type=Path, metavar="DIR")
    return parser.parse_args(words)


def lines(args: Namespace) -> Iterator[str]:
    chosen = [command for command in COMMANDS if args.only in command.what]
    for command in chosen if args.launches else ():
        yield from growth_lines(command, args.launches, args.folder)
    if args.gigabytes:
        yield from view_lines(args.gigabytes, args.folder)


if __name__ == "__main__":
    for each in lines(arguments(sys.argv[1:])):
        sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
