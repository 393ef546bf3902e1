"""Shared by the `keet eval` actions that need no model: thresholds, options, output, exit code."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple

from evals import pages
from evals.pages import Heading, Part, Prose, Table
from keet.cli.arguments import Destination, add_output
from keet.errors import ExitCode, NotAvailable

Task = Literal["diagnosis", "forecast", "grounding"]


class Threshold(NamedTuple):
    """A limit for one score. `--check` tests it, to protect against regressions. For gradual scores
    it is one or two samples below the score at the time it was set, so that a single sample does
    not block a good change. For mistakes (a false alarm, an accepted false number) it is the score
    itself."""

    value: str
    side: Literal["at least", "at most"]
    limit: float
    why: str


class Reached(NamedTuple):
    """A threshold, and the score that was reached."""

    threshold: Threshold
    value: float

    @property
    def met(self) -> bool:
        if self.threshold.side == "at least":
            return self.value >= self.threshold.limit
        return self.value <= self.threshold.limit

    @property
    def required(self) -> str:
        return f"{self.threshold.side} {self.threshold.limit:g}"


def check_thresholds(thresholds: Sequence[Threshold], values: Mapping[str, float]) -> list[Reached]:
    return [Reached(each, values[each.value]) for each in thresholds]


class Result(NamedTuple):
    """The result of one task."""

    task: Task
    title: str
    parts: Sequence[Part]
    document: dict[str, Any]
    thresholds: Sequence[Reached]
    options: str = ""
    """Options of the command that prints this result."""


class Unscored(NamedTuple):
    """A report without an answer to score: counted separately, neither right nor wrong."""

    sample: str
    variant: str
    why: str

    def __str__(self) -> str:
        return f"{self.sample}, {self.variant}: {self.why}"


class Share(NamedTuple):
    """A number out of a total."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"


def need(scored: Sequence[object]) -> None:
    """Raises if no sample could be scored, because there is no mean then."""
    if not scored:
        raise NotAvailable("none of the samples has its reports; run: make samples")


def check_once(names: Sequence[object], what: str) -> None:
    """Raises if something is scored twice: it would count twice, and intervals be too narrow."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is scored twice; score each {what} once")


def add_options(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json", "markdown")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a threshold is missed")


def finish(args: Namespace, result: Result) -> int:
    """Print the result. Missed thresholds go to stderr, so that stdout has only the result."""
    Destination(args).write(printed(result, args.format))
    missed = [each for each in result.thresholds if not each.met] if args.check else []
    for each in missed:
        name, why = each.threshold.value, each.threshold.why
        told = f"missed: {name} is {each.value:.3f}, required is {each.required}: {why}"
        sys.stderr.write(f"{told}\n")
    return ExitCode.CHECK_FAILED if missed else 0


def printed(result: Result, wanted: str) -> str:
    if wanted == "json":
        return json.dumps(_plain(_document(result)), indent=2, allow_nan=False) + "\n"
    parts = [*result.parts, *_thresholds(result)]
    command = f"keet eval {result.task} {result.options}".rstrip()
    return pages.printed(wanted, result.title, command, parts)


def _document(result: Result) -> dict[str, Any]:
    bars = [
        {**each.threshold._asdict(), "reached": each.value, "met": each.met}
        for each in result.thresholds
    ]
    return {"schema_version": 2, "task": result.task, **result.document, "bars": bars}


def _plain(value: Any) -> Any:
    """As JSON has it. There is no infinity: an infinite forecast becomes null, next to the reason
    why it is invalid."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thresholds(result: Result) -> list[Part]:
    if not result.thresholds:
        return []
    note = f"`keet eval {result.task} --check` exits with 1 if one is missed."
    rows = [("score", "reached", "required", "met", "why")]
    for each in result.thresholds:
        name, why = each.threshold.value, each.threshold.why
        rows.append((name, f"{each.value:.3f}", each.required, "yes" if each.met else "NO", why))
    return [Heading("Thresholds"), Prose(note), Table(rows)]
