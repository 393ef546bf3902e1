"""The real samples: what keet writes is verified, and what its checks catch does not get less.

A fifth of the samples; with KEET_TEST_ALL_EVALS or --update all of them, which take half a minute.
"""

import json

import pytest

from evals.grounding.task import ground_samples, result_of
from evals.task_command import printed
from kernels_samples.samples import load_samples
from tests.evals.conftest import ALL, check_committed


@pytest.mark.slow
def test_the_thresholds_are_met_by_every_sample(request: pytest.FixtureRequest) -> None:
    every = ALL or request.config.getoption("--update")
    samples = load_samples() if every else load_samples()[::5]
    real = ground_samples(samples)
    result = result_of(real)
    missed = [held.threshold.value for held in result.thresholds if not held.met]
    assert set(missed) <= (set() if every else {"mutants"})
    assert {trial.sample for trial in real.trials} == {sample.name for sample in samples}
    assert real.unscored == []
    if every:
        check_committed(request, "grounding.md", printed(result, "markdown"))
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
