"""What the counters of small sets and the few, rounded numbers of a printed page show by themselves."""

import re
from functools import cache

import pytest

from keet.analysis.account import Account, account_of
from keet.analysis.amounts.resources import bounds
from keet.analysis.hardware.ceilings import HOST_LINK, WHOLE_MEMORY
from keet.analysis.hardware.stages import SCHEDULERS
from keet.analysis.hotspots.source_lines import InstructionTable
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.parallelism.resident_warps import working_part
from keet.analysis.time_model import HOT_LINE, TimeModel
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.headline import verdict_of
from keet.profile import Instances
from keet.report.snapshot import InMemoryLaunch
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, H200, in_memory, made_up, model_of, raw
from tests.unit.analysis.real_launches import (
    candidates_of,
    changed,
    code_view,
    launch_of,
    public_launch,
    without,
)


@cache
def diagnosis(start: str, launch: int = 0) -> Diagnosis:
    return diagnose(public_launch(start, launch), reads_code=False)


def test_host_memory_hot_lines_and_idle_sms() -> None:
    full = launch_of("rate_table")
    small = without(full, "srcunit_tex")
    shares = [LaunchView(launch).ceilings.share(HOST_LINK) for launch in (full, small)]
    assert shares[0]
    assert shares[1] == pytest.approx(shares[0], rel=0.01)
    for name in ("band_scale", "ring_steps", "key_count"):
        small = without(launch_of(name), "srcunit_tex")
        assert HOST_LINK not in LaunchView(small).ceilings
    assert HOT_LINE not in model_of(full).loads
    for gone in ("^$", r"op_atom|op_red|lts__t_sectors\.max$|sass_", r"lts__(cyc|thr).*max"):
        small = without(launch_of("key_count"), gone)
        assert model_of(small).hot_line.is_atomic
    average = {"elapsed_cycles": ELAPSED, "sm_active_cycles": ELAPSED}
    for active in ({}, average, average | {"sm_active_cycles_max": ELAPSED}):
        part = account(LaunchView(made_up({}, grid_size=33, **active))).part("idle.small_grid")
        assert part.percent.value == pytest.approx(75)
    for name in ("series_eval", "tile_smooth", "band_scale"):
        assert working_part(code_view(name)) == 1


@needs_corpus
@each_row("start, launch, finding, advice", [
    ("MgMap", 3, "pcie_or_nvlink_traffic", None),
    ("AveryClapp", 1, "small_grid", None),  # 64 blocks for 80 SMs
    ("brycelelbach", 0, "uncoalesced_global", None),
    # 32,768 warps of 13 instructions; no SM is active for half of 12 us.
    ("zloyaloha", 1, "launch_bound", "short_lived_warps"),
    # FP64 at 85 % on a GPU of 1/64 of the rate, and nothing else to do.
    ("trevorgloe", 0, "low_precision_possible", "slow_pipe"),
    # The traffic of the link is that of these atomics, and no second cause.
    ("shortstheory", 0, "atomic_contention", "in_host"),
])  # fmt: skip
def test_the_first_finding_of_a_public_report(start, launch, finding, advice) -> None:
    first = diagnosis(start, launch).findings[0]
    assert (first.id, advice) in [(finding, None), (finding, first.advice.variant)]


@needs_corpus
def test_accounts_and_units_of_public_reports() -> None:
    assert diagnosis("MgMap", 3).account.part("waiting.busy.host_link")
    found = diagnosis("shortstheory")
    assert len(found.findings) == 1
    assert found.account.part("waiting.busy.hot_l2_slice").percent.value > 80
    assert found.account.unknown < 20
    # SMs without a block are known from the launch alone; in one, none is active for most of the time.
    least = {("extra-p", 2): 99, ("Lashi", 0): 95, ("Brennen", 1): 47, ("chia7", 4): 17}
    for (start, launch), percent in (least | {("josiahls", 0): 34}).items():
        part = diagnosis(start, launch).account.part("idle.small_grid")
        assert part.percent.value >= percent
    # Launching is no imbalance.
    for start, launch in (("NVIDIA", 0), ("JakeFlasher", 1)):
        assert "load_imbalance" not in [each.id for each in diagnosis(start, launch).findings]
    # NuKEXC: L1 is busy all the time, and one of twenty passes reaches L2. Blocks of 1 x 128.
    first = diagnosis("bobschreiner__").findings[0]
    assert (first.variant, first.cause_certainty) == ("L1/passes", "possible")
    assert "wide as a warp" not in first.action
    # Its load is not that of the longest SM alone.
    model = diagnosis("JakeFlasher").model
    assert model.balance.evenness < 0.95
    assert model.loads[WHOLE_MEMORY] == pytest.approx(0.138, abs=0.001)


def test_what_is_left_of_a_hot_address_and_of_l1() -> None:
    def slower(name: str, value: float) -> float:
        return value / 3 if "lts__t_sectors" in name and "max" in name else value

    launch = launch_of("key_count")
    before, after = (model_of(x).loads[HOT_LINE] for x in (launch, changed(launch, slower)))
    assert after == pytest.approx(before, rel=0.05)
    # Measured: 47 times faster. No other unit is at more than 3 percent of its peak.
    found = diagnose(launch, reads_code=False).findings[0]
    assert found.id == "atomic_contention"
    assert 20 < found.forecast.likely < 47
    assert "shared_bank_conflict" in passes(80.0)
    assert not passes(0.03) & {"shared_bank_conflict", "uncoalesced_global"}
    assert "shared_bank_conflict" not in passes(80.0, static=32 * 33 * 4.0)
    # panel_product:fast reads 16 bytes per thread, in three passes each.
    named = {each.id for each in small("panel_product:fast").findings}
    assert not named & {"uncoalesced_global", "shared_bank_conflict"}


COUNTED = re.compile(
    "memory_l[12]_|l1tex__(data_bank_conflicts|t_|average_t)|derived__memory|^smsp__"
)


def small(name: str) -> Diagnosis:
    """As if the report had neither counters per instruction nor those of the memory tables."""
    return diagnose(without(launch_of(name), COUNTED.pattern), reads_code=False)


@each_row("name, cause", [
    ("transpose/column_stores", "uncoalesced_global"),
    ("status_flags/row_of_a_thread", "uncoalesced_global"),  # has shared memory, too
    ("triton_gather/columns_picked_then_added", "uncoalesced_global"),  # so has this
    ("sort_passes/lists_pitch_16", "pipe_saturated"),  # a few percent of its passes reach L2
    ("fft/rows_of_32", "pipe_saturated"),
])  # fmt: skip
def test_lookups_of_l2_separate_scattered_addresses_from_bank_conflicts(name, cause) -> None:
    """Where little reaches L2, its lookups decide nothing."""
    first = small(name).findings[0]
    assert first.id == cause
    if cause == "pipe_saturated":
        assert (first.variant, first.cause_certainty) == ("L1/passes", "possible")
        assert "bank conflicts" in str(first.text)
        assert "scattered global addresses" in str(first.text)


def passes(share: float, static: float = 4096.0) -> set[str]:
    """An edited launch: L1 is busy for `share` percent, sixteen times as long as the LSU pipe, and
    lookups of L2 take whole lines."""
    units = {"l1": share, "lsu": share / 16, "l2": share / 10}
    counted = {"elapsed_cycles": ELAPSED, "device_l2_slices": 96, "shared_memory_driver": 1024}
    counted |= {"l2_elapsed_cycles_total": 96 * ELAPSED, "shared_memory_static": static}
    counted |= {"l2_sectors_pct": 10.5, "l2_tag_requests_pct": 10.0}
    launch = made_up(units, shared_memory_per_block=static + 1024, **counted)
    return {each.id for each in diagnose(launch, reads_code=False).findings}


def test_pipes_over_active_cycles_and_the_busiest_unit_of_memory() -> None:
    full, lsu = launch_of("key_count"), r"(pipe_lsu|lsuin_requests).*sustained_elapsed"
    known = LaunchView(full).ceilings
    share = LaunchView(without(full, lsu)).ceilings.share("LSU")
    assert share == pytest.approx(known.share("LSU"), rel=0.02)
    part = LaunchView(without(full, r"^(l1tex|lts|sm__inst_executed_pipe_lsu|idc)")).ceilings
    assert WHOLE_MEMORY not in known
    memory = float(full.get("memory_throughput_pct").value) / 100
    assert part.share(WHOLE_MEMORY) == pytest.approx(memory)
    # Without the SMs' active cycles, they count as active all the time.
    cycles = "|sm__cycles_active"
    for gone in ("", cycles, f"{cycles}|issue_active|inst_issued|ipc"):
        ceilings = LaunchView(without(full, lsu + gone)).ceilings
        assert ceilings.stage("LSU").at_most is bool(gone)
        assert ceilings.share("LSU") >= (known.share("LSU") or 0) - 0.01


def test_arithmetic_on_doubles_takes_as_long_as_their_pipe() -> None:
    view = code_view("gas_state")
    least = next(each for each in bounds(view) if each.id == "arithmetic")
    busy, duration = view.ceilings.share("FP64"), view.value("duration")
    assert 0.9 * busy <= least.us / (duration / 1e3) <= busy


@pytest.mark.parametrize(
    "case", ["halo_filter/soft_pixel_by_pixel", "wave_seismic/neighbours_from_l2"]
)
def test_products_of_64_bits_take_the_fma_pipe_twice_as_long(case: str) -> None:
    """A bound by floats is not above the pipe's time for them: one per cycle and scheduler."""
    view = code_view(case)
    least = next(each for each in bounds(view) if each.id == "arithmetic")
    code, program, cycles = view.code, view.code.program, view.value("elapsed_cycles")
    ran = [(at, program.code[at].opcode) for at in program.ran]
    floats = [at for at, opcode in ran if opcode in ("FFMA", "FMUL", "FADD")]
    floats += [at for at, op in ran if op == "IMAD" and code.purposes[at] is Purpose.VALUE]
    needed = sum(program.counts[at] for at in floats) / (cycles * SCHEDULERS * SMS)
    assert least.us == pytest.approx(needed * (view.value("duration") or 0) / 1e3, rel=0.05)


def test_warp_states_and_samples_are_read_by_their_old_names() -> None:
    """Those of ncu 2019."""
    states = {"wait": 3.0, "no_instructions": 1.0}
    named = {f"smsp__warp_cycles_per_issue_stall_{name}": value for name, value in states.items()}
    samples = {"smsp__pcsamp_warp_stall_wait": 7.0}
    at = {name: Instances((value,), (16,)) for name, value in samples.items()}
    launch = in_memory(InMemoryLaunch(H200, raw(named | samples), at))
    assert LaunchView(launch).stalls == {"wait": 0.75, "no_instruction": 0.25}
    assert InstructionTable(launch).waiting("wait") == {16: 7}


SMS = 132


def view_of(units: dict[str, float], **metrics: float) -> LaunchView:
    return LaunchView(made_up(units, **metrics))


def account(view: LaunchView) -> Account:
    return account_of(view, TimeModel(view))


def test_counts_are_exact_and_the_sm_is_ranked() -> None:
    few = {"ipc_executed_elapsed": 0.03, "inst_issued_total": 16_114_912}
    view = view_of({}, **few, smsp_elapsed_cycles_total=1_966_292_704)
    assert view.ceilings.share("issue") == pytest.approx(0.0081956, rel=1e-4)
    assert f"{view.ceilings.reached('issue'):.1f}" == "0.8%"
    assert idle(sm_elapsed_cycles_total=68_185 * SMS) == pytest.approx(9.86, abs=0.01)
    of_launch = pytest.approx(12.57, abs=0.01)
    assert idle() == of_launch
    assert idle(sm_elapsed_cycles_total=68_185 * SMS // 7) == of_launch
    assert idle(sm_elapsed_cycles_total=68_185 * SMS * 2) == of_launch
    view = view_of({"dram": 33.0}, sm_throughput_pct=77.0)
    assert [each.name for each in view.ceilings.ranked] == ["SM", "DRAM"]
    assert TimeModel(view).busiest == "SM"
    for unit in ("issue_slots", "fma"):
        assert len(view_of({unit: 77.0}, sm_throughput_pct=77.4).ceilings.ranked) == 1


@each_row(("rate", "share"), [(0.03, 0.8), (3.02, 75.5), (2.2987, 57.4675)])
def test_a_rounded_rate_has_as_many_digits_as_it_supports(rate: float, share: float) -> None:
    found = view_of({}, ipc_executed_elapsed=rate).ceilings.reached("issue")
    assert found.value == pytest.approx(share, abs=1e-9)


def idle(**metrics: float) -> float:
    view = view_of({"issue_slots": 50.0}, elapsed_cycles=70_302, sm_active_cycles=61_465, **metrics)
    part = account(view).part("idle")
    return float(part.percent.value) if part else 0.0


def test_latency_and_headline_name_the_same_unit(wording) -> None:
    launch = made_up({"l1": 21.0}, sm_throughput_pct=24.0, duration=1e6)
    found = diagnose(launch, reads_code=False)
    wording(verdict_of(found).headline)
    (latency,) = candidates_of("latency_bound", found.view)
    wording(latency.text)


LIMITS = {
    "block_limit_registers": 2.0,
    "block_limit_shared_memory": 32.0,
    "block_limit_sm": 32.0,
    "block_limit_warps": 8.0,
    "theoretical_occupancy_pct": 25.0,
    "waves_per_sm": 100.0,
}


@pytest.mark.parametrize("busy", [{"sm_throughput_pct": 77.0}, {"dram_throughput_pct": 80.0}])
def test_a_unit_that_explains_the_time_leaves_no_assumed_waits(busy: dict[str, float]) -> None:
    view = view_of({}, **busy, **LIMITS)
    # Without any level of memory, one of them may explain the time.
    idle = dict.fromkeys(busy, 30.0) | {"dram_throughput_pct": 30.0}
    idle_view = view_of({}, **idle, **LIMITS)
    for finding in ("latency_bound", "occupancy_limited_registers"):
        assert not candidates_of(finding, view)
        assert candidates_of(finding, idle_view)


@each_row("limits, times, tied", [
    ({}, 4.0, False),  # up to the warps
    ({"block_limit_shared_memory": 6.0}, 3.0, False),
    ({"block_limit_shared_memory": 3.0}, 1.5, False),
    ({"block_limit_barriers": 5.0}, 2.5, False),
    ({"block_limit_shared_memory": 2.0}, 4.0, True),
])  # fmt: skip
def test_more_warps_fit_up_to_the_next_limit(limits, times, tied) -> None:
    view = view_of({"dram": 20.0}, **(LIMITS | limits))
    (found,) = candidates_of("occupancy_limited_registers", view)
    assert found.effect.waits["long_scoreboard"] == pytest.approx(1 / times)
    assert ("shared memory equally" in found.text, found.likelihood < 1) == (tied, tied)


def test_larger_blocks_relieve_what_each_block_takes() -> None:
    """A block without shared memory is charged for some, and has a barrier."""
    small = {"block_limit_registers": 128.0, "block_limit_warps": 64.0}
    view = view_of({"dram": 20.0}, **(LIMITS | small | {"block_limit_barriers": 32.0}))
    assert not candidates_of("occupancy_limited_shared", view)
    (found,) = candidates_of("occupancy_limited_block", view)
    assert (found.likelihood, found.effect.waits["long_scoreboard"]) == (1, pytest.approx(1 / 2))
