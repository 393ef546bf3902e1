"""What the counters of small sets and the few, rounded numbers of a printed page show by themselves."""

import re
from collections.abc import Mapping
from functools import cache

import pytest

from keet.analysis.account import Account, account_of
from keet.analysis.amounts.bounds import bounds
from keet.analysis.candidate import Candidate
from keet.analysis.decisions.atomics import hot_slice
from keet.analysis.hardware.ceilings import HOST_LINK, WHOLE_MEMORY
from keet.analysis.hardware.stages import SCHEDULERS
from keet.analysis.kernel.resident_warps import working_part
from keet.analysis.launch_view import LaunchView
from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.source_lines import InstructionTable
from keet.analysis.time_model import HOT_LINE, TimeModel
from keet.catalog import all_names, stalls
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.headline import verdict_of
from keet.findings import findings
from keet.profile import Instances, Launch, RawMetric
from keet.profile.launch import LaunchData
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import (
    changed,
    code_view,
    launch_of,
    public_launch,
    with_data,
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
    assert HOT_LINE not in TimeModel(LaunchView(launch_of("rate_table"))).loads
    for gone in ("^$", r"op_atom|op_red|lts__t_sectors\.max$|sass_", r"lts__(cyc|thr).*max"):
        small = without(launch_of("key_count"), gone)
        assert hot_slice(TimeModel(LaunchView(small))).is_atomic
    average = {"elapsed_cycles": ELAPSED, "sm_active_cycles": ELAPSED}
    for active in ({}, average, average | {"sm_active_cycles_max": ELAPSED}):
        view = LaunchView(made_up({}, grid_size=33, **active))
        part = account_of(view, TimeModel(view)).part("idle.small_grid")
        assert part.percent.value == pytest.approx(75)
    for name in ("series_eval", "tile_smooth", "band_scale"):
        assert working_part(code_view(name)) == 1


@needs_corpus
def test_host_memory_in_basic_reports() -> None:
    found = diagnosis("MgMap", 3)
    assert found.findings[0].id == "pcie_or_nvlink_traffic"
    assert found.account.part("waiting.busy.host_link")
    found = diagnosis("shortstheory")
    # The traffic of the link is that of these atomics, and no second cause.
    (finding,) = found.findings
    assert (finding.id, finding.advice.variant) == ("atomic_contention", "in_host")
    assert "into the GPU's memory" in finding.action
    busy = found.account.part("waiting.busy.hot_l2_slice")
    assert busy.percent.value > 80
    assert found.account.unknown < 20


@needs_corpus
@each_row("start, launch, least", [
    ("extra-p", 2, 99),
    ("Lashi", 0, 95),
    ("Brennen", 1, 47),
    ("chia7", 4, 17),
    ("josiahls", 0, 34),  # for most of the time, no SM is active
])  # fmt: skip
def test_sms_without_a_block_are_known_from_the_launch_alone(start, launch, least) -> None:
    view = LaunchView(public_launch(start, launch))
    part = account_of(view, TimeModel(view)).part("idle.small_grid")
    assert part.percent.value >= least


@needs_corpus
def test_grids_of_public_reports() -> None:
    # AveryClapp: 64 blocks for 80 SMs.
    for launch in (1, 2, 3):
        found = diagnosis("AveryClapp", launch)
        assert found.findings[0].id == "small_grid"
        assert not [each.id for each in found.findings if each.id.startswith("occupancy")]
    # Zloyaloha: 32,768 warps of 13 instructions; no SM is active for half of 12 us.
    found = diagnosis("zloyaloha", 1)
    first = found.findings[0]
    assert first.id == "launch_bound"
    assert "13 instructions" in first.text
    assert first.advice.variant == "short_lived_warps"
    # Trevorgloe: FP64 at 85 % on a GPU of 1/64 of the rate, and nothing else to do.
    first = diagnosis("trevorgloe").findings[0]
    assert first.id == "low_precision_possible"
    assert first.forecast.likely >= 8


@needs_corpus
@pytest.mark.parametrize(("start", "launch"), [("NVIDIA", 0), ("JakeFlasher", 1)])
def test_launching_is_no_imbalance(start: str, launch: int) -> None:
    assert "load_imbalance" not in [each.id for each in diagnosis(start, launch).findings]


def test_what_is_left_of_a_hot_address_and_of_l1() -> None:
    slower = changed(
        launch_of("key_count"),
        lambda name, value: value / 3 if "lts__t_sectors" in name and "max" in name else value,
    )
    loads = [
        TimeModel(LaunchView(each)).loads[HOT_LINE] for each in (launch_of("key_count"), slower)
    ]
    assert loads[1] == pytest.approx(loads[0], rel=0.05)
    # Measured: 47 times faster. No other unit is at more than 3 percent of its peak.
    found = diagnose(launch_of("key_count"), reads_code=False).findings[0]
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


@needs_corpus
def test_lookups_of_public_reports() -> None:
    # NuKEXC: L1 is busy all the time, and one of twenty passes reaches L2. Blocks of 1 x 128.
    first = diagnose(public_launch("bobschreiner__"), reads_code=False).findings[0]
    assert (first.variant, first.cause_certainty) == ("L1/passes", "possible")
    assert "MemoryWorkloadAnalysis_Tables" in str(first.text)
    assert "wide as a warp" not in first.action
    # Its load is not that of the longest SM alone.
    model = TimeModel(LaunchView(public_launch("JakeFlasher")))
    assert model.balance.evenness < 0.95
    assert model.loads[WHOLE_MEMORY] == pytest.approx(0.138, abs=0.001)


def passes(share: float, static: float = 4096.0) -> set[str]:
    """An edited launch: L1 is busy for `share` percent, sixteen times as long as the LSU pipe, and
    lookups of L2 take whole lines."""
    launch = made_up(
        {"l1": share, "lsu": share / 16, "l2": share / 10},
        elapsed_cycles=ELAPSED,
        device_l2_slices=96,
        l2_elapsed_cycles_total=96 * ELAPSED,
        shared_memory_per_block=static + 1024,
        shared_memory_static=static,
        shared_memory_driver=1024,
    )
    peak = ".avg.pct_of_peak_sustained_elapsed"
    launch.data.metrics[f"lts__t_sectors{peak}"] = RawMetric(10.5)  # type: ignore[attr-defined]
    launch.data.metrics[f"lts__t_tag_requests{peak}"] = RawMetric(10.0)  # type: ignore[attr-defined]
    return {each.id for each in diagnose(launch, reads_code=False).findings}


def test_pipes_over_active_cycles_and_the_busiest_unit_of_memory() -> None:
    full = launch_of("key_count")
    small = without(full, r"(pipe_lsu|lsuin_requests).*sustained_elapsed")
    shares = [LaunchView(launch).ceilings.share("LSU") for launch in (full, small)]
    assert shares[0]
    assert shares[1] == pytest.approx(shares[0], rel=0.02)
    full = launch_of("key_count")
    ceilings = LaunchView(without(full, r"^(l1tex|lts|sm__inst_executed_pipe_lsu|idc)")).ceilings
    assert WHOLE_MEMORY not in LaunchView(full).ceilings
    assert ceilings.share(WHOLE_MEMORY) == pytest.approx(
        float(full.get("memory_throughput_pct").value) / 100  # type: ignore[union-attr]
    )
    # Without the SMs' active cycles, they count as active all the time.
    full = launch_of("key_count")
    is_most = {}
    for pattern in ("", "|sm__cycles_active", "|sm__cycles_active|issue_active|inst_issued|ipc"):
        gone = r"(pipe_lsu|lsuin_requests).*sustained_elapsed" + pattern
        ceilings = LaunchView(without(full, gone)).ceilings
        stage = ceilings.stage("LSU")
        is_most[pattern] = stage.at_most
        assert ceilings.share("LSU") >= (LaunchView(full).ceilings.share("LSU") or 0) - 0.01
    assert [*is_most.values()] == [False, True, True]


def test_arithmetic_on_doubles_takes_as_long_as_their_pipe() -> None:
    view = code_view("gas_state")
    least = next(each for each in bounds(view) if each.id == "arithmetic")
    busy, duration = view.ceilings.share("FP64"), view.value("duration")
    assert busy
    assert duration
    assert 0.9 * busy <= least.us / (duration / 1e3) <= busy


@pytest.mark.parametrize(
    "case", ["halo_filter/soft_pixel_by_pixel", "wave_seismic/neighbours_from_l2"]
)
def test_products_of_64_bits_take_the_fma_pipe_twice_as_long(case: str) -> None:
    """A bound by floats is not above the pipe's time for them: one per cycle and scheduler."""
    view = code_view(case)
    least = next(each for each in bounds(view) if each.id == "arithmetic")
    code, cycles = view.code, view.value("elapsed_cycles")
    assert cycles
    floats = [
        program.counts[at]
        for program in (code.program,)
        for at in program.ran
        if program.code[at].opcode in ("FFMA", "FMUL", "FADD")
        or (program.code[at].opcode == "IMAD" and code.purposes[at] is Purpose.VALUE)
    ]
    needed = sum(floats) / (cycles * SCHEDULERS * 132)
    assert least.us == pytest.approx(needed * (view.value("duration") or 0) / 1e3, rel=0.05)


RENAMED = re.compile(
    r"smsp__average_warps_issue_stalled_\w+_per_issue_active\.ratio"
    r"|smsp__pcsamp_warps_issue_stalled_\w+"
)


def old_name(name: str) -> str | None:
    """The name in ncu 2019; None: the metric did not exist."""
    others = [each for each in all_names(name) if each != name]
    if not RENAMED.fullmatch(name):
        return name
    return others[-1] if others else None


class OldData:
    """An edited snapshot: warp states and samples of one of our reports under their old names."""

    def __init__(self, data: LaunchData, names: Mapping[str, str]) -> None:
        self._data, self._names = data, names

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def _today(self, name: str) -> str:
        return self._names.get(name, "none" if old_name(name) != name else name)

    def metric(self, name: str) -> RawMetric | None:
        return self._data.metric(self._today(name))

    def instances(self, name: str) -> Instances | None:
        return self._data.instances(self._today(name))


def as_of_2019(launch: Launch) -> Launch:
    names = {
        old: name
        for stall in stalls().values()
        for name in stall.metrics
        if (old := old_name(name)) and old != name
    }
    return with_data(launch, OldData(launch.data, names))


def test_warp_states_and_samples_are_read_by_their_old_names() -> None:
    today = launch_of("tap_filter")
    old = as_of_2019(today)
    assert old.metric("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio") is None
    assert old.metric("smsp__warp_cycles_per_issue_stall_wait") is not None
    states = LaunchView(old).stalls
    assert states["wait"] > 0
    assert {*states} <= {*LaunchView(today).stalls}
    table = InstructionTable(old)
    assert table.waiting("wait") == InstructionTable(today).waiting("wait") != {}
    assert table.waiting("no_instructions") == InstructionTable(today).waiting("no_instructions")


SMS = 132


def view_of(units: dict[str, float], **metrics: float) -> LaunchView:
    return LaunchView(made_up(units, **metrics))


def account(view: LaunchView) -> Account:
    return account_of(view, TimeModel(view))


@cache
def export(start: str) -> Diagnosis:
    return diagnose(public_launch(start), reads_code=False)


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


@needs_corpus
@pytest.mark.parametrize(("start", "share"), [("brycelelbach", 0.82), ("jIab", 75.41)])
def test_issue_slots_of_an_export_are_those_that_it_prints(start: str, share: float) -> None:
    found = export(start).view.ceilings.reached("issue")
    assert round(found.value, 2) == share


def idle(**metrics: float) -> float:
    view = view_of({"issue_slots": 50.0}, elapsed_cycles=70_302, sm_active_cycles=61_465, **metrics)
    part = account(view).part("idle")
    return float(part.percent.value) if part else 0.0


def candidates(finding: str, view: LaunchView) -> list[Candidate]:
    return list(findings()[finding].candidates(view, TimeModel(view)))


def test_latency_and_headline_name_the_same_unit(wording) -> None:
    launch = made_up({"l1": 21.0}, sm_throughput_pct=24.0, duration=1e6)
    found = diagnose(launch, reads_code=False)
    wording(verdict_of(found).headline)
    (latency,) = candidates("latency_bound", found.view)
    told = latency.text
    wording(told)


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
        assert not candidates(finding, view)
        assert candidates(finding, idle_view)


@needs_corpus
def test_exports_with_a_busy_sm_or_two_limits() -> None:
    assert "latency_bound" not in [each.id for each in export("AlpriElse").findings]
    found = {each.id: each for each in export("microsoft").findings}
    tied = found["occupancy_limited_registers"]
    assert "registers and shared memory" in tied.label
    assert tied.cause_certainty == "possible"
    assert tied.expected < tied.forecast.likely, "shared memory may limit it as before"
    first = export("brycelelbach").findings[0]
    assert first.id == "uncoalesced_global"
    assert first.text.startswith("75% of the 33,554,432 sectors")


@each_row("limits, times, tied", [
    ({}, 4.0, False),  # up to the warps
    ({"block_limit_shared_memory": 6.0}, 3.0, False),
    ({"block_limit_shared_memory": 3.0}, 1.5, False),
    ({"block_limit_barriers": 5.0}, 2.5, False),
    ({"block_limit_shared_memory": 2.0}, 4.0, True),
])  # fmt: skip
def test_more_warps_fit_up_to_the_next_limit(limits, times, tied) -> None:
    view = view_of({"dram": 20.0}, **(LIMITS | limits))
    (found,) = candidates("occupancy_limited_registers", view)
    assert found.effect.waits["long_scoreboard"] == pytest.approx(1 / times)
    assert ("shared memory equally" in found.text, found.likelihood < 1) == (tied, tied)


def test_larger_blocks_relieve_what_each_block_takes() -> None:
    """A block without shared memory is charged for some, and has a barrier."""
    small = {"block_limit_registers": 128.0, "block_limit_warps": 64.0}
    view = view_of({"dram": 20.0}, **(LIMITS | small | {"block_limit_barriers": 32.0}))
    assert not candidates("occupancy_limited_shared", view)
    (found,) = candidates("occupancy_limited_block", view)
    assert (found.likelihood, found.effect.waits["long_scoreboard"]) == (1, pytest.approx(1 / 2))
