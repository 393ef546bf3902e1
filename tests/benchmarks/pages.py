"""Making a page, as a ratio to explaining the same report on a terminal.

    python -m tests.benchmarks.pages [REPORT ...]

Whole commands, from the start of the interpreter to its end, text of machine code cached, in seconds
of all processors: the clock's depend on what else runs. The budget is a judgement that was made before
the first measurement: a page has every line of the source and every instruction, and may cost half of
an explanation on top of it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.browser.made_pages import SLOW, some_launches

ROUNDS = 5
BUDGET = 1.5
KEET = Path(sys.executable).with_name("keet")


def seconds(report: Path, cache: Path, *options: str) -> float:
    before = os.times()
    subprocess.run(
        [str(KEET), "explain", "--no-model", str(report), *options],
        env=os.environ | {"KEET_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # user and system time of children


def line(report: Path, what: str, cache: Path) -> str:
    """Medians of interleaved runs."""
    page = cache / "page.html"
    as_page = ("--format", "html", "-o", str(page))
    seconds(report, cache)  # fills the cache
    rounds = [(seconds(report, cache, *as_page), seconds(report, cache)) for _ in range(ROUNDS)]
    ratio = statistics.median(made / told for made, told in rounds)
    made, told = (statistics.median(column) for column in zip(*rounds))
    word = "holds" if ratio <= BUDGET else "MISSED"
    return (
        f"  {ratio:5.2f} (budget <= {BUDGET:g}, {word})  {made * 1e3:6.1f} ms / {told * 1e3:6.1f} ms  "
        f"keet explain --format html of {what} ({page.stat().st_size / 1e6:.2f} MB), "
        "against the terminal's format"
    )


def lines(reports: Sequence[Path] = ()) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if reports:
            return [line(report, report.name, folder) for report in reports]
        many = some_launches(folder, 30, 5)
        return [line(SLOW, "one launch", folder), line(many, "160 launches", folder)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines([Path(each) for each in sys.argv[1:]])) + "\n")
