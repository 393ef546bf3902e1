"""The real samples: the least that keet must reach, and what answers without knowledge reach."""

import json

import pytest

from evals.diagnosis.answers import NoAnswer, answers_of, truth_of
from evals.diagnosis.task import THRESHOLDS, Scored, result_of, score_samples
from evals.task_command import Result, check_thresholds, printed
from kernels_samples.samples import load_samples
from tests.conftest import Keet
from tests.evals.conftest import check_committed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real() -> Scored:
    return score_samples(load_samples())


@pytest.fixture(scope="module")
def result(real: Scored) -> Result:
    return result_of(real)


def test_every_sample_is_scored(real: Scored) -> None:
    rows = [*real.rows, *real.healthy]
    assert {row.sample for row in rows} == {sample.name for sample in load_samples()}
    assert len(real.healthy) == 2 * len({row.sample for row in real.healthy})
    assert real.unscored == []


def test_keet_is_right_often_enough(
    result: Result, real: Scored, keet: Keet, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The floor: who changes a check runs into it."""
    assert [held for held in result.thresholds if not held.met] == []
    monkeypatch.setattr("evals.diagnosis.task.score_samples", lambda samples: real)
    ran = keet("eval", "diagnosis", "--on", "samples", "--check", "--format", "json")
    assert (ran.code, ran.out, ran.err) == (0, printed(result, "json"), "")
    check_committed(request, "diagnosis.md", printed(result, "markdown"))


def test_a_missed_threshold_is_reported() -> None:
    values = {
        "top-1": 0.89, "top-3": 1, "top-1 less NVIDIA's": 0.3, "located": 0.95,
        "false alarms": 0.125, "still raised on fast": 0, "unscored": 0,
    }  # fmt: skip
    missed = [held.threshold.value for held in check_thresholds(THRESHOLDS, values) if not held.met]
    assert missed == ["top-1", "false alarms"]


def test_the_json_says_the_same_and_why(real: Scored, result: Result) -> None:
    document = json.loads(printed(result, "json"))
    right = sum(row.rank == 1 for row in real.rows)
    assert document["summary"]["hits"]["top1"]["keet"]["mean"] == right / len(real.rows)
    assert [row["sample"] for row in document["samples"]] == [row.sample for row in real.rows]
    assert all(row["why"] or row["misses"] for row in document["samples"])
    assert all(row["why"] for row in document["healthy"])
    assert len(document["healthy"]) == len(real.healthy)
    # A sample in Triton has a difficulty, too, though it is no problem of optimize.
    assert all(row.difficulty for row in real.rows)
    groups = document["summary"]["by_difficulty"]
    assert sum(group["samples"] for group in groups.values()) == len(real.rows)


def test_truths_are_those_of_the_samples() -> None:
    truths = {sample.name: truth_of(sample) for sample in load_samples()}
    flip, layered = truths["matrix_flip"], truths["xs_lookup"]
    assert (flip.dominant, flip.lines) == ("uncoalesced_global", (("slow.cu", 7),))
    assert (flip.kernel, flip.difficulty) == ("flip", "visible")
    assert layered.names == ("latency_bound", "small_grid")
    assert layered.fixed == ("latency_bound", "small_grid")  # the other is mended in part
    assert truths["lookup_records"].fixed == ()  # what is left is the same cause


def test_reports_that_are_missing_or_of_another_kernel() -> None:
    flip = next(sample for sample in load_samples() if sample.name == "matrix_flip")
    others = [sample for sample in load_samples() if sample.name in ("row_norms", "pair_reduce")]
    lost = score_samples([flip.model_copy(update={"name": "not_there"}), *others])
    assert [row.sample for row in lost.rows] == ["row_norms"]
    assert {(each.sample, each.variant) for each in lost.unscored} == {
        ("not_there", "slow"),
        ("not_there", "fast"),
    }
    assert "not_there, slow: " in printed(result_of(lost), "terminal")
    answers = answers_of(flip.model_copy(update={"kernel": "flop"}))
    assert answers["slow"] == NoAnswer("the report has no launch of flop")


def test_adversaries(real: Scored, result: Result) -> None:
    """Those without knowledge score near zero; saying a finding again gains nothing."""
    tried = {each.name: each for each in real.adversaries}
    assert tried["knows the truth (not an attack)"][1:] == (1, 1, 1, 0, 0)
    assert tried["right finding, wrong line"].located == 0
    assert tried["right finding, every line of the file"].located == 0
    for name in ("every finding there is", "the five commonest causes of the others"):
        assert tried[name].false_alarms == 1
        assert tried[name].beside > 4
    assert tried["latency_bound, always"].false_alarms == 1
    for name, top1, top3 in (
        ("every finding there is", 0.05, 0.15),
        ("the five commonest causes of the others", 0.2, 0.3),
        ("latency_bound, always", 0.1, 0.1),
        ("keet's answer to another kernel", 0, 0),
        ("no finding", 0, 0),
    ):
        assert tried[name].top1 <= top1, name
        assert tried[name].top3 <= top3, name
        assert tried[name].located <= top1, name
    again, once = tried["keet's findings, five times each"], result.document["summary"].hits
    assert again.top1 <= once.top1.keet.mean
    assert again.top3 < once.top3.keet.mean
    assert again.located <= once.located.mean
