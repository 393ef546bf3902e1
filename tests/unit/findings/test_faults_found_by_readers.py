"""What readers of public reports found to be wrong: each with a launch of ours, edited where it says so."""

from dataclasses import replace
from pathlib import Path

import pytest

from keet.analysis.account import account_of
from keet.analysis.decisions.saturated import while_active
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.memory_work import global_loads_part, global_part
from keet.analysis.parallelism.inactive_threads import uneven_trips
from keet.analysis.remedy_conditions import global_memory, grid, on_chip, waits
from keet.analysis.time_model import HOT_LINE, TimeModel
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.documents.finding import Forecast
from keet.explanation import headline
from keet.explanation.analyst import _healthy, minor_defect
from keet.explanation.finding_notes import forecast_text
from keet.explanation.headline import _headline, leading_units, verdict_of
from keet.profile import Device, Instances, KernelName, Launch, Location, RawMetric
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import GEFORCE, active, made_up
from tests.unit.analysis.real_launches import (
    ChangedData,
    candidates_of,
    changed,
    code_view,
    launch_of,
    profile_of,
    public_launch,
    public_profile,
    without,
)


def without_slices(name: str) -> Launch:
    """As if the slices of L2 had not been measured one by one, as in older reports."""
    return without(launch_of(name), r"^lts__.*\.(max|min)\b")


ONE_SM = {"grid_size": 1} | active(1 / 132)


@each_row("case, is_hot", [
    ("energy_tally/add_per_warp", True), ("vote_grid/sum_of_each_warp", True),
    ("histogram/spread_classes", False), ("gemv/atomic_sums", False),
    ("energy_tally/mesh_in_two_rounds", False),
])  # fmt: skip
def test_atomics_on_one_address_show_without_counters_of_single_slices(case, is_hot) -> None:
    model = TimeModel(LaunchView(without_slices(case), reads_code=True))
    assert model.loads.get(HOT_LINE, 0) > 0.9 if is_hot else HOT_LINE not in model.loads
    if is_hot:
        assert diagnose(without_slices(case)).findings[0].id == "atomic_contention"


def test_atomics_by_their_gain() -> None:
    found = diagnose(without_slices("energy_tally/add_per_block"))
    assert found.model.loads[HOT_LINE] < 0.3
    assert "atomic_contention" not in [each.id for each in found.findings]
    for name in ("mask_compact/rare_hits", "energy_tally/add_per_warp", "key_count", "fan_update"):
        found = diagnose(launch_of(name))
        for each in found.findings:
            assert each.cause_certainty != "certain" or each.forecast.low > 1
            assert each.forecast.high * found.model.start <= 1.01
    # impact.cu gathers at 245 to 247 and adds to the same indices at 255 to 257; 79 % of the
    # sectors of L2 are those of the atomics.
    found = diagnose(profile_of(Path("evals/amounts/programs/impact.ncu-repz")).launches[1])
    finding = found.findings[0]
    assert finding.id == "uncoalesced_global"
    assert {place.line for place in finding.locations} & {255, 256, 257}
    share = next(each for each in finding.evidence if each.metric == "excess_sectors_share")
    assert share.value > 60


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
    assert yes is None or fact.test(code_view(yes))
    assert no is None or not fact.test(code_view(no))


def test_divisions_and_indexed_constants() -> None:
    # The kernel's many barriers keep the ADU pipe busy; edited so that constants do. Barriers
    # beside a busy L1 are no loads of constants.
    own, busy = launch_of("scan_rows"), "idc__request_cycles_active"
    assert diagnose(own).findings[0].id == "barrier_bound"
    constants = changed(own, lambda name, value: 88.0 if name.startswith(busy) else value)
    for launch, is_of_constants in ((constants, True), (launch_of("tap_filter"), False)):
        first = diagnose(launch).findings[0]
        assert first.id == "pipe_saturated"
        assert (first.variant == "ADU/constants") is is_of_constants
    # Edited: without the counters of integer instructions, as in smaller sets.
    launch = without(launch_of("pool_depthwise/flat_index"), "thread_inst_executed_op_integer")
    found = [each.id for each in diagnose(launch, reads_code=False).findings]
    assert "integer_overhead" in found


def test_a_line_of_the_user_is_before_one_of_the_toolkit_with_a_similar_part() -> None:
    header = Location("/usr/local/cuda/include/cuda_fp16.hpp", 1517)
    own, small = Location("/home/me/conv.cu", 88), Location("/home/me/conv.cu", 12)
    view = LaunchView(launch_of("key_count"))
    parts: list[dict[Location | None, int]] = [{header: 31, own: 30}, {header: 90, small: 10}]
    first = [view._largest("samples", amounts)[0].file for amounts in parts]
    assert first == [own.file, header.file]


def test_where_few_sms_work_the_headline_has_the_share_of_those(wording) -> None:
    """A made-up launch: 0.6 % of the GPU's FP64 pipes are 80 % of those of one SM."""
    launch = made_up({"fp64": 80.0 / 132, "dram": 0.1}, duration=1e6, **ONE_SM)
    found = diagnose(launch)
    assert round(float(while_active(found.view, found.model).value)) == 80
    wording(headline._busy(found, leading_units(found)))


@needs_corpus
def test_reports_of_the_corpus() -> None:
    # A convolution with the ADU pipe at 96 %, and L1 at 99 %.
    found = diagnose(public_launch("Swagatam1812", 3))
    first = found.findings[0]
    assert (first.variant, first.advice.variant) == ("L1/shared", "shared_and_constants")
    assert [place.line for place in first.locations] == [268]
    assert first.locations[0].share > 0.9
    found = diagnose(public_launch("Swagatam1812"))
    assert minor_defect(found.view, found.minor).startswith("49% of the ")
    # Nested loops, of which the outer one ends late for few threads: 23.8 of 32 are active.
    launch = public_launch("bwd29__", 1)
    left = uneven_trips(LaunchView(launch, reads_code=True)).executed
    assert 23.7 / 32 - 0.05 < left < 1
    first = diagnose(launch).findings[0]
    assert first.id == "warp_divergence"
    assert first.forecast.likely < 1.7
    launches = public_profile("NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_Baseline").launches
    found = diagnose(launches[2], launches)
    assert "miniWeather_mpi_openacc.F90:288 (46%)" in verdict_of(found).headline
    (fusion,) = (each for each in found.findings if each.variant == "hand_over")
    assert fusion.forecast.likely <= fusion.forecast.high <= 1.4


@pytest.mark.slow
@needs_corpus
def test_a_forecast_leaves_the_time_in_which_no_sm_is_active() -> None:
    """A histogram: no SM is active for 10 % of 44 us, although a slice of L2 is."""
    found = diagnose(public_launch("hzchenxiaobin__ai-infra-notes--profiling__week2__day6"))
    first, start = found.findings[0], found.account.part("launch")
    most = 100 / float(start.percent.value)
    assert first.id == "atomic_contention"
    assert first.forecast.likely <= first.forecast.high <= most + 0.01


@each_row("case, least, most", [
    # `start[row]` and `start[row + 1]` are two reads of one array; how many bytes the rows have is
    # not known.
    ("sparse_apply", 1.0, 1.05),
    ("graph_bfs/social_queue", 1.0, 1.05),
    ("embedding_bag/long_bags", 1.0, 1.05),
    ("gather_scatter/records_passes", 2.0, 4.1),  # four passes: each byte was said to be read 43.8 times
])  # fmt: skip
def test_reads_of_dram_per_byte(case: str, least: float, most: float) -> None:
    view = code_view(case)
    found = [
        float(each.value)
        for candidate in candidates_of("redundant_traffic", view)
        for each in candidate.evidence
        if each.metric == "dram_reads_per_byte"
    ]
    assert least <= (found[0] if found else 1.0) < most


@each_row("case, is_misaligned", [
    ("tile_smooth", True), ("heat_steps/a_pass_each_step", True),
    ("pool_depthwise/flat_index", True), ("matrix_flip", False), ("lookup_records", False),
    ("transpose/column_stores", False),
])  # fmt: skip
def test_neighbouring_bytes_that_begin_within_a_sector_are_misaligned(case, is_misaligned) -> None:
    view = code_view(case)
    found = [*candidates_of("uncoalesced_global", view)]
    assert {each.variant == global_memory.MISALIGNED for each in found} <= {is_misaligned}
    assert not is_misaligned or len(found) == 1


def test_a_last_wave_of_equal_blocks_is_certain() -> None:
    """It is only possible where blocks end early."""
    found = {each.id: each for each in diagnose(launch_of("tile_scores")).findings}
    assert found["tail_effect"].cause_certainty == "certain"
    assert found["tail_effect"].variant != grid.ANY_LENGTH
    # As if SMs held a quarter of the warps, because most blocks or warps end early.
    held = "sm__warps_active.avg.pct_of_peak"
    few = changed(launch_of("tile_scores"), lambda name, v: v / 4 if name.startswith(held) else v)
    (early,) = candidates_of("tail_effect", LaunchView(few, reads_code=True))
    assert early.variant == grid.ANY_LENGTH
    assert early.likelihood < 1


@pytest.mark.slow
def test_blocks_of_unequal_length_are_no_certain_tail() -> None:
    """Two waves, and rows of very different lengths."""
    found = diagnose(launch_of("cell_list/droplets_cells")).findings
    certainty = {finding.id: finding.cause_certainty for finding in found}
    assert (certainty["load_imbalance"], certainty["tail_effect"]) == ("certain", "possible")


@each_row("case", ["decimal_columns/quotients_per_row", "halo_filter/one_pixel_per_thread"])
def test_divisions_are_named_where_they_are_a_part_of_a_share(case: str, wording) -> None:
    view = code_view(case)
    found = [*candidates_of("integer_overhead", view)][-1]
    assert "overhead_share" in {each.metric for each in found.evidence}
    wording(found.text, case=case)


@pytest.mark.slow
@each_row("case, is_named", [
    ("telemetry_rollup/totals_from_every_warp", False), ("walsh_rows/twelve_passes", True),
])  # fmt: skip
def test_shared_memory_is_named_in_the_account_where_it_is_accessed(case, is_named) -> None:
    view = code_view(case)
    part = account_of(view, TimeModel(view)).part("waiting.latency.shared")
    assert ("shared memory" in part.part) is is_named


def test_what_equal_trips_save_is_not_what_regrouping_saves(wording) -> None:
    view = code_view("seed_extend/long_matches_among_short")
    found = next(iter(candidates_of("warp_divergence", view)))
    saved = {each.metric: float(each.value) for each in found.evidence}
    assert saved["loops_even"] > saved["loops_executed"] > 0
    assert saved["loops_even"] == pytest.approx(100 * (1 - uneven_trips(view).even))
    wording(found.text)


def gain_of(diagnosis: Diagnosis, finding: str) -> float:
    found = [each for each in (*diagnosis.findings, *diagnosis.minor) if each.id == finding]
    return max((each.forecast.likely for each in found), default=1.0)


def test_narrow_accesses_and_predicated_threads() -> None:
    launch = launch_of("bit_unpack/nibbles_narrow")
    before = diagnose(launch)
    assert before.findings[0].id == "narrow_access"
    # An edited snapshot: with many local loads and stores.
    accesses = "smsp__sass_inst_executed_op_local_"
    after = diagnose(changed(launch, lambda name, v: 1e12 if name.startswith(accesses) else v))
    assert gain_of(after, "narrow_access") < 1 + (gain_of(before, "narrow_access") - 1) / 2
    # An edited snapshot: nearly all threads are active, and most of them are predicated off.
    launch, on = (
        launch_of("tap_filter"),
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    )
    edited = changed(launch, lambda name, value: 19.3 if name == on else value)
    for each, told in ((launch, True), (edited, False)):
        notes = [str(note.text) for note in _healthy(LaunchView(each), set())]
        assert any("predicated" in text for text in notes) is told


def test_what_keeps_l1_busy(wording) -> None:
    # Lookups of L2 take whole lines, as with scattered words that are less than a line apart.
    packed = {"l2_sectors_pct": 50.0, "l2_tag_requests_pct": 45.0}
    for received, sent in ((61.0, 5.0), (20.0, 61.0)):
        crossbar = {"l2_input_pct": received, "l2_output_pct": sent}
        launch = made_up({"l1": 86.0, "lsu": 4.3, "l2": 61.0}, **packed, **crossbar)
        (found,) = [each for each in diagnose(launch).findings if each.id == "pipe_saturated"]
        wording(found.variant, found.label, found.action)
    # Made up after a public report: 95 % of the passes through L1 are of shared memory.
    counted = {"global_load_sectors": 9.6e6, "global_load_requests": 2.2e6}
    launch = made_up({"l1": 96.0, "lsu": 95.0}, **counted, shared_wavefronts=40.5e6)
    assert global_part(LaunchView(launch)) < 0.2
    assert global_loads_part(LaunchView(launch)) < 0.06
    alone = made_up({"l1": 96.0, "lsu": 95.0}, **counted)
    assert global_part(LaunchView(alone)) == global_loads_part(LaunchView(alone)) == 1.0
    # Made up after a public report: one result per thread, the LSU pipe is full, FMA is idle.
    units = {"lsu": 83.0, "l1": 50.0, "issue_slots": 20.4, "fma": 8.5, "alu": 2.4}
    launch = made_up(units, shared_memory_static=8192.0)
    plain = gain_of(diagnose(launch), "pipe_saturated")
    launch.name = KernelName("matmul_tiled", "matmul_tiled()", "_Z1kv")
    assert gain_of(diagnose(launch), "pipe_saturated") > 1.3 * plain > 1.3


def test_shared_memory_keeps_a_pipe_busy_or_is_a_tree(wording) -> None:
    # Made up after a public report: a tree in shared memory keeps the LSU pipe busy.
    counted = {"shared_load_inst": 6_225_920, "shared_store_inst": 3_604_480}
    counted |= {"global_load_requests": 524_288, "global_store_requests": 65_536}
    launch = made_up({"lsu": 90.0, "dram": 39.0}, **counted)
    launch.name = KernelName("reduce_v1_kernel", "reduce_v1_kernel()", "_Z1kv")
    first = diagnose(launch).findings[0]
    wording(first.label, first.text)
    launch.name = KernelName("smooth", "smooth()", "_Z1kv")
    assert diagnose(launch).findings[0].advice.variant != first.advice.variant
    # Each thread loads its neighbours and stores between two barriers, as in a tree; how many
    # threads do is not in this report.
    diagnosis = diagnose(profile_of(REPORTS.parent / "runs" / "steps_one.ncu-repz").launches[0])
    every = (*diagnosis.findings, *diagnosis.minor)
    assert "" in [each.variant for each in every if each.id == "barrier_bound"]
    assert "steps" not in {each.variant for each in every}
    diagnosis = diagnose(launch_of("reduce_rows/three_trees"))
    first = diagnosis.findings[0]
    assert (first.id, first.variant) == ("barrier_bound", "steps")
    assert "LSU" in first.relieves
    first = replace(first, relieves={})
    busy = diagnosis.view.ceilings.ranked[:1]
    wording(_headline(diagnosis._replace(findings=(first,)), tuple(busy), ""))


def test_what_a_basic_report_or_a_short_kernel_does_not_show(wording) -> None:
    # Made up after a public report: L1 at 69 %, the LSU pipe at 35 %, few warps by registers.
    limits = {"block_limit_registers": 2.0, "block_limit_warps": 6.0, "block_limit_sm": 16.0}
    units = {"l1": 69.0, "lsu": 35.0, "issue_slots": 53.0, "fma": 48.0}
    shape = {"grid_size": 1000, "block_size": 256, "waves_per_sm": 5.0, "duration": 18e3}
    for launch in (
        made_up(units, theoretical_occupancy_pct=33.3, **limits),
        made_up({"issue_slots": 4.0}, inst_executed=16_000, **shape),
    ):
        diagnosis = diagnose(launch)
        assert not diagnosis.findings
        wording(verdict_of(diagnosis).headline)
    # An edited snapshot: the kernel ends after 3 us, so that its waiting is that of its start.
    launch = launch_of("bit_unpack/nibbles_narrow")
    assert any(each.cause_certainty != "certain" for each in diagnose(launch).findings)
    short = changed(launch, lambda name, v: 3000.0 if name.startswith("gpu__time_duration") else v)
    first, *others = diagnose(short).findings
    assert first.id == "launch_bound"
    assert all(each.cause_certainty == "certain" for each in others)


def test_blocks_that_wait_and_short_blocks() -> None:
    # Made up after a public report: blocks that wait for the flag of the previous one. Units that
    # were not measured and half-empty SMs are no sign of it.
    held = {"achieved_occupancy_pct": 99.9, "waves_per_sm": 280.0}
    idle = {"l1": 8.0, "l2": 6.0, "dram": 0.1, "issue_slots": 2.0}
    (found,) = [e for e in diagnose(made_up(idle, **held)).findings if e.id == "latency_bound"]
    assert (found.variant, found.cause_certainty) == ("blocks", "possible")
    assert found.forecast.high >= 30, "nothing limits the gain"
    unmeasured = made_up({"l1": 8.0, "issue_slots": 2.0}, **held)
    few_warps = made_up(idle, achieved_occupancy_pct=40.0, waves_per_sm=280.0)
    for launch in (unmeasured, few_warps):
        assert "blocks" not in [each.variant for each in diagnose(launch).findings]
    launches = [made_up({}, duration=2000.0, grid_size=blocks) for blocks in (1, 16, 100)]
    gains = [gain_of(diagnose(each), "launch_bound") for each in launches]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 1
    # Made up: of an old GPU's counters, this one says how often schedulers issue.
    device = Device("GeForce GTX 1080", "6.1", 20)
    launch = made_up({"dram": 2.0}, device=device, one_or_more_eligible_pct=14.0, grid_size=79)
    assert LaunchView(launch).ceilings.share("issue") == pytest.approx(0.14)


class WithCalls(ChangedData):
    """An edited snapshot: 20 times as many samples as in the kernel's code are at an address outside
    of it, and the SMs count 20 times as many instructions."""

    def metric(self, name: str) -> RawMetric | None:
        found = super().metric(name)
        if name != "smsp__inst_executed.sum" or found is None:
            return found
        return found._replace(value=20 * float(found.value or 0))

    def instances(self, name: str) -> Instances | None:
        found = super().instances(name)
        if found is None or not name.startswith("smsp__pcsamp_sample"):
            return found
        outside = 20 * sum(each for each in found.values if isinstance(each, int | float))
        return Instances((*found.values, outside), (*(found.ids or ()), 16))


def test_what_warps_wait_for_and_time_outside_of_the_code(wording) -> None:
    states = {"short_scoreboard": 80.0, "wait": 3.0, "selected": 1.0}
    opcodes = {"DFMA": 700, "F2I": 200, "LDS": 10}
    ratio = {"device_fp32_fp64_ratio": 64.0}
    view = LaunchView(made_up({"fp64": 30.0}, states, opcodes, GEFORCE, **ratio))
    assert waits.waits_for_doubles.test(view)
    assert not waits.waits_for_special.test(view)
    plain = LaunchView(made_up({"fp64": 30.0}, states, opcodes))
    assert waits.waits_for_special.test(plain)
    # Made up: warps sleep nearly all of the time.
    states = {"sleeping": 4000.0, "long_scoreboard": 20.0, "selected": 1.0}
    found = diagnose(made_up({"l2": 0.1, "issue_slots": 0.1}, states)).findings[0]
    assert (found.variant, found.has_open_gain, found.precedents) == ("sleep", True, None)
    assert forecast_text(found, Ledger()) == "gain not known"
    # Made up after a public report: one block on 132 SMs, whose FP64 pipe is always busy. More
    # independent work does not help it, and special functions are not what it waits for.
    states = {"short_scoreboard": 80.0, "wait": 3.0, "selected": 1.0}
    launch = made_up({"fp64": 87.0 / 132, "issue_slots": 2.0 / 132}, states, None, **ONE_SM)
    assert TimeModel(LaunchView(launch)).loads["FP64"] > 0.9
    assert gain_of(diagnose(launch), "latency_bound") < 1.1
    launch = launch_of("sound_chain/one_load_at_a_time")
    before = diagnose(launch)
    edited = changed(launch, lambda _, value: value)
    edited.data = WithCalls(launch.data, lambda _, value: value)
    after = diagnose(edited)
    assert before.findings[0].label == "exposed latency"
    wording([(each.label, each.text, each.action) for each in after.findings])


def test_a_large_defect_that_gains_little_is_said(wording) -> None:
    """A snapshot: the same conflicts, if fixing them gained little. They may gain nothing at all,
    and then they are likely, not certain."""
    diagnosis = diagnose(launch_of("wmma_product/flat_tiles"))
    first = diagnosis.findings[0]
    assert first.id == "shared_bank_conflict"
    for certainty in ("certain", "likely"):
        minor = replace(first, forecast=Forecast(1.0, 1.0, 1.05), cause_certainty=certainty)
        said = minor_defect(diagnosis.view, (minor,))
        assert said.startswith(first.text)
        # No other unit is near its peak, so that none is the reason.
        wording(said, case=certainty)
    assert minor_defect(diagnosis.view, ()) is None
    assert minor_defect(diagnosis.view, (replace(first, cause_certainty="possible"),)) is None
    little = dict.fromkeys(first.relieves or (), 0.1)
    assert minor_defect(diagnosis.view, (replace(first, relieves=little),)) is None
