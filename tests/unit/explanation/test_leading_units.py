"""Units that texts name: each once, and the one that the time model calls the busiest first."""

from __future__ import annotations

import pytest

from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.time_model import BLOCK_STARTS, DEVICE_WIDE, HOT_LINE, LEADS
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.busy_units import distinct_units, leading_units, nearest_units
from keet.explanation.headline import verdict_of
from tests.conftest import needs_corpus
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import public_profile
from tests.unit.explanation.test_headline import real_launches

ACTIVE = {
    "elapsed_cycles": ELAPSED,
    "sm_active_cycles": ELAPSED,
    "sm_active_cycles_max": ELAPSED,
}


@pytest.mark.slow
def test_the_limiter_is_the_busiest_unit_of_the_model() -> None:
    """Of DRAM and L2, which passes its bytes on, either may be."""
    for launch in real_launches():
        diagnosis = diagnose(launch, reads_code=False)
        leading = leading_units(diagnosis)
        model = diagnosis.model
        is_unit = model.is_measured and model.busiest != BLOCK_STARTS
        assert bool(leading) == (is_unit and model.pressure >= LEADS)
        if not leading or model.busiest in (HOT_LINE, WHOLE_SM):
            continue
        names = [each.name for each in leading]
        assert model.busiest in (names[:2] if names[0] in DEVICE_WIDE else names[:1])


def test_a_unit_that_leads_by_load_leads_the_headline() -> None:
    """Issue slots reach less of their peak than L1 does."""
    launch = made_up({"l1": 86.0, "issue_slots": 84.0}, duration=1e6, **ACTIVE)
    diagnosis = diagnose(launch, reads_code=False)
    assert diagnosis.model.busiest == "issue"
    assert verdict_of(diagnosis).limiter.split("+") == ["issue", "L1"]
    assert nearest_units(diagnosis)[0].name == "L1"


@needs_corpus
def test_two_units_with_one_counter_are_named_once() -> None:
    """l1tex__lsuin_requests is a stage of L1 and the LSU pipe: it was printed twice."""
    for launch in public_profile("hzchenxiaobin__").launches:
        diagnosis = diagnose(launch, reads_code=False)
        assert "L1" not in [each.name for each in distinct_units(diagnosis.view.ceilings.ranked)]
        assert verdict_of(diagnosis).limiter == "LSU"
