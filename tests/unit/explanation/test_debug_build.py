"""Debug builds and launches without a measurement, in made-up launches of one program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keet.analysis.archetype import is_debug_build
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.analyst import explain
from keet.explanation.capture_hints import DEBUG_CODE
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.launch_amounts import launch_amounts
from keet.explanation.launch_groups import answer_label
from keet.explanation.program import ProgramExplanation, program_of
from keet.pages.blocks import Reader
from keet.pages.launch import Shown, launch_section
from keet.pages.program import answer_text, figures, gain_text
from keet.profile import Launch, Profile, Provenance, RawMetric, SpeedupEstimate, SpeedupScope
from keet.report.printed.details_page import rule_result
from keet.report.snapshot import InMemoryLaunch
from tests.page_blocks import texts_of
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up

MADE = Provenance("made", "ncu-rep", 0, "0", "a test")
OPTIMISED = {"FFMA": 500, "LDG": 200, "IMAD": 200, "BRA": 50, "MOV": 50}
DEBUG = {"FADD": 100, "FMUL": 100, "LDL": 200, "BRA": 100, "MOV": 500}


def latency_bound(opcodes: dict[str, int], number: int = 0, **metrics: Any) -> Launch:
    metrics = {"duration": 1e6, **metrics}
    waits = {"long_scoreboard": 10.0, "wait": 4.0, "selected": 1.0}
    made = made_up({"dram": 10.0, "issue_slots": 10.0}, waits, opcodes, **metrics)
    made.id = number
    return made


def program_with(*launches: Launch) -> ProgramExplanation:
    profile = Profile(launches, MADE)
    found = program_of(explain(profile, launches, 5))
    assert found is not None
    return found


def test_a_debug_build_has_no_gains() -> None:
    assert diagnose(latency_bound(OPTIMISED)).findings
    debug = diagnose(latency_bound(DEBUG))
    assert (debug.findings, debug.minor, debug.all_fixed, debug.healthy) == ((), (), None, None)
    assert launch_amounts(debug.view).unknown[0] is DEBUG_CODE
    # SMs without a block do not depend on the code. Waits do, so nothing is said of them.
    shapes = {8: "In any build: A grid of 8 blocks does not fill", 1000: ""}
    for grid, said in shapes.items():
        active: dict[str, Any] = {
            "sm_active_cycles": 1e6 * min(1, grid / 132),
            "sm_active_cycles_max": 1e6,
        }
        launch = latency_bound(DEBUG, grid_size=grid, elapsed_cycles=1e6, **active)
        headline = explained(launch).verdict.headline
        assert said in headline
        assert ("In any build" in headline) is bool(said)
        assert not diagnose(launch).findings
    # Nor does how the work is divided. Basic reports lack the longest SM.
    for longest in ({"sm_active_cycles_max": 1e6}, {}):
        active = {"elapsed_cycles": 1e6, "sm_active_cycles": 1e4, **longest}
        found = diagnose(latency_bound(DEBUG, grid_size=264, **active)).in_any_build
        assert found.id == "load_imbalance"


def test_no_findings_agree_with_the_headline() -> None:
    """Debug code is not judged, and what a report lacks is unknown: neither is nothing to gain."""
    unknown = made_up({"dram": 70.0, "issue_slots": 60.0}, {}, OPTIMISED, duration=1e6)
    unknown.id = 1
    judged = (latency_bound(DEBUG), unknown)
    profile = Profile(judged, MADE)
    for each, why in zip(explain(profile, judged, 5).launches, ("debug code", "does not show")):
        page = [*launch_section(Shown(each, None, Reader("html")))]
        (text,) = (text for text in texts_of(page) if text.startswith("None: "))
        assert why in text
        assert why in each.verdict.headline


@each_row(
    ("opcodes", "is_debug"),
    [({}, True), (OPTIMISED, False), (DEBUG, True), ({**DEBUG, "FFMA": 50, "IMAD": 300}, True)],
)
def test_tables_for_a_debugger_show_it_without_counts(
    opcodes: dict[str, int], is_debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-G -dopt=on` has the tables too, but its counts are those of optimised code."""
    launch = latency_bound(opcodes)
    monkeypatch.setattr(InMemoryLaunch, "is_for_debugging", lambda _: True)
    assert is_debug_build(diagnose(launch).view) is is_debug


@each_row("opcodes", [OPTIMISED, DEBUG])
def test_keet_does_not_judge_a_rules_estimate_of_debug_code(opcodes: dict[str, int]) -> None:
    launch = latency_bound(opcodes)
    estimate = SpeedupEstimate(SpeedupScope.GLOBAL, 80.0)
    rule = rule_result("Source", "OPT", "Few.", rule="UncoalescedGlobalAccess", gain=estimate)
    launch.data = replace(launch.data, stored_rules=(rule,))
    assert (explained(launch).second_opinion is None) == (opcodes is DEBUG)


def test_a_program_says_first_that_it_is_a_debug_build(wording) -> None:
    program = program_with(latency_bound(DEBUG), latency_bound(DEBUG, 1))
    assert program.gain is None
    wording(program.texts[1])
    (row,) = program.rows
    assert (answer_text(row), gain_text(row)) == ("debug build", "")
    wording(program.shown_launches[0].verdict.headline)


def explained(launch: Launch) -> LaunchExplanation:
    profile = Profile((launch,), MADE)
    (found,) = explain(profile, (launch,), 5).launches
    return found


def test_a_launch_without_a_measurement_has_no_time() -> None:
    failed = made_up({})
    failed.id, failed.grid = 1, (7, 1, 1)
    program = program_with(latency_bound(OPTIMISED), failed)
    row = next(row for row in program.rows if not row.us_total)
    assert figures(row) == ("-", "1", "not measured")
    assert row.first is not None
    assert answer_label(row.first) == "not measured"


def test_lone_counters_of_l2_are_shown(wording) -> None:
    """Without a peak they do not say where the time goes, but they are some memory traffic."""
    launch = made_up({}, duration=1e6)
    counters = {
        "lts__t_bytes.sum": 2e9,
        "lts__t_sectors_op_read_lookup_hit.sum": 75.0,
        "lts__t_sectors_op_read_lookup_miss.sum": 25.0,
    }
    metrics = {**launch.data.metrics, **{n: RawMetric(v) for n, v in counters.items()}}
    launch.data = replace(launch.data, metrics=metrics)
    each = explained(launch)
    assert [str(figure.text) for figure in each.figures][:2] == ["L2 2 TB/s", "75% of L2 reads hit"]
    wording(each.verdict.headline)
    checks = [skipped.check for skipped in each.skipped]
    assert "most memory traffic" in checks
    assert "memory traffic" not in checks
