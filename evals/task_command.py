"""What the actions share that need no model: their options, where results go, and the exit code."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

from evals.pages import Heading, Part, Prose, as_markdown, as_text
from evals.thresholds import Held, Task, bar_table
from keet.cli.arguments import Destination, add_output
from keet.errors import ExitCode, NotAvailable


class Result(NamedTuple):
    """A task done."""

    task: Task
    title: str
    parts: Sequence[Part]
    document: dict[str, Any]
    bars: Sequence[Held]
    options: str = ""
    """Of the command that prints this much."""


def need(scored: Sequence[object]) -> None:
    """Means of nothing are none: not one sample could be scored."""
    if not scored:
        raise NotAvailable("none of the samples has its reports; run: make samples")


def add_options(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json", "markdown")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")


def finish(args: Namespace, result: Result) -> int:
    """Print it; misses go to stderr, so that the result stays what it is."""
    Destination(args, sys.stdout).write(printed(result, args.format))
    missed = [held for held in result.bars if not held.met] if args.check else []
    for held in missed:
        sys.stderr.write(f"missed: {_missed(held)}\n")
    return ExitCode.CHECK_FAILED if missed else 0


def printed(result: Result, wanted: str) -> str:
    if wanted == "json":
        return json.dumps(_finite(_document(result)), indent=2, allow_nan=False) + "\n"
    parts = [*result.parts, *_bars(result)]
    if wanted == "markdown":
        options = f"{result.options} " if result.options else ""
        command = f"keet eval {result.task} {options}--format markdown"
        return as_markdown(result.title, command, parts)
    return as_text([Heading(result.title), *parts])


def _document(result: Result) -> dict[str, Any]:
    bars = [{**each.bar._asdict(), "reached": each.value, "met": each.met} for each in result.bars]
    return {"schema_version": 2, "task": result.task, **result.document, "bars": bars}


def _finite(value: Any) -> Any:
    """JSON has no infinity: a forecast of one is null there, beside the reason why it is none."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bars(result: Result) -> list[Part]:
    if not result.bars:
        return []
    note = f"`keet eval {result.task} --check` exits 1 where one is missed."
    return [Heading("Bars"), Prose(note), bar_table(result.bars)]


def _missed(held: Held) -> str:
    bar = held.bar
    return f"{bar.value} is {held.value:.3f}, must be {bar.side} {bar.limit:g}: {bar.why}"
