"""Threads, warps and steps between barriers without work, and why."""

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.block_steps import BlockSteps, block_steps
from keet.analysis.parallelism.inactive_threads import inactive_threads, uneven_trips
from keet.analysis.parallelism.resident_warps import chain_share, idle_warps, instructions_per_warp
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.findings.barrier_bound import FINDING
from keet.findings.warp_divergence import candidates
from keet.profile import Launch
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, H200, made_up, with_code
from tests.unit.analysis.real_launches import (
    CASES,
    candidates_of,
    code_view,
    launch_of,
    profile_of,
    public_launch,
    side_of,
)


@needs_corpus
def test_threads_of_public_reports() -> None:
    # 34 columns in blocks of 16 or 32: the others leave at `if (x < width && y < height)`.
    for owner, launch, line in (("lk-spec__", 8, 53), ("chia7__", 4, 47)):
        view = LaunchView(public_launch(owner, launch))
        (found,) = candidates(view, TimeModel(view))
        assert found.variant == "outside"
        assert [place.where for place in found.places()] == [f"new-forward.cu:{line}"]
    # The self-join leaves its loop of distances when one is too large.
    assert inactive_threads(LaunchView(public_launch("bwd29__", 0))).cause == "paths"


@each_row("launch, cause", [
    *((name, "paths") for name in ("decay_ratios", "sparse_apply", "window_median")),
    (made_up({}, block_size=6, active_threads_per_warp=6.0), "block_size"),
    (made_up({}, block_size=48, active_threads_per_warp=24.0), "block_size"),
    (made_up({}, block_size=4), "block_size"),  # the size alone shows partial warps
    (made_up({}, block_size=256), None),
    # 48 threads per block explain 24 per warp, not 9.
    (made_up({}, block_size=48, active_threads_per_warp=9.0), None),
])  # fmt: skip
def test_why_threads_are_inactive(launch, cause) -> None:
    found = inactive_threads(LaunchView(launch_of(launch) if isinstance(launch, str) else launch))
    assert (found and found.cause) == cause


@each_row("name, is_known", [
    ("seed_extend/few_long_matches", False), ("sph_density/uneven_lists", True),
])  # fmt: skip
def test_a_loop_that_loaded_values_end_can_only_be_evened_out_in_part(name, is_known) -> None:
    """A seed shows how far it extends when it does; a list of neighbours has a known length."""
    trips = uneven_trips(code_view(name))
    assert (trips.executed == trips.even) == is_known
    assert trips.even <= trips.executed < 1


def test_a_loop_can_be_shared_and_code_outside_of_it_can_not() -> None:
    steps, rows = (code_view(name) for name in ("ring_steps", "row_norms"))
    assert chain_share(steps) > 0.2
    assert chain_share(rows) < 0.02
    assert instructions_per_warp(steps).value < 200
    # One block does all sweeps: a sweep reads from shared memory what the one before stored. The
    # block of a scan loads new data in each iteration.
    case = CASES["spmv_ell/sweep_a_launch"]
    sweeps = case.launch(profile_of(case.profile_path(case.spec.after)))
    assert chain_share(LaunchView(sweeps, reads_code=True)) > 0.8
    assert chain_share(code_view("scan/long_rows")) < 0.1
    assert chain_share(LaunchView(launch_of("ring_steps"), reads_code=False)) == 0
    # Nothing is loaded before the loop whose length differs: that is no check at the entry.
    case = next(name for name in CASES if name.startswith("monte_carlo/"))
    found = inactive_threads(LaunchView(launch_of(case)))
    assert found is None or found.cause == "paths"


def test_scattered_accesses_relieve_a_unit_by_their_part_of_its_work() -> None:
    """Local memory is nearly all that L1 does in one of them, global memory in the other."""
    kept = {}
    for name in ("column_physics", "fan_update"):
        found = candidates_of("uncoalesced_global", code_view(name))
        effects = [each.effect for each in found if isinstance(each.effect, Effect)]
        kept[name] = [part for effect in effects for part in effect.units.values()]
    assert all(0.9 <= part <= 1 for part in kept["column_physics"])
    assert min(kept["fan_update"]) < 0.5


WARPS = 1_000_000
BUSY = {"issue_slots": 75.0, "dram": 1.0}


def with_accesses(accesses: int, per_warp: int) -> Launch:
    """`per_warp`: instructions that every warp executes."""
    opcodes = {"IMAD": WARPS * per_warp // 2, "ISETP": WARPS * per_warp // 2, "STG": accesses}
    shape = {"grid_size": WARPS / 8, "block_size": 256.0}
    counts = {"inst_executed": float(sum(opcodes.values())), "duration": 1e6}
    return made_up(BUSY, None, opcodes, **shape, **counts)


def test_warps_without_an_access_are_waste_and_others_have_work(wording) -> None:
    launch = with_accesses(WARPS // 20, 12)
    found = idle_warps(LaunchView(launch))
    assert found.share.value == pytest.approx(95)
    first = diagnose(launch).findings[0]
    assert (first.id, first.label) == ("warp_divergence", "warps without work")
    assert first.forecast.likely > 4
    wording(first.action)
    # Their exit costs time, but they do not compute in double precision.
    launch = of_the_basic_set(0.1, 12)
    found = idle_warps(LaunchView(launch))
    assert found.share.value == pytest.approx(90)
    first = diagnose(launch).findings[0]
    assert first.label == "warps without work"
    assert 1.5 < first.forecast.likely < 1 / 0.43
    # The look-alikes: warps that compute much, of which one stores the result of all; in the basic
    # set, each warp loads or stores once, or there are few results of much work.
    launches = [with_accesses(WARPS, 12), with_accesses(WARPS // 20, 2000)]
    launches += [of_the_basic_set(*each) for each in ((1.0, 12), (1.9, 16), (0.1, 100))]
    assert [idle_warps(LaunchView(each)) for each in launches] == [None] * 5


def of_the_basic_set(sent: float, per_warp: float) -> Launch:
    """`sent`: cycles per warp in which L1 sends to L2."""
    shape = {"grid_size": WARPS / 8, "block_size": 256.0, "inst_executed": per_warp * WARPS}
    shape |= {"l1_to_crossbar_pct": 100 * sent * WARPS / (ELAPSED * (H200.sm_count or 1))}
    shape |= {"elapsed_cycles": ELAPSED, "duration": 1e6}
    return made_up({"issue_slots": 15.0, "fp64": 43.0}, None, None, **shape)


@each_row("case, threads", [
    # Seven steps of a tree over 128 threads: half of them, then a quarter, and so on.
    ("expert_route/token_per_block", (64 + 32 + 16 + 8 + 4 + 2 + 1) / 7 / 128),
    ("small_lu/barrier_per_step", 0.15),  # a column of 16 divides, and a smaller square is updated
    ("heat_steps/two_barriers", None),  # all threads of a block work in each step
    ("wave_seismic/two_barriers_per_plane", None),
    # Several warps of the only block of an SM: with one warp per item, the others have none.
    ("option_tree/barriers_between_four_warps", None), ("align_dp/barrier_per_four_rows", None),
])  # fmt: skip
def test_the_threads_of_a_step_are_counted(case: str, threads: float | None) -> None:
    found = block_steps(code_view(case))
    if threads is None:
        assert found is None or found.idle < 0.05
    else:
        assert found.threads == pytest.approx(threads, abs=0.05)
        assert found.idle > 0.4
        assert found.waiting > 0.9
        assert all(0 <= share <= 1 for share in found.gone.values())


def test_steps_in_which_threads_share_or_data_chooses() -> None:
    # Each pixel that may grow looks at its neighbours, and any pixel may be one. Of 32 lanes 9 are
    # active, in nearly all warps.
    launch = side_of("edge_detect/trace.tile_sweeps").launches[0]
    found = block_steps(LaunchView(launch, reads_code=True))
    assert found is None or found.idle < 0.05
    told = [each for each in diagnose(launch).findings if each.id == "barrier_bound"]
    assert all(each.variant == "" for each in told)
    none = (8, 0)
    runs = (ALL, ALL, (8, 128), HALF, HALF, HALF, none, ALL, ALL)
    assert steps_of(BRANCHES, *runs) is None
    one_side = BRANCHES.replace(" other: LDS R2, [R0+0x400]", " other: MOV R2, RZ")
    found = steps_of(one_side, *runs)
    assert found.threads == pytest.approx(0.5)
    runs = (ALL, ALL, (8, 128), (8, 128), ALL, ALL)
    assert steps_of(PREDICATES, *runs) is None
    found = steps_of(PREDICATES.replace("@!P0", "@P0"), *runs)
    assert found.threads == pytest.approx(0.5)
    # One of the 8 warps, which has the item then, still loads it.
    found = steps_of(BROADCAST, ALL, ALL, (8, 1), ALL, ALL, ALL, ALL, ALL)
    assert found.gone[BROADCAST_LOAD] == pytest.approx(found.executed * (1 - 1 / 8))


@pytest.mark.slow
@needs_corpus
def test_blocks_that_wait_for_other_blocks_have_no_such_steps() -> None:
    """A decoupled look-back: with an item per warp, more would have to look back."""
    launch = public_launch("thedavidchu__speedy_scan")
    assert block_steps(LaunchView(launch, reads_code=True)) is None
    found = next(each for each in diagnose(launch).findings if each.id == FINDING.id)
    assert (found.variant, found.advice and found.advice.variant) == ("", "look_back")


def steps_of(body: str, *runs: tuple[int, int]) -> BlockSteps | None:
    return block_steps(LaunchView(with_code(body, *runs), reads_code=True))


ALL, HALF = (8, 256), (4, 128)
BRANCHES = """
        S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x80, PT; @P0 BRA other; LDS R2, [R0]
        BRA both
        other: LDS R2, [R0+0x400]
        both: STG.E desc[UR4][R4.64], RZ; BAR.SYNC 0x0; EXIT
"""
PREDICATES = """
        S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x80, PT; @P0 LDS R2, [R0]
        @!P0 LDS R3, [R0+0x400]; BAR.SYNC 0x0; EXIT
"""


BROADCAST = """
        S2R R0, SR_TID.X; ISETP.NE.AND P0, PT, R0, RZ, PT; @!P0 STS [RZ], R2; BAR.SYNC 0x0
        LDS R3, [RZ]; STG.E desc[UR4][R4.64], R3; BAR.SYNC 0x0; EXIT
"""
BROADCAST_LOAD = 4
