"""The analyst's constants: `python -m evals.analyst.parameter_page > docs/parameters.md`."""

from __future__ import annotations

import sys

from evals.pages import Heading, Part, Prose, Table, as_markdown
from keet.analysis.parameters import MOST_PARAMETERS, PARAMETERS

_INTRO = f"""\
Every number in keet's analyst that is not read from a report or a data sheet, at most
{MOST_PARAMETERS}. fit: chosen on the casebook's work families, which were measured on an H200
(`python -m evals.analyst.fit`); for other GPUs it is carried over, and confidence is lower.
documentation: a published figure. judgement: neither of them."""


def page() -> str:
    rows = [("parameter", "value", "meaning", "source")]
    rows += [(name, f"{p.value:g}", p.meaning, p.source) for name, p in PARAMETERS.items()]
    parts: list[Part] = [
        Prose(_INTRO),
        Heading("Parameters"),
        Table(rows),
    ]
    return as_markdown("The analyst's parameters", "python -m evals.analyst.parameter_page", parts)


if __name__ == "__main__":
    sys.stdout.write(page())
