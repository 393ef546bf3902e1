"""The roofline: against what NVIDIA's own counters, rules and data sheets say, and by its laws."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.hardware.ceilings import TIE
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.analysis.roofline.launch_roofline import (
    AT_CEILING,
    LaunchRoofline,
    find_roofline,
    issue_limited,
    reached_roofline,
)
from keet.analysis.roofline.tensor import parse_opcode, tensor_work
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.headline import verdict_of
from keet.profile import Absent, Launch
from keet.report import read_profile
from tests.conftest import CORPUS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.launch_checks import check_roofline
from tests.unit.analysis.made_up_launch import active, encoded, made_up
from tests.unit.analysis.real_launches import SAMPLES, changed, launch_of, side_of

SHORT = {"gpu__time_duration.sum": 1000.0}
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"


def sample(name: str) -> LaunchRoofline:
    return find_roofline(launch_of(name))


def rates(roofline: LaunchRoofline, ceiling_id: str) -> tuple[float, float, float]:
    """Share in per cent, achieved, peak."""
    found = roofline.ceiling(ceiling_id)
    return found.reached_pct, float(found.achieved.value), float(found.peak.value)


def launch_with(metrics: dict[str, float], opcodes: dict[str, float] | None = None) -> Launch:
    instances = {OPCODES: list(opcodes.items())} if opcodes is not None else {}
    return encoded(metrics, instances)


@each_row("name, ceiling, flop, flop_per_cycle", [
    # 8448 x 4096 x 8192 on an H200: HGMMA's dense peak is 4096 FLOP per cycle and SM.
    ("token_mix", "tensor_bf16", 2 * 8448 * 4096 * 8192, 4096),
    # 4096 x 4096 x 2048 with warp-level HMMA, whose peak is two thirds of HGMMA's.
    ("half_dense:fast", "tensor_fp16", 2 * 4096 * 4096 * 2048, 4096 * 2 / 3),
])  # fmt: skip
def test_products_by_their_size(name, ceiling, flop, flop_per_cycle) -> None:
    roofline = sample(name)
    share, achieved, peak = rates(roofline, ceiling)
    duration, clock = (roofline.launch.require(each).value for each in ("duration", "sm_clock"))
    assert achieved == pytest.approx(flop / duration * 1e9, rel=1e-9)
    assert peak == pytest.approx(flop_per_cycle * 132 * clock, rel=2e-3)
    is_wide = ceiling == "tensor_bf16"
    assert (90 < share < 97) is is_wide
    assert is_wide or any("HGMMA" in note for note in roofline.notes)


@each_row("name, nearest, low, high", [
    ("series_eval", "fp32", 77, 81), ("orbit_forces", "fp64", 53, 56),
    ("field_axpy", "dram", 88, 93), ("token_mix", "tensor_bf16", 90, 97),
])  # fmt: skip
def test_the_planted_ceiling_is_the_nearest(name, nearest, low, high) -> None:
    roofline = sample(name)
    assert roofline.nearest[0] == nearest
    assert low < roofline.nearest_ceilings[0].reached_pct < high


def test_rooflines_of_samples_are_as_ncus_rule_says() -> None:
    for name in SAMPLES:
        check_roofline(launch_of(name))


def test_tensor_operations_as_the_hardware_counts_them(profile_of, wording) -> None:
    launch = profile_of("zoo.ncu-repz").launches[2]
    counter = "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32_sparsity_off.sum"
    roofline = find_roofline(launch)
    share, achieved, peak = rates(roofline, "tensor_fp16")
    duration = launch.require("duration").value * 1e-9
    assert achieved * duration == pytest.approx(launch.metric(counter).value, rel=1e-9)
    theirs = launch.metric(f"{counter}.pct_of_peak_sustained_elapsed").value
    assert share == pytest.approx(theirs, rel=0.01)
    theirs = launch.metric(f"{counter}.peak_sustained_elapsed.per_second").value
    assert peak == pytest.approx(theirs, rel=1e-9)
    wording(roofline.ceiling("tensor_fp16").source)


def test_bytes_and_peaks_as_in_ncus_own_charts(profile_of) -> None:
    for launch in profile_of("tour_full.ncu-repz").launches:
        roofline = find_roofline(launch)
        dram, _, _ = rates(roofline, "dram")
        assert dram == pytest.approx(launch.require("dram_active_pct").value, rel=0.01)
        _, l1, l1_peak = rates(roofline, "l1")
        assert l1 == pytest.approx(
            launch.require("l1_ds_roofline_bytes_per_second").value, rel=1e-3
        )
        theirs = launch.require("l1_ds_peak_bytes_per_cycle").value
        assert l1_peak == pytest.approx(theirs * launch.require("l1_clock").value, rel=1e-3)
        share, _, _ = rates(roofline, "l2")
        assert share == pytest.approx(launch.require("l2_l1_sectors_pct").value, rel=0.01)
    # By the peak per cycle, and by the share of all lookups (which is all that `keet profile` has).
    full = profile_of("tour_full.ncu-repz").launches[0]
    by_cycle = rates(find_roofline(full), "l2")[2]
    lookups = full.require("l2_sectors").value * 32 / (full.require("duration").value * 1e-9)
    by_share = lookups / full.require("l2_sectors_pct").value * 100 * 2 / 3
    assert by_cycle == pytest.approx(by_share, rel=0.01)
    # Made up: the clock is that of a lower power state.
    counts = {"dram_peak_bytes_per_cycle": 1000.0, "dram_bytes_per_second": 1e11}
    counts |= {"dram_frequency": 5e8, "device_memory_clock": 1e6}
    for duration, peak in ((1e6, 5e11), (1e4, 1e12)):
        launch = made_up({"dram": 20.0}, **counts, duration=duration)
        assert rates(find_roofline(launch), "dram")[2] == peak


@needs_corpus
def test_ceilings_of_public_reports() -> None:
    # NCAR: launches of 13 us, of which ncu counted 6 us of cycles, beside launches of 4 ms.
    (path,) = CORPUS.glob("NCAR__*")
    launches = read_profile(path).launches
    peaks = [rates(find_roofline(launch), "dram")[2] for launch in launches]
    assert max(peaks) < 1.02 * min(peaks)
    notes = [bool(find_roofline(launch).notes) for launch in launches]
    assert notes == [True, True, False, False, False]
    # 2048 operations per cycle and SM, as its data sheet has it (299.3 TOPS at 1740 MHz).
    (path,) = CORPUS.glob("eschnett__*")
    launch = read_profile(path).launches[1]
    share, _, peak = rates(find_roofline(launch), "tensor_int8")
    assert peak / 84 / launch.require("sm_clock").value == pytest.approx(2048, rel=1e-3)
    assert share == pytest.approx(53.8, abs=0.1)


@each_row("opcode, matrix", [
    ("HMMA.16816.F32", ("fp16", 4096)), ("HMMA.16816.F32.BF16", ("bf16", 4096)),
    ("HMMA.1688.F32.TF32", ("tf32", 2048)), ("HMMA.1688.F16", ("fp16", 2048)),
    ("HMMA.SP.16832.F32", ("fp16", 4096)), ("DMMA.884", ("fp64", 512)),
    ("IMMA.8816.S8.S8.SAT", ("int8", 2048)), ("IMMA.16864.S4.S4", ("int4", 16384)),
    ("BMMA.88128.XOR.POPC", ("int1", 16384)), ("QMMA.16832.F32.E4M3.E4M3", ("fp8", 8192)),
    ("HGMMA.64x256x16.F32.BF16", ("bf16", 131072)),
    ("QGMMA.64x128x32.F32.E4M3.E5M2", ("fp8", 131072)), ("IGMMA.64x64x32.S8.S8", ("int8", 65536)),
])  # fmt: skip
def test_opcodes(opcode: str, matrix: tuple[str, float]) -> None:
    found = parse_opcode(opcode)
    assert (found.type, found.operations) == matrix


def test_the_reading_its_sources_and_matrix_instructions() -> None:
    launch = launch_with(SHORT, {"UTCHMMA.2CTA": 5.0})
    (absent,) = (s for s in find_roofline(launch).skipped if s.check == "tensor")
    assert "UTCHMMA" in absent.reason
    assert "ncu --set full" in absent.remedy
    launch = launch_with(SHORT, {"FFMA": 5.0, "HFMA2.MMA": 9.0})
    assert tensor_work(LaunchLedger(launch)) == ()
    assert isinstance(tensor_work(LaunchLedger(launch_with({}))), Absent)
    # As for tcgen05, whose opcodes do not tell their shape.
    stem = "sm__ops_path_tensor_src_fp8_sparsity_off.sum"
    metrics = SHORT | {"sm__cycles_elapsed.avg.per_second": 1e9}
    metrics |= {stem: 1e6, f"{stem}.peak_sustained": 2000.0}
    found = rates(find_roofline(launch_with(metrics, {"UTCQMMA": 3.0})), "tensor_fp8")
    assert found == pytest.approx((50, 1e12, 2e12))
    roofline = sample("series_eval")
    assert roofline.ceiling("fp16").source.startswith("catalog")
    assert roofline.ceiling("fp32").source.startswith("report")
    assert "roofline_fp32_reached#0" in roofline.reading.ids


def test_what_is_missing_or_has_no_shape(profile_of, wording) -> None:
    roofline = find_roofline(profile_of("tour_basic.ncu-repz").launches[0])
    remedies = {each.check: each.remedy for each in roofline.skipped}
    assert "SpeedOfLight_RooflineChart" in remedies["fp32"]
    assert "MemoryWorkloadAnalysis_Tables" in remedies["l1"]
    assert roofline.lead is None
    assert roofline.intensities == ()
    assert roofline.ceiling("l2").achieved is None  # the share alone
    roofline = find_roofline(launch_with({}))
    assert (roofline.ceilings, roofline.nearest, roofline.lead) == ((), (), None)
    checks = {each.check for each in roofline.skipped}
    assert checks == {"fp64", "fp32", "fp16", "tensor", "dram", "l2", "l1", "shared"}
    wording(roofline.reading)
    share = "avg.pct_of_peak_sustained_elapsed"
    metrics = {"gpu__time_duration.sum": 0.0, "dram__bytes.sum.per_second": math.nan}
    metrics |= {f"gpu__dram_throughput.{share}": math.inf, f"lts__t_sectors.{share}": 0.0}
    metrics |= {"lts__t_sectors.sum": 5.0}
    (level,) = find_roofline(launch_with(metrics)).ceilings  # its lookups were counted: none
    assert (level.id, level.reached_pct, level.achieved) == ("l2", 0.0, None)
    for opcode in [
        "HFMA2.MMA",
        "FFMA",
        "HMMA",
        "HMMA.884.F32.F32.STEP2",
        "UTCHMMA.2CTA",
        "HMMA.999",
    ]:
        assert parse_opcode(opcode) is None
    # HFMA2 puts a constant into a register: nobody computes in FP16 there.
    roofline = find_roofline(profile_of("tour_full.ncu-repz").launches[1])
    assert roofline.ceiling("fp16").reached_pct > 0
    assert roofline.lead is None
    assert any("constants" in note for note in roofline.notes)
    half = find_roofline(profile_of("zoo.ncu-repz").launches[1])
    assert half.lead == "fp16"


amounts = st.floats(min_value=1.0, max_value=1e12)


@given(flop=amounts, traffic=amounts, time=st.floats(10.0, 1e9), clock=st.floats(1e8, 3e9))
def test_the_attained_share_is_the_larger_one(flop, traffic, time, clock) -> None:
    """Achieved over min(peak, intensity x bandwidth) is the nearer of the two ceilings."""
    stem = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    metrics = {stem.format("fadd"): flop, stem.format("fmul"): 0.0, stem.format("ffma"): 0.0}
    metrics |= {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 1e5}
    metrics |= {"gpu__time_duration.sum": time, "sm__cycles_elapsed.avg.per_second": clock}
    metrics |= {"dram__bytes.sum.per_second": traffic, "dram__bytes.sum.peak_sustained": 500.0}
    metrics |= {"dram__cycles_elapsed.avg.per_second": 2e9}
    roofline = find_roofline(launch_with(metrics))
    (entry,) = (e for e in roofline.intensities if e.level == "dram")
    top = max(roofline.ceiling(each).reached_pct for each in ("fp32", "dram"))
    assert roofline.ceiling("fp32").achieved
    assert entry.attained_pct == pytest.approx(top, rel=1e-9)
    near = [each.reached_pct for each in roofline.nearest_ceilings]
    assert near[0] == top <= min(near) + TIE


FMA_PIPES = ("sm__inst_executed_pipe_fma", "sm__pipe_fma", "sm__inst_executed_pipe_fmaheavy")


def model_of(launch: Launch) -> TimeModel:
    return TimeModel(LaunchView(launch, reads_code=True))


def test_full_pipes_that_are_a_roofline_and_that_are_none() -> None:
    launch = launch_of("tile_smooth:fast")
    model = model_of(launch)
    assert (model.busiest, reached_roofline(model)) == ("issue", "compute")
    assert model.loads["FMA"] >= AT_CEILING
    assert not issue_limited(model)
    # Edited snapshots: the same launch, with less work on the FMA pipes.
    for part in (0.8, 0.5):
        idle = changed(launch, lambda name, v, p=part: v * p if name.startswith(FMA_PIPES) else v)
        model = model_of(idle)
        assert model.loads["issue"] > AT_CEILING > model.loads["FMA"]
        assert issue_limited(model)
        assert reached_roofline(model) != "compute"
    # However few its instructions are, a busy tensor pipe computes.
    assert reached_roofline(model_of(launch_of("token_mix:fast"))) == "compute"
    # An edited snapshot: as busy as before, with half of the matrix instructions.
    launch = side_of("triton_matmul/square_f16.large_staged").launches[0]
    counts = "sass__inst_executed_per_opcode"
    halved = changed(launch, lambda name, v: v / 2 if name.startswith(counts) else v)
    assert reached_roofline(model_of(launch)) == "compute"
    assert reached_roofline(model_of(halved)) != "compute"


def test_the_headline_says_what_the_instructions_are_for(wording) -> None:
    """tap_filter: issue slots at 71 % and FMA at 49 % of peak were called the compute roofline."""
    diagnosis = diagnose(launch_of("tap_filter:fast"))
    assert diagnosis.healthy is None
    named = [each for each in (*diagnosis.findings, *diagnosis.minor) if each.variant == "issue"]
    (finding,) = named
    assert finding.id == "pipe_saturated"
    wording(str(finding.text), finding.label)
    diagnosis = diagnose(launch_of("phase_sum:fast"))
    assert not diagnosis.findings
    wording(str(verdict_of(diagnosis).headline))


@each_row("units, metrics, roofline", [
    ({"dram": 60.0}, {}, None),
    ({"dram": 60.0, "l2": 80.0}, {}, None),
    ({"dram": 80.0}, {}, "DRAM"),
    ({"dram": 68.0, "l2": 92.0}, {}, "DRAM"),  # L2 passes on the bytes of DRAM
    ({"fma": 61.0, "issue_slots": 62.0}, {}, None),
    ({"fma": 75.0, "issue_slots": 62.0}, {}, "compute"),
    ({}, {"sm_throughput_pct": 61.0}, None),  # the basic set: only the busiest pipe
    ({}, {"sm_throughput_pct": 80.0}, "compute"),
])  # fmt: skip
def test_a_roofline_is_most_of_what_the_unit_can_do(units, metrics, roofline) -> None:
    """Made-up launches. SMs that are active for a part of the time make no roofline: the share
    counts that was reached over the whole time."""
    launch = made_up(units, None, None, **metrics, **active(0.7, 0.75))
    assert reached_roofline(model_of(launch)) == roofline
