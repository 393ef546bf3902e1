"""Prompts, answers and measurements joined: every status, every reason, and what must not be joined."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from evals.optimize.measured_file import MeasuredOn, read_measured
from evals.optimize.problems import known_samples
from evals.optimize.scoring import OptimizeScore, digest_of, scores
from evals.runs import CUT, EMPTY, Answer, Prompt, Run, RunFolder, read_lines, write_lines
from keet.errors import UsageError

VERSION = "abc123abc123"
MODEL = "test:model"
ID = "optimize.matrix_flip.keet.1"


def source(variant: str) -> str:
    return known_samples()["matrix_flip"].source(variant).read_text()


def fenced(code: str) -> str:
    return f"Here it is.\n```cuda\n{code}```\n"


def answer(text: str = "", **more: Any) -> Answer:
    given = {
        "id": ID,
        "model": MODEL,
        "date": "2026-01-01",
        "keet": "7.7",
        "prompt_version": VERSION,
        "text": text,
    }
    return Answer.model_validate({**given, **more})


def folder(path: Path, *answers: Answer, sample: str = "matrix_flip") -> RunFolder:
    run = Run(
        task="optimize",
        created="2026-01-01",
        keet="7.7",
        prompt_version=VERSION,
        conditions=("none", "keet"),
        samples=(sample,),
    )
    prompts = [
        Prompt(id=f"optimize.{sample}.{c}.1", sample=sample, condition=c, system="s", user="u")
        for c in run.conditions
    ]
    made = RunFolder.create(path / "run", run, prompts)
    for each in answers:
        made.add(each)
    return made


def result(**more: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "model": MODEL,
        "sample": "matrix_flip",
        "status": "PASSED",
        "why": "",
        "baseline_us": 1000.0,
        "candidate_us": 200.0,
        "speedup": 5.0,
        "speedup_rounds": [4.9, 5.1, 5.0],
        "floor_us": 110.0,
        "unknown_field": 1,
        **more,
    }


def measured(
    path: Path, *results: dict[str, Any], name: str = "measured.json", **more: Any
) -> Path:
    file = path / name
    file.write_text(json.dumps({"schema_version": 1, "results": list(results), **more}))
    return file


def scored(tmp_path: Path, text: str, **more: Any) -> OptimizeScore:
    run = folder(tmp_path, answer(text))
    found = scores(run, read_measured([measured(tmp_path, result(**more))]).results)
    return next(each for each in found if each.id == ID)


def test_a_pass_has_its_numbers_and_its_reason(tmp_path: Path, wording) -> None:
    score = scored(tmp_path, fenced(source("fast")))
    assert (score.status, score.speedup, score.speedup_low, score.speedup_high) == (
        "PASSED",
        5,
        4.9,
        5.1,
    )
    assert (score.candidate_us, score.baseline_us, score.floor_us) == (200, 1000, 110)
    assert score.sol == pytest.approx(0.55)
    assert (score.kept_cause, score.touched_decoy) == (False, None)
    wording(score.why)


@pytest.mark.parametrize(
    "status", ["COMPILE_ERROR", "RUNTIME_ERROR", "INCORRECT", "TIMEOUT", "CHEAT"]
)
def test_failures_stay_apart_and_have_no_speed_up(tmp_path: Path, status: str) -> None:
    score = scored(tmp_path, fenced(source("slow")), status=status, why="so it was", speedup=5.0)
    assert (score.status, score.speedup, score.candidate_us, score.sol) == (
        status,
        None,
        None,
        None,
    )
    assert score.why.startswith("so it was; kept every line of the cause")


def test_a_failed_baseline_leaves_the_answer_unscored(tmp_path: Path, wording) -> None:
    why = "the baseline failed"
    score = scored(tmp_path, fenced(source("fast")), status=None, why=why, speedup=None)
    assert score.status is None
    wording(score.why)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -3.0, 0.0])
def test_an_invalid_speed_up_is_unscored(tmp_path: Path, wrong: float) -> None:
    score = scored(tmp_path, fenced(source("fast")), speedup=wrong)
    assert (score.status, score.speedup) == (None, None)
    assert "no positive number" in score.why


def test_odd_numbers_beside_the_speed_up_are_left_out(tmp_path: Path) -> None:
    odd = {"candidate_us": math.nan, "floor_us": -1.0, "speedup_rounds": [math.inf, 5.0, -2.0]}
    score = scored(tmp_path, fenced(source("fast")), **odd)
    assert (score.status, score.candidate_us, score.floor_us, score.sol) == (
        "PASSED",
        None,
        None,
        None,
    )
    assert (score.speedup_low, score.speedup_high) == (5, 5)


def test_a_missing_ratio_is_that_of_the_times(tmp_path: Path) -> None:
    assert scored(tmp_path, fenced(source("fast")), speedup=None).speedup == 5


@pytest.mark.parametrize("text", ["", "I would use shared memory.", "```diff\n-a\n+b\n```"])
def test_an_answer_without_a_program_does_not_compile(tmp_path: Path, text: str, wording) -> None:
    run = folder(tmp_path, answer(text))
    score = next(each for each in scores(run, None) if each.id == ID)
    assert score.status == "COMPILE_ERROR"
    wording(score.why)
    assert score.cut_off is (text == "")
    assert (score.kept_cause, score.speedup) == (None, None)


def test_unscored_is_not_failed(tmp_path: Path, wording) -> None:
    run = folder(tmp_path, answer(fenced(source("fast"))))
    by_condition = {each.condition: each for each in scores(run, None)}
    assert (by_condition["none"].status, by_condition["none"].why) == (None, "no answer yet")
    assert by_condition["keet"].status is None
    wording(by_condition["keet"].why)


def test_an_answer_with_an_error_is_unscored(tmp_path: Path, wording) -> None:
    run = folder(tmp_path, answer(error="the server hung up"))
    score = next(each for each in scores(run, None) if each.id == ID)
    assert score.status is None
    wording(score.why)
    assert not score.cut_off


@pytest.mark.parametrize("error", [CUT, EMPTY])
def test_truncated_and_empty_answers_are_failures(tmp_path: Path, error: str, wording) -> None:
    """Even where what is there of the text would compile: it was never measured."""
    run = folder(tmp_path, answer(fenced(source("fast")), error=error))
    score = next(each for each in scores(run, None) if each.id == ID)
    assert score.status == "COMPILE_ERROR"
    wording(score.why)
    assert score.cut_off


def test_an_answer_that_ends_within_its_program_was_cut_off(tmp_path: Path) -> None:
    half = fenced(source("fast")).rpartition("}")[0]
    run = folder(tmp_path, answer(half))
    score = next(each for each in scores(run, None) if each.id == ID)
    assert (score.status, score.cut_off) == ("COMPILE_ERROR", True)


def test_words_that_sound_like_it_do_not_make_an_answer_cut_off(tmp_path: Path) -> None:
    run = folder(tmp_path, answer("the answer is empty: it was cut off"))
    score = next(each for each in scores(run, None) if each.id == ID)
    assert (score.status, score.cut_off) == ("COMPILE_ERROR", False)


def test_without_answers_there_is_nothing_to_score(tmp_path: Path) -> None:
    assert scores(folder(tmp_path), None) == []


def test_the_program_measured_has_to_be_the_one_answered(tmp_path: Path, wording) -> None:
    code = source("fast")
    assert scored(tmp_path, fenced(code), digest=digest_of(code)).status == "PASSED"
    later = scored(tmp_path / "later", fenced(code), digest=digest_of(code + " "))
    assert later.status is None
    wording(later.why.split(";")[0])


def test_tokens_are_carried_over_and_unknown_stays_unknown(tmp_path: Path) -> None:
    run = folder(tmp_path, answer("x", input_tokens=10), answer("x", model="b:b"))
    found = {(each.model, each.condition): each for each in scores(run, None)}
    assert (found[MODEL, "keet"].input_tokens, found[MODEL, "keet"].output_tokens) == (10, None)
    assert len(found) == 4


@pytest.mark.parametrize("floor", [900.0, None])
def test_the_floor_is_that_of_the_machine_that_measured(
    tmp_path: Path, floor: float | None
) -> None:
    """Also of rate_table, whose rates cross the bus: another machine may have a faster one."""
    code = known_samples()["rate_table"].source("fast").read_text()
    run = folder(
        tmp_path, answer(fenced(code), id="optimize.rate_table.keet.1"), sample="rate_table"
    )
    told = result(id="optimize.rate_table.keet.1", sample="rate_table", speedup=1000 / 1300)
    told |= {"candidate_us": 1300.0, "floor_us": floor}
    score = scores(run, read_measured([measured(tmp_path, told)]).results)[1]
    assert score.floor_us == floor


def test_answers_to_other_words_are_refused(tmp_path: Path) -> None:
    run = folder(tmp_path, answer("x"), answer("x", model="b:b", prompt_version="ffffffffffff"))
    with pytest.raises(
        UsageError, match="holds answers to ffffffffffff: they are not comparable; take"
    ):
        scores(run, None)


def test_measurements_of_another_run_are_refused(tmp_path: Path) -> None:
    run = folder(tmp_path, answer("x"))
    with pytest.raises(UsageError, match=r"optimize\.other\.keet\.1 is no prompt of"):
        scores(run, read_measured([measured(tmp_path, result(id="optimize.other.keet.1"))]).results)


def test_an_unknown_sample_is_reported(tmp_path: Path) -> None:
    run = folder(
        tmp_path, answer(fenced(source("fast")), id="optimize.nowhere.keet.1"), sample="nowhere"
    )
    with pytest.raises(UsageError, match="nowhere, which is no CUDA sample here; score it"):
        scores(run, None)


def test_several_files_are_joined(tmp_path: Path) -> None:
    one = measured(tmp_path, result(), name="a.json")
    other = measured(tmp_path, result(model="b:b", speedup=2.0, candidate_us=500.0), name="b.json")
    joined = read_measured([one, other, one]).results
    assert {key[0]: each.speedup for key, each in joined.items()} == {MODEL: 5, "b:b": 2}


def test_two_files_that_disagree_are_refused(tmp_path: Path) -> None:
    one = measured(tmp_path, result(), name="a.json")
    other = measured(tmp_path, result(speedup=2.0, candidate_us=500.0), name="b.json")
    with pytest.raises(UsageError, match="a second time, and otherwise; give one of the files"):
        read_measured([one, other])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ("[1, 2]", "is no result of score_candidates.py"),
        ('{"schema_version": 2, "results": []}', "is no result of"),
        (
            '{"schema_version": 1, "results": [{"id": "a"}]}',
            r"result 1 \(a\) has a bad model \(Field required",
        ),
        ('{"schema_version": 1, "results": [3]}', "result 1 has a bad form"),
    ],
)
def test_files_that_are_not_measurements_are_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "m.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=said):
        read_measured([file])


def test_an_unknown_status_is_refused(tmp_path: Path) -> None:
    good, odd = result(id="optimize.matrix_flip.none.1"), result(status="BASELINE_FAILED")
    with pytest.raises(UsageError, match=rf"result 2 \({ID}\) has a bad status .*'PASSED'"):
        read_measured([measured(tmp_path, good, odd)])


@pytest.mark.parametrize("said", [50.0, 5.02, 4.98, 0.2])
def test_a_speed_up_that_contradicts_its_times_is_refused(tmp_path: Path, said: float) -> None:
    with pytest.raises(
        UsageError, match=r"but its times \(1000 us to 200 us\) make 5; measure again"
    ):
        read_measured([measured(tmp_path, result(speedup=said))])


def test_a_rounded_speed_up_is_accepted(tmp_path: Path) -> None:
    close = result(baseline_us=3.123, candidate_us=2.711, speedup=round(3.123 / 2.711, 4))
    assert read_measured([measured(tmp_path, close)]).results


def test_one_sample_has_one_baseline(tmp_path: Path) -> None:
    one = result(against="aaaa")
    other = result(id="optimize.matrix_flip.none.1", against="bbbb")
    elsewhere = result(id="optimize.key_count.none.1", sample="key_count", against="bbbb")
    assert len(read_measured([measured(tmp_path, one, elsewhere)]).results) == 2
    said = r"other versions of matrix_flip or of the harness \(aaaa, bbbb\)"
    with pytest.raises(UsageError, match=said):
        read_measured([measured(tmp_path, one, other)])
    files = [measured(tmp_path, one, name="a.json"), measured(tmp_path, other, name="b.json")]
    with pytest.raises(UsageError, match=said):
        read_measured(files)


def test_a_result_of_another_sample_is_refused(tmp_path: Path) -> None:
    run = folder(tmp_path, answer("x"))
    odd = read_measured([measured(tmp_path, result(sample="key_count"))]).results
    with pytest.raises(UsageError, match="as an answer to key_count, and asks for matrix_flip"):
        scores(run, odd)


def test_the_machine_is_read_and_printed(tmp_path: Path) -> None:
    machine = {"gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0", "arch": "sm_90", "date": "d"}
    more = {"machine": {**machine, "sms": 132}, "settings": {"rounds": 7, "launches": 5}}
    found = read_measured([measured(tmp_path, result(), **more)]).machines
    assert found == [MeasuredOn(**machine, rounds=7, launches=5, results=1)]
    assert str(found[0]) == (
        "NVIDIA H200, driver 580, CUDA 13.0, compiled for sm_90, 7 rounds x 5 launches, d"
    )


@pytest.mark.parametrize("more", [{}, {"machine": 3, "settings": []}, {"machine": {"gpu": 3}}])
def test_a_machine_that_is_not_stated_is_unknown(tmp_path: Path, more: dict[str, Any]) -> None:
    found = read_measured([measured(tmp_path, result(), **more)]).machines
    assert str(found[0]) == "an unknown GPU"


def test_compilers_words_have_no_path_of_the_machine(tmp_path: Path) -> None:
    why = "/tmp/score-o939/work/candidates/e244a8/candidate.cu(31): error: no"
    score = scored(tmp_path, fenced(source("slow")), status="COMPILE_ERROR", why=why, speedup=None)
    assert score.why.startswith("candidate.cu(31): error: no; kept")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_measured([tmp_path / "none.json"])


def test_scores_survive_their_file(tmp_path: Path) -> None:
    score = scored(tmp_path, fenced(source("fast")))
    write_lines(tmp_path / "scores.jsonl", [score])
    assert list(read_lines(tmp_path / "scores.jsonl", OptimizeScore)) == [score]


@pytest.mark.parametrize("speedup", ["NaN", "Infinity", "-1.0", "0"])
def test_a_file_with_an_impossible_speed_up_is_refused(tmp_path: Path, speedup: str) -> None:
    score = scored(tmp_path, fenced(source("fast")))
    line = score.model_dump_json().replace('"speedup":5.0', f'"speedup":{speedup}')
    (tmp_path / "scores.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match="is not a valid optimizescore"):
        list(read_lines(tmp_path / "scores.jsonl", OptimizeScore))


@pytest.mark.parametrize("change", [{"speedup": None}, {"status": "INCORRECT"}, {"status": None}])
def test_a_speed_up_goes_with_a_pass(tmp_path: Path, change: dict[str, object]) -> None:
    score = scored(tmp_path, fenced(source("fast")))
    with pytest.raises(ValueError, match="and only then"):
        OptimizeScore.model_validate({**score.model_dump(), **change})
