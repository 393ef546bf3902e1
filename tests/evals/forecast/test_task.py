"""The real pairs: the least that forecasts must reach, and what those without knowledge reach."""

import json

import pytest

from evals.forecast.adversaries import score_adversaries
from evals.forecast.scoring import Pairs, pairs_of_samples
from evals.forecast.task import result_of
from evals.task_command import Result, printed
from kernels_samples.samples import load_samples
from tests.conftest import Keet
from tests.evals.conftest import check_committed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real() -> Pairs:
    return pairs_of_samples(load_samples())


@pytest.fixture(scope="module")
def result(real: Pairs) -> Result:
    return result_of(*real)


def test_every_step_of_every_sample_with_a_cause_is_a_pair(real: Pairs) -> None:
    pairs, unscored = real
    samples = [sample for sample in load_samples() if not sample.healthy]
    assert len(pairs) == sum(len(sample.variants) - 1 for sample in samples)
    assert unscored == []
    assert sum(pair.before != "slow" for pair in pairs) >= 4


def test_forecasts_are_near_enough(
    result: Result, real: Pairs, keet: Keet, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert [held for held in result.thresholds if not held.met] == []
    document = json.loads(printed(result, "json"))
    assert len(document["pairs"]) == len(real[0])
    assert all("measured" in row["why"] for row in document["pairs"])
    monkeypatch.setattr("evals.forecast.scoring.pairs_of_samples", lambda samples: real)
    ran = keet("eval", "forecast", "--on", "samples", "--check")
    assert (ran.code, ran.out) == (0, printed(result, "terminal"))
    check_committed(request, "forecast.md", printed(result, "markdown"))


def test_adversaries(real: Pairs, result: Result) -> None:
    """Those without knowledge are worse; invalid forecasts score like missing ones."""
    tried = {each.name: each for each in score_adversaries(real[0])}
    assert tried["knows what was measured (not an attack)"][1:] == (0, 1, 0, 0, 0)
    all_of_it, ours = tried["2x, from 1x to 1000x"], result.document["summary"]
    assert all_of_it.covered == 1
    assert all_of_it.width > 5 * ours["width"].keet.mean
    assert all_of_it.range_score > 2 * ours["range_score"].keet.mean
    ours = result.document["summary"]["largest"].keet.mean
    for name in ("nothing", "2x, always", "an estimate of 100 % of the time"):
        assert tried[name].error > 1.5 * ours
    for name in ("infinite", "2x, up to infinity", "not a number", "zero", "negative"):
        assert tried[name][1:-1] == tried["nothing"][1:-1], name
        assert tried[name].invalid == len(real[0]), name
