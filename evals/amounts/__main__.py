"""`python -m evals.amounts [second]`: how keet's amounts compare with the known ones. The second
set is held out: it is opened for a score, never to change a rule."""

from __future__ import annotations

import sys

from evals.amounts.score import scores, table

if __name__ == "__main__":
    print(table(list(scores("_second" if sys.argv[1:] == ["second"] else ""))))  # noqa: T201 - what the command is for
