"""What NVIDIA's rules are taken to say: every doubt in their favour."""

from itertools import permutations, product

import pytest

from evals.diagnosis import nvidia
from evals.diagnosis.nvidia import Advice
from keet.profile.metric import RuleKind, RuleResult, SpeedupEstimate, SpeedupScope
from keet.report import read_profile
from kernels_samples.samples import load_samples


def a_rule(
    rule: str, percent: float | None = None, scope: str = "global", kind: str = "optimization"
) -> RuleResult:
    estimate = None if percent is None else SpeedupEstimate(SpeedupScope(scope), percent)
    return RuleResult(rule, rule, "Section", RuleKind(kind), "", "", estimate)


def test_rules_rank_by_estimate_and_those_without_come_last() -> None:
    """Each counts once, with its highest estimate; of the old kinds, those with a meaning."""
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
    rules = [a_rule("FPInstructions", 3), a_rule("FPInstructions", 15), a_rule("FPInstructions")]
    assert nvidia.ranked(rules) == (Advice("FPInstructions", 15),)
    assert nvidia.ranked([a_rule("PCSamplingData", kind="warning")]) == ()
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
            next(place for place, one in enumerate(order, 1) if nvidia.meanings(one.rule) & wanted)
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
    advice = (
        Advice("CPIStall", 100.0),
        Advice("SOLFPRoofline", 75.0),
        Advice("SOLBottleneck", None),
    )
    assert nvidia.speedups(advice) == pytest.approx((100, 4))


def test_every_rule_of_the_samples_has_a_meaning() -> None:
    reports = [sample.report(variant) for sample in load_samples() for variant in sample.variants]
    launches = [launch for report in reports for launch in read_profile(report).launches]
    for rule in {result.rule for launch in launches for result in launch.rules}:
        nvidia.meanings(rule)  # raises KeyError otherwise
