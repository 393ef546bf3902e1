"""Faults that readers of public reports found: each with a launch of ours, edited where it says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keet.analysis.account import account_of
from keet.analysis.decisions.saturated import while_active
from keet.analysis.facts import global_memory, grid, on_chip
from keet.analysis.kernel.inactive_threads import uneven_trips
from keet.analysis.kernel.library import users_function
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import HOT_LINE, TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.explanation import headline
from keet.explanation.busy_units import leading_units
from keet.findings import findings
from keet.profile import Launch, Location
from keet.profile.metric import Value
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import (
    changed,
    launch_of,
    profile_of,
    public_launch,
    public_profile,
)


def without_slices(name: str) -> Launch:
    """As if the slices of L2 had not been measured one by one, as in older reports."""

    def change(metric: str, value: Value) -> Value:
        return None if re.match(r"lts__.*\.(max|min)\b", metric) else value

    return changed(launch_of(name), change)


@each_row("case", ["energy_tally/add_per_warp", "vote_grid/sum_of_each_warp"])
def test_atomics_on_one_address_show_without_counters_of_single_slices(case: str) -> None:
    model = TimeModel(LaunchView(without_slices(case), reads_code=True))
    assert model.loads[HOT_LINE] > 0.9
    first = diagnose(without_slices(case)).findings[0]
    assert first.id == "atomic_contention"
    assert "on one address" in str(first.text)


@each_row(
    "case", ["histogram/spread_classes", "gemv/atomic_sums", "energy_tally/mesh_in_two_rounds"]
)
def test_atomics_on_many_addresses_are_no_hot_slice(case: str) -> None:
    model = TimeModel(LaunchView(without_slices(case), reads_code=True))
    assert HOT_LINE not in model.loads


def test_few_atomics_on_one_address_are_no_limit() -> None:
    found = diagnose(without_slices("energy_tally/add_per_block"))
    assert found.model.loads[HOT_LINE] < 0.3
    assert "atomic_contention" not in [each.id for each in found.findings]


@each_row("fact, yes, no", [
    (on_chip.atomics_one_address, "energy_tally/add_per_block", None),
    (on_chip.one_atomic_per_block, None, "energy_tally/add_per_warp"),
    # Several addresses with an update per block are one update each.
    (on_chip.one_atomic_per_block, "telemetry_rollup/totals_from_every_block",
     "telemetry_rollup/totals_from_every_warp"),
    # Only atomics whose result is used take numbers.
    (on_chip.atomics_return, "mask_compact/counter_per_warp", "energy_tally/add_per_warp"),
])  # fmt: skip
def test_facts_about_atomics(fact, yes, no) -> None:
    assert yes is None or fact.test(LaunchView(launch_of(yes), reads_code=True))
    assert no is None or not fact.test(LaunchView(launch_of(no), reads_code=True))


def test_gains_that_may_be_nothing_and_those_of_short_kernels() -> None:
    for name in ("mask_compact/rare_hits", "energy_tally/add_per_warp", "key_count", "fan_update"):
        for finding in diagnose(launch_of(name)).findings:
            assert finding.cause_certainty != "certain" or finding.forecast.low > 1
    for name in ("vote_grid/sum_of_each_warp", "energy_tally/add_per_warp", "key_count"):
        found = diagnose(launch_of(name))
        for each in found.findings:
            assert each.forecast.high * found.model.start <= 1.01


def test_indexed_constants_are_told_from_barriers_by_their_cache() -> None:
    """The kernel's many barriers keep the ADU pipe busy; edited so that constants do. Barriers beside
    a busy L1 are no loads of constants."""

    def change(metric: str, value: Value) -> Value:
        return 88.0 if metric.startswith("idc__request_cycles_active") else value

    own = launch_of("scan_rows")
    assert diagnose(own).findings[0].id == "barrier_bound"
    first = diagnose(changed(own, change)).findings[0]
    assert (first.id, first.variant) == ("pipe_saturated", "ADU/constants")
    assert "constant memory" in str(first.advice)
    first = diagnose(launch_of("tap_filter")).findings[0]
    assert first.id == "pipe_saturated"
    assert "ADU" not in str(first.text)


def test_divisions_are_counted_by_their_opcodes() -> None:
    """Edited: without the counters of integer instructions, as in smaller sets."""

    def change(metric: str, value: Value) -> Value:
        return None if "thread_inst_executed_op_integer" in metric else value

    launch = changed(launch_of("pool_depthwise/flat_index"), change)
    found = {each.id: each for each in diagnose(launch, reads_code=False).findings}
    assert "divide integers" in str(found["integer_overhead"].text)


def test_a_line_of_the_user_is_before_one_of_the_toolkit_with_a_similar_part() -> None:
    header = Location("/usr/local/cuda/include/cuda_fp16.hpp", 1517)
    own, small = Location("/home/me/conv.cu", 88), Location("/home/me/conv.cu", 12)
    view = LaunchView(launch_of("key_count"))
    parts: list[dict[Location | None, int]] = [{header: 31, own: 30}, {header: 90, small: 10}]
    first = [view._largest("samples", amounts)[0].file for amounts in parts]
    assert first == [own.file, header.file]


@each_row("argument, expected", [
    ("Z4mainEUlRKiE_", "a lambda"),
    ("ZN3sim4stepERNS_4GridEEUliE_", "a lambda"),
    ("ZN6Kokkos4Impl4fillEvEUliE_", None),
    ("NS_4Impl4CopyE", None),
])  # fmt: skip
def test_a_lambda_in_a_mangled_name_is_the_users(argument: str, expected: str | None) -> None:
    start = "_ZN6Kokkos4ImplL33cuda_parallel_launch_local_memoryINS0_11ParallelForI"
    name = f"{start}{argument}NS_11RangePolicyIJNS_4CudaEEEES7_EEEvT_"
    assert users_function(name) == expected


def test_where_few_sms_work_the_headline_has_the_share_of_those() -> None:
    """A made-up launch: 0.6 % of the GPU's FP64 pipes are 80 % of those of one SM."""
    launch = made_up(
        {"fp64": 80.0 / 132, "dram": 0.1},
        duration=1e6,
        elapsed_cycles=ELAPSED,
        sm_active_cycles=ELAPSED / 132,
        sm_active_cycles_max=ELAPSED,
        grid_size=1,
    )
    found = diagnose(launch)
    shown = while_active(found.view, found.model)
    assert round(float(shown.value)) == 80
    said = "the FP64 pipe is at 80% of its peak on the SMs that work"
    assert str(headline._busy(found, leading_units(found))) == said


def test_scattered_atomics_are_named_where_the_gain_counts_them() -> None:
    """impact.cu gathers at 245 to 247 and adds to the same indices at 255 to 257; 79 % of the
    sectors of L2 are those of the atomics."""
    found = diagnose(profile_of(Path("evals/amounts/programs/impact.ncu-repz")).launches[1])
    finding = found.findings[0]
    assert finding.id == "uncoalesced_global"
    assert {place.line for place in finding.locations} & {255, 256, 257}
    share = next(each for each in finding.evidence if each.metric == "excess_sectors_share")
    assert share.value > 60


@needs_corpus
def test_shared_accesses_are_placed_where_they_are_and_constants_named_beside_them() -> None:
    first = diagnose(public_launch("Swagatam1812", 3)).findings[0]
    assert first.variant == "L1/shared"
    assert [place.line for place in first.locations] == [268]
    assert first.locations[0].share > 0.9
    assert "ADU pipe limits, too" in str(first.text)
    assert "conv_kernels.cu:269" in str(first.text)
    assert first.advice.variant == "shared_and_constants"


@needs_corpus
def test_full_warps_save_no_more_than_inactive_threads_and_waiting_show() -> None:
    """Nested loops, of which the outer one ends late for few threads: 23.8 of 32 are active."""
    launch = public_launch("bwd29__", 1)
    left = uneven_trips(LaunchView(launch, reads_code=True)).executed
    assert 23.7 / 32 - 0.05 < left < 1
    first = diagnose(launch).findings[0]
    assert first.id == "warp_divergence"
    assert first.forecast.likely < 1.7
    assert "numbers of iterations" in str(first.text)
    assert "wait" in str(first.text)


@pytest.mark.slow
@needs_corpus
def test_a_forecast_leaves_the_time_in_which_no_sm_is_active() -> None:
    """A histogram: no SM is active for 10 % of 44 us, although a slice of L2 is."""
    found = diagnose(public_launch("hzchenxiaobin__ai-infra-notes--profiling__week2__day6"))
    start = found.account.part("launch")
    most = 100 / float(start.percent.value)
    assert found.findings[0].id == "atomic_contention"
    assert found.findings[0].forecast.likely <= found.findings[0].forecast.high <= most + 0.01
    assert found.findings[0].advice is not None
    assert "many items each" in found.findings[0].action


@needs_corpus
def test_a_fusion_that_is_only_possible_is_not_what_limits_a_launch() -> None:
    launches = public_profile("NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_Baseline").launches
    found = diagnose(launches[2], launches)
    said = str(headline.verdict_of(found).headline)
    assert "FP64 pipe is at 70%" in said
    assert "reciprocals or roots" in said
    assert "miniWeather_mpi_openacc.F90:288 (46%)" in said
    assert "possible cause: redundant" not in said
    (fusion,) = (each for each in found.findings if each.variant == "hand_over")
    assert fusion.forecast.likely <= fusion.forecast.high <= 1.4


@each_row("case, least, most", [
    # `start[row]` and `start[row + 1]` are two reads of one array; how many bytes the rows have is
    # not known.
    ("sparse_apply", 1.0, 1.05),
    ("graph_bfs/social_queue", 1.0, 1.05),
    ("embedding_bag/long_bags", 1.0, 1.05),
    ("gather_scatter/records_passes", 2.0, 4.1),  # four passes: each byte was said to be read 43.8 times
])  # fmt: skip
def test_reads_of_dram_per_byte(case: str, least: float, most: float) -> None:
    view = LaunchView(launch_of(case), reads_code=True)
    found = [
        float(each.value)
        for candidate in findings()["redundant_traffic"].candidates(view, TimeModel(view))
        for each in candidate.evidence
        if each.metric == "dram_reads_per_byte"
    ]
    assert least <= (found[0] if found else 1.0) < most


@each_row("case, is_misaligned", [
    ("tile_smooth", True),
    ("heat_steps/a_pass_each_step", True),
    ("pool_depthwise/flat_index", True),
    ("matrix_flip", False),
    ("lookup_records", False),
    ("transpose/column_stores", False),
])  # fmt: skip
def test_neighbouring_bytes_that_begin_within_a_sector_are_misaligned(case, is_misaligned) -> None:
    view = LaunchView(launch_of(case), reads_code=True)
    found = [*findings()["uncoalesced_global"].candidates(view, TimeModel(view))]
    assert {each.variant == global_memory.MISALIGNED for each in found} <= {is_misaligned}
    if is_misaligned:
        assert "neighbouring bytes already" in found[0].text
        assert len(found) == 1


def with_warps_held(name: str, part: float) -> Launch:
    """As if SMs held this part of the warps, because most blocks or warps end early."""

    def change(metric: str, value: Value) -> Value:
        is_held = metric.startswith("sm__warps_active.avg.pct_of_peak")
        return value * part if is_held and value is not None else value

    return changed(launch_of(name), change)


@each_row("case", ["tile_scores", "attention/last_three_blocks", "ode_batch/third_wave"], few=1)
def test_a_last_wave_of_equal_blocks_is_certain(case: str) -> None:
    found = {each.id: each for each in diagnose(launch_of(case)).findings}
    assert found["tail_effect"].cause_certainty == "certain"
    assert found["tail_effect"].variant != grid.ANY_LENGTH


@each_row("case", ["tile_scores", "attention/last_three_blocks"])
def test_a_last_wave_is_only_possible_where_blocks_end_early(case: str) -> None:
    view = LaunchView(with_warps_held(case, 0.25), reads_code=True)
    (found,) = findings()["tail_effect"].candidates(view, TimeModel(view))
    assert found.variant == grid.ANY_LENGTH
    assert found.likelihood < 1


@pytest.mark.slow
def test_blocks_of_unequal_length_are_no_certain_tail() -> None:
    """Two waves, and rows of very different lengths."""
    diagnosis = diagnose(launch_of("cell_list/droplets_cells"))
    found = {each.id: each for each in diagnosis.findings}
    assert found["load_imbalance"].cause_certainty == "certain"
    assert found["tail_effect"].cause_certainty == "possible"


@each_row("case", ["decimal_columns/quotients_per_row", "halo_filter/one_pixel_per_thread"])
def test_divisions_are_named_where_they_are_a_part_of_a_share(case: str, wording) -> None:
    view = LaunchView(launch_of(case), reads_code=True)
    found = [*findings()["integer_overhead"].candidates(view, TimeModel(view))][-1]
    assert "overhead_share" in {each.metric for each in found.evidence}
    wording(found.text, case=case)


@pytest.mark.slow
@each_row("case", ["telemetry_rollup/totals_from_every_warp", "walsh_rows/twelve_passes"])
def test_shared_memory_is_named_in_the_account_where_it_is_accessed(case: str) -> None:
    view = LaunchView(launch_of(case), reads_code=True)
    part = account_of(view, TimeModel(view)).part("waiting.latency.shared")
    assert ("shared memory" in part.part) == (case.startswith("walsh_rows"))


@each_row("case", ["seed_extend/long_matches_among_short"])
def test_what_equal_trips_save_is_not_what_regrouping_saves(case: str, wording) -> None:
    view = LaunchView(launch_of(case), reads_code=True)
    found = next(iter(findings()["warp_divergence"].candidates(view, TimeModel(view))))
    saved = {each.metric: float(each.value) for each in found.evidence}
    assert saved["loops_even"] > saved["loops_executed"] > 0
    trips = uneven_trips(view)
    assert saved["loops_even"] == pytest.approx(100 * (1 - trips.even))
    wording(found.text, case=case)
