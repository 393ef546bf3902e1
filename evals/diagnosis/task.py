"""The result of `keet eval diagnosis`: is the planted cause of every sample named?

keet has to name what limits `slow`. `fast` must not raise the fixed cause, and healthy samples must
raise nothing in any variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from evals.diagnosis.adversaries import AdversaryScore, Case, score_adversaries
from evals.diagnosis.answers import Unscored, answers_of, truth_of, unscored, whole
from evals.diagnosis.page import parts_of
from evals.diagnosis.scoring import HealthyRow, Row, score, score_healthy
from evals.diagnosis.summary import summarise, threshold_values
from evals.task_command import Result, need
from evals.thresholds import check_thresholds
from kernels_samples.samples import Sample


class Scored(NamedTuple):
    """All samples."""

    rows: list[Row]
    healthy: list[HealthyRow]
    unscored: list[Unscored]
    adversaries: list[AdversaryScore]


def score_samples(samples: Sequence[Sample]) -> Scored:
    """A sample without its reports is left out and reported, not counted as a miss."""
    cases: list[Case] = []
    lacking: list[Unscored] = []
    for sample in samples:
        answers = answers_of(sample)
        missing = unscored(sample.name, answers)
        lacking += missing
        if not missing:
            cases.append(Case(truth_of(sample), whole(answers), sample.healthy))
    rows = [score(case.truth, case.answers) for case in cases if not case.healthy]
    healthy = [
        row for case in cases if case.healthy for row in score_healthy(case.truth, case.answers)
    ]
    return Scored(rows, healthy, lacking, score_adversaries(cases) if rows and healthy else [])


def result_of(scored: Scored) -> Result:
    need(scored.rows)
    need(scored.healthy)
    summary = summarise(scored.rows, scored.healthy, scored.unscored)
    return Result(
        "diagnosis",
        "Diagnosis: is the planted cause named, at its line?",
        parts_of(summary, scored.rows, scored.healthy, scored.adversaries),
        {
            "summary": asdict(summary),
            "samples": [asdict(row) for row in scored.rows],
            "healthy": [asdict(row) for row in scored.healthy],
            "unscored": [asdict(each) for each in scored.unscored],
            "adversaries": [each._asdict() for each in scored.adversaries],
        },
        check_thresholds("diagnosis", threshold_values(summary)),
        "--on samples",
    )
