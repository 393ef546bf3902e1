"""What became of the findings, and what is not known of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from compared import (
    NAMES,
    Kernel,
    changed,
    difference,
    is_healthy,
    made,
    pipeline,
    report,
    sample,
    sample_difference,
    without,
)

from keet.analysis.ledger import Ledger
from keet.comparison.causes.explained_pair import ExplainedPair, WeightedLaunch
from keet.comparison.causes.finding_changes import changed_findings, outcome
from keet.comparison.compare import Difference
from keet.documents.finding import Forecast
from tests.rows import each_row


def _fates(found: Difference) -> dict[str, set[str]]:
    words = ("fixed", "new", "remaining", "unknown")
    return {word: {each for pair in found.pairs for each in getattr(pair, word)} for word in words}


@each_row(
    ("name", "finding"),
    [
        ("blend_frames", "uncoalesced_global"),
        ("score_tiles", "shared_bank_conflict"),
        ("scan_rows", "barrier_bound"),
        ("sparse_apply", "load_imbalance"),
        ("phase_sum", "sfu_bound"),
    ],
)
@pytest.mark.slow
def test_planted_findings_of_the_samples_are_fixed(name: str, finding: str) -> None:
    assert finding in _fates(sample_difference(name))["fixed"]
    assert finding in _fates(sample_difference(name, swapped=True))["new"]


@pytest.mark.slow
@each_row("name", [name for name in NAMES if is_healthy(name)])
def test_healthy_samples_have_nothing_fixed(name: str) -> None:
    found = _fates(sample_difference(name))
    assert not (found["fixed"])
    assert not (found["new"])


@pytest.mark.slow
def test_a_finding_is_in_one_group_only() -> None:
    for name in NAMES[::3]:
        for pair in sample_difference(name).pairs:
            told = [*pair.fixed, *pair.new, *pair.remaining, *pair.unknown]
            assert len(told) == len(set(told)), name


def _sides(after: str, here: float, there: float) -> ExplainedPair:
    """A launch whose first finding would gain `here` times, and one where it would gain `there`
    times: minor below 1.1."""
    (flip,) = sample_difference("matrix_flip").pairs
    slow = flip.weighted[0][0]
    other = slow if after == "slow" else flip.weighted[1][0]
    return ExplainedPair(
        [_with_gain(slow, slow, here)], [_with_gain(other, slow, there)], Ledger(), "p"
    )


def _with_gain(each: WeightedLaunch, of: WeightedLaunch, gain: float) -> WeightedLaunch:
    finding = of.explanation.findings[0]
    assert finding.id == "uncoalesced_global"
    again = [replace(finding, forecast=Forecast(1.0, gain, gain))]
    kept = {"findings": tuple(again), "lesser": ()} if gain >= 1.1 else {
        "findings": (), "lesser": tuple(again) if gain > 1 else ()
    }  # fmt: skip
    return each._replace(explanation=replace(each.explanation, **kept))


@each_row(
    ("after", "here", "there", "fate"),
    [
        ("fast", 1.11, 1.09, "remaining"),  # crossed the limit, and costs as much
        ("fast", 3.0, 1.09, "fixed"),  # what is left is minor
        ("fast", 3.0, 1.0, "fixed"),
        ("fast", 3.0, 1.2, "remaining"),  # costs less, and is still worth a change
        ("slow", 3.0, 1.02, "remaining"),  # the number that shows it is the same
    ],
)
def test_a_finding_is_fixed_where_its_cost_and_its_number_fell(
    after: str, here: float, there: float, fate: str
) -> None:
    told = outcome(_sides(after, here, there))
    assert {name: ids for name, ids in told.items() if ids} == {fate: ["uncoalesced_global"]}


def test_a_larger_share_of_a_shorter_time_is_not_a_cause() -> None:
    """77.8 % excess sectors before, 0 % after: had it cost 1.05x before and 1.5x after, it would
    cost less time for the launch is shorter, and still not be why."""
    assert [cause.id for cause in changed_findings(_sides("fast", 3.0, 1.05))] == [
        "uncoalesced_global"
    ]
    assert changed_findings(_sides("fast", 1.2, 1.5)) == []


def test_a_number_that_got_worse_shows_no_improvement() -> None:
    """The part of the sectors beyond the ideal grew from 67 % to 71 % in sparse_apply."""
    (pair,) = sample_difference("sparse_apply").pairs
    assert "uncoalesced_global" not in {each.finding for each in pair.attribution}
    assert "uncoalesced_global" in pair.remaining


@each_row("name", NAMES, few=3)
@each_row("swapped", [False, True])
def test_the_number_of_a_cause_is_of_its_finding(name: str, *, swapped: bool) -> None:
    """Its first one, or what that was computed from; never the load of a unit."""
    for pair in sample_difference(name, swapped=swapped).pairs:
        told = [part.explanation for side in pair.weighted for part in side]
        for each in pair.attribution:
            if each.finding is None or not each.numbers or " of " in each.what:
                continue
            raised = [f for t in told for f in (*t.findings, *t.lesser) if f.id == each.finding]
            own = {
                e for f in raised for e in (f.evidence[0].id, *(f.evidence[0].derived_from or ()))
            }
            assert own & {evidence.id for evidence in each.evidence}, each.what


def test_a_number_of_another_finding_is_not_shown() -> None:
    found = sample_difference("row_layers")
    told = [a.what for pair in found.pairs for a in pair.attribution if a.finding]
    assert told == ["redundant traffic: gone"]


@pytest.mark.slow
def test_a_missing_section_makes_nothing_fixed_or_new() -> None:
    full, basic = report("tour_lines.ncu-repz"), report("tour_basic.ncu-repz")
    for found in (difference(full, basic), difference(basic, full)):
        paired = [pair for pair in found.pairs if pair.how == "same"]
        assert paired
        assert not [pair for pair in paired if pair.fixed or pair.new]
        assert not [a for pair in paired for a in pair.attribution if a.kind == "cause"]


@pytest.mark.slow
@each_row("name", ["panel_product", "key_count", "matrix_flip", "page_walk"])
@each_row("section", ["warp_issue_stalled", "dram__", "l1tex__", "pct_of_peak"])
def test_missing_metrics_make_nothing_new(name: str, section: str) -> None:
    """Against the same pair with all numbers: nothing more is fixed or new."""
    before, after = sample(name), sample(name, "fast")
    full = _fates(difference(before, after))
    for found in (
        _fates(difference(before, without(after, section))),
        _fates(difference(without(before, section), after)),
    ):
        assert found["fixed"] <= full["fixed"]
        assert found["new"] <= full["new"]


@pytest.mark.slow
def test_a_finding_is_unknown_if_its_metrics_are_missing() -> None:
    before, after = sample("score_tiles"), without(sample("score_tiles", "fast"), "shared")
    found = _fates(difference(before, after))
    assert "shared_bank_conflict" in found["unknown"]
    assert "shared_bank_conflict" not in found["fixed"]


def test_a_finding_with_unchanged_numbers_is_not_fixed() -> None:
    """A threshold was crossed, and nothing else."""
    before = pipeline("before")
    found = _fates(difference(before, pipeline("again")))
    assert not (found["fixed"])
    assert not (found["new"])


def test_a_missing_volume_is_not_zero() -> None:
    found = difference(sample("matrix_flip"), without(sample("matrix_flip", "fast"), "dram__bytes"))
    told = [a.what for pair in found.pairs for a in pair.attribution]
    assert told
    assert not [text for text in told if "DRAM" in text and "byte" in text]


@pytest.mark.slow
@each_row("value", [math.nan, math.inf, 0.0, -1.0, None])
def test_odd_numbers_do_not_crash(value: float | None) -> None:
    before = sample("matrix_flip")
    names = [n for n in before.launches[0].metric_names() if n.startswith(("sm__", "lts", "dram"))]
    odd = changed(before, metrics=dict.fromkeys(names, value))
    for found in (difference(before, odd), difference(odd, before), difference(odd, odd)):
        assert found.timing.noise >= 0
        assert all(
            share is None or math.isfinite(share)
            for pair in found.pairs
            for share in (a.share for a in pair.attribution)
        )


def test_launches_without_metrics_do_not_crash() -> None:
    found = difference(made(Kernel("a", 1e6), "b"), made(Kernel("a", 2e6), "b"))
    assert found.timing.word == "slower"
    assert [pair.attribution for pair in found.pairs] == [(), ()]
    assert not any(pair.fixed or pair.new for pair in found.pairs)
