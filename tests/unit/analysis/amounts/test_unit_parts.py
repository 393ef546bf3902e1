"""How busy units are, on average and while an SM is active, and whose work L1 and L2 do."""

import pytest

from keet.analysis.amounts.units import unit_parts, unit_uses
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import UnitPartDocument, UnitUseDocument
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import changed, launch_of

Parts = dict[tuple[str, str, str], UnitPartDocument]


def parts(view: LaunchView) -> Parts:
    """Their shares add up."""
    found = unit_parts(view)
    for whole in {(each.unit, each.of) for each in found}:
        own = [each.share_pct for each in found if (each.unit, each.of) == whole]
        assert sum(own) == pytest.approx(100)
    return {(each.unit, each.of, each.part): each for each in found}


def of_launch(name: str, *, reads_code: bool = True) -> Parts:
    return parts(LaunchView(launch_of(name), reads_code=reads_code))


def test_whose_work_l1_and_l2_do() -> None:
    found = of_launch("key_count")
    atomics = found["L2", "sectors", "atomics"]
    assert (atomics.amount, atomics.basis) == (16_776_777, "exact")
    assert atomics.share_pct == pytest.approx(100 * 16_776_777 / (16_776_777 + 2_097_152))
    assert found["L1", "sectors", "atomics"].amount == 16_776_777
    # All of their sectors miss L1.
    found = of_launch("rate_table")
    assert found["L1", "sectors", "gathers"].share_pct == pytest.approx(73, abs=0.5)
    gathers = found["L2", "sectors", "gathers"]
    assert (gathers.share_pct, gathers.basis) == (pytest.approx(73, abs=0.5), "exact")
    # Half of the sectors hit L1, of which loads is not known.
    found = of_launch("lookup_records:fast")
    assert ("L1", "sectors", "gathers") in found
    assert ("L2", "sectors", "gathers") not in found
    launch = launch_of("monte_carlo/bounds_for_eight_blocks")
    spills = parts(LaunchView(launch))["L2", "sectors", "local memory"]
    moved = sum(launch.number(f"l2_l1_{way}_sectors") for way in ("read", "write"))
    assert spills.amount == pytest.approx(moved, rel=0.02)
    found = of_launch("softmax_rows")
    assert ("L1", "sectors", "local memory") in found
    assert ("L2", "sectors", "local memory") not in found
    assert "local memory included" in found["L2", "sectors", "stores"].text
    # L2 gets half of the sectors that L1 counts: whose they are is not known.
    stores = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    launch = changed(launch, lambda name, value: 1e8 if name == stores else value)
    assert ("L2", "sectors", "local memory") not in parts(LaunchView(launch))
    assert unit_parts(LaunchView(made_up({}))) == ()
    found = of_launch("kmeans_assign/double_accumulator")
    uniform = found["L1", "wavefronts", "uniform loads"]
    assert uniform.amount == pytest.approx(4 * 8 * 1_013_760, rel=0.02)
    assert uniform.share_pct > 90
    assert "sectors" not in {of for unit, of, _ in found if unit == "L1"}
    found = of_launch("kmeans_assign/double_accumulator", reads_code=False)
    assert {part for unit, _, part in found if unit == "L1"} == {"loads", "other"}
    found = of_launch("score_tiles")
    assert found["L1", "wavefronts", "shared memory"].share_pct == pytest.approx(95, abs=0.5)
    assert found["L1", "wavefronts", "shared memory"].amount == 352_321_536
    # Rows that are not aligned: a pass serves one line or two.
    assert "wavefronts" not in {of for _, of, _ in of_launch("tile_smooth")}


def uses(name: str) -> dict[str, UnitUseDocument]:
    return {each.unit: each for each in unit_uses(LaunchView(launch_of(name)))}


def test_how_busy_units_are_while_sms_are_active() -> None:
    launch, found = launch_of("row_norms"), uses("row_norms")
    alu = found["ALU pipe"]
    measured = launch.metric("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active")
    assert (alu.active_pct, alu.average_pct) == (measured.value, pytest.approx(2.59, abs=0.01))
    l1, active = found["L1"], measured.value / alu.average_pct
    assert l1.active_pct / l1.average_pct == pytest.approx(active, rel=0.02)
    averages = [each.average_pct for each in found.values()]
    assert averages == sorted(averages, reverse=True)
    assert (found["DRAM"].active_pct, found["L2"].active_pct) == (None, None)
    # In a launch of 2 us, the GPCs count 6 % fewer cycles than the SMs.
    launch, found = launch_of("ring_steps"), uses("ring_steps")
    measured = launch.metric("smsp__issue_active.avg.pct_of_peak_sustained_active")
    assert found["issue slots"].active_pct == pytest.approx(measured.value, rel=0.1)
    exact = launch.metric("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active")
    assert found["LSU pipe"].active_pct == exact.value
    cycles = {"sm_active_cycles": ELAPSED / 4, "elapsed_cycles": ELAPSED}
    half = LaunchView(made_up({"fp64": 21, "l2": 40, "xu": 0.5}, **cycles))
    found = {each.unit: each.active_pct for each in unit_uses(half)}
    assert found == {"L2": None, "FP64 pipe": pytest.approx(84), "XU pipe": pytest.approx(2)}
    always = made_up({"fp64": 21, "xu": 0.5}, **(cycles | {"sm_active_cycles": ELAPSED}))
    (only,) = unit_uses(LaunchView(always))
    assert (only.unit, only.active_pct) == ("FP64 pipe", pytest.approx(21))
    assert len(only.evidence) == 1  # nothing else to say
    (only,) = unit_uses(LaunchView(made_up({"fp64": 21})))
    assert only.active_pct is None
    assert unit_uses(LaunchView(made_up({}))) == ()
