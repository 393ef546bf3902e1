"""How often first answers change: on a few real launches, and sums of made-up ones."""

from collections import Counter

import pytest

from evals.analyst import stability
from evals.analyst.first_answer import FirstAnswer
from evals.analyst.perturbed import PerturbedLaunch
from evals.analyst.report_sets import Source, sample_sources, subjects
from evals.analyst.stability import Stability, page_parts, shares


def made_up(answer: str, two: dict[str, int], five: dict[str, int], group: str = "samples"):
    return Stability(group, f"{answer} kernel", answer, {0.02: Counter(two), 0.05: Counter(five)})


def sample(name: str) -> Source:
    return next(source for source in sample_sources() if source.name == name)


@pytest.mark.slow
def test_a_clear_cause_does_not_change() -> None:
    rows = stability.stability([sample("matrix_flip/slow")], 3, 1)
    assert [row.answer for row in rows] == ["uncoalesced_global"]
    assert [row.changed(width) for row in rows for width in (0.02, 0.05)] == [0, 0]
    assert [row.drawn[0.02].total() for row in rows] == [3]


def test_an_answer_that_depends_on_one_metric_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An analyst with a cliff: the draw decides on which side of it the launch is."""
    (subject,) = subjects(sample("matrix_flip/slow"))
    limit = subject.launch.require("duration").value

    def answer(diagnosed: object) -> FirstAnswer:
        value = diagnosed.require("duration").value
        return FirstAnswer("finding", "long" if value >= limit else "short")

    monkeypatch.setattr(stability, "diagnose", lambda launch, beside: launch)
    monkeypatch.setattr(stability, "first_answer", answer)
    row = stability.of_subject(subject, 40)
    assert row.answer == "long"
    assert 8 <= row.changed(0.02) <= 32
    assert row.drawn[0.02] == row.drawn[0.05]  # the same draws, wider


def test_a_draw_on_which_the_analyst_fails_is_counted_and_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(launch: PerturbedLaunch, beside: object) -> None:
        raise ZeroDivisionError("no cycles")

    (subject,) = subjects(sample("matrix_flip/slow"))
    plain = stability.of_subject(subject, 0)
    monkeypatch.setattr(stability, "diagnose", fail)
    row = stability.of_subject(subject, 1)._replace(answer=plain.answer)
    assert row.errors == 2
    assert [row.changed(width) for width in (0.02, 0.05)] == [1, 1]
    page = str(page_parts([row], 1))
    assert "fails on 2 draws" in page
    assert "1 error: ZeroDivisionError: no cycles" in page
    assert "fails" not in str(page_parts([plain], 0)[0])


def test_the_page_says_whether_thresholds_are_met_and_lists_changes(wording) -> None:
    rows = [
        made_up("latency_bound", {"latency_bound": 20}, {"latency_bound": 18, "nothing": 2}),
        made_up("nothing", {"nothing": 19, "small_grid": 1}, {"nothing": 20}, group="corpus"),
        made_up("tail_effect", {"tail_effect": 20}, {"tail_effect": 20}),
    ]
    assert shares(rows[:2]) == {0.02: 1 / 40, 0.05: 2 / 40}  # of all draws
    summary, sums, _, _, pairs, _, worst = page_parts(rows, 20)
    wording(summary.text)
    assert [row[:3] for row in sums.rows[1:]] == [
        ("samples", "2", "0.00%"),
        ("corpus", "1", "5.00%"),
        ("all", "3", "1.67%"),
    ]
    assert pairs.rows[1:] == [
        ("latency_bound", "nothing", "2", "1"),
        ("nothing", "small_grid", "1", "1"),
    ]
    assert worst.rows[1:] == [
        ("nothing kernel", "nothing", "1 small_grid", "-"),
        ("latency_bound kernel", "latency_bound", "-", "2 nothing"),
    ]
