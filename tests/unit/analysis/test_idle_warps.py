"""Warps without a memory access, in made-up launches."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.resident_warps import idle_warps
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Launch
from tests.unit.analysis.made_up_launch import ELAPSED, H200, made_up

WARPS = 1_000_000
BUSY = {"issue_slots": 75.0, "dram": 1.0}


def with_accesses(accesses: int, per_warp: int) -> Launch:
    """`per_warp`: instructions that every warp executes."""
    opcodes = {"IMAD": WARPS * per_warp // 2, "ISETP": WARPS * per_warp // 2, "STG": accesses}
    shape = {"grid_size": WARPS / 8, "block_size": 256.0}
    counts = {"inst_executed": float(sum(opcodes.values())), "duration": 1e6}
    return made_up(BUSY, None, opcodes, **shape, **counts)


def test_warps_without_an_access_are_waste() -> None:
    launch = with_accesses(WARPS // 20, 12)
    found = idle_warps(LaunchView(launch))
    assert found is not None
    assert found.share.value == pytest.approx(95)
    first = diagnose(launch).findings[0]
    assert (first.id, first.label) == ("warp_divergence", "warps without work")
    assert first.forecast.likely > 4
    assert "as many threads as there are elements" in first.action


@pytest.mark.parametrize(("accesses", "per_warp"), [(WARPS, 12), (WARPS // 20, 2000)])
def test_warps_that_store_or_compute_have_work(accesses: int, per_warp: int) -> None:
    """The look-alike: warps that compute much, of which one stores the result of all."""
    assert idle_warps(LaunchView(with_accesses(accesses, per_warp))) is None


def of_the_basic_set(sent: float, per_warp: float) -> Launch:
    """`sent`: cycles per warp in which L1 sends to L2."""
    device_cycles = ELAPSED * (H200.sm_count or 1)
    shape = {"grid_size": WARPS / 8, "block_size": 256.0, "inst_executed": per_warp * WARPS}
    busy = 100 * sent * WARPS / device_cycles
    return made_up(
        {"issue_slots": 15.0, "fp64": 43.0},
        None,
        None,
        l1_to_crossbar_pct=busy,
        elapsed_cycles=ELAPSED,
        duration=1e6,
        **shape,
    )


def test_the_basic_set_shows_warps_that_store_nothing() -> None:
    """Their exit costs time, but they do not compute in double precision."""
    launch = of_the_basic_set(0.1, 12)
    found = idle_warps(LaunchView(launch))
    assert found is not None
    assert found.share.value == pytest.approx(90)
    first = diagnose(launch).findings[0]
    assert first.label == "warps without work"
    assert 1.5 < first.forecast.likely < 1 / 0.43


@pytest.mark.parametrize(("sent", "per_warp"), [(1.0, 12), (1.9, 16), (0.1, 100)])
def test_the_basic_set_shows_that_warps_may_have_work(sent: float, per_warp: float) -> None:
    """The look-alikes: each warp loads or stores once; few results of much work."""
    assert idle_warps(LaunchView(of_the_basic_set(sent, per_warp))) is None
