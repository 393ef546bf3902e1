"""Whole commands as ratios: against what a user would write without keet, or against other imports.

python -m tests.benchmarks.commands [ROUNDS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keet.report.input.zstd import zstd
from tests.benchmarks.measure import KEET, Budget, at_most, compared, compared_programs, line
from tests.browser.sample_pages import SLOW, some_launches

ROUNDS = 15
REPORTS = Path(__file__).parent.parent / "data" / "reports"
FULL, LARGER = REPORTS / "tour_full.ncu-repz", REPORTS / "zoo.ncu-repz"
FORMATS = ("terminal", "json", "markdown", "html")

BARE_SCRIPT = """
import sys, ncu_report
for path in sys.argv[1:]:
    for part in ncu_report.load_report(path):
        for action in part:
            for name in action.metric_names()[:300]:
                action.metric_by_name(name).value()
"""
"""What a user would write without keet, to look at a report."""

ALL_THROUGH_NCU_REPORT = """
import sys, time, ncu_report
start = time.process_time()
count = 0
for part in ncu_report.load_report(sys.argv[1]):
    for action in part:
        for name in action.metric_names():
            action.metric_by_name(name).value()
            count += 1
print(time.process_time() - start, count)
"""

CATALOG_THROUGH_KEET = """
import sys, time
import keet.report.ncu_rep.reader
from keet.catalog import metrics
from keet.report import read_profile
names = [spec.id for spec in metrics().values()]
start = time.process_time()
count = 0
for launch in read_profile(sys.argv[1]).launches:
    found = 0
    for name in names:
        found += launch.find(name) is not None
        if found == 300:
            break
    count += found
print(time.process_time() - start, count)
"""


class Comparison(NamedTuple):
    """A command against its yardstick, and the ratio of CPU times that it may have."""

    what: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    budget: Budget


def plain(packed: Path, folder: Path) -> Path:
    """The report as ncu wrote it: budgets are those of plain reports."""
    path = folder / f"{packed.stem}.ncu-rep"
    path.write_bytes(zstd.decompress(packed.read_bytes()))
    return path


def comparisons(folder: Path) -> list[Comparison]:
    python, report = sys.executable, str(plain(FULL, folder))
    bare = (python, "-c", BARE_SCRIPT)
    imports = (python, "-c", "import typer, rich.console")
    script = "a bare script that reads 300 metrics a launch"
    page = str(folder / "page.html")
    explain = (KEET, "explain", "--no-model", "--no-sass", report)
    return [
        *(
            Comparison(
                f"keet explain --no-sass --format {name}, against {script}",
                (*explain, "--format", name, *(("-o", page) if name == "html" else ())),
                (*bare, report),
                at_most(1.8 if name == "html" else 1.5),
            )
            for name in FORMATS
        ),
        Comparison(
            f"keet show, against {script}", (KEET, "show", report), (*bare, report), at_most(1.5)
        ),
        Comparison(
            f"keet diff of two reports, against {script} of both",
            (KEET, "diff", report, report),
            (*bare, report, report),
            at_most(2.5),
        ),
        *(
            Comparison(
                f"keet explain --format html of {what}, against the terminal's format",
                (KEET, "explain", "--no-model", path, "--format", "html", "-o", page),
                (KEET, "explain", "--no-model", path),
                at_most(1.5),  # text of machine code is cached from the second round on
            )
            for what, path in (
                ("one launch", str(SLOW)),
                ("160 launches", str(some_launches(folder, 30, 5))),
            )
        ),
        Comparison(
            "keet --help, against importing typer and rich.console",
            (KEET, "--help"),
            imports,
            at_most(1.5),
        ),
        Comparison(
            "import keet (the design: 60 ms), against importing typer and rich.console",
            (python, "-c", "import keet"),
            imports,
            at_most(0.5),
        ),
    ]


def inside(code: str, *arguments: str) -> Callable[[], float]:
    """Time the part of a program that it times itself, without interpreter and imports."""

    def run() -> float:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0])

    return run


def command_line(comparison: Comparison, rounds: int) -> str:
    measured = compared_programs(comparison.ours, comparison.theirs, rounds)
    return line(measured.cpu.ratio, comparison.budget, measured.amounts, comparison.what)


def metric_lines(folder: Path, rounds: int) -> list[str]:
    found = []
    for name, packed in (("3 launches", FULL), ("8 launches", LARGER)):
        path = str(plain(packed, folder))
        ours = inside(CATALOG_THROUGH_KEET, path)
        theirs = inside(ALL_THROUGH_NCU_REPORT, path)
        ratio = compared(ours, theirs, rounds)
        what = f"300 catalog metrics a launch of {name}, against all through ncu_report"
        found.append(line(ratio.ratio, at_most(1 / 6, "1/6"), ratio.milliseconds, what))
    return found


def lines(rounds: int = ROUNDS) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = [command_line(each, rounds) for each in comparisons(folder)]
        return [*commands, *metric_lines(folder, rounds)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(*map(int, sys.argv[1:]))) + "\n")
