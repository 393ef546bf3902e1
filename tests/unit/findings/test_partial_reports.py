"""Reports without some sections: what the others show is used, and what none shows is not denied.

All launches are edited snapshots of ours, unless a test says otherwise.
"""

from __future__ import annotations

import re

import pytest

from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Launch
from keet.profile.metric import Value
from tests.unit.analysis.real_launches import changed, launch_of


def without(launch: Launch, pattern: str) -> Launch:
    """As if the report did not have metrics with such names."""

    def change(name: str, value: Value) -> Value:
        return None if re.search(pattern, name) else value

    return changed(launch, change)


MEMORY_TABLES = r"^l1tex__data_bank_conflicts|^l1tex__data_pipe_lsu_wavefronts_mem_shared.*\.sum$"


def test_bank_conflicts_are_measured_by_the_counters_of_instructions() -> None:
    full = launch_of("score_tiles")
    part = without(full, MEMORY_TABLES)
    assert LaunchView(part).get("bank_conflicts_load") is None
    before, after = (diagnose(launch, reads_code=False).findings[0] for launch in (full, part))
    assert before.id == after.id == "shared_bank_conflict"
    assert after.places == before.places
    assert after.forecast.likely == pytest.approx(before.forecast.likely, rel=0.1)
