"""Prints the parameters: `python -m evals.analyst.parameter_page > docs/parameters.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from evals.pages import Heading, Part, Prose, Table, as_markdown
from keet.analysis.parameters import MOST_PARAMETERS, PARAMETERS

ROOT = Path(__file__).parents[2]
_INTRO = f"""\
The parameters of the analyst's time model, at most {MOST_PARAMETERS}. Sources: *fit* is fitted on
the casebook's work families, which were measured on an H200 (`python -m evals.analyst.fit`); it is
also used for other GPUs, with lower confidence. *documentation* is a published figure. *judgement*
was chosen by hand."""
_BESIDE = """\
Constants that only one module uses are defined in that module, with their meaning and source. This
table lists them, so that all chosen numbers are visible."""
_FOLDERS = (
    "keet/analysis",
    *(
        f"keet/analysis/{folder}"
        for folder in (
            "candidates",
            "capture",
            "hardware",
            "kernel",
            "replay",
            "roofline",
            "several_launches",
            "source_lines",
        )
    ),
)


def beside() -> list[tuple[str, ...]]:
    """Module and name of every numeric constant in the analyst's modules."""
    found: list[tuple[str, ...]] = []
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).glob("*.py")):
            names = [name for name, value in _constants(path) if isinstance(value, int | float)]
            if names and path.name != "parameters.py":
                found.append((f"{folder}/{path.name}", str(len(names)), ", ".join(names)))
    return found


def _constants(path: Path) -> Iterator[tuple[str, object]]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _assigned(target, node.value)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, object]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts):
            yield from _assigned(one, other)
    elif isinstance(target, ast.Name) and isinstance(value, ast.Constant):
        yield target.id, value.value


def page() -> str:
    rows = [("parameter", "value", "meaning", "source")]
    rows += [(name, f"{p.value:g}", p.meaning, p.source) for name, p in PARAMETERS.items()]
    parts: list[Part] = [
        Prose(_INTRO),
        Heading("Parameters"),
        Table(rows),
        Heading("Constants in the code"),
        Prose(_BESIDE),
        Table([("module", "numbers", "names"), *beside()]),
    ]
    return as_markdown("The analyst's parameters", "python -m evals.analyst.parameter_page", parts)


if __name__ == "__main__":
    sys.stdout.write(page())
