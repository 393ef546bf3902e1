"""Shared by the `keet eval` actions that need no model: options, output and exit code."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

from evals.pages import Heading, Part, Prose, as_markdown, as_text
from evals.thresholds import Reached, Task, threshold_table
from keet.cli.arguments import Destination, add_output
from keet.errors import ExitCode, NotAvailable


class Result(NamedTuple):
    """The result of one task."""

    task: Task
    title: str
    parts: Sequence[Part]
    document: dict[str, Any]
    thresholds: Sequence[Reached]
    options: str = ""
    """Options of the command that prints this result."""


def need(scored: Sequence[object]) -> None:
    """Raises if no sample could be scored, because there is no mean then."""
    if not scored:
        raise NotAvailable("none of the samples has its reports; run: make samples")


def add_options(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json", "markdown")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a threshold is missed")


def finish(args: Namespace, result: Result) -> int:
    """Print the result. Missed thresholds go to stderr, so that stdout has only the result."""
    Destination(args).write(printed(result, args.format))
    missed = [each for each in result.thresholds if not each.met] if args.check else []
    for each in missed:
        sys.stderr.write(f"missed: {_missed(each)}\n")
    return ExitCode.CHECK_FAILED if missed else 0


def printed(result: Result, wanted: str) -> str:
    if wanted == "json":
        return json.dumps(_finite(_document(result)), indent=2, allow_nan=False) + "\n"
    parts = [*result.parts, *_thresholds(result)]
    if wanted == "markdown":
        options = f"{result.options} " if result.options else ""
        command = f"keet eval {result.task} {options}--format markdown"
        return as_markdown(result.title, command, parts)
    return as_text([Heading(result.title), *parts])


def _document(result: Result) -> dict[str, Any]:
    bars = [
        {**each.threshold._asdict(), "reached": each.value, "met": each.met}
        for each in result.thresholds
    ]
    return {"schema_version": 2, "task": result.task, **result.document, "bars": bars}


def _finite(value: Any) -> Any:
    """JSON has no infinity: an infinite forecast becomes null, next to the reason why it is
    invalid."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thresholds(result: Result) -> list[Part]:
    if not result.thresholds:
        return []
    note = f"`keet eval {result.task} --check` exits with 1 if one is missed."
    return [Heading("Thresholds"), Prose(note), threshold_table(result.thresholds)]


def _missed(reached: Reached) -> str:
    required = reached.threshold
    limit = f"{required.side} {required.limit:g}"
    return f"{required.value} is {reached.value:.3f}, required is {limit}: {required.why}"
