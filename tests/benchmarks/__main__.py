"""`make bench`: is keet as fast as it should be? Prints ratios; fails on none (machines wander)."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime

from tests.benchmarks import batch, code, commands, growth, texts

PARTS = {
    "Commands": commands.lines,
    "Growth with the number of launches": growth.lines,
    "Growth with the length of a text": texts.lines,
    "Batch": batch.lines,
    "Machine code": code.lines,
}


def main() -> None:
    """Each part is printed when it is done: all of them take some minutes."""
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    sys.stdout.write(f"{datetime.now(UTC).date()}, {machine}\n")
    for title, lines in PARTS.items():
        sys.stdout.write(f"\n{title}\n")
        sys.stdout.flush()
        sys.stdout.write("\n".join(lines()) + "\n")


if __name__ == "__main__":
    main()
