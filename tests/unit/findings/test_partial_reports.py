"""Reports without some sections: what the others show is used, and what none shows is not denied.

All launches are edited snapshots of ours, unless a test says otherwise.
"""

from __future__ import annotations

import re

import pytest

from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.headline import verdict_of
from keet.profile import Launch
from keet.profile.metric import Value
from tests.rows import each_row
from tests.unit.analysis.real_launches import changed, launch_of


def without(launch: Launch, pattern: str) -> Launch:
    """As if the report did not have metrics with such names."""

    def change(name: str, value: Value) -> Value:
        return None if re.search(pattern, name) else value

    return changed(launch, change)


MEMORY_TABLES = r"^l1tex__data_bank_conflicts|^l1tex__data_pipe_lsu_wavefronts_mem_shared.*\.sum$"


def test_shared_memory_by_other_counters() -> None:
    full = launch_of("score_tiles")
    part = without(full, MEMORY_TABLES)
    assert LaunchView(part).get("bank_conflicts_load") is None
    before, after = (diagnose(launch, reads_code=False).findings[0] for launch in (full, part))
    assert before.id == after.id == "shared_bank_conflict"
    assert after.locations == before.locations
    assert after.forecast.likely == pytest.approx(before.forecast.likely, rel=0.1)
    full = launch_of("score_tiles")
    part = without(full, r"^l1tex__|^lsu|sm__inst_executed_pipe_lsu|^idc")
    share = LaunchView(part).ceilings.share("L1")
    assert share == pytest.approx(LaunchView(full).ceilings.share("L1"), rel=0.3)


STATES = r"_per_issue_active\.ratio$"
ISSUED = r"issue_active|inst_issued|inst_executed\.|issue_inst0|smsp__cycles_elapsed"


@each_row("name", ["score_tiles", "matrix_flip", "gas_state"])
def test_samples_and_executed_instructions_replace_what_is_missing(name: str) -> None:
    full = launch_of(name)
    counted, sampled = LaunchView(full).stalls, LaunchView(without(full, STATES)).stalls
    assert sum(sampled.values()) == pytest.approx(1)
    assert all(abs(sampled[s] - counted.get(s, 0.0)) < 0.1 for s in sampled)
    waiting = diagnose(without(full, STATES), reads_code=False).account.part("waiting")
    assert len(waiting.children) > 1
    shares = [LaunchView(each).ceilings.share("issue") for each in (full, without(full, ISSUED))]
    assert shares[1] == pytest.approx(shares[0], rel=0.1)


def test_a_few_samples_name_no_place() -> None:
    """After a public report in which 2 of 7 samples did."""
    full = launch_of("score_tiles")

    def few_samples(name: str, value: Value) -> Value:
        return int(value) // 100_000 if "pcsamp" in name and value is not None else value

    few = changed(full, few_samples)
    for view, named in ((LaunchView(full), True), (LaunchView(few), False)):
        assert bool(view.sampled_places()) is named
        assert bool(view.waiting_places("short_scoreboard", "mio_throttle")) is named


MEMORY = r"^(gpu__)?(dram|lts|l1tex|lsu|fbpa|idc|compute_memory|memory_|derived__memory)|pipe_lsu"


def test_units_that_were_not_measured_are_not_called_idle(wording) -> None:
    """After a public report with nothing but issue slots and warps: the kernel waited for memory,
    and was told to have more in flight."""
    part = without(launch_of("matrix_flip"), rf"{MEMORY}|{STATES}|pcsamp")
    found = diagnose(part, reads_code=False)
    assert found.view.ceilings.unmeasured == ("DRAM", "L2", "L1")
    named = [each.id for each in found.findings]
    assert not [each for each in named if each.startswith(("latency", "occupancy"))]
    wording(verdict_of(found).headline)


@each_row("name", ["orbit_forces", "series_eval", "panel_product"])
def test_integers_are_not_all_arithmetic_where_nothing_counts_floats(name: str) -> None:
    part = without(launch_of(name), r"op_fp32_pred_on\.sum$")
    diagnosed = diagnose(part, reads_code=False)
    assert "integer_overhead" not in {finding.id for finding in diagnosed.findings}
