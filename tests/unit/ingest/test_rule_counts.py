"""Counts from rule messages equal the report's metrics, or there are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.ingest.printed.details_page import counts_in_rules, rule_result
from keet.profile import Launch
from tests.conftest import REPORTS
from tests.unit.analysis.real_launches import profile_of

TOTAL = "memory_l2_theoretical_sectors_global"
EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"


def message(excess: int, percent: int, total: int, what: str = "kernel") -> str:
    return (
        f"This {what} has uncoalesced global accesses resulting in a total of {excess} excessive "
        f"sectors ({percent}% of the total {total} sectors). Check the L2 Theoretical Sectors "
        "Global Excessive table for the primary source locations."
    )


def counts(*messages: str) -> dict[str, object]:
    rules = [rule_result("Source Counters", "OPT", each) for each in messages]
    return {name: metric.value for name, metric in counts_in_rules(rules).items()}


@given(st.integers(1, 10**15), st.integers(0, 10**15), st.sampled_from(["kernel", "workload"]))
def test_counts_are_read_from_ncus_messages(total: int, part: int, what: str) -> None:
    excess = min(part, total)
    found = counts(message(excess, round(100 * excess / total), total, what))
    assert found == {TOTAL: total, EXCESS: excess, IDEAL: total - excess}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        ["This kernel has uncoalesced global accesses resulting in a total of many sectors."],
        [message(30, 75, 100)],  # the share is not that of the counts
        [message(101, 101, 100)],
        [message(0, 0, 0)],
        [message(75, 75, 100), message(50, 50, 100)],  # which one?
        [message(75, 75, 100).replace("This kernel", "Perhaps this kernel")],
        [message(75, 75, 100).replace("global", "shared")],
    ],
)
def test_other_messages_have_no_counts(messages: list[str]) -> None:
    assert counts(*messages) == {}


@given(st.text(max_size=80))
def test_any_text_is_accepted(text: str) -> None:
    assert counts(text, f"{message(75, 75, 100)[:60]}{text}") == {}


def messages_of(launch: Launch) -> list[str]:
    return [rule.message for rule in launch.rules if rule.rule == "UncoalescedGlobalAccess"]


def test_counts_equal_the_metrics_of_the_report() -> None:
    compared = 0
    for launch in profile_of(REPORTS / "tour_full.ncu-rep").launches:
        for name, value in counts(*messages_of(launch)).items():
            found = launch.metric(name)
            assert found is not None
            assert found.value == value
            compared += 1
    assert compared >= 3
