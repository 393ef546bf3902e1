"""`keet eval report` on runs that were made up: every form says the same, and refusals are plain."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from evals.commands import report as command
from evals.optimize.measured_file import MACHINES, MeasuredOn
from evals.pages import as_markdown, as_text
from evals.report.common import reasons
from evals.report.documents import OptimizeReport, RunDocument
from evals.report.optimize import document_of, parts_of, short_parts
from evals.runs import write_lines
from keet.errors import UsageError
from tests.evals.report.synthetic import Outcomes, score, scored_run, scores

OUTCOMES: Outcomes = {
    "matrix_flip": {"none": [2.0, "INCORRECT"], "raw": [1.0, 1.0], "keet": [8.0, 4.0]},
    "key_count": {
        "none": ["COMPILE_ERROR", None],
        "raw": ["CHEAT", "TIMEOUT"],
        "keet": [16.0, 1.5],
    },
    "cell_update": {"none": [1.0, 1.0], "raw": [1.0, "RUNTIME_ERROR"], "keet": [2.0, 2.0]},
}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to tell an interval, and ten times as quick."""
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 400)


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    command.run(parser.parse_args([str(each) for each in arguments]))
    return capsys.readouterr().out


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return scored_run(tmp_path / "run", scores(OUTCOMES))


def document(outcomes: Outcomes = OUTCOMES) -> OptimizeReport:
    return document_of(scores(outcomes), [RunDocument(path="run")], None)


def test_the_terminal_has_every_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, run)
    for heading in (
        "All samples",
        "Difficulty: visible",
        "Difficulty: decoy",
        "Samples",
        "Failures",
    ):
        assert heading in text
    assert "prompts abc123abc123" in text


def test_the_sample_table_has_each_attempt(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, run).splitlines()
    flip = next(line for line in lines if "matrix_flip  " in line)
    assert " ".join(flip.split()) == (
        "test:model visible matrix_flip 8.00 2.00 INCORRECT 1.00 1.00 8.00 4.00"
    )
    count = next(line for line in lines if "hidden      key_count" in line)
    assert "COMPILE_ERROR unscored" in count


def test_all_failures_and_nothing_else_are_listed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, run)
    failures = text.split("\nFailures\n")[1].split("\nUnscored\n")[0]
    assert failures.count("for a reason") == 5
    assert "optimize.key_count.raw.1 (test:model): CHEAT: CHEAT for a reason" in failures
    unscored = text.split("\nUnscored\n")[1]
    assert unscored.count("for a reason") == 1


def test_a_run_without_failures_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    run = scored_run(tmp_path / "run", scores({"matrix_flip": {"none": [2.0]}}))
    text = printed(capsys, run)
    wording([line for line in text.splitlines() if "None" in line])
    assert "Unscored" not in text


def test_markdown_has_the_same_rows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = list(parts_of(document()))
    text, page = as_text(parts), as_markdown("t", "c", parts)
    assert text.count("INCORRECT") == page.count("INCORRECT")
    told = printed(capsys, run, "--format", "markdown")
    assert told.startswith("# keet eval: optimize\n\n")
    assert "| model | condition | samples | scored | unscored | geomean |" in told
    assert "| test:model | keet | 3 | 6 | 0 | " in told


def test_json_is_its_record_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, run, "--format", "json")
    report = OptimizeReport.model_validate_json(told)
    assert report.summaries == document().summaries
    assert len(report.scores) == 18
    assert json.loads(told)["schema_version"] == 1
    assert OptimizeReport.model_json_schema()["properties"]["differences"]


def test_reasons_stay_on_their_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = score("matrix_flip", "none", "COMPILE_ERROR", why="error: a | b\n  in line 2")
    text = printed(capsys, scored_run(tmp_path / "run", [odd]), "--format", "markdown")
    assert (
        "- optimize.matrix_flip.none.1 (test:model): COMPILE_ERROR: error: a | b in line 2" in text
    )


def test_one_sample_and_one_condition_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = scored_run(tmp_path / "run", [score("matrix_flip", "keet", 2.0)])
    text = printed(capsys, run)
    assert "one condition only" in text
    assert "2.00 (2.00 to 2.00)" in text


def test_models_of_several_runs_stand_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = scored_run(tmp_path / "big", scores(OUTCOMES))
    small = scored_run(tmp_path / "small", scores(OUTCOMES, model="local:7b"))
    text = printed(capsys, big, small)
    assert "local:7b    keet" in text
    assert "test:model  keet" in text


def test_the_short_table_after_scoring(wording) -> None:
    text = as_text(short_parts(scores(OUTCOMES)))
    assert "geomean" in text
    nothing = as_text(short_parts(scores({"matrix_flip": {"none": [None]}})))
    wording(nothing)


PARTLY: Outcomes = {
    name: {"none": [None], "keet": [2.0], "agent": [None]}
    for name in ("matrix_flip", "key_count", "cell_update", "row_norms", "scan_rows")
}


def test_a_part_of_a_run_says_so_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    found = scores(PARTLY)
    whys = ["no answer yet", "not measured yet; changed 1 of 1", "not measured yet; kept 1"]
    told = [
        each.model_copy(update={"why": whys[i % 3]}) if each.status is None else each
        for i, each in enumerate(found)
    ]
    said = "10 of 15 attempts are not scored: 5 no answer yet, 5 not measured yet"
    assert as_text(short_parts(told)).startswith(said)
    text = printed(capsys, scored_run(tmp_path / "run", told))
    assert said in text.split("\nAll samples\n")[0]
    assert "faster than" not in text
    wording([line for line in text.splitlines() if "test:model: " in line])


def test_a_condition_without_a_score_has_its_row() -> None:
    text = as_text(short_parts(scores(PARTLY)))
    row = next(line for line in text.splitlines() if line.startswith("test:model  agent"))
    assert row.split()[2:6] == ["0", "0", "5", "-"]


def test_reasons_are_counted_and_rare_ones_summed_up(wording) -> None:
    whys = [f"no answer: error {i}" for i in range(6)] + ["no answer yet"] * 2
    wording(reasons(whys))
    assert len(reasons(["x " * 400])) < 80


def test_the_machine_is_named(run: Path, capsys: pytest.CaptureFixture[str], wording) -> None:
    wording([line for line in printed(capsys, run).splitlines() if "measured on" in line])
    where = MeasuredOn(gpu="NVIDIA H200", driver="580", cuda="13.0", rounds=7, launches=5)
    write_lines(run / MACHINES, [where])
    assert "\n  measured on NVIDIA H200, driver 580, CUDA 13.0, 7 rounds x 5 launches\n" in printed(
        capsys, run
    )
    assert '"gpu": "NVIDIA H200"' in printed(capsys, run, "--format", "json")


def test_tokens_leave_out_what_the_explanation_took(
    run: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    (at,) = (line for line in printed(capsys, run).split("\n\n") if "Tokens of" in line)
    wording(at)


def test_a_failure_is_one_line_of_a_length_to_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "error: " + "too long to read\n" * 40
    run = scored_run(tmp_path / "run", [score("matrix_flip", "none", "COMPILE_ERROR", why=why)])
    lines = printed(capsys, run).split("\nFailures\n")[1].splitlines()
    told = [line for line in lines if line.startswith("  optimize")]
    assert len(told) == 1
    assert 150 < len(told[0]) <= 202
    assert told[0].endswith(" …")
    assert (
        why
        in OptimizeReport.model_validate_json(printed(capsys, run, "--format", "json"))
        .failures[0]
        .why
    )


@pytest.mark.parametrize("where", ["nowhere/out.svg", "."])
def test_an_unwritable_svg_path_is_reported_first(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    with pytest.raises(UsageError, match=r"^--svg .*(its folder is not there|this is a folder)"):
        printed(capsys, run, "--svg", tmp_path / where)
    assert capsys.readouterr().out == ""


# --- refusals


def test_runs_asked_in_other_words_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = scored_run(tmp_path / "one", scores(OUTCOMES))
    other = scored_run(tmp_path / "two", scores(OUTCOMES, model="b:b"), version="ffffffffffff")
    with pytest.raises(UsageError, match=r"differ in prompt_version .* with --against$"):
        printed(capsys, one, other)


def test_a_run_named_twice_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="is scored twice; name each run once"):
        printed(capsys, run, run)


def test_a_run_without_scores_says_what_to_do(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "scores.jsonl").unlink()
    with pytest.raises(UsageError, match="has no scores yet; score it first: keet eval score"):
        printed(capsys, run)


def test_no_scores_at_all(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "scores.jsonl").write_text("")
    with pytest.raises(UsageError, match="is empty; score the run again: keet eval score"):
        printed(capsys, run)


def test_nothing_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored_run(tmp_path / "run", scores({"matrix_flip": {"none": [None]}}))
    with pytest.raises(UsageError, match="none of 1 attempts is scored: 1 None for a reason; pro"):
        printed(capsys, run)


def test_a_folder_without_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="contains no run"):
        printed(capsys, tmp_path)


def test_invalid_scores_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (run / "scores.jsonl").read_text()
    (run / "scores.jsonl").write_text(text.replace('"speedup":8.0', '"speedup":NaN'))
    with pytest.raises(UsageError, match="is not a valid optimizescore"):
        printed(capsys, run)
