"""Candidates: each kind in a real report that has it, and none in a report that only looks so."""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise

import pytest

from keet.analysis.candidate import MAX_GAIN, Candidate
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.forecast import possible_gain
from keet.findings import findings
from keet.profile import Launch
from keet.profile.metric import Value
from keet.verification.grounding import check_grounding
from kernels_samples.casebook.cases import Case, load_cases
from kernels_samples.samples import Sample, load_samples
from tests.rows import each_row
from tests.unit.analysis.changed_launch import changed, profile_of
from tests.unit.analysis.made_up_launch import made_up

CASES: dict[str, Case] = {case.id: case for case in load_cases() if case.split == "work"}
SAMPLES: dict[str, Sample] = {sample.name: sample for sample in load_samples()}
CLEAR = 1.15
"""Times faster: a look-alike must stay below, a cause must not."""

BY_CODE = ("redundant_traffic", "integer_overhead", "uncoalesced_global", "narrow_access")
"""Kinds that the machine code shows in part. Analysing it takes most of the time."""

# A kind of cause, a report with it, and one that looks like it but has another limit. A case of the
# casebook is its side before the fix; `sample:variant` is a sample.
KINDS = [
    ("atomic_contention", "graph_bfs/social_queue", "gemv/atomic_sums"),
    ("atomic_contention", "histogram/common_class", "histogram/spread_classes"),
    ("barrier_bound", "scan/tiles_one_thread", "layernorm/tree_over_long_rows"),
    ("fp64_promotion", "stencil2d/double_exponentials", "stencil2d/one_double_constant"),
    ("instruction_fetch", "interpreter/generated_operations_u32", "interpreter/two_operations"),
    ("integer_overhead", "stencil2d/remainders", "stencil2d/one_division"),
    ("l2_partition_imbalance", "table_lookup/cancel_word", "status_flags/cancel_word_now_and_then"),
    ("latency_bound", "spmv_ell/few_rows_both", "spmv_ell/waiting_for_dram"),
    ("launch_bound", "batched_gemm/groups", "gemm_f32/few_tiles"),
    ("load_imbalance", "graph_bfs/social_hubs", "sparse_apply:fast"),
    ("local_memory_spill", "fft/array_of_points", "fem_assembly/spills_beside_arithmetic"),
    ("low_precision_possible", "nbody/double_throughout", "heat_steps/doubles_beside_dram"),
    ("narrow_access", "bit_unpack/nibbles_narrow", "embedding_bag/float_a_lane"),
    ("no_tensor_core", "attention/half_on_fma", "half_dense:fast"),
    ("occupancy_limited_block", "gemv/one_warp_blocks", "monte_carlo/blocks_of_a_warp"),
    ("occupancy_limited_registers", "gather_scatter/solver_inside_random", "spmv_ell/many_registers"),
    ("occupancy_limited_shared", "stencil2d/tall_tiles", "triton_matmul/one_program_a_processor"),
    ("pcie_or_nvlink_traffic", "table_lookup/table_in_host_memory", "host_stream/sums_to_the_host"),
    ("pipe_saturated", "tap_filter:slow", "token_mix:fast"),
    ("redundant_traffic", "spmv_ell/few_rows_passes", "nbody/sources_from_global"),
    ("redundant_traffic", "gather_scatter/records_passes", "triton_matmul/middle_tiles"),
    ("sfu_bound", "quant_elementwise/silu_special_functions", "quant_elementwise/gelu_exponentials"),
    ("shared_bank_conflict", "sort_passes/lists_pitch_16", "transpose/padded_by_two"),
    ("small_grid", "histogram/few_blocks", "reduce_rows/most_sms_suffice"),
    ("tail_effect", "nbody/one_block_too_many", "ode_batch/seventeenth_wave"),
    ("uncoalesced_global", "transpose/column_stores", "table_lookup/gather_behind_arithmetic"),
    ("warp_divergence", "interpreter/mixed_programs", "decay_ratios:fast"),
]  # fmt: skip


def launch_of(name: str) -> Launch:
    if ":" in name:
        sample, variant = name.split(":")
        launches = profile_of(SAMPLES[sample].report(variant)).launches
        return next(x for x in launches if x.name.function == SAMPLES[sample].kernel)
    case = CASES[name]
    return case.launch(profile_of(case.profile_path(case.spec.before)))


def candidates_of(view: LaunchView, model: TimeModel) -> list[Candidate]:
    return [candidate for spec in findings().values() for candidate in spec.candidates(view, model)]


def largest(candidates: list[Candidate], model: TimeModel) -> dict[str, float]:
    """The largest gain of each kind."""
    gains: dict[str, float] = {}
    for candidate in candidates:
        gains[candidate.id] = max(possible_gain(candidate, model), gains.get(candidate.id, 1.0))
    return gains


@cache
def gains_of(name: str, *, reads_code: bool) -> dict[str, float]:
    view = LaunchView(launch_of(name), reads_code=reads_code)
    model = TimeModel(view)
    found = candidates_of(view, model)
    for candidate in found:
        _check(candidate, model)
    return largest(found, model)


def _check(candidate: Candidate, model: TimeModel) -> None:
    assert candidate.id in findings()
    assert candidate.text.endswith(".")
    grounding = check_grounding(candidate.text, candidate.evidence, launch=model.view.launch)
    assert grounding.all_supported, (candidate.text, grounding.unsupported)
    assert 1 <= possible_gain(candidate, model) <= MAX_GAIN
    effect = candidate.effect
    if isinstance(effect, Effect):
        factors = (*effect.units.values(), *effect.waits.values(), effect.every_wait)
        assert all(0 <= factor <= 1 for factor in (*factors, effect.longest_sm, effect.least))
        assert all(0 <= load <= 1 for load in effect.moved.values())


@each_row(("kind", "report"), [row[:2] for row in KINDS], few=5)
def test_a_planted_cause_is_a_candidate(kind: str, report: str) -> None:
    assert gains_of(report, reads_code=kind in BY_CODE)[kind] >= CLEAR


@each_row(("kind", "report"), [(kind, like) for kind, _, like in KINDS], few=5)
def test_a_look_alike_has_a_small_forecast(kind: str, report: str) -> None:
    assert gains_of(report, reads_code=kind in BY_CODE).get(kind, 1.0) < CLEAR


def test_every_candidate_kind_occurs_in_a_report() -> None:
    rooflines = {"at_dram_roofline", "at_compute_roofline"}
    assert {kind for kind, _, _ in KINDS} == findings().keys() - rooflines


def test_without_metrics_there_is_no_candidate() -> None:
    view = LaunchView(changed(launch_of("matrix_flip:slow"), lambda name, value: None))
    assert candidates_of(view, TimeModel(view)) == []


# --- smoothness at the edge of a kind


def test_the_cost_of_a_launch_fades_with_its_duration() -> None:
    """No duration from which on it is suddenly no cause."""
    gains = [_launch_cost(2200 * 1.01**step) for step in range(300)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 2
    assert gains[-1] == 1
    assert max(before / after for before, after in pairwise(gains)) < 1.06


def _launch_cost(nanoseconds: float) -> float:
    view = LaunchView(made_up({}, duration=nanoseconds, grid_size=100))
    model = TimeModel(view)
    made = findings()["launch_bound"].candidates(view, model)
    return max((possible_gain(each, model) for each in made), default=1.0)


@pytest.mark.slow
def test_a_change_of_one_percent_changes_no_gain_by_more_than_ten_percent() -> None:
    """L1 and the issue slots of this launch are equally busy, to 1 %: each may be the busiest."""
    launch = launch_of("mechanism_rates:fast")
    view, before = _gains(launch)
    measured = {each.metric for each in view.ledger if not each.derived_from}
    moved = [name for name in measured if not name.startswith(("launch__", "device__"))]
    assert len(moved) > 50
    for metric in moved:
        for factor in (0.99, 1.01):
            after = _gains(changed(launch, partial(_times, metric, factor)))[1]
            for kind in before | after:
                ratio = after.get(kind, 1.0) / before.get(kind, 1.0)
                assert 0.9 < ratio < 1.1, (metric, factor, kind)


def _times(metric: str, factor: float, name: str, value: Value) -> Value:
    return value * factor if name == metric and isinstance(value, int | float) else value


def _gains(launch: Launch) -> tuple[LaunchView, dict[str, float]]:
    view = LaunchView(launch)
    model = TimeModel(view)
    return view, largest(candidates_of(view, model), model)


def test_blocks_that_end_as_fast_as_they_start_are_named() -> None:
    """Few warps are resident though many fit and there are blocks enough."""
    held = {"theoretical_occupancy_pct": 100.0, "waves_per_sm": 20.0, "grid_size": 40_000}
    states = {"long_scoreboard": 20.0, "wait": 2.0, "selected": 1.0}
    for reached, executed, least in ((25.0, 8e6, 1.5), (85.0, 8e6, 1.0), (25.0, 8e8, 1.0)):
        launch = made_up(
            {"dram": 20.0},
            states,
            achieved_occupancy_pct=reached,
            inst_executed=executed,
            block_size=64,
            **held,
        )
        view = LaunchView(launch)
        found = list(findings()["occupancy_limited_block"].candidates(view, TimeModel(view)))
        gains = [possible_gain(each, TimeModel(view)) for each in found]
        assert max(gains, default=1.0) >= least
        assert max(gains, default=1.0) < 1.1 or least > 1


def test_a_warp_that_has_ended_has_no_next_instruction() -> None:
    said = {}
    for state in ("drain", "long_scoreboard"):
        view = LaunchView(made_up({"dram": 30.0}, {state: 20.0, "selected": 1.0}))
        (found,) = findings()["latency_bound"].candidates(view, TimeModel(view))
        said[state] = found.text
    assert said["drain"].endswith("waits for outstanding memory operations after EXIT.")
    assert said["long_scoreboard"].endswith(" before its next instruction.")
