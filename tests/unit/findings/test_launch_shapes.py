"""What the launch shape alone shows, and reports without some sections: what the others show is used, and
what none shows is not denied.

All launches are made up or edited snapshots of ours, unless a test says otherwise."""

from itertools import pairwise

import pytest

from keet.analysis.candidate import MAX_GAIN
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.diagnosis.finding import Finding
from keet.explanation.headline import verdict_of
from keet.profile import Launch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, active, made_up
from tests.unit.analysis.real_launches import candidates_of, changed, launch_of, without

SMS = 132
TIMED = {"duration": 1e6, "elapsed_cycles": ELAPSED}
WAITS = {"long_scoreboard": 6.0, "wait": 3.0, "selected": 1.0}


def forecasts(launch: object) -> dict[str, float]:
    return {each.id: each.forecast.likely for each in every(diagnose(launch))}


def every(found: Diagnosis) -> list[Finding]:
    return [*found.findings, *found.minor]


@each_row("blocks", [1, 8, 33, 66, 100, 128])
def test_a_small_grid_gains_the_idle_share_of_the_account(blocks: int) -> None:
    """Whether the report has units, or only a duration."""
    shape = active(blocks / SMS) | {"grid_size": blocks, "block_size": 256, "duration": 1e6}
    for units in ({}, {"fma": 5.0 * blocks / SMS}):
        launch = made_up(units, **shape)
        idle = diagnose(launch).account.part("idle.small_grid")
        gain = min(MAX_GAIN, 1 / (1 - idle.percent.value / 100))
        assert forecasts(launch)["small_grid"] == pytest.approx(gain, rel=0.05)


def test_the_gain_of_more_blocks_and_of_full_warps() -> None:
    # Nothing jumps where every SM has a block.
    found = []
    for blocks in range(100, 160, 2):
        shape = {"grid_size": blocks, "waves_per_sm": blocks / SMS / 8, "block_size": 256}
        shape |= {"duration": 1e6} | active(min(1.0, blocks / SMS))
        found.append(forecasts(made_up({}, WAITS, **shape))["small_grid"])
    assert found[0] > found[-1] > 1
    assert max(before / after for before, after in pairwise(found)) < 1.05
    # A made-up launch: a block of one thread uses one word of each sector.
    launch = made_up({"dram": 53.0, "issue_slots": 5.0}, None, None, block_size=1.0, grid_size=1e7)
    view = LaunchView(launch)
    candidates = candidates_of("warp_divergence", view)
    (effect,) = (each.effect for each in candidates if each.variant == "block_size")
    assert 0.5 < effect.units["L2"] <= effect.units["DRAM"] < 0.6


@each_row("blocks", [1, 60])
def test_a_small_grid_is_said_before_what_its_blocks_do(blocks: int) -> None:
    """The metrics of a kernel with bank conflicts, edited: as if few of 132 SMs had done it all."""
    spread = blocks / SMS
    shape = {"launch__grid_size": blocks, "launch__waves_per_multiprocessor": spread / 8}

    def with_few_blocks(name: str, value):
        is_share = ".avg.pct_of_peak_sustained_elapsed" in name or name == "sm__cycles_active.avg"
        if is_share and isinstance(value, int | float):
            return value * spread
        return shape.get(name, value)

    launch = launch_of("sort_passes/lists_pitch_16")
    assert diagnose(launch, reads_code=False).findings[0].id == "shared_bank_conflict"
    found = diagnose(changed(launch, with_few_blocks), reads_code=False)
    assert [each.id for each in found.findings[:2]] == ["small_grid", "shared_bank_conflict"]


@each_row("block, lanes", [
    (1, 1), (6, 6), (16, 16), (48, 24), (33, 16.5), (32, None), (256, None), (1024, None),
])  # fmt: skip
def test_partial_warps_follow_from_the_launch_shape(block: int, lanes: float | None) -> None:
    """Without counters per instruction: the issue slots of a basic report."""
    busy = TIMED | {"grid_size": 1e5, "waves_per_sm": 40.0}
    found = diagnose(made_up({"issue_slots": 80.0}, block_size=block, **busy))
    part = found.account.part("issuing.lanes_off")
    if lanes is None:
        assert "warp_divergence" not in {each.id for each in every(found)}
        assert part is None
    else:
        first = found.findings[0]
        assert (first.id, first.variant) == ("warp_divergence", "block_size")
        assert f"{block} thread" in first.text
        assert first.forecast.likely == pytest.approx(min(MAX_GAIN, 32 / lanes), rel=0.1)
        assert part.percent.value == pytest.approx(80 * (1 - lanes / 32), rel=0.01)


@each_row("block", [16, 31, 1000])
def test_latency_of_one_round_does_not_shrink_with_full_warps(block: int) -> None:
    """All blocks fit at a time and wait: with full warps, they wait as long."""
    shape = TIMED | {"grid_size": 264, "waves_per_sm": 0.1}
    launch = made_up({"issue_slots": 1.0}, WAITS, block_size=block, **shape)
    assert forecasts(launch).get("warp_divergence", 1.0) < 1.05


@each_row("blocks, finding", [(1, "small_grid"), (60, "small_grid"), (100_000, "warp_divergence")])
def test_one_thread_per_block_is_said_first(blocks: int, finding: str, wording) -> None:
    """Idle lanes and idle SMs are one finding, with the gain of both."""
    shape = {"grid_size": blocks, "waves_per_sm": blocks / SMS / 32, "block_size": 1}
    found = diagnose(made_up({"dram": 2.0}, WAITS, duration=1e5, elapsed_cycles=ELAPSED, **shape))
    first = found.findings[0]
    assert first.id == finding
    wording(first.text, first.action, case=blocks)
    named = {each.id for each in every(found)}
    assert len(named & {"small_grid", "warp_divergence"}) == 1


def test_few_warps_and_few_threads_are_a_small_grid(wording) -> None:
    # A loop in one block of ten threads: full warps alone gain nothing there. Of one thread, the
    # gain is that of both.
    found = diagnose(made_up({}, grid_size=1, block_size=10, duration=78e3))
    assert found.findings[0].id == "small_grid"
    wording(found.findings[0].label, found.findings[0].text)
    assert "warp_divergence" not in {each.id for each in every(found)}
    shape = {"grid_size": 1, "waves_per_sm": 1 / SMS / 32, "block_size": 1}
    found = diagnose(made_up({"lsu": 0.2}, duration=6e8, elapsed_cycles=ELAPSED, **shape))
    wording(found.findings[0].label)
    assert found.findings[0].forecast.likely > MAX_GAIN
    # Nothing is busy, and an SM holds one block of twelve that it could. A grid that fills the SMs,
    # or memory that warps may wait for, is none.
    diagnosis = diagnose(without_warp_states(130, 0.08))
    first = diagnosis.findings[0]
    assert (first.id, first.cause_certainty) == ("small_grid", "possible")
    assert 1.5 < first.forecast.likely < 5
    wording(verdict_of(diagnosis).headline)
    for launch in (without_warp_states(1600, 1.0), without_warp_states(130, 0.08, dram=80.0)):
        assert "small_grid" not in [each.id for each in diagnose(launch).findings]


def without_warp_states(grid: int, waves: float, **units: float) -> Launch:
    """A made-up launch of the basic set: blocks of four warps."""
    shape = {"grid_size": float(grid), "block_size": 128.0, "waves_per_sm": waves}
    busy = {"issue_slots": 3.0, "dram": 9.0} | units
    return made_up(busy, None, None, duration=8e6, elapsed_cycles=1e7, **shape)


@each_row("block, advised", [
    ((3, 3, 1), True),
    ((1, 16, 1), True),
    ((1, 128, 1), False),  # its warps run along y
    ((4, 8, 8), True),
    ((16, 16, 1), False),
    ((4, 1, 1), False),
], few=2)  # fmt: skip
def test_a_narrow_block_is_why_accesses_are_scattered(block, advised) -> None:
    """A report of ours, as if its blocks had another shape."""
    launch = changed(launch_of("transpose/column_stores"), lambda _, value: value)
    launch.block = block
    found = next(f for f in diagnose(launch).findings if f.id == "uncoalesced_global")
    assert ("wide as a warp" in found.action) == advised


@each_row("busy, gain", [(10, 1.0), (8, 1.225)])
def test_sms_without_a_block_are_no_load_imbalance(busy: float, gain: float) -> None:
    """Made up: 10 blocks, which take equally long, or of which the average takes 80%."""
    shape = {"grid_size": 10, "block_size": 256, "duration": 1e6} | active(busy / SMS)
    launch = made_up({"fma": 3.0}, WAITS, **shape)
    assert forecasts(launch).get("load_imbalance", 1.0) == pytest.approx(gain, abs=0.01)


@each_row(("executed", "own", "gains_much"), [(5_000, 168, True), (50_000, 5, False)])
def test_local_memory_of_called_routines_is_not_the_kernels(executed, own, gains_much) -> None:
    """Made up: all of 168 accesses are in the kernel's code, or 5 of them."""
    counted = ("load_sectors", "store_sectors", "load_requests", "store_requests")
    local = {f"local_{what}": 84 for what in counted}
    local |= {"global_load_sectors": 84, "global_store_sectors": 2, "inst_executed": 5_000}
    opcodes = {"LDL": own, "IADD3": 5_000}
    view = LaunchView(made_up({"l1": 40.0}, WAITS, opcodes, **local, inst_executed_total=executed))
    effects = [each.effect for each in candidates_of("local_memory_spill", view)]
    gains = [TimeModel(view).gain(each) for each in effects if isinstance(each, Effect)]
    assert (max(gains) > 1.2) is gains_much


MEMORY_TABLES = r"^l1tex__data_bank_conflicts|^l1tex__data_pipe_lsu_wavefronts_mem_shared.*\.sum$"


def test_shared_memory_by_other_counters() -> None:
    full = launch_of("score_tiles")
    part = without(full, MEMORY_TABLES)
    assert LaunchView(part).get("bank_conflicts_load") is None
    before, after = (diagnose(launch, reads_code=False).findings[0] for launch in (full, part))
    assert before.id == after.id == "shared_bank_conflict"
    assert after.locations == before.locations
    assert after.forecast.likely == pytest.approx(before.forecast.likely, rel=0.1)
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


def test_few_samples_and_units_that_were_not_measured(wording) -> None:
    # After a public report in which 2 of 7 samples did.
    full = launch_of("score_tiles")
    few = changed(full, lambda name, value: int(value) // 100_000 if "pcsamp" in name else value)
    for view, named in ((LaunchView(full), True), (LaunchView(few), False)):
        assert bool(view.sampled_places()) is named
        assert bool(view.waiting_places("short_scoreboard", "mio_throttle")) is named
    # After a public report with nothing but issue slots and warps: the kernel waited for memory,
    # and was told to have more in flight.
    part = without(launch_of("matrix_flip"), rf"{MEMORY}|{STATES}|pcsamp")
    found = diagnose(part, reads_code=False)
    assert found.view.ceilings.unmeasured == ("DRAM", "L2", "L1")
    named = [each.id for each in found.findings]
    assert not [each for each in named if each.startswith(("latency", "occupancy"))]
    wording(verdict_of(found).headline)


MEMORY = r"^(gpu__)?(dram|lts|l1tex|lsu|fbpa|idc|compute_memory|memory_|derived__memory)|pipe_lsu"


@each_row("name", ["orbit_forces", "series_eval", "panel_product"])
def test_integers_are_not_all_arithmetic_where_nothing_counts_floats(name: str) -> None:
    found = diagnose(without(launch_of(name), r"op_fp32_pred_on\.sum$"), reads_code=False)
    assert "integer_overhead" not in {finding.id for finding in found.findings}
