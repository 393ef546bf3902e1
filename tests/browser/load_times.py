"""How long pages take to open: python -m tests.browser.load_times PAGE.html ...

Medians of some loads in a browser that is running: until the page is painted first, until it is whole
and its script has run, and its size. Times are printed and never tested: machines differ and wander.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from tests.browser.driver import Opened, started, why_no_browser

LOADS = 7


def times(opened: Opened) -> list[dict[str, Any]]:
    found = []
    for _ in range(LOADS):
        opened.again(1200)
        found.append(opened.probe("timing"))
    return found


def line(path: Path, found: list[dict[str, Any]]) -> str:
    middle = {key: statistics.median(each[key] for each in found) for key in found[0]}
    return (
        f"{middle['paint']:6.0f} ms painted {middle['load']:6.0f} ms loaded  "
        f"{path.stat().st_size / 1e6:5.2f} MB {middle['elements']:6.0f} elements  {path.name}"
    )


def main() -> int:
    pages = [Path(each) for each in sys.argv[1:]]
    missing = why_no_browser()
    if missing or not pages:
        sys.stderr.write(f"{missing or __doc__}\n")
        return 2
    with started() as browser:
        for page in pages:
            sys.stdout.write(line(page, browser.visit(page, times)) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
