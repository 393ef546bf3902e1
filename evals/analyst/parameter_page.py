"""Prints the analyst's constants: `python -m evals.analyst.parameter_page > docs/parameters.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from evals.pages import Heading, Part, Prose, Table, as_markdown
from keet.analysis.parameters import MOST_PARAMETERS, PARAMETERS

ROOT = Path(__file__).parents[2]
_INTRO = f"""\
The numbers that the analyst's model is made of, at most {MOST_PARAMETERS}. fit: chosen on the
casebook's work families, which were measured on an H200 (`python -m evals.analyst.fit`); for other
GPUs it is carried over, and confidence is lower. documentation: a published figure. judgement:
neither of them."""
_BESIDE = """\
Numbers of a single mechanism stand in the code that they serve, with what they mean and where they
come from. They are named here, so that nobody takes the table above for all that was chosen."""
_FOLDERS = ("keet/analysis", "keet/analysis/candidates")


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
        Heading("Beside the code"),
        Prose(_BESIDE),
        Table([("module", "numbers", "names"), *beside()]),
    ]
    return as_markdown("The analyst's parameters", "python -m evals.analyst.parameter_page", parts)


if __name__ == "__main__":
    sys.stdout.write(page())
