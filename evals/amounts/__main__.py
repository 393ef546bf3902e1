"""`python -m evals.amounts [second|third]`: how keet's amounts compare with the known ones. The
first score of a set that was held out counts; afterwards rules may be improved on it."""

from __future__ import annotations

import sys

from evals.amounts.score import scores, table

if __name__ == "__main__":
    print(table(list(scores("".join(f"_{name}" for name in sys.argv[1:])))))  # noqa: T201 - what the command is for
