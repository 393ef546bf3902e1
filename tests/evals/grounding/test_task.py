"""The real samples: what keet writes is verified, and what its checks catch does not get less."""

from __future__ import annotations

import json

import pytest

from evals.grounding.task import Grounded, ground_samples, result_of
from evals.task_command import Result, printed
from kernels_samples.samples import load_samples
from tests.evals.committed import check_committed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real() -> Grounded:
    return ground_samples(load_samples())


@pytest.fixture(scope="module")
def result(real: Grounded) -> Result:
    return result_of(real)


def test_the_thresholds_are_met_by_every_sample(result: Result, real: Grounded) -> None:
    assert [held for held in result.thresholds if not held.met] == []
    names = {sample.name for sample in load_samples()}
    assert {trial.sample for trial in real.trials} == names
    assert real.unscored == []


def test_the_committed_table_is_what_is_printed(
    result: Result, request: pytest.FixtureRequest
) -> None:
    check_committed(request, "grounding.md", printed(result, "markdown"))


def test_missed_and_unscored_mutants_are_listed(real: Grounded, result: Result) -> None:
    document = json.loads(printed(result, "json"))
    slipped = [trial for trial in real.trials if trial.scored and trial.slipped]
    unscored = [trial for trial in real.trials if not trial.scored]
    assert len(document["slipped"]) == len(slipped)
    assert len(document["unscored"]) == len(unscored)
    assert all(each["why"] for each in [*document["slipped"], *document["unscored"]])
    text = printed(result, "terminal")
    assert all(f"  {t.kind}: " in text for t in slipped)


def test_a_sample_without_reports_is_unscored() -> None:
    gone = load_samples()[0].model_copy(update={"name": "not_there"})
    found = ground_samples([gone])
    assert [each.sample for each in found.unscored] == ["not_there"]
    assert found.trials == []
