"""A run beside an earlier one: pairs by prompt, regressions beyond noise, and what else differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.optimize.measured_file import MACHINES, MeasuredOn
from evals.pages import as_text
from evals.report.documents import AgainstDocument
from evals.report.load_runs import open_earlier, open_runs
from evals.report.optimize import parts_of, report_of
from evals.runs import write_lines
from keet.errors import UsageError
from tests.evals.report.synthetic import Outcomes, score, scored_run, scores

BEFORE: Outcomes = {
    "matrix_flip": {"none": [2.0], "keet": [8.0]},
    "key_count": {"none": ["INCORRECT"], "keet": [16.0]},
    "row_norms": {"none": [2.0], "keet": [None]},
}
AFTER: Outcomes = {
    "matrix_flip": {"none": [2.0], "keet": [2.0]},
    "key_count": {"none": [3.0], "keet": ["TIMEOUT"]},
    "row_norms": {"none": [1.95], "keet": [2.0]},
    "scan_rows": {"none": [5.0]},
}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to tell an interval, and ten times as quick."""
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 400)


def beside(now: Path, earlier: Path) -> AgainstDocument:
    found = report_of(open_runs([now]), open_earlier(earlier)).against
    assert found is not None
    return found


@pytest.fixture
def now(tmp_path: Path) -> Path:
    return scored_run(tmp_path / "now", scores(AFTER))


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    return scored_run(tmp_path / "earlier", scores(BEFORE))


def test_pairs_and_what_has_no_partner(now: Path, earlier: Path) -> None:
    found = beside(now, earlier)
    assert (found.pairs, found.only_here, found.only_earlier) == (5, 2, 0)
    assert found.notes == ()


def test_regressions_and_gains(now: Path, earlier: Path) -> None:
    """A loss of 2.5 % is none."""
    found = beside(now, earlier)
    assert [(p.id, p.before, p.after) for p in found.regressions] == [
        ("optimize.matrix_flip.keet.1", "8.00x", "2.00x"),
        ("optimize.key_count.keet.1", "16.00x", "TIMEOUT"),
    ]
    assert [(p.id, p.before, p.after) for p in found.gains] == [
        ("optimize.key_count.none.1", "INCORRECT", "3.00x")
    ]


def test_the_mean_change_by_condition(now: Path, earlier: Path) -> None:
    change = beside(now, earlier).change
    assert change["keet"].mean == pytest.approx((-2 - 4) / 2)
    assert change["none"].mean > 0


def test_the_page_says_when_something_is_a_regression_and_changes_as_ratios(
    now: Path, earlier: Path
) -> None:
    text = as_text(parts_of(report_of(open_runs([now]), open_earlier(earlier))))
    page = text.split(f"\nAgainst {earlier}\n")[1]
    assert (
        "Regressions (it no longer passes, or is slower by more than 1.1x and beyond the spread of "
        "rounds): 2 of 5" in " ".join(page.split())
    )
    assert "optimize.matrix_flip.keet.1 (test:model): 8.00x to 2.00x" in page
    assert "keet       0.12 (0.06 to 0.25)" in page  # a quarter, and a sixteenth
    assert "log2" not in page


def test_another_gpu_is_reported(now: Path, earlier: Path) -> None:
    write_lines(now / MACHINES, [MeasuredOn(gpu="H200")])
    assert beside(now, earlier).notes == ()
    write_lines(earlier / MACHINES, [MeasuredOn(gpu="A100")])
    assert beside(now, earlier).notes == ("another GPU: H200 here, A100 earlier",)


def test_a_run_compared_with_itself_has_no_changes(now: Path) -> None:
    found = beside(now, now)
    assert (found.regressions, found.gains) == ((), ())
    assert all((c.mean, c.low, c.high) == (0, 0, 0) for c in found.change.values())


def test_a_loss_within_the_spread_of_rounds_is_not_a_regression(tmp_path: Path) -> None:
    old = score("matrix_flip", "none", 4.0, speedup_low=2.9, speedup_high=5.0)
    new = score("matrix_flip", "none", 3.0, speedup_low=2.0, speedup_high=3.1)
    sure = score("matrix_flip", "none", 2.5, speedup_low=2.4, speedup_high=2.6)
    before = scored_run(tmp_path / "old", [old])
    assert beside(scored_run(tmp_path / "new", [new]), before).regressions == ()
    assert len(beside(scored_run(tmp_path / "sure", [sure]), before).regressions) == 1


def test_stored_scores_do_without_their_run(now: Path, earlier: Path, wording) -> None:
    found = beside(now, earlier / "scores.jsonl")
    assert found.pairs == 5
    wording(found.notes)


def test_other_differences_between_runs_are_listed(tmp_path: Path, now: Path, wording) -> None:
    old = scored_run(tmp_path / "old", scores(BEFORE, model="old:model"), version="ffffffffffff")
    found = beside(now, old)
    wording(found.notes)
    assert found.pairs == 5


def test_with_a_model_in_common_others_are_not_paired(tmp_path: Path, now: Path) -> None:
    both = [*scores(BEFORE), *scores(BEFORE, model="b:b")]
    found = beside(now, scored_run(tmp_path / "old", both))
    assert (found.pairs, found.only_earlier) == (5, 5)


def test_two_models_for_one_cannot_be_paired(tmp_path: Path, now: Path) -> None:
    both = [*scores(BEFORE, model="a:a"), *scores(BEFORE, model="b:b")]
    with pytest.raises(UsageError, match="which of a:a, b:b"):
        beside(now, scored_run(tmp_path / "old", both))


def test_an_earlier_run_that_is_not_there(now: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name a run or its scores\.jsonl"):
        beside(now, tmp_path / "nowhere")


def test_nothing_in_common(now: Path, tmp_path: Path) -> None:
    old = scored_run(tmp_path / "old", scores({"tap_filter": {"none": [2.0]}}))
    found = beside(now, old)
    assert (found.pairs, found.change) == (0, {})
