"""Scores of the machine-code analysis: `python -m evals.sass > evals/results/machine_code.md`."""

from __future__ import annotations

import sys

from evals.sass.page import page

if __name__ == "__main__":
    sys.stdout.write(page())
