"""What Nsight Compute's rules put first, why a cause is only possible: in plain words."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from keet.analysis.ledger import LaunchLedger
from keet.analysis.remedy_conditions.grid import SHORT_BLOCKS
from keet.analysis.time_model import WORTH
from keet.diagnosis.diagnosis import diagnose
from keet.diagnosis.finding import Finding
from keet.explanation.finding_notes import why_only_possible
from keet.explanation.ncu_rules import judge_rule, precedes_findings, second_opinion
from keet.profile import Device, KernelName, Launch, SpeedupEstimate, SpeedupScope, Workload
from keet.report.printed.details_page import rule_result
from keet.report.snapshot import InMemoryLaunch
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import launch_of, profile_of, public_launch, public_profile
from tests.unit.explanation.made_finding import finding as made_finding

finding = partial(made_finding, cause_certainty="possible")
TAIL = finding("tail_effect")
FLIP, PHYSICS = launch_of("matrix_flip"), launch_of("column_physics")


def test_which_finding_a_rule_agrees_with() -> None:
    first, second = TAIL, finding("uncoalesced_global")
    rule = LaunchLedger(FLIP).launch.leading_rule
    assert judge_rule(rule, [second], [], 0).finding == 1
    assert judge_rule(rule, [first, second], [], 0).finding == 2
    # A kernel that is too short has a small grid as well, and comes first.
    made = rule_result("LaunchStats", "OPT", "", rule="LaunchConfiguration")
    rule = made._replace(title="Small Grid")
    found = [finding("launch_bound"), finding("small_grid")]
    assert judge_rule(rule, found, [], 0).finding == 2
    assert judge_rule(rule, found[:1], [], 0).finding == 1
    rule = rule_result("Source", "OPT", "", rule="UncoalescedGlobalAccess")
    both = [finding("narrow_access"), finding("uncoalesced_global")]
    assert judge_rule(rule, both, [], 0).finding == 2
    assert judge_rule(rule, both[::-1], [], 0).finding == 1


BLOCKS = finding("occupancy_limited_block", variant=SHORT_BLOCKS)


@each_row(("found", "number", "is_consequence"), [
    ([finding("uncoalesced_global"), finding("warp_divergence")], None, False),
    ([finding("uncoalesced_global"), finding("small_grid")], 2, True),
    ([*map(finding, ("warp_divergence", "load_imbalance", "latency_bound"))], 2, True),
    ([finding("uncoalesced_global"), BLOCKS], 2, True),
    ([finding("latency_bound")], 1, False),
])  # fmt: skip
def test_low_occupancy_is_a_consequence_of_too_few_or_unequal_blocks_only(
    found: list[Finding], number: int | None, is_consequence: bool
) -> None:
    judged = judge_rule(rule_result("Occupancy", "OPT", "", rule="AchievedOccupancy"), found, [], 0)
    assert judged.finding == number
    assert ("consequence" in judged.text) == is_consequence


def ruled(message: str, percent: float = 74.14) -> Launch:
    gain = SpeedupEstimate(SpeedupScope.GLOBAL, percent)
    rule = rule_result("Source", "OPT", message, rule="UncoalescedGlobalAccess", gain=gain)
    data = InMemoryLaunch(Device(None, None, None), {}, stored_rules=(rule,))
    name = KernelName("k", "k()", "")
    return Launch(number=0, name=name, workload=Workload.KERNEL, grid=None, block=None, data=data)


SECTORS = "A sector has bytes. This kernel has 75 excessive sectors. Check the table."
LITTLE = [finding("uncoalesced_global", likely=1.05)]
OPINIONS: dict[str, tuple[Launch, list[Finding], list[Finding], float]] = {
    "of the finding": (FLIP, [finding("uncoalesced_global")], [], 0),
    "checked, and little": (FLIP, [TAIL], LITTLE, 5),
    "checked, and nothing": (FLIP, [], [], 5),
    "unknown time": (FLIP, [], [], 60),
    "little, and much is not attributed": (FLIP, [], LITTLE, 60),
    # The headline says that the cause would gain 20 % if it is there.
    "possible": (FLIP, [], [finding("uncoalesced_global")], 5),
    "a consequence": (PHYSICS, [finding("local_memory_spill")], [], 0),
    "no check": (launch_of("stencil_march"), [finding("integer_overhead")], [], 0),
    "quoted": (ruled(SECTORS), [finding("latency_bound")], [], 60),
    "known, and not quoted": (ruled(SECTORS), [finding("uncoalesced_global")], [], 60),
    "nothing is counted": (ruled("Nothing is counted."), [], [], 60),
    "addresses": (ruled("got 8 sectors at PC @source:0:0x7f@ at /home/me/k.cu:3"), [], [], 60),
}


@each_row("case", OPINIONS)
def test_what_is_said_of_the_rule_with_the_largest_estimate(case: str, wording) -> None:
    """A rule that can't be judged is quoted, unless it only advises or names addresses."""
    launch, found, minor, unknown = OPINIONS[case]
    told = second_opinion(LaunchLedger(launch), found, minor, unknown)
    wording(told, case=case)
    assert precedes_findings(told) == (case in ("quoted", "unknown time"))


def test_no_rule_and_long_messages() -> None:
    launch = profile_of(REPORTS / "metrics_only.ncu-repz").launches[0]
    assert second_opinion(LaunchLedger(launch), [TAIL], [], 0) is None
    assert not precedes_findings(None)
    for message in ("It is 1 of 2. " * 200, "7" * 5000):
        told = second_opinion(LaunchLedger(ruled(message.strip())), [], [], 60)
        assert told is not None
        assert len(told) < 600


@needs_corpus
def test_messages_of_one_rule_are_distinguished_by_title() -> None:
    """Of LaunchConfiguration, the block of 4 threads saves more than the grid of 4 blocks."""
    both = [finding("small_grid"), finding("warp_divergence")]
    told = second_opinion(LaunchLedger(public_launch("LakshyaSingh354")), both, [], 0)
    assert "LaunchConfiguration (Block Size)" in told
    assert told.endswith("agrees with finding 2.")
    both[0] = finding("small_grid", variant="few_threads")
    told = second_opinion(LaunchLedger(public_launch("LakshyaSingh354")), both, [], 0)
    assert told.endswith("agrees with finding 1."), "it is about the threads of a block, too"


@needs_corpus
def test_l2_slices_are_judged_even_if_much_time_is_not_attributable() -> None:
    latency, launches = [finding("latency_bound")], public_profile("MgMap").launches
    told = next(
        filter(None, (second_opinion(LaunchLedger(each), latency, [], 73) for each in launches))
    )
    assert "WorkloadImbalance (L2 Slices Workload Imbalance)" in told
    assert told.endswith("less than 10%.")


@needs_corpus
def test_a_rule_with_a_small_estimate_is_not_mentioned() -> None:
    """Its largest estimate is 5 %."""
    assert second_opinion(LaunchLedger(public_launch("PriyanshuRS", 1)), [], [], 0) is None


def test_why_a_cause_is_only_possible(wording) -> None:
    flip = diagnose(FLIP, reads_code=False)
    low = finding("redundant_traffic")
    for certainty in ("likely", "certain"):
        sure = replace(TAIL, cause_certainty=certainty)
        assert why_only_possible(sure, flip.view, flip.account) is None
    wording(why_only_possible(replace(low, variant="hand_over"), flip.view, flip.account))
    wording(why_only_possible(low, flip.view, flip.account))
    wording(why_only_possible(replace(low, expected=WORTH), flip.view, flip.account))
    basic = diagnose(profile_of(REPORTS / "tour_basic.ncu-repz").launches[2], reads_code=False)
    told = why_only_possible(low, basic.view, basic.account)
    assert f" {basic.account.unknown:.0f}% of the time" in told
    wording(told)
    blind = diagnose(made_up({}, {"barrier": 9.0, "selected": 1.0}), reads_code=False)
    wording(why_only_possible(low, blind.view, blind.account))
