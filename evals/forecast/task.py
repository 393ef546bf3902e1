"""The result of `keet eval forecast`: forecasts scored on every measured pair of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from evals.diagnosis.answers import Unscored
from evals.forecast.adversaries import score_adversaries
from evals.forecast.page import parts_of
from evals.forecast.pairs import Pair
from evals.forecast.scoring import score_pairs
from evals.forecast.summary import summarise, threshold_values
from evals.task_command import Result, need
from evals.thresholds import check_thresholds


def result_of(pairs: Sequence[Pair], unscored: Sequence[Unscored] = ()) -> Result:
    need(pairs)
    rows, adversaries = score_pairs(pairs), score_adversaries(pairs)
    summary = summarise(rows, unscored)
    return Result(
        "forecast",
        "Forecast: how far is it from the measured speed-up?",
        parts_of(summary, rows, adversaries),
        {
            "summary": asdict(summary),
            "pairs": [asdict(row) for row in rows],
            "unscored": [asdict(each) for each in unscored],
            "adversaries": [each._asdict() for each in adversaries],
        },
        check_thresholds("forecast", threshold_values(summary)),
        "--on samples",
    )
