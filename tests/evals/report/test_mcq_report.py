"""Runs of mcq: right answers by condition, what is wrong and why, and changes since an earlier run."""

import argparse
from pathlib import Path

import pytest

from evals.bootstrap import Interval
from evals.commands import report as report_command
from evals.commands import score as score_command
from evals.mcq.questions import Question
from evals.mcq.scoring import KEY, McqScore
from evals.mcq.summary import Cell
from evals.report.against import open_earlier, open_runs
from evals.report.mcq import McqReport, reasons, report_of, saturation, short_parts
from evals.runs import Condition, Prompt, RunFolder, read_lines, write_lines
from keet.errors import UsageError
from tests.evals.conftest import a_run, an_answer

SAMPLES = ("matrix_flip", "key_count", "row_norms", "cell_update")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to tell an interval, and ten times as quick."""
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 200)


def question(sample: str) -> Question:
    return Question(
        id=f"q-{sample}",
        kind="unit",
        sample=sample,
        reports=(f"{sample}/slow",),
        text="Which unit limits it?",
        options=("FMA", "L2", "DRAM", "XU"),
        correct="A",
        why="it is the busiest",
        why_wrong=dict.fromkeys("BCD", "it idles"),
        answerable_from=("raw", "keet"),
    )


def folder(
    path: Path, chosen: dict[Condition, str], version: str = "v", model: str = "m:m"
) -> RunFolder:
    """`AB-C`: the answer to each question, - for none yet."""
    run = a_run(*chosen, samples=SAMPLES, prompt_version=version)
    prompts = [
        Prompt(
            id=f"mcq.q-{s}.{c}.1", sample=s, condition=c, question=f"q-{s}", system="s", user="u"
        )
        for c in chosen
        for s in SAMPLES
    ]
    made = RunFolder.create(path, run, prompts)
    write_lines(path / KEY, [question(sample) for sample in SAMPLES])
    for prompt, letter in zip(prompts, "".join(chosen.values()), strict=True):
        if letter != "-":
            text = f"ANSWER: {letter}" if letter != "?" else "I cannot say"
            made.add(an_answer(prompt.id, text, model=model, prompt_version=version))
    return made


def scored(made: RunFolder, *more: str) -> Path:
    parser = argparse.ArgumentParser()
    score_command.configure(parser)
    score_command.run(parser.parse_args([str(made.path), *more]))
    return made.path


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    parser = argparse.ArgumentParser()
    report_command.configure(parser)
    report_command.run(parser.parse_args([str(each) for each in arguments]))
    return capsys.readouterr().out


def report(path: Path, earlier: Path | None = None) -> McqReport:
    return report_of(open_runs([path]), open_earlier(earlier) if earlier else None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return scored(folder(tmp_path / "run", {"none": "AB?C", "keet": "AAAB"}))


def test_shares_of_right_answers(run: Path) -> None:
    cells = {cell.condition: cell for cell in report(run).summaries if cell.group == "all"}
    assert (cells["none"].scored, cells["none"].unscored) == (3, 1)
    assert cells["none"].right.mean == pytest.approx(1 / 3)
    assert cells["keet"].right.mean == pytest.approx(3 / 4)
    found = next(each for each in report(run).differences if each.group == "all")
    assert (found.questions, found.shares.difference.mean) == (3, pytest.approx(1 / 3))


def test_the_page_lists_what_is_wrong(
    run: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    capsys.readouterr()
    text = printed(capsys, run)
    wrong = text.split("\nWrong\n")[1].split("\nUnscored\n")[0]
    assert wrong.count("(m:m)") == 3
    wording(wrong)
    assert "mcq.q-row_norms.none.1" in text.split("\nUnscored\n")[1]
    assert "No group is" in text
    assert "| m:m | all | keet |" in printed(capsys, run, "--format", "markdown")
    again = McqReport.model_validate_json(printed(capsys, run, "--format", "json"))
    assert again == report(run)


def test_all_right_without_a_profile_is_saturated(wording) -> None:
    def cell(condition: Condition, right: float, scored: int) -> Cell:
        return Cell("m:m", condition, "all", Interval(right, right, right), scored, 0)

    wording(list(saturation([cell("none", 0.96, 25)])))
    others = [cell("none", 0.94, 25), cell("none", 1.0, 9), cell("keet", 1.0, 25)]
    assert list(saturation([*others, Cell("m:m", "none", "all", None, 0, 9)])) == []


def test_regressions_against_an_earlier_run(tmp_path: Path, run: Path, wording) -> None:
    earlier = scored(folder(tmp_path / "old", {"none": "AAAA", "keet": "BAAB"}, version="w"))
    found = report(run, earlier).against
    assert [(p.id, p.before, p.after) for p in found.regressions] == [
        ("mcq.q-key_count.none.1", "A (right)", "B (wrong)"),
        ("mcq.q-cell_update.none.1", "A (right)", "C (wrong)"),
    ]
    assert [p.id for p in found.gains] == ["mcq.q-matrix_flip.keet.1"]
    wording(found.notes)
    assert (found.pairs, found.only_earlier) == (7, 1)


def test_the_short_table(run: Path, wording) -> None:
    unscored, table = short_parts(list(report(run).scores))
    wording(str(unscored[0]))
    assert table[0] == [
        ("model", "condition", "right", "wrong", "unscored"),
        ("m:m", "none", "1", "2", "1"),
        ("m:m", "keet", "3", "1", "0"),
    ]


def test_scores_survive_answers_that_cannot_be_scored(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", {"none": "AAAA"})
    before = (scored(made) / "scores.jsonl").read_bytes()
    (made.path / "answers.jsonl").unlink()
    made.add(an_answer("mcq.q-key_count.none.1", "I cannot say", model="m:m", prompt_version="v"))
    with pytest.raises(UsageError, match=r"scores\.jsonl is left as it was"):
        scored(made)
    assert (made.path / "scores.jsonl").read_bytes() == before


def test_scores_that_are_refused(run: Path, tmp_path: Path) -> None:
    scores = list(report(run).scores)
    write_lines(run / "scores.jsonl", [*scores, scores[0]])
    with pytest.raises(UsageError, match="is scored twice"):
        report(run)
    made = folder(tmp_path / "mixed", {"none": "AAA-"})
    made.add(an_answer("mcq.q-cell_update.none.1", model="m:m", prompt_version="w"))
    with pytest.raises(UsageError, match="holds answers to w: they are not comparable"):
        scored(made)
    nothing = scored(folder(tmp_path / "nothing", {"none": "????"}))
    with pytest.raises(UsageError, match="none of 4 answers is scored"):
        report(nothing)


def other_run(path: Path, *models: str) -> Path:
    """Scores of these models, of answers to other prompts."""
    made = folder(path, {"none": "AAAA", "keet": "AAAA"}, "w", models[0])
    run = scored(made)
    found = [*read_lines(run / "scores.jsonl", McqScore)]
    more = [s.model_copy(update={"model": model}) for model in models[1:] for s in found]
    write_lines(run / "scores.jsonl", [*found, *more])
    return run


def test_a_run_compared_with_itself_has_no_changes(run: Path, tmp_path: Path, wording) -> None:
    """Stored scores do without their run."""
    found = report(run, run).against
    assert (found.regressions, found.gains, found.notes) == ((), (), ())
    assert all((c.mean, c.low, c.high) == (0, 0, 0) for c in found.change.values())
    stored = report(run, run / "scores.jsonl").against
    assert stored.pairs == 7
    wording(stored.notes)
    with pytest.raises(UsageError, match=r"name a run or its scores\.jsonl"):
        report(run, tmp_path / "nowhere")


def test_another_model_is_paired_if_it_is_one(run: Path, tmp_path: Path) -> None:
    found = report(run, other_run(tmp_path / "old", "old:model")).against
    assert found.pairs == 7
    assert [note.partition(":")[0] for note in found.notes] == ["other prompts", "other models"]
    with pytest.raises(UsageError, match="which of a:a, b:b"):
        report(run, other_run(tmp_path / "two", "a:a", "b:b"))
    found = report(run, other_run(tmp_path / "with_ours", "m:m", "b:b")).against
    assert (found.pairs, found.only_earlier) == (7, 9)


def test_runs_that_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = other_run(tmp_path / "other", "b:b")
    with pytest.raises(UsageError, match=r"differ in prompt_version .* with --against$"):
        printed(capsys, run, other)
    with pytest.raises(UsageError, match="contains no run"):
        printed(capsys, tmp_path)
    text = (run / "scores.jsonl").read_text()
    for content, problem in (
        (text.replace('"right"', '"perhaps"'), "is not a valid mcqscore"),
        ("", "is empty; score the run again: keet eval score"),
        (None, "has no scores yet; score it first: keet eval score"),
    ):
        (run / "scores.jsonl").unlink(missing_ok=True)
        if content is not None:
            (run / "scores.jsonl").write_text(content)
        with pytest.raises(UsageError, match=problem):
            printed(capsys, run)


def test_reasons_are_counted_and_rare_ones_summed_up(wording) -> None:
    whys = [f"no answer: error {i}" for i in range(6)] + ["no answer yet"] * 2
    wording(reasons(whys))
    assert len(reasons(["x " * 400])) < 80
