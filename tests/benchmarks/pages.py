"""Making a page, as a ratio to explaining the same report on a terminal.

    python -m tests.benchmarks.pages [REPORT ...]

Whole commands, from the start of the interpreter to its end, text of machine code cached, in seconds
of all processors: the clock's depend on what else runs. The budget is a judgement that was made before
the first measurement: a page has every line of the source and every instruction, and may cost half of
an explanation on top of it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.measure import KEET, at_most, compared, line, spent
from tests.browser.sample_pages import SLOW, some_launches

ROUNDS = 5
BUDGET = at_most(1.5)


def seconds(report: Path, cache: Path, *options: str) -> float:
    command = [KEET, "explain", "--no-model", str(report), *options]
    return spent(command, environment={"KEET_CACHE": str(cache)}).cpu


def page_line(report: Path, what: str, cache: Path) -> str:
    page = cache / "page.html"
    seconds(report, cache)  # fills the cache
    ratio = compared(
        lambda: seconds(report, cache, "--format", "html", "-o", str(page)),
        lambda: seconds(report, cache),
        ROUNDS,
    )
    size = page.stat().st_size / 1e6
    made = f"keet explain --format html of {what} ({size:.2f} MB), against the terminal's format"
    return line(ratio.ratio, BUDGET, ratio.milliseconds, made)


def lines(reports: Sequence[Path] = ()) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if reports:
            return [page_line(report, report.name, folder) for report in reports]
        many = some_launches(folder, 30, 5)
        return [
            page_line(SLOW, "one launch", folder),
            page_line(many, "160 launches", folder),
        ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines([Path(each) for each in sys.argv[1:]])) + "\n")
