"""The evidence in the first request: every number has a name that can be resolved."""

from __future__ import annotations

import re

import pytest
from keet_tools.answers import ToolInput

from keet.agent.evidence_summary import evidence_summary, overview
from keet.agent.vocabulary import vocabulary
from keet.explanation.token_budget import guess_tokens
from tests.unit.agent.conversations import explained

SAMPLES = ["score_tiles/slow", "matrix_flip/slow", "gas_state/slow", "stencil_march/slow"]


def names_in(text: str) -> list[str]:
    return re.findall(r"\{([^{}\s]+)\}", re.sub(r"`[^`\n]*`", "", text))


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_name_in_the_summary_can_be_resolved(sample: str) -> None:
    tool_input = ToolInput(explained(sample))
    text = evidence_summary(tool_input)
    words = vocabulary(tool_input)
    assert len(names_in(text)) > 40
    for name in names_in(text):
        assert words.names.lookup(name).ids, name


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_summary_has_all_sections_and_key_metrics(sample: str) -> None:
    tool_input = ToolInput(explained(sample))
    text = evidence_summary(tool_input)
    for needed in ("duration", "dram_bytes_read", "l2_hit_rate_pct", "device_sm_count", "sm_clock"):
        assert f"{{{needed}}}" in text
    for heading in ("launch: grid", "device: ", "units, of peak", "traffic: ", "stall_reasons:"):
        assert heading in text
    assert "where the time goes" in text
    for finding in tool_input.launch().findings:
        assert finding.id in text
    assert guess_tokens(text) < 5000


def test_names_of_the_launch_in_focus_are_short() -> None:
    assert not re.search(r"#0\}", evidence_summary(ToolInput(explained("score_tiles/slow"))))
    other = evidence_summary(ToolInput(explained("tests/data/reports/tour_full.ncu-rep"), focus=2))
    assert not re.search(r"#2\}", other)


def test_without_source_the_machine_code_is_given() -> None:
    shown = evidence_summary(ToolInput(explained("score_tiles/slow")))
    hidden = evidence_summary(ToolInput(explained("score_tiles/slow"), show_source=False))
    bare = evidence_summary(ToolInput(explained("tests/data/reports/tour_nolines.ncu-repz")))
    assert "address_forms:" in shown
    assert "item_tile" not in hidden
    assert re.search(r"0x[0-9a-f]{4} .*`[A-Z]", bare)


def test_against_another_report_the_difference_is_given() -> None:
    tool_input = ToolInput(explained("matrix_flip/fast", "matrix_flip/slow"))
    text = evidence_summary(tool_input)
    assert "report 1 is before and 0 after" in text
    assert "7.02x {pair_0_speedup#1.0-0.0} faster" in text
    words = vocabulary(tool_input)
    assert all(words.names.lookup(name).ids for name in names_in(text))


def test_a_question_gets_every_report() -> None:
    tool_input = ToolInput(explained("matrix_flip/slow", "matrix_flip/fast"))
    text = overview(tool_input)
    assert "report 0:" in text
    assert "report 1:" in text
    assert "{duration}" in text
    assert "{duration#1.0}" in text
    words = vocabulary(tool_input)
    assert all(words.names.lookup(name).ids for name in names_in(text))
