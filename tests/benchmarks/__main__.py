"""`make bench`: is keet as fast as the design asks? Prints ratios; fails on none (machines wander)."""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keet.ingest.zstd import zstd
from tests.benchmarks import batch, code, pages, texts

ROUNDS = 15
REPORTS = Path(__file__).parent.parent / "data" / "reports"
FULL = REPORTS / "tour_full.ncu-rep"

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
start = time.perf_counter()
count = 0
for part in ncu_report.load_report(sys.argv[1]):
    for action in part:
        for name in action.metric_names():
            action.metric_by_name(name).value()
            count += 1
print(time.perf_counter() - start, count)
"""

CATALOG_THROUGH_KEET = """
import sys, time
import keet.ingest.ncu_rep
from keet.catalog import metrics
from keet.ingest import read_profile
names = [spec.id for spec in metrics().values()]
start = time.perf_counter()
count = 0
for launch in read_profile(sys.argv[1]).launches:
    found = 0
    for name in names:
        found += launch.find(name) is not None
        if found == 300:
            break
    count += found
print(time.perf_counter() - start, count)
"""


class Comparison(NamedTuple):
    """keet against its yardstick, and the ratio that the design allows."""

    what: str
    keet: Callable[[], float]
    yardstick: Callable[[], float]
    budget: str
    holds: Callable[[float], bool]


def wall(*command: str) -> Callable[[], float]:
    """Time a whole program, from its start to its end."""

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    return run


def inside(code: str, *arguments: str) -> Callable[[], float]:
    """Time the part of a program that it times itself, without interpreter and imports."""

    def run() -> float:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0])

    return run


def measure(comparison: Comparison) -> tuple[float, float, float]:
    """Medians of interleaved runs, and the median of the ratios of neighbours."""
    pairs = [(comparison.keet(), comparison.yardstick()) for _ in range(ROUNDS)]
    ours, theirs = zip(*pairs)
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(ours), statistics.median(theirs), ratio


def comparisons(unpacked: Path) -> list[Comparison]:
    python, keet = sys.executable, str(Path(sys.executable).with_name("keet"))
    return [
        Comparison(
            "keet show, against a bare script that reads 300 metrics a launch",
            wall(keet, "show", str(FULL)),
            wall(python, "-c", BARE_SCRIPT, str(FULL)),
            "<= 1.5",
            lambda ratio: ratio <= 1.5,
        ),
        Comparison(
            "keet explain --no-model, against a bare script that reads 300 metrics a launch",
            wall(keet, "explain", "--no-model", str(FULL)),
            wall(python, "-c", BARE_SCRIPT, str(FULL)),
            "<= 2",
            lambda ratio: ratio <= 2,
        ),
        Comparison(
            "keet diff of two reports, against a bare script that reads 300 metrics a launch of both",
            wall(keet, "diff", str(FULL), str(FULL)),
            wall(python, "-c", BARE_SCRIPT, str(FULL), str(FULL)),
            "<= 2.5",
            lambda ratio: ratio <= 2.5,
        ),
        Comparison(
            "keet --help, against importing typer and rich.console",
            wall(keet, "--help"),
            wall(python, "-c", "import typer, rich.console"),
            "<= 1.5",
            lambda ratio: ratio <= 1.5,
        ),
        Comparison(
            "import keet (the design: 60 ms), against importing typer and rich.console",
            wall(python, "-c", "import keet"),
            wall(python, "-c", "import typer, rich.console"),
            "<= 0.5",
            lambda ratio: ratio <= 0.5,
        ),
        *(
            Comparison(
                f"300 catalog metrics a launch of {name}, against all through ncu_report",
                inside(CATALOG_THROUGH_KEET, str(path)),
                inside(ALL_THROUGH_NCU_REPORT, str(path)),
                "<= 1/6",
                lambda ratio: ratio <= 1 / 6,
            )
            for name, path in (("3 launches", FULL), ("8 launches", unpacked))
        ),
    ]


def main() -> None:
    lines = [
        f"{datetime.now(UTC).date()}, {platform.machine()}, Python {platform.python_version()}, "
    ]
    lines[0] += f"medians of {ROUNDS} interleaved runs"
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder) / "zoo.ncu-rep"
        unpacked.write_bytes(zstd.decompress((REPORTS / "zoo.ncu-repz").read_bytes()))
        for comparison in comparisons(unpacked):
            ours, theirs, ratio = measure(comparison)
            word = "holds" if comparison.holds(ratio) else "MISSED"
            lines.append(
                f"  {ratio:5.2f} (budget {comparison.budget}, {word})  "
                f"{ours * 1e3:6.1f} ms / {theirs * 1e3:6.1f} ms  {comparison.what}"
            )
    lines += texts.lines()
    lines += code.lines()
    lines += pages.lines()
    lines += batch.lines()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
