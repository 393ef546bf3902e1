"""Candidates: each kind in a real report that has it, and none in a report that only looks so."""

from itertools import cycle, pairwise

import pytest

from keet.analysis.candidate import MAX_GAIN
from keet.analysis.decisions.double_precision import single_over_double
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import working_part
from keet.analysis.time_model import LEAST_TIME, Effect, TimeModel
from keet.diagnosis.diagnosis import diagnose, possible_gain
from keet.findings import findings, occupancy_limited_block
from keet.profile import Launch
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import GEFORCE, active, made_up
from tests.unit.analysis.real_launches import (
    candidates_of,
    changed,
    code_view,
    launch_of,
    public_launch,
)

CLEAR = 1.15
"""Times faster: a look-alike must stay below, a cause must not."""

BY_CODE = (
    "atomic_contention", "redundant_traffic", "integer_overhead", "uncoalesced_global",
    "narrow_access", "no_tensor_core", "pipe_saturated", "sfu_bound",
)  # fmt: skip
"""Kinds that the machine code shows in part. Analysing it takes most of the time."""

# A kind of cause, a report with it, and one that looks like it but has another limit. A case of the
# casebook is its side before the fix; `sample:variant` is a sample.
KINDS = [
    ("atomic_contention", "graph_bfs/social_queue", "gemv/atomic_sums"),
    ("atomic_contention", "bin_moments/eight_bins_of_a_warp", "bin_moments/levels_of_a_lane"),
    ("barrier_bound", "scan/tiles_one_thread", "layernorm/tree_over_long_rows"),
    ("fp64_promotion", "stencil2d/double_exponentials", "stencil2d/one_double_constant"),
    ("instruction_fetch", "interpreter/generated_operations_u32", "interpreter/two_operations"),
    ("integer_overhead", "stencil2d/remainders", "stencil2d/one_division"),
    ("integer_overhead", "block_sad/bytes_of_words", "block_sad/unpacked_at_rest"),
    ("l2_partition_imbalance", "table_lookup/cancel_word", "status_flags/cancel_word_now_and_then"),
    ("latency_bound", "spmv_ell/few_rows_both", "spmv_ell/waiting_for_dram"),
    ("launch_bound", "batched_gemm/groups", "gemm_f32/few_tiles"),
    ("load_imbalance", "graph_bfs/social_hubs", "sparse_apply:fast"),
    ("local_memory_spill", "fft/array_of_points", "fem_assembly/spills_beside_arithmetic"),
    ("low_precision_possible", "nbody/double_throughout", "heat_steps/doubles_beside_dram"),
    ("narrow_access", "bit_unpack/nibbles_narrow", "embedding_bag/float_a_lane"),
    ("no_tensor_core", "attention/half_on_fma", "half_dense:fast"),
    ("no_tensor_core", "quant_dense/words_on_threads", "quant_dense/byte_arithmetic_in_a_scan"),
    ("occupancy_limited_block", "gemv/one_warp_blocks", "monte_carlo/blocks_of_a_warp"),
    ("occupancy_limited_registers", "gather_scatter/solver_inside_random", "spmv_ell/many_registers"),
    ("occupancy_limited_shared", "stencil2d/tall_tiles", "triton_matmul/one_program_a_processor"),
    ("pcie_or_nvlink_traffic", "table_lookup/table_in_host_memory", "host_stream/sums_to_the_host"),
    ("pipe_saturated", "tap_filter:slow", "token_mix:fast"),
    ("pipe_saturated", "option_tree/one_node_per_thread", "option_tree/price_table"),
    ("redundant_traffic", "spmv_ell/few_rows_passes", "nbody/sources_from_global"),
    ("sfu_bound", "gamma_curve/exponential_per_band", "gamma_curve/near_angles"),
    ("sfu_bound", "quant_elementwise/silu_special_functions", "quant_elementwise/gelu_exponentials"),
    ("shared_bank_conflict", "sort_passes/lists_pitch_16", "transpose/padded_by_two"),
    ("small_grid", "histogram/few_blocks", "reduce_rows/most_sms_suffice"),
    ("tail_effect", "nbody/one_block_too_many", "ode_batch/seventeenth_wave"),
    ("uncoalesced_global", "transpose/column_stores", "table_lookup/gather_behind_arithmetic"),
    ("warp_divergence", "interpreter/mixed_programs", "decay_ratios:fast"),
]  # fmt: skip


def gains(view: LaunchView, *kinds: str) -> dict[str, float]:
    """The largest gain of each finding, or of these. Checks what holds for every candidate."""
    model, largest = TimeModel(view), dict[str, float]()
    for spec in findings().values():
        for candidate in spec.proposed(view, model) if spec.id in (kinds or [spec.id]) else ():
            assert candidate.id == spec.id
            assert candidate.text.endswith(".")
            assert {*candidate.text.ids} <= {piece.id for piece in candidate.evidence}
            if isinstance(effect := candidate.effect, Effect):
                factors = (*effect.units.values(), *effect.waits.values(), *effect.moved.values())
                single = (effect.every_wait, effect.longest_sm, effect.least)
                assert all(0 <= factor <= 1 for factor in (*factors, *single))
            gain = possible_gain(candidate, model)
            assert 1 <= gain <= (1 / LEAST_TIME if candidate.basis == "measured" else MAX_GAIN)
            largest[spec.id] = max(gain, largest.get(spec.id, 1.0))
    return largest


@each_row("kind, report, look_alike", KINDS, few=3)
def test_a_planted_cause_is_a_candidate_and_a_look_alike_is_not(kind, report, look_alike) -> None:
    launches = (launch_of(report), launch_of(look_alike))
    views = (LaunchView(launch, reads_code=kind in BY_CODE) for launch in launches)
    cause, other = (gains(view, kind).get(kind, 1.0) for view in views)
    assert other < CLEAR <= cause


def test_every_candidate_kind_occurs_in_a_report() -> None:
    rooflines = {"at_dram_roofline", "at_compute_roofline"}
    assert {kind for kind, _, _ in KINDS} == findings().keys() - rooflines
    assert gains(LaunchView(changed(launch_of("matrix_flip"), lambda name, value: None))) == {}
    # Divisions are counted in the machine code; how many addresses a kernel needs is not.
    for name, basis in (
        ("calendar_map/three_divisions", "measured"),
        ("halo_filter/soft_pixel_by_pixel", "assumed"),
    ):
        (found,) = candidates_of("integer_overhead", code_view(name))
        assert found.basis == basis


@pytest.mark.slow
def test_the_cost_of_a_launch_fades_with_its_duration() -> None:
    """No duration from which on it is suddenly no cause."""
    durations = [2200 * 1.03**step for step in range(100)]
    views = [LaunchView(made_up({}, duration=duration, grid_size=100)) for duration in durations]
    costs = [gains(view, "launch_bound").get("launch_bound", 1.0) for view in views]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 2
    assert costs[-1] == 1
    assert max(before / after for before, after in pairwise(costs)) < 1.06**3


@pytest.mark.slow
def test_a_change_of_one_percent_changes_no_gain_by_more_than_ten_percent() -> None:
    """L1 and the issue slots of this launch are equally busy, to 1 %: each may be the busiest."""
    launch = launch_of("mechanism_rates:fast")
    view = LaunchView(launch)
    before = gains(view)
    measured = {each.metric for each in view.ledger if not each.derived_from}
    moved = sorted(name for name in measured if not name.startswith(("launch__", "device__")))
    assert len(moved) > 50
    for metric, factor in zip(moved, cycle((0.99, 1.01))):
        other = changed(launch, lambda name, v, m=metric, f=factor: v * f if name == m else v)
        after = gains(LaunchView(other))
        for kind in before | after:
            ratio = after.get(kind, 1.0) / before.get(kind, 1.0)
            assert 0.9 < ratio < 1.1, (metric, factor, kind)


HELD = {"theoretical_occupancy_pct": 100.0, "waves_per_sm": 20.0, "grid_size": 40_000}
HELD |= {"achieved_occupancy_pct": 25.0, "inst_executed": 8e6, "block_size": 64}
"""Few warps are resident though many fit and there are blocks enough."""
HELD_STATES = {"long_scoreboard": 20.0, "wait": 2.0, "selected": 1.0}


def held(**others: float) -> Launch:
    return made_up({"dram": 20.0}, HELD_STATES, **(HELD | others))


@each_row(
    "reached, executed, is_cause", [(25.0, 8e6, True), (85.0, 8e6, False), (25.0, 8e8, False)]
)
def test_blocks_that_end_as_fast_as_they_start_are_named(reached, executed, is_cause) -> None:
    found = gains(LaunchView(held(achieved_occupancy_pct=reached, inst_executed=executed)))
    gain = found.get("occupancy_limited_block", 1.0)
    assert gain >= 1.5 if is_cause else gain < 1.1


def test_short_blocks_and_those_that_live_long(wording) -> None:
    first = diagnose(held(duration=1e6)).findings[0]
    assert first.id == "occupancy_limited_block"
    wording(first.label, first.action)
    # Large ones are not to become larger.
    first = diagnose(held(duration=1e6, grid_size=5_000, block_size=1024)).findings[0]
    wording(first.variant, first.action)
    # One block per SM at a time, for 3000 cycles: its warps end early, and starting the next block
    # takes a small part of that. A block of one warp ends with its warp.
    long = {"theoretical_occupancy_pct": 50.0, "grid_size": 2640, "achieved_occupancy_pct": 10.0}
    long |= {"inst_executed": 2e6} | active(60 / 62, 60 / 62, of=62_000)
    for size, variants in ((1024, ["early_warps"]), (32, [])):
        view = LaunchView(held(block_size=size, **long))
        found = occupancy_limited_block.candidates(view, TimeModel(view))
        assert [each.variant for each in found] == variants
    first = diagnose(held(duration=1e6, block_size=1024, **long)).findings[0]
    wording(first.label, first.text, first.action)


def test_short_kernels_and_warps_that_sleep_or_have_ended(wording) -> None:
    shape = {"waves_per_sm": 2.08, "grid_size": 1700, "block_size": 256, "inst_executed": 2e5}
    shape |= {"theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 33.0}
    shape |= active(0.5, 0.6)
    units = {"dram": 16.0, "issue_slots": 8.0}
    long, short = (made_up(units, duration=duration, **shape) for duration in (5e6, 5e3))
    assert {"tail_effect", "occupancy_limited_block"} <= gains(LaunchView(long)).keys()
    assert [each.id for each in diagnose(short).findings] == ["launch_bound"]
    launch = made_up({}, duration=1e6, **active(0.5, 0.5))
    assert "launch_bound" not in gains(LaunchView(launch))
    states = ({each: 20.0, "selected": 1.0} for each in ("drain", "long_scoreboard"))
    views = [LaunchView(made_up({"dram": 30.0}, each)) for each in states]
    wording([found.text for view in views for found in candidates_of("latency_bound", view)])
    # One made-up block whose warp sleeps: neither more blocks nor fewer waits for memory help.
    small = {"grid_size": 1, "block_size": 32, "waves_per_sm": 0.001} | active(1 / 132)
    for asleep, variant in ((2.0, "ampere"), (4000.0, "sleep")):
        states = {"sleeping": asleep, "long_scoreboard": 20.0, "selected": 1.0}
        view = LaunchView(made_up({"l2": 0.1, "issue_slots": 0.1}, states, None, **small))
        (latency,), found = candidates_of("latency_bound", view), gains(view)
        assert (latency.variant, latency.is_open) == (variant, variant == "sleep")
        assert (found["small_grid"] > 3) is (variant == "ampere")
        found.pop("latency_bound" if variant == "sleep" else "small_grid")
        assert variant == "ampere" or max(found.values()) < 1.1


def test_the_gain_of_fp32_follows_from_the_rate_and_the_time_of_fp64(wording) -> None:
    ratios = ({}, {"device_fp32_fp64_ratio": 64})
    h200, slow = (LaunchView(made_up({"fp64": 85.0}, **ratio)) for ratio in ratios)
    assert (single_over_double(h200), single_over_double(slow)) == (2, 64)
    assert gains(slow)["low_precision_possible"] > 3 * gains(h200)["low_precision_possible"]
    # With 128 FP32 and 2 FP64 lanes per SM, the driver says 32.
    view = LaunchView(made_up({"fp64": 85.0}, device=GEFORCE, device_fp32_fp64_ratio=32))
    assert single_over_double(view) == 64
    (found,) = candidates_of("low_precision_possible", view)
    wording(found.text)
    # On a GPU with a low FP64 rate, also where the pipe is not the busiest unit. Few double
    # instructions keep such a pipe busy.
    by_pipe = [of_fp64(busy, 64) for busy in (2.0, 12.0, 41.0, 85.0)]
    assert by_pipe == sorted(by_pipe)
    assert by_pipe[1] < CLEAR < 1.5 < by_pipe[2] < 4 < by_pipe[3]
    counted = {"opcodes": {"DFMA": 2, "FFMA": 998}, "inst_executed": 1000}
    assert of_fp64(41.0, 64, **counted) == pytest.approx(by_pipe[2], rel=0.05)
    assert of_fp64(12.0, 2) == 1.0


def of_fp64(busy: float, ratio: float, **counted: object) -> float:
    """Gain of FP32 in an edited launch; `busy`: percent of the FP64 pipe's peak."""
    launch = made_up({"fp64": busy, "issue_slots": 20.0}, device_fp32_fp64_ratio=ratio, **counted)
    return gains(LaunchView(launch), "low_precision_possible").get("low_precision_possible", 1.0)


@needs_corpus
@pytest.mark.slow
def test_more_blocks_gain_only_if_there_is_parallel_work() -> None:
    """One block of 32 warps works on diagonals of 4 warps at most, between 219 barriers."""
    view = LaunchView(public_launch("victor", 1), reads_code=True)
    assert working_part(view) == pytest.approx(492 / 7008, rel=0.01)
    found = gains(view)
    assert found["small_grid"] < 2 < found["barrier_bound"]


def with_atomics(sectors: float, l2: float = 6.0, loads: float = 12.5e6) -> Launch:
    """A made-up launch with 1.57 million atomics, whose warps wait in the queue."""
    states = {"lg_throttle": 1866.0, "long_scoreboard": 600.0, "wait": 20.0, "selected": 1.0}
    counted = {"global_reduction_inst": 1.57e6, "global_reduction_sectors": sectors}
    counted |= {"global_load_sectors": loads, "global_store_sectors": 0.0}
    units = {"l1": 6.0, "l2": l2, "dram": 2.0, "issue_slots": 0.3}
    return made_up(units, states, None, **counted)


def of_atomics(*amounts: float, **others: float) -> float:
    kind, view = "atomic_contention", LaunchView(with_atomics(*amounts, **others))
    return gains(view, kind).get(kind, 1.0)


def test_contended_atomics() -> None:
    assert "latency_bound" in {each.id for each in diagnose(with_atomics(1.57e6)).findings}
    found = diagnose(with_atomics(32 * 1.57e6)).findings
    assert [each.id for each in found] == ["atomic_contention"]
    assert of_atomics(50.2e6) > 4
    assert of_atomics(6.28e6) == 1.0  # coalesced: four sectors each
    assert of_atomics(50.2e6, loads=100 * 50.2e6) < CLEAR  # rare among other accesses
    assert of_atomics(50.2e6, l2=60.0) == 1.0  # scattered: L2 is busy
    rising = [of_atomics(1.57e6 * 16 * 1.02**step) for step in range(36)]
    assert rising == sorted(rising)
    assert max(after / before for before, after in pairwise(rising)) < 1.1**2
