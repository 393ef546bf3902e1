"""The scorers on made-up cases, and the least that keet must reach on the real samples."""

from __future__ import annotations

import json
import math
from itertools import permutations, product

import pytest

from evals import bootstrap, nvidia
from evals.bootstrap import alone, paired
from evals.diagnosis import json_of, score_samples, truth_of
from evals.diagnosis_text import text_of
from evals.nvidia import MEANINGS, Advice
from evals.scoring import (
    Answer,
    Claim,
    HealthyRow,
    Row,
    Truth,
    doublings,
    off_by,
    score,
    score_healthy,
)
from evals.summary import Share, Summary, summarise
from keet.catalog import findings
from keet.ingest import read_profile
from keet.profile.rules import RuleKind, RuleResult, SpeedupEstimate, SpeedupScope
from kernels_samples.samples import load_samples

# --- NVIDIA's rules


def a_rule(
    rule: str, percent: float | None = None, scope: str = "global", kind: str = "optimization"
) -> RuleResult:
    estimate = None if percent is None else SpeedupEstimate(SpeedupScope(scope), percent)
    return RuleResult(rule, rule, "Section", RuleKind(kind), "", "", estimate)


def test_rules_rank_by_estimate_and_those_without_come_last() -> None:
    rules = [
        a_rule("SOLBottleneck"),
        a_rule("CPIStall", 20),
        a_rule("IssueSlotUtilization", 90, "local"),
        a_rule("HighPipeUtilization", kind="ok"),
    ]
    assert nvidia.ranked(rules) == (
        Advice("IssueSlotUtilization", 90),
        Advice("CPIStall", 20),
        Advice("SOLBottleneck", None),
    )
    assert nvidia.ranked(rules, only_global=True) == (Advice("CPIStall", 20),)


def test_a_rule_counts_once_with_its_highest_estimate() -> None:
    rules = [a_rule("FPInstructions", 3), a_rule("FPInstructions", 15), a_rule("FPInstructions")]
    assert nvidia.ranked(rules) == (Advice("FPInstructions", 15),)


def test_a_rule_without_a_meaning_takes_no_place() -> None:
    assert nvidia.ranked([a_rule("PCSamplingData", kind="warning")]) == ()


def test_the_old_kind_of_advice_counts() -> None:
    assert nvidia.ranked([a_rule("CPIStall", kind="warning")]) == (Advice("CPIStall", None),)


def test_ties_are_as_ncu_prints_them_and_go_to_nvidia() -> None:
    advice = nvidia.ranked(
        [
            a_rule("LaunchConfiguration", 50.001),
            a_rule("ThreadDivergence", 50.0),
            a_rule("CPIStall", 60),
        ]
    )
    assert nvidia.rank_of(["warp_divergence"], advice) == 1  # CPIStall can mean it
    assert nvidia.rank_of(["tail_effect"], advice) == 2
    without = [one for one in advice if one.rule != "CPIStall"]
    assert (
        nvidia.rank_of(["tail_effect"], without)
        == nvidia.rank_of(["warp_divergence"], without)
        == 1
    )


def test_a_rank_is_the_best_place_that_any_order_of_equals_gives() -> None:
    rules = ["TheoreticalOccupancy", "UncoalescedSharedAccess", "ThreadDivergence", "SOLFPRoofline"]
    wanted = {"warp_divergence", "shared_bank_conflict"}
    for percents in product((10.0, 20.0, None), repeat=4):
        advice = tuple(map(Advice, rules, percents))
        places = [
            next(place for place, one in enumerate(order, 1) if MEANINGS[one.rule] & wanted)
            for order in permutations(advice)
            if sorted(order, key=height, reverse=True) == list(order)
        ]
        assert nvidia.rank_of(wanted, advice) == min(places)


def height(advice: Advice) -> float:
    return -1 if advice.percent is None else advice.percent


def test_no_rule_no_rank() -> None:
    assert nvidia.rank_of(["tail_effect"], ()) is None
    assert nvidia.rank_of(["atomic_contention"], (Advice("CPIStall", 90),)) is None
    assert nvidia.first_meanings(()) == frozenset()


def test_an_estimate_is_a_share_of_the_time() -> None:
    advice = (
        Advice("CPIStall", 100.0),
        Advice("SOLFPRoofline", 75.0),
        Advice("SOLBottleneck", None),
    )
    assert nvidia.speedups(advice) == pytest.approx((100, 4))


def test_rules_mean_findings_of_the_vocabulary() -> None:
    assert frozenset().union(*MEANINGS.values()) <= set(findings())


def test_every_rule_of_the_samples_has_a_meaning() -> None:
    reports = [sample.report(variant) for sample in load_samples() for variant in sample.variants]
    launches = [launch for report in reports for launch in read_profile(report).launches]
    assert {result.rule for launch in launches for result in launch.rules} <= set(MEANINGS)


# --- one sample

TRUTH = Truth(
    "made_up",
    "tail_effect",
    accept=("small_grid",),
    lines=(("slow.cu", 7), ("slow.cu", 9)),
    fixed=("narrow_access", "small_grid", "tail_effect"),
    left=(("fast", "latency_bound"),),
    speedup=2.0,
)


def a_claim(finding: str, likely: float = 2.0, places: tuple[tuple[str, int], ...] = ()) -> Claim:
    return Claim(finding, likely / 2, likely, likely * 2, places=places)


def scored(*claims: Claim, fast: Answer | None = None, truth: Truth = TRUTH) -> Row:
    return score(truth, {"slow": Answer(claims), "fast": fast or Answer(healthy="latency_bound")})


def test_the_first_finding_is_first() -> None:
    row = scored(a_claim("tail_effect", places=(("slow.cu", 9),)), a_claim("sfu_bound"))
    assert (row.rank, row.located, row.misses) == (1, True, ())


def test_another_name_of_the_cause_counts() -> None:
    assert scored(a_claim("sfu_bound"), a_claim("small_grid"), a_claim("tail_effect")).rank == 2


def test_nothing_raised_is_a_miss_of_everything() -> None:
    row = scored()
    assert row.rank is None
    assert not row.located
    assert not row.forecast.covered
    assert row.misses == ("cause: not raised; nothing was raised",)
    assert (row.nvidia_rank, row.nvidia_global_rank, row.nvidia_first_means) == (None, None, 0)


def test_health_that_is_none_is_said() -> None:
    row = score(TRUTH, {"slow": Answer(healthy="at_dram_roofline"), "fast": Answer()})
    assert row.misses == (
        "cause: not raised; nothing was raised: at_dram_roofline",
        "left: fast is limited by latency_bound; nothing was raised",
    )


def test_a_miss_says_what_came_first() -> None:
    row = scored(a_claim("sfu_bound", 3.0), a_claim("tail_effect", places=(("slow.cu", 7),)))
    assert row.misses == ("cause: tail_effect 2.00x (high) comes after sfu_bound 3.00x (high)",)
    other = scored(a_claim("sfu_bound", 3.0))
    assert other.misses == ("cause: not raised; raised: sfu_bound 3.00x (high)",)


@pytest.mark.parametrize(
    ("places", "located"),
    [
        ((), False),
        ((("slow.cu", 7),), True),
        ((("slow.cu", 1), ("slow.cu", 2), ("slow.cu", 9)), True),
        ((("slow.cu", 1), ("slow.cu", 2), ("slow.cu", 3), ("slow.cu", 9)), False),
        ((("header.h", 7),), False),
        ((("slow.cu", 8),), False),
    ],
)
def test_a_cause_line_is_among_the_first_three_places(
    places: tuple[tuple[str, int], ...], located: bool
) -> None:
    row = scored(a_claim("tail_effect", places=places))
    assert row.located is located
    assert row.places == min(len(places), 3)
    assert bool(row.misses) is not located


def test_places_of_another_finding_do_not_count() -> None:
    assert not scored(
        a_claim("sfu_bound", places=(("slow.cu", 7),)), a_claim("tail_effect")
    ).located


def test_no_places_are_said() -> None:
    (miss,) = scored(a_claim("tail_effect")).misses
    assert miss == "location: tail_effect has no places; the cause is at slow.cu:7, slow.cu:9"


def test_what_was_fixed_may_not_be_raised_again() -> None:
    fast = Answer((a_claim("latency_bound"), a_claim("narrow_access")))
    row = scored(a_claim("tail_effect", places=(("slow.cu", 7),)), fast=fast)
    assert row.still_raised == ("narrow_access",)
    assert row.left_named == (("fast", True),)
    assert row.misses == ("fast: still raises narrow_access 2.00x (high)",)


def test_what_is_left_has_to_come_first() -> None:
    fast = Answer((a_claim("sfu_bound"), a_claim("latency_bound")))
    assert scored(fast=fast).left_named == (("fast", False),)
    assert scored(fast=Answer()).left_named == (("fast", False),)


# --- forecasts


def test_errors_are_factors_of_two() -> None:
    assert (doublings(4, 2), doublings(1, 2), doublings(3, 3)) == (1, -1, 0)
    assert (off_by(4, 2), off_by(1, 2)) == (1, 1)
    assert off_by(None, 8) == off_by(1.0, 8) == 3


@pytest.mark.parametrize(
    ("likely", "covered"), [(0.99, False), (1.0, True), (2.0, True), (4.0, True), (4.01, False)]
)
def test_the_interval_includes_its_ends(likely: float, covered: bool) -> None:
    row = scored(a_claim("tail_effect", likely))
    assert row.forecast.covered is covered
    assert any(miss.startswith("forecast") for miss in row.misses) is not covered


def test_nvidia_is_held_to_its_highest_estimate_and_to_its_nearest() -> None:
    advice = (
        Advice("CPIStall", 75.0),
        Advice("SOLFPRoofline", 50.0),
        Advice("ThreadDivergence", 1.0),
    )
    slow = Answer((a_claim("tail_effect"),), global_advice=advice)
    said = score(TRUTH, {"slow": slow, "fast": Answer()}).forecast
    assert (said.nvidia, said.nvidia_nearest) == (4, 2)


def test_no_estimate_is_none() -> None:
    said = scored(a_claim("tail_effect")).forecast
    assert said.nvidia is None
    assert said.nvidia_nearest is None


# --- healthy samples


def test_alarms_on_healthy_variants() -> None:
    truth = Truth("fit", "at_dram_roofline")
    answers = {
        "slow": Answer(healthy="at_dram_roofline", global_advice=(Advice("CPIStall", 9.0),)),
        "fast": Answer((a_claim("sfu_bound"),), global_advice=(Advice("CPIStall", 9.2),)),
    }
    slow, fast = score_healthy(truth, answers)
    assert (slow.raised, slow.named, slow.nvidia_alarm) == ((), True, False)
    assert (fast.raised, fast.named, fast.nvidia_alarm) == (("sfu_bound",), False, True)
    assert not HealthyRow("fit", "slow", (), named=True, nvidia=None).nvidia_alarm


# --- means


def rows() -> list[Row]:
    hit = scored(a_claim("tail_effect", places=(("slow.cu", 7),)))
    second = scored(a_claim("sfu_bound"), a_claim("tail_effect", 8.0))
    return [hit, second, scored()]


def test_means_are_those_of_the_rows() -> None:
    fit = score_healthy(Truth("fit", "at_dram_roofline"), {"slow": Answer(), "fast": Answer()})
    summary = summarise(rows(), fit)
    assert summary.top1.keet.mean == pytest.approx(1 / 3)
    assert summary.top3.keet.mean == pytest.approx(2 / 3)
    assert summary.top1.baseline.mean == summary.top3_global.baseline.mean == 0
    assert summary.located.mean == summary.covered.mean == pytest.approx(1 / 3)
    assert summary.forecast_error.keet.mean == pytest.approx((0 + 2 + 1) / 3)
    assert summary.forecast_bias.keet.mean == pytest.approx((0 + 2 - 1) / 3)
    assert summary.forecast_error.baseline.mean == pytest.approx(1)
    assert summary.forecast_error_both is None
    assert (summary.without_forecast, summary.nvidia_without_forecast) == (Share(1, 3), Share(3, 3))
    assert len(summary.without_places) == 2
    assert summary.false_alarms is not None
    assert summary.false_alarms.keet.mean == 0
    assert summary.healthy_named == Share(0, 2)


def test_no_healthy_sample_no_alarms() -> None:
    assert summarise(rows(), []).false_alarms is None


# --- intervals

ITEMS = [[(1.0, 0.5)], [(0.0, 2.0), (4.0, 1.0)], [(3.0, 3.0)], [(8.0, 1.5)]]


def test_intervals_are_reproducible() -> None:
    assert paired(ITEMS) == paired(ITEMS)
    assert paired(ITEMS).keet == alone([[ours for ours, _ in cluster] for cluster in ITEMS])


def test_intervals_are_those_of_all_draws() -> None:
    """Four clusters can be drawn in 256 ways: the quantiles of all of them, as far as 4,000 tell."""
    draws = [[item for cluster in drawn for item in cluster] for drawn in product(ITEMS, repeat=4)]
    exact = sorted(sum(a - b for a, b in drawn) / len(drawn) for drawn in draws)
    found = paired(ITEMS).difference
    flat = [item for cluster in ITEMS for item in cluster]
    assert found.mean == pytest.approx(sum(a - b for a, b in flat) / len(flat))
    assert share_below(exact, found.low) == pytest.approx(0.025, abs=0.015)
    assert share_below(exact, found.high) == pytest.approx(0.975, abs=0.015)


def share_below(values: list[float], limit: float) -> float:
    """With half of those that are equal."""
    below = sum(value < limit and not math.isclose(value, limit) for value in values)
    return (below + sum(math.isclose(value, limit) for value in values) / 2) / len(values)


def test_the_two_sides_are_drawn_together() -> None:
    always_one_more = [[(value + 1, value)] for value in (1.0, 5.0, 9.0, 30.0)]
    found = paired(always_one_more)
    assert (found.difference.low, found.difference.high) == pytest.approx((1, 1))
    assert found.keet.low < found.keet.high


def test_a_cluster_comes_and_goes_as_one() -> None:
    """Copies of an item within its cluster make nothing more certain."""
    once = alone([[0.0], [1.0], [1.0], [5.0]])
    assert alone([[0.0] * 9, [1.0] * 9, [1.0] * 9, [5.0] * 9]) == once
    assert alone([[], [0.0], [1.0], [1.0], [5.0]]) == once


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="nothing"):
        alone([[]])


def test_more_draws_than_quantiles_need() -> None:
    assert bootstrap.RESAMPLES >= 1000


# --- the real samples

Scored = tuple[Summary, list[Row], list[HealthyRow]]


@pytest.fixture(scope="module")
def real() -> Scored:
    scores, healthy = score_samples(load_samples())
    return summarise(scores, healthy), scores, healthy


def test_every_sample_is_scored(real: Scored) -> None:
    _, scores, healthy = real
    assert {row.sample for row in [*scores, *healthy]} == {sample.name for sample in load_samples()}
    assert len(healthy) == 2 * len({row.sample for row in healthy})


def test_keet_is_right_often_enough(real: Scored) -> None:
    """The floor: who changes a check runs into it."""
    summary = real[0]
    assert summary.top1.keet.mean >= 0.9
    assert summary.top3.keet.mean >= 0.97
    assert summary.forecast_error.keet.mean <= summary.forecast_error.baseline.mean / 2


def test_the_text_has_a_row_for_each_sample_and_a_line_for_each_miss(real: Scored) -> None:
    _, scores, healthy = real
    lines = text_of(*real).splitlines()
    for row in [*scores, *healthy]:
        assert any(line.split()[:1] == [row.sample] for line in lines)
    for row in scores:
        assert all(f"  {row.sample}: {miss}" in lines for miss in row.misses)


def test_the_json_is_the_same(real: Scored) -> None:
    summary, scores, healthy = real
    document = json.loads(json_of(summary, scores, healthy))
    assert document["summary"]["top1"]["keet"]["mean"] == summary.top1.keet.mean
    assert [row["sample"] for row in document["samples"]] == [row.sample for row in scores]
    assert len(document["healthy"]) == len(healthy)


def test_truths_are_those_of_the_samples() -> None:
    samples = {sample.name: sample for sample in load_samples()}
    truths = {name: truth_of(sample) for name, sample in samples.items()}
    flip, layered = truths["matrix_flip"], truths["xs_lookup"]
    assert (flip.dominant, flip.lines) == ("uncoalesced_global", (("slow.cu", 7),))
    assert layered.names == ("latency_bound", "small_grid")
    assert layered.fixed == ("latency_bound", "small_grid")  # the other is mended in part
    measured = samples["xs_lookup"].measured
    assert measured is not None
    slow, step1 = (measured.variants[name].median_us for name in ("slow", "step1"))
    assert layered.speedup == pytest.approx(slow / step1)  # the next one, not the last
    assert truths["lookup_records"].fixed == ()  # what is left is the same cause
