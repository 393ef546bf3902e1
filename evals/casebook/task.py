"""`keet eval diagnosis` and `keet eval forecast`: their options, and scores on the casebook."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from evals.casebook import diagnosis, forecast
from evals.casebook.answers import Read, chosen_cases, read_all
from evals.pages import Part, Table
from evals.task_command import Result, add_options, finish
from keet.errors import UsageError
from kernels_samples.casebook.family import SPLITS, WORK
from kernels_samples.samples import Sample, load_samples

_OPENING = "locked families were scored: log this use in docs/results.md (date, commit, reason)\n"


def configure(parser: ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument(
        "--on",
        choices=("all", "samples", "casebook"),
        default="all",
        help="what to score on (default: all)",
    )
    parser.add_argument(
        "--locked",
        action="store_true",
        help="also score the casebook's locked families; log each use in docs/results.md",
    )


def run(
    args: Namespace,
    of_samples: Callable[[Sequence[Sample]], Result],
    add: Callable[[Result | None, dict[str, list[Read]]], Result],
) -> int:
    """Refuses combinations that would silently do nothing."""
    if args.check and args.on == "casebook":
        raise UsageError("--check: only the samples have thresholds; leave out --on casebook")
    if args.locked and args.on == "samples":
        raise UsageError("--locked: the samples have no locked families; leave out --on samples")
    samples = None if args.on == "casebook" else of_samples(load_samples())
    return finish(args, add(samples, read_splits(args)))


def read_splits(args: Namespace) -> dict[str, list[Read]]:
    """Cases by split: work families; locked and opened ones if requested."""
    if args.on == "samples":
        return {}
    if args.locked:
        sys.stderr.write(_OPENING)
    wanted = SPLITS if args.locked else (WORK,)
    return {split: read_all(chosen_cases(split)) for split in wanted}


def add_diagnosis(result: Result | None, splits: dict[str, list[Read]]) -> Result:
    scored = {name: diagnosis.score_cases(reads) for name, reads in splits.items()}
    title = "Diagnosis: is the cause of measured cases named?"
    return _with(result, "diagnosis", title, diagnosis, scored)


def add_forecast(result: Result | None, splits: dict[str, list[Read]]) -> Result:
    work = splits.get(WORK, [])
    scored = {name: forecast.score_forecasts(reads, work) for name, reads in splits.items()}
    title = "Forecast: how far is it from the gains of measured cases?"
    return _with(result, "forecast", title, forecast, scored)


def _with(
    result: Result | None, task: Any, title: str, scorer: ModuleType, scored: dict[str, Any]
) -> Result:
    """The samples' result followed by the casebook's, or the casebook's alone. For other than work
    families only sums: showing their cases would invite fitting to them."""
    parts: list[Part] = []
    documents: dict[str, Any] = {}
    for split, scores in scored.items():
        sums = scorer.sums_of(scores, f"{split} families")
        parts += sums if split != WORK else scorer.parts_of(scores, f"{split} families")
        tables = [part.rows for part in sums if isinstance(part, Table)]
        documents[split] = {"sums": tables} if split != WORK else scorer.document_of(scores)
    if result is None:
        return Result(task, title, parts, {"casebook": documents}, (), "--on casebook")
    if not documents:
        return result
    document = {**result.document, "casebook": documents}
    return result._replace(parts=[*result.parts, *parts], document=document, options="")
