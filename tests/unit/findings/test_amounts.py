"""How much a fix gains, on kernels of the casebook whose gain was measured."""

import math
from functools import cache

import pytest

from keet.analysis.decisions.atomics import hot_slice, lane_requests, retries
from keet.analysis.decisions.saturated import conversions
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.analyses.loop_loads import RepeatedStore
from keet.analysis.memory_work import global_addresses, global_atomics, without_local
from keet.analysis.parallelism.occupancy import BytesInFlight, bytes_in_flight
from keet.analysis.remedy_conditions.global_memory import (
    changes_what_it_reads,
    sweeps_until_unchanged,
)
from keet.analysis.remedy_conditions.waits import branches_part_loads, parted_loads
from keet.analysis.time_model import HOT_LINE, Effect, HotLine, TimeModel
from keet.diagnosis.diagnosis import RankedCandidate, diagnose, is_worth, ranked_candidates
from keet.findings import redundant_traffic, small_grid
from keet.findings.launch_bound import SWEEPS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import with_code
from tests.unit.analysis.real_launches import candidates_of, code_view, launch_of, side_of


@cache
def ranked(name: str) -> list[RankedCandidate]:
    view = code_view(name)
    return ranked_candidates(view, TimeModel(view))


MEASURED = {
    "atomic_contention": [
        # One address: a slice of L2 adds a float or a double every third cycle.
        ("vote_grid/source_cell", 15.9), ("vote_grid/sum_of_each_warp_at_once", 11.7),
        # Without the atomics, L2 does as little as its idlest slice.
        ("vote_grid/peaks_cas_in_blocks", 154.0),
        # No word is hot, and each addition is a request to L2. The gather computes each pair twice.
        ("force_pairs/newtons_third_law", 2.25),
        # The lanes of a warp add to one word, which is hot for a while only: no slice stands out.
        ("force_pairs/energy_of_a_ring", 3.91),
        ("telemetry_rollup/energy_in_global_memory", 3.89),  # in shared memory, a loop of swaps
        ("group_sums/six_groups_per_block", 5.32),  # three loops, which lanes leave one by one
    ],
    "small_grid": [
        ("lone_block/one_block_searches", 69.7),  # one SM works: memory limits all of them
        # A block per SM: more of them hide nearly all of the waiting, until L2 is full.
        ("voxel_hash/one_block_per_sm", 6.2),
        ("wave_seismic/one_block_per_column", 1.7),  # other blocks also hide waits at barriers
    ],
    "pcie_or_nvlink_traffic": [("host_stream/recording_read_twice", 2.0)],
    # Launches that change what they read are steps: others can't fill the SMs beside them.
    "launch_bound": [("contact_rows/launch_per_colour", 6.0)],
    # A double becomes a float, which is still an instruction.
    "low_precision_possible": [("ode_batch/states_in_double", 1.74)],
    "fp64_promotion": [("nbody/double_sums", 1.71)],
    "uncoalesced_global": [
        # Packed requests take one pass through L1 instead of one per line, and most hit L1.
        ("pool_depthwise/pixels_of_channels_last", 5.6),
        ("tensor_blocks/fragments_from_global", 2.4),
        ("wmma_product/fragments_from_global", 5.2),  # warps load operands of tensor cores again
    ],
    # Loops over an array in registers are unrolled: their indices go, too.
    "local_memory_spill": [("fft/array_of_points", 3.5)],
    # Most warps of a block only evaluate conditions and wait: one warp has the whole item.
    "barrier_bound": [("small_lu/barrier_per_step", 3.88)],
    "pipe_saturated": [("block_sad/byte_loads", 4.1)],  # bytes can be computed on as words
    # Halves that are multiplied as floats; the kernel's signature does not name their type.
    "no_tensor_core": [("tensor_blocks/products_by_fma", 3.66)],
    # The next iteration starts when the load that may end the loop has returned.
    "latency_bound": [("spmv_ell/few_rows_both", 4.7)],
    "warp_divergence": [
        # A warp iterates as often as its longest list, and waits for memory each time.
        ("sph_density/uneven_and_per_pair", 2.0),
        ("small_blocks/sixteen_threads", 2.39),
    ],
    # Waves explain little of the idle time; blocks that are cut into pieces leave nothing of it.
    "load_imbalance": [("cell_list/droplets_cells", 4.16)],
    # One block per SM loads, computes and stores one after the other, also on tensor cores.
    "occupancy_limited_shared": [("tensor_blocks/room_for_sums", 1.28)],
    # A GPU starts 0.83 blocks per cycle: larger or fewer blocks end that limit, fewer instructions
    # or bytes do so only until it is reached (narrow accesses, divisions, rows apart, few threads).
    "occupancy_limited_block": [("gemv/each_vector_alone", 4.41)],
    "narrow_access": [("permute_nd/one_byte_at_a_time", 5.50)],
    "integer_overhead": [
        # Sixteen values of a thread take four steps in registers, instead of one in each pass.
        ("walsh_rows/twelve_passes", 5.73),
        ("token_sample/counter_per_token", 1.94),  # four threads compute the same random words
    ],
    "redundant_traffic": [("segment_stats/second_loop", 1.36)],  # over one row, whose start is data
    "sfu_bound": [
        # A fast power is a logarithm, a product and an exponential, with scaling around both.
        ("color_yuv/curve_as_power", 1.70),
        ("edge_detect/two_exponentials", 1.17),  # the product of two is one of the sum
    ],
    # Threads that leave a short loop early come back: they are not outside of the data.
    "shared_bank_conflict": [("small_lu/pitch_of_thirty", 1.31)],
}  # fmt: skip
"""By cause: cases, and the measured gain."""
NEXT_LIMIT = {
    # Without retries, the updates of spread addresses still take several wavefronts each.
    "atomic_contention": [("bin_moments/eight_bins_of_a_block", 5.35)],
    # Reads that the addresses show to be repeated can all go.
    "redundant_traffic": [("kv_dequant/keys_read_per_query_head", 1.72)],
    "integer_overhead": [
        # Without the divisions, warps send their loads sooner, which are enough to keep DRAM busy.
        ("decimal_columns/rate_of_the_day", 1.24),
        # What is left of divisions of 128 bits are those of 64.
        ("decimal_columns/products_of_128_bits", 2.34),
    ],
    # Three exact divisions by one root: its reciprocal is a function of the GPU.
    "sfu_bound": [("spin_dynamics/root_and_three_quotients", 1.31)],
    # Values in registers need no loads and stores, which take issue slots.
    "local_memory_spill": [("track_filter/a_few_spills", 1.14)],
}
"""Those of which it is known well what is left: the next limit."""
ROWS = [
    (case, cause, gain, doublings)
    for table, doublings in ((MEASURED, 0.7), (NEXT_LIMIT, 0.25))
    for cause, cases in table.items()
    for case, gain in cases
]
"""Of the cases, each has code of the analysis that the others do not run."""


QUICK = (
    "bin_moments/eight_bins_of_a_block",
    "token_sample/counter_per_token",
    "gemv/each_vector_alone",
)


def check_forecast(case: str, cause: str, measured: float, doublings: float) -> None:
    first = ranked(case)[0]
    assert first.candidate.id == cause
    assert is_worth(first)
    assert abs(math.log2(first.possible / measured)) < doublings


@each_row("row", [row for row in ROWS if row[0] in QUICK])
def test_a_forecast_is_near_the_measured_gain(row) -> None:
    check_forecast(*row)


@pytest.mark.slow
@each_row("row", [row for row in ROWS if row[0] not in QUICK])
def test_each_forecast_is_near_the_measured_gain(row) -> None:
    check_forecast(*row)


@pytest.mark.slow
def test_effects_on_waits_and_results() -> None:
    # Twenty rounds read a row again that no SM can keep: its waits go, not only its bytes. The
    # measured fix, 10x, needs fewer comparisons, too.
    first = ranked("token_sample/row_read_per_round")[0]
    assert (first.candidate.id, first.candidate.variant) == ("redundant_traffic", "passes")
    assert 3 < first.possible < 10.1
    # A launch of 25 us with one result per block gains less than its idle SMs, as measured: 1.55x.
    # Where every warp stores its own results, nothing is joined.
    joined, apart = ranked("token_sample/block_per_user")[0], ranked("force_pairs/few_atoms")[0]
    for each, is_joined in ((joined, True), (apart, False)):
        assert each.candidate.id == "small_grid"
        assert isinstance(each.candidate.effect, Effect)
        assert (each.candidate.effect.added > 0) is is_joined
    assert joined.possible < 4
    # Warps wait for others that compute powers.
    first = ranked("option_tree/power_per_node")[0]
    assert first.candidate.id == "sfu_bound"
    assert isinstance(first.candidate.effect, Effect)
    assert first.candidate.effect.waits["barrier"] < 0.5
    assert first.possible > 4


@each_row("cause, case", [
    ("warp_divergence", "particle_push/few_scattering_lanes"),  # one lane's loop; others fill DRAM
    # Others of sixteen blocks work while one waits; points load two neighbours, as a tree's steps do.
    ("barrier_bound", "option_tree/barriers_between_four_warps"),
    ("barrier_bound", "heat_steps/doubles_for_floats"),
    # A slice of L2 has more to do, but no address is updated often.
    ("atomic_contention", "graph_bfs/rare_pushes"),
    # The counters of a block are in shared memory, and added once per block.
    ("atomic_contention", "expert_route/counters_in_shared"),
    ("uncoalesced_global", "vote_grid/gently_falling_words"),  # data scatters the atomics
    ("integer_overhead", "decimal_columns/rate_with_breakdown"),  # they fit into the time of the bytes
    ("sfu_bound", "spin_dynamics/one_spin_a_thread"),  # functions of a thread's own values
    # One access to local memory for sixteen cells: their comparisons are no index work.
    ("local_memory_spill", "align_dp/edges_in_local_memory"),
], few=3)  # fmt: skip
def test_what_only_looks_like_a_cause_is_no_finding(cause: str, case: str) -> None:
    assert cause not in [each.candidate.id for each in ranked(case) if is_worth(each)]


def test_lanes_and_hot_words() -> None:
    for case, lines, requests in (
        # Not at the scattered atomics of the same kernel, which are six times as many.
        ("force_pairs/energy_of_a_ring", {299}, 1.3),
        # The machine code shows only that data chooses the addresses.
        ("voxel_hash/points_of_a_scan", {95, 96, 97, 98}, 21.3),
    ):
        first = ranked(case)[0].candidate
        assert first.variant == "lanes"
        assert lines >= {each.line for each in first.places()} > set()
        assert float(first.evidence[0].value) == pytest.approx(requests, rel=0.02)
    # Coalesced rows: the lanes of a warp update different words of the same sectors. Random words of
    # a table: a few of the 32 lanes have the same one.
    for case, most in (("segment_stats/hub_node", 1.0), ("histogram/all_to_256_words", 1.11)):
        found = lane_requests(LaunchView(launch_of(case)))
        assert found.made / found.needed <= most
    line, effect = _hot("contact_rows/boxes_on_decks")
    assert (line.of_table, effect.units[HOT_LINE]) == (1.0, 1 / 32)
    line, effect = _hot("kmeans_assign/sums_in_l2")
    assert line.of_table == 0.0
    assert effect.units[HOT_LINE] < 0.01
    # 64 counters are in eight sectors, and 256 blocks each add them once. A warp updates nearly all
    # of them at a time.
    _, effect = _hot("expert_route/counter_per_expert")
    requests = 107_108  # of the launch, as counted
    assert 256 * 7 < effect.units[HOT_LINE] * requests < 256 * 8
    # 46 waves of warps that each sum 32 values by shuffles, for one total. A warp that takes a
    # number from a counter with as many shuffles per item keeps them.
    _, effect = _hot("energy_tally/add_per_warp")
    assert effect.units["LSU"] < 0.2
    assert effect.units["issue"] < 0.5
    assert "LSU" not in _hot("mask_compact/counter_per_warp")[1].units
    # 524,288 warps' rows, with three sums each; nearly every round serves one lane in six.
    (found,) = retries(code_view("group_sums/six_groups_per_block"))
    assert found.updates == 3 * 524_288
    assert found.swaps / found.updates == pytest.approx(14.6, abs=0.1)


@each_row("case, slug, sources", [
    ("expert_route/token_per_block", "steps_threads",
     {"inst_executed", "thread_inst_executed_pred_on"}),
    ("voxel_hash/points_of_a_scan", "atomic_requests_per_sector",
     {"src_l2_sectors_global", "global_reduction_sectors", "global_atomic_sectors"}),
])  # fmt: skip
def test_numbers_name_the_counters_that_they_are_from(case, slug, sources) -> None:
    pieces = [piece for each in ranked(case) for piece in each.candidate.evidence]
    found = next(piece for piece in pieces if piece.slug == slug)
    assert {each.partition("#")[0] for each in found.derived_from or ()} == sources


def test_what_the_machine_code_shows_of_accesses_and_arrays() -> None:
    # As if the loops of a real kernel stored to the same addresses in each iteration.
    view = code_view("spin_dynamics/method_from_a_table")
    code = view.code
    assert code.sectors
    stores = [each for each in code.accesses if each.kind == "store"]
    own = [code.sectors[code.program.code[each.position].address] for each in stores]
    vars(code)["repeated_stores"] = [RepeatedStore(each, 0, 16.0, ()) for each in stores]
    found = [each for each in redundant_traffic.candidates(view, TimeModel(view)) if each.variant]
    share, _ = next(each.evidence for each in found if each.variant == "stores")
    every = sum(code.sectors[code.program.code[each.position].address] for each in code.accesses)
    assert len(own) > 1
    assert float(share.value) == pytest.approx(100 * max(own) / every)
    # Local memory does not fit L1, letters do: nearly all that L2 moves is local memory.
    left = without_local(LaunchView(launch_of("align_dp/whole_row_per_thread")))
    assert left["L2"] < 0.05 < left["L1"]
    # The index of a pair was spilled: its letters are no gather.
    code = code_view("align_dp/letter_by_letter").code
    assert not any(each.is_gather for each in code.accesses if each.kind == "load")
    # Reductions have the memory of loads, and no kind of access.
    view = code_view("vote_grid/gently_falling_words")
    opcodes = {each.address: each.opcode for each in view.code.program.code}
    assert [opcodes[at] for at in global_atomics(view)] == ["REDG"]
    assert {opcodes[at] for at in global_addresses(view)} == {"LDG"}


@each_row("case, is_joined", [
    ("token_sample/block_per_user", False),
    # By atomics: no warp stores.
    ("reduce_columns/quads_on_64_blocks", True), ("gemv/few_columns", True),
    ("histogram/few_blocks", True),
], few=2)  # fmt: skip
def test_results_that_atomics_join_need_no_further_launch(case: str, *, is_joined: bool) -> None:
    view = code_view(case)
    added = {each.effect.added for each in small_grid.candidates(view, TimeModel(view))}
    assert (added == {0.0}) == is_joined


def _hot(case: str) -> tuple[HotLine, Effect]:
    model = TimeModel(code_view(case))
    return model.hot_line, hot_slice(model).effect


def test_branches_to_slow_paths_and_doubles(wording) -> None:
    first = ranked("sph_density/double_literals")[0]
    assert first.candidate.id == "fp64_promotion"
    assert isinstance(first.candidate.effect, Effect)
    assert 0.7 < first.candidate.effect.waits["long_scoreboard"] < 0.9
    assert 1.2 < first.possible < 1.6
    # One expression after the loop; registers do not limit the warps.
    found = by_id("sph_density/double_norm").get("fp64_promotion")
    assert found is None or found.possible < 1.05
    first = ranked("sph_density/root_and_quotient")[0]
    assert (first.candidate.id, is_worth(first)) == ("latency_bound", True)
    wording(first.candidate.text)
    assert 1.2 < first.possible < 1.8
    # The same kernel without branches.
    view = code_view("sph_density/double_norm")
    assert parted_loads(view.code)[0] < 2
    assert not branches_part_loads.test(view)


def test_stores_between_loads_and_sweeps() -> None:
    # Each store may write what the next loads read. The fix gained 2.5x.
    found = diagnose(launch_of("node_update/store_between_loads")).findings[0]
    assert (found.id, found.advice.variant) == ("latency_bound", "serial")
    assert {each.metric for each in found.evidence} >= {"serial_round_trips", "serial_waits"}
    assert 1.8 < found.forecast.likely < 2.8
    # What it gains is not in the report (5.6x measured), so that the range has no end.
    first = ranked("edge_detect/sweep_per_step")[0]
    assert (first.candidate.id, first.candidate.variant) == ("launch_bound", SWEEPS)
    assert first.candidate.is_open
    assert 1.5 < first.possible < 5.6


def test_a_flag_or_an_array_in_place_alone_is_no_sweep() -> None:
    """Rows that threads change one by one; a flag that is set for other reasons. `x[i + 128] += x[i]`,
    and a store to one address: of a number if the sum is 0, or by the first thread."""
    for case in ("contact_rows/launch_per_colour", "status_flags/live_threshold"):
        assert not sweeps_until_unchanged.test(code_view(case))
    for decides, value, is_sweep in (("R8", "R9", True), ("R0", "R8", False), ("R0", "R9", False)):
        body = IN_PLACE.replace("DECIDES", decides).replace("VALUE", value)
        view = LaunchView(with_code(body, name="k(float*, int*)"), reads_code=True)
        assert changes_what_it_reads.test(view)
        assert bool(sweeps_until_unchanged.test(view)) is is_sweep


@each_row("case, launch, by_others, is_sweep", [
    ("edge_detect/trace.sweeps", 0, True, True),
    ("graph_bfs/mesh.mark_each", 0, True, True),
    # Its blocks repeat their part in shared memory until nothing changes.
    ("edge_detect/trace.tile_sweeps", 0, False, False),
    # The bodies of a row are changed by each other.
    ("contact_rows/one_garment.colour_launches", 0, True, False),
    # Each element by itself: a division, and records of a body.
    ("segment_stats/hub.scatter", 1, False, False),
    ("contact_rows/bodies.members", 0, False, False),
], few=2)  # fmt: skip
def test_launches_are_steps_if_they_change_an_array(case, launch, by_others, is_sweep) -> None:
    """By other elements; until nothing changes, they are sweeps."""
    view = LaunchView(side_of(case).launches[launch], reads_code=True)
    assert bool(changes_what_it_reads.test(view)) is by_others
    assert bool(sweeps_until_unchanged.test(view)) is is_sweep


IN_PLACE = """
    S2R R0, SR_TID.X; IMAD.WIDE R2, R0, 0x4, c[0x0][0x210]; LDG.E R6, desc[UR4][R2.64]
    LDG.E R7, desc[UR4][R2.64+0x200]; FADD R8, R6, R7; STG.E desc[UR4][R2.64+0x200], R8
    ISETP.NE.AND P0, PT, DECIDES, RZ, PT; MOV R4, c[0x0][0x218]; MOV R5, c[0x0][0x21c]
    MOV R9, 0x1; @!P0 STG.E desc[UR4][R4.64], VALUE; EXIT
"""


def by_id(name: str) -> dict[str, RankedCandidate]:
    return {each.candidate.id: each for each in ranked(name)}


def in_flight(name: str) -> tuple[BytesInFlight, dict[str, RankedCandidate]]:
    found = bytes_in_flight(code_view(name))
    return found, by_id(name)


def test_accesses_that_are_too_few_or_too_narrow() -> None:
    for name in ("sound_chain/four_loads_at_a_time", "reduce_rows/one_load_one_warp"):
        flight, found = in_flight(name)
        assert flight.shortage() > 0.8
        assert found["latency_bound"].gain > 1.1
        assert "Loads have requested about" in found["latency_bound"].candidate.text
    for name in ("histogram/spread_classes", "spmv_ell/waiting_for_dram"):
        flight, found = in_flight(name)
        assert flight.shortage() == 0  # enough bytes: loads wait in a queue
        assert found["latency_bound"].possible < 1.05
    flight, found = in_flight("quant_elementwise/two_floats")
    assert flight.waits < 1.2
    assert flight.per_thread == pytest.approx(8, rel=0.1)
    assert found["narrow_access"].gain > 1.1
    flight, found = in_flight("matrix_flip:slow")
    assert flight.unqueued < 0.8
    assert found["narrow_access"].possible < 1.1
    flight, found = in_flight("sound_chain/four_loads_at_a_time")
    assert flight.waits > 10
    assert found["narrow_access"].possible < 1.05
    assert bytes_in_flight(LaunchView(launch_of("quant_dense/row_by_row"))) is None


def test_repeated_conversions_are_counted_and_named() -> None:
    found = by_id("quant_dense/conversion_inside")
    assert "sfu_bound" not in found  # a conversion is no special function
    pipe = found["pipe_saturated"]
    assert (pipe.candidate.variant, pipe.candidate.basis) == ("XU", "measured")
    assert "conversions (I2F)" in pipe.candidate.text
    assert "converted 16 times each" in pipe.candidate.text
    assert 1.2 < pipe.possible < 1.4
    found = conversions(code_view("layernorm/formula_after_add"))
    assert (found.names, found.left, found.times) == ("F2F", None, None)
    assert conversions(LaunchView(launch_of("nbody/sine_of_every_harmonic"))) is None
    # powf and sincosf round their arguments; the launch has no MUFU instruction.
    assert conversions(code_view("rope_cache/angles_per_pair")) is None
    assert 1.1 < by_id("rope_cache/angles_per_pair")["sfu_bound"].possible < 1.5
    # Values are converted as often as before, whatever loads them.
    found = candidates_of("narrow_access", code_view("quant_dense/conversion_inside"))
    left = [each.effect.units["XU"] for each in found if isinstance(each.effect, Effect)]
    assert min(left) > 0.99
