"""Arrays of real launches: what they touch, what accesses it again, and what single accesses cost. How
busy units are, on average and while an SM is active, and whose work L1 and L2 do."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from keet.analysis.amounts.accesses import MemoryAccess, line_accesses, memory_accesses
from keet.analysis.amounts.arrays import ArrayUse, _dram_bytes, arrays
from keet.analysis.amounts.units import unit_parts, unit_uses
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import (
    ArrayDocument,
    LineAccessDocument,
    UnitPartDocument,
    UnitUseDocument,
)
from keet.profile.launch import file_name
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import SAMPLES, changed, launch_of, profile_of

SASS = Path(__file__).parents[4] / "evals" / "sass"


@cache
def found(report: str, kernel: str = "") -> dict[str, ArrayDocument]:
    streams = SASS / report / f"{report}.keet.json.zst"
    path = streams if report.startswith("streams") else SAMPLES[report].report("slow")
    launches = profile_of(path).launches
    launch = next(each for each in launches if not kernel or each.name.function == kernel)
    return {array.name: array for array in arrays(LaunchView(launch, reads_code=True))}


@each_row("report, kernel, name, distinct, times, again", [
    # Sizes and formulas: evals/sass/reuse_truth.toml, evals/sass/streams/streams.cu.
    ("matrix_flip", "", "in", 4 * 8192**2, 1.0, []),
    ("matrix_flip", "", "out", 4 * 8192**2, 1.0, []),
    ("panel_product", "", "x", 2 * 4096 * 2048, 32.0, [("blocks", "blockIdx.y", 32.0)]),
    ("streams", "bin_ranges", "keys", 1 << 28, 4.0, [("blocks", "blockIdx.y", 4.0)]),
    ("streams", "norm_rows", "x", 1 << 28, 3.0, [("passes", "several loops", 3.0)]),
    ("streams", "score_table", "table", 200_000_000, 6.0,
     [("loop", "the loop at streams.cu:196", 6.0)]),
])  # fmt: skip
def test_array(report, kernel, name, distinct, times, again) -> None:
    array = found(report, kernel)[name]
    assert array.basis == "exact"
    assert abs(array.distinct_bytes - distinct) <= 0.02 * distinct
    assert abs(array.times - times) <= 0.02 * times
    said = [(each.by, each.name, round(each.times or 0.0, 1)) for each in array.again]
    assert said == again


def test_bytes_of_each_level_and_arrays_that_are_unknown() -> None:
    keys = found("streams", "bin_ranges")["keys"]
    assert abs(keys.times_from_dram - 4) < 0.1
    assert keys.l1_bytes == keys.requested_bytes == 4 * (1 << 28)
    written = found("matrix_flip")["out"]
    assert written.access == "written"
    assert written.l1_bytes == 8 * (written.requested_bytes or 0)  # a sector for each element
    assert written.lines[0].line == 7
    weights = found("streams", "filter_planes")["weights"]
    assert (weights.distinct_bytes, weights.basis) == (6 * 9 * 4, "exact")
    table = found("rate_table")["rate"]
    assert table.distinct_bytes is None
    assert table.times is None
    assert table.why_unknown
    assert table.requested_bytes
    path = SAMPLES["matrix_flip"].folder / "slow.ncu-rep"
    assert arrays(LaunchView(profile_of(path).launches[0])) == ()


@each_row("size, basis, dram, is_all", [
    (None, None, 100e6, True),
    # L2 reads 1 % for another array: that may be half of what DRAM reads.
    (None, None, 20e6, False),
    (0.5e6, "exact", 60e6, True),  # it stays in L2
    (0.5e6, "bound", 20e6, False),
    (8e6, "exact", 20e6, False),
])  # fmt: skip
def test_dram_reads_for_one_array(size, basis, dram, is_all) -> None:
    """One array has 99.8 % of what L1 reads from L2."""
    reads = SimpleNamespace(at_most=None, requested=1e9)
    own = dict.fromkeys(ArrayUse._fields) | {"reads": reads, "pointer": "table"}
    more = {"pointer": "other", "read_l2_bytes": 1.5e6, "distinct": size, "basis": basis}
    uses = [ArrayUse(**own | {"read_l2_bytes": 0.99e9}), ArrayUse(**own | more)]
    view = SimpleNamespace(value=lambda _: dram, code=SimpleNamespace(local_sectors=None))
    assert _dram_bytes(view, uses) == ({"table": (dram, "measured")} if is_all else {})


@pytest.mark.slow
def test_windows_that_overlap_are_not_called_exact() -> None:
    """They are read from DRAM one after the other, each as a whole. The truth is 1 << 28."""
    assert found("streams_second", "window_levels")["signal"].basis != "exact"


UNIFORM_ROWS = "kmeans_assign/double_accumulator"


def rows(name: str, *, reads_code: bool = True) -> tuple[LineAccessDocument, ...]:
    return line_accesses(LaunchView(launch_of(name), reads_code=reads_code))


def test_rows_of_samples_and_uniform_loads() -> None:
    launch = launch_of("stencil_march")
    found = memory_accesses(LaunchView(launch))
    loads = [each.sectors or 0.0 for each in found if each.operation == "load"]
    stores = [each.sectors or 0.0 for each in found if each.operation == "store"]
    assert sum(loads) == launch.number("global_load_sectors")
    assert sum(stores) == launch.number("global_store_sectors")
    assert sum(each.executed for each in found) == 22_020_096 + 786_432
    assert line_accesses(LaunchView(made_up({}))) == ()
    first, second = rows("matrix_flip")
    assert (first.operation, first.sectors, first.sectors_needed) == ("store", 32, 4)
    assert (second.operation, second.sectors, second.wavefronts) == ("load", 4, 1)
    assert first.wavefronts is None  # one line or two per pass
    first, second, *_ = rows("score_tiles")
    assert (file_name(first.file or ""), first.line, first.memory) == ("slow.cu", 43, "shared")
    assert (first.wavefronts, first.wavefronts_needed, first.sectors) == (4, 1, None)
    assert (second.line, second.wavefronts) == (42, 1)
    found = [each for each in rows("key_count") if each.operation == "atomic"]
    assert len(found) == 4
    assert all(each.sectors == pytest.approx(11.77, abs=0.02) for each in found)
    assert all(each.wavefronts is None for each in found)
    first, *others = rows(UNIFORM_ROWS)
    assert (first.line, first.operation, first.width) == (18, "load", 16)
    assert first.is_uniform
    assert (first.sectors, first.wavefronts, first.instructions) == (1, 4, 8)
    assert first.executed == 8 * 1_013_760
    assert not any(each.is_uniform for each in others)
    first, *_ = rows(UNIFORM_ROWS, reads_code=False)
    assert first.is_uniform is None
    assert (first.sectors, first.wavefronts) == (1, 4)
    # The same code, but more sectors than one address needs.
    twice = changed(
        launch_of(UNIFORM_ROWS),
        lambda name, value: 2 * value if name.endswith("theoretical_sectors_global") else value,
    )
    first, *_ = line_accesses(LaunchView(twice, reads_code=True))
    assert (first.sectors, first.is_uniform) == (2, None)
    assert (access(16, 1).wavefronts((9, 0)), access(8, 2).wavefronts((9, 0))) == (4, 2)
    assert access(4, 1).wavefronts((8, 6)) == 1
    assert access(16, 1).wavefronts((8, 6)) is None  # not checked there
    assert access(4, 2).wavefronts((9, 0)) is None  # not aligned: one pass or two
    assert access(16, 1, threads=8).wavefronts((9, 0)) is None


def access(width: int, lines: float, threads: float = 32.0) -> MemoryAccess:
    """A load that one warp executes."""
    data = max(1.0, width / 4)
    fields = (1.0, threads, data, max(data, lines), 1.0, 1.0, lines)
    return MemoryAccess(0, "global", "load", width, *fields)


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
