"""The result of `keet eval grounding`: `keet verify` on true texts and on false sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from evals.bootstrap import Interval
from evals.diagnosis.answers import Unscored
from evals.grounding.explanations import SampleExplanations
from evals.grounding.page import parts_of
from evals.grounding.printed_texts import Checked, texts_of_sample
from evals.grounding.scoring import Accepted, Caught, Trial, accepted, caught_by_kind, try_sample
from evals.task_command import Result, need
from evals.thresholds import check_thresholds
from keet.errors import KeetError
from kernels_samples.samples import Sample


class Grounded(NamedTuple):
    """All samples."""

    checked: list[Checked]
    trials: list[Trial]
    unscored: list[Unscored]


def ground_samples(samples: Sequence[Sample]) -> Grounded:
    found = Grounded([], [], [])
    for turn, sample in enumerate(samples):
        try:
            explained = SampleExplanations(sample)
        except KeetError as error:
            why = f"{type(error).__name__}: a report cannot be read"
            found.unscored.append(Unscored(sample.name, "slow or fast", why))
            continue
        found.trials.extend(try_sample(explained, turn))
        found.checked.extend(texts_of_sample(explained, turn))
    return found


def threshold_values(
    checked: Sequence[Checked],
    accepts: Accepted,
    caught: Sequence[Caught],
    unscored: Sequence[Unscored],
) -> dict[str, float]:
    printed = [each for each in checked if "keet" in each.form]
    numbers = sum(each.numbers for each in printed)
    mutants = sum(each.mutants for each in caught)
    return {
        "keet's numbers refuted by verify": sum(len(c.wrong) for c in printed) / numbers,
        "verify: caught": sum(each.refuted + each.doubted for each in caught) / mutants,
        "verify: true sentences let pass": accepts.passed.mean,
        "unscored": float(len(unscored)),
        "mutants": float(mutants),
    }


def result_of(grounded: Grounded) -> Result:
    checked, trials = grounded.checked, grounded.trials
    need(trials)
    accepts, caught = accepted(trials), caught_by_kind(trials)
    return Result(
        "grounding",
        "Grounding: does `keet verify` catch false numbers?",
        parts_of(checked, accepts, caught, trials, grounded.unscored),
        {
            "texts": [_checked(each) for each in checked],
            "true_sentences": _record(accepts, "passed"),
            "caught": [_record(each._replace(example=None), "caught") for each in caught],
            "slipped": [_slipped(each) for each in trials if each.scored and each.slipped],
            "unscored": [_unscored(each) for each in trials if not each.scored],
            "samples_unscored": [str(each) for each in grounded.unscored],
        },
        check_thresholds(
            "grounding", threshold_values(checked, accepts, caught, grounded.unscored)
        ),
    )


def _checked(each: Checked) -> dict[str, Any]:
    return {**each._asdict(), "wrong": [wrong._asdict() for wrong in each.wrong]}


def _record(each: Accepted | Caught, interval: str) -> dict[str, Any]:
    fields = each._asdict()
    value: Interval | None = fields[interval]
    return {**fields, interval: value and asdict(value)}


def _slipped(trial: Trial) -> dict[str, str]:
    return {
        "sample": trial.sample,
        "kind": trial.kind,
        "true": trial.true,
        "false": trial.false,
        "why": trial.why,
    }


def _unscored(trial: Trial) -> dict[str, str]:
    return {"sample": trial.sample, "kind": trial.kind, "why": trial.why}
