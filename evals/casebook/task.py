"""Adds scores on the casebook to the results of `keet eval diagnosis` and `keet eval forecast`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from evals.casebook import diagnosis, forecast
from evals.casebook.answers import Read, chosen_cases, read_all
from evals.pages import Part
from evals.task_command import Result
from kernels_samples.casebook.family import SPLITS, WORK

_OPENING = "locked families were scored: log this use in docs/results.md (date, commit, reason)\n"


def read_splits(args: Namespace) -> dict[str, list[Read]]:
    """Cases by split: work families; locked and opened ones if requested."""
    if args.on == "samples":
        return {}
    wanted = SPLITS if args.locked else (WORK,)
    if args.locked:
        sys.stderr.write(_OPENING)
    return {split: read_all(chosen_cases(split)) for split in wanted}


def add_diagnosis(result: Result | None, splits: dict[str, list[Read]]) -> Result:
    scored = {name: diagnosis.score_cases(reads) for name, reads in splits.items()}
    parts = [part for name, each in scored.items() for part in _parts(diagnosis, name, each)]
    documents = {name: _document(diagnosis, name, each) for name, each in scored.items()}
    title = "Diagnosis: is the cause of measured cases named?"
    return _with(result, "diagnosis", title, parts, documents)


def add_forecast(result: Result | None, splits: dict[str, list[Read]]) -> Result:
    work = splits.get(WORK, [])
    scored = {name: forecast.score_forecasts(reads, work) for name, reads in splits.items()}
    parts = [part for name, each in scored.items() for part in _parts(forecast, name, each)]
    documents = {name: _document(forecast, name, each) for name, each in scored.items()}
    title = "Forecast: how far is it from the gains of measured cases?"
    return _with(result, "forecast", title, parts, documents)


def _parts(scorer: ModuleType, split: str, scores: Any) -> list[Part]:
    """For other than work families only sums: showing their cases would invite fitting to them."""
    title = f"{split} families"
    parts: list[Part] = (
        scorer.parts_of(scores, title) if split == WORK else scorer.sums_of(scores, title)
    )
    return parts


def _document(scorer: ModuleType, split: str, scores: Any) -> dict[str, Any]:
    if split != WORK:
        return {"sums": [part.rows for part in scorer.sums_of(scores, "") if hasattr(part, "rows")]}
    document: dict[str, Any] = scorer.document_of(scores)
    return document


def _with(
    result: Result | None,
    task: Any,
    title: str,
    parts: Sequence[Part],
    documents: dict[str, Any],
) -> Result:
    """The samples' result followed by the casebook's, or the casebook's alone."""
    if result is None:
        return Result(task, title, parts, {"casebook": documents}, (), "--on casebook")
    if not documents:
        return result
    return result._replace(
        parts=[*result.parts, *parts],
        document={**result.document, "casebook": documents},
        options="",
    )
