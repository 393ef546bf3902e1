"""Loops and conditions of real reports whose source is known, and code that only looks so."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.conditions import conditions
from keet.analysis.amounts.loops import loops
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import ConditionDocument, InvariantDocument, LoopAmounts
from tests.rows import each_row
from tests.unit.analysis.real_launches import code_view, launch_of, profile_of, program_launch

AMOUNTS = Path(__file__).parents[4] / "evals" / "amounts"


@cache
def rows(name: str) -> tuple[LoopAmounts, ...]:
    return loops(code_view(name))


def at_line(name: str, line: int) -> LoopAmounts:
    return next(row for row in rows(name) if row.line == line)


def test_an_iteration_its_copies_and_what_it_repeats() -> None:
    for name, line, copies, iterations in (
        *(("orbit_forces", 37, 1, 8), ("panel_product", 147, 1, 32), ("tap_filter", 17, None, 8)),
        ("orbit_forces", 40, 2, 128),  # unrolled, two bodies per thread: four copies of a line
        *(("stencil_march", 39, 1, 24), ("kmeans_assign/rows_read_per_thread", 40, 1, 64)),
    ):
        row = at_line(name, line)
        assert (row.copies, row.iterations) == (copies, iterations)
    assert at_line("panel_product", 147).iterations_least == 32
    assert at_line("stencil_march", 39).iterations_most is None
    assert loops(LaunchView(launch_of("panel_product"))) == ()
    row = at_line("panel_product", 147)
    assert (row.loads, row.barriers, row.depth, row.instructions) == (12, 2, 1, 207)
    inner, outer = at_line("orbit_forces", 40), at_line("orbit_forces", 37)
    assert outer.instructions > 128 * inner.instructions
    assert outer.share_pct >= inner.share_pct
    (found,) = invariants("kmeans_assign/rows_read_per_thread")
    assert (found.name, found.times, found.bytes_per_block) == ("x", 64, 256 * 64)
    assert found.fits == ("registers", "shared memory")
    assert [each.line for each in found.lines] == [43]
    for name in ("panel_product", "stencil_march", "tap_filter", "page_walk"):
        assert not invariants(name)


def invariants(name: str) -> list[InvariantDocument]:
    return [each for row in rows(name) for each in loads_of(row)]


def loads_of(row: LoopAmounts) -> list[InvariantDocument]:
    return [each for each in row.invariant if each.kind == "load"]


@pytest.mark.slow
def test_loops_of_the_compiler_are_left_out() -> None:
    lines = {row.line for row in rows("bin_moments/warps_against_each_other")}
    assert lines.isdisjoint({53, 54})


def known(name: str) -> tuple[dict[str, Any], dict[str, tuple[LoopAmounts, ...]]]:
    """Truth and rows by kernel."""
    truth = json.loads((AMOUNTS / f"{name}_truth.json").read_text("utf-8"))
    launches = profile_of(AMOUNTS / f"{name}.keet.json.zst").launches
    by_kernel = {launch.name.function: launch for launch in reversed(launches)}
    views = {name: LaunchView(launch, reads_code=True) for name, launch in by_kernel.items()}
    return truth, {name: loops(view) for name, view in views.items()}


@pytest.mark.slow
def test_planted_loads_are_found_and_no_others() -> None:
    truth, found = known("invariant")
    assert len(truth) == 32
    for kernel, planted in truth.items():
        loads = [(row.line, load) for row in found[kernel] for load in loads_of(row)]
        assert len(loads) == len(planted), kernel
        for (line, load), want in zip(loads, planted, strict=True):
            assert (line, load.name) == (want["loop_line"], want["array"])
            assert [each.line for each in load.lines] == [want["load_line"]]
            assert load.times == pytest.approx(want["times"])
            # Where two paths lead to a load, the size is an upper bound.
            assert load.bytes_per_block >= want["bytes_per_block"]
            is_bound = kernel == "nearest_codes"
            assert is_bound or load.bytes_per_block == pytest.approx(want["bytes_per_block"])


@pytest.mark.slow
def test_known_loops_are_right_or_unknown() -> None:
    truth, found = known("known")
    judged = 0
    for kernel, amounts in truth.items():
        for row in found.get(kernel, ()):
            want = amounts["loops"][str(row.line)]
            if row.copies is None:
                continue
            judged += 1
            assert row.iterations == pytest.approx(want["mean"], rel=1e-3), (kernel, row.line)
            assert (row.entries, row.barriers) == (want["entries"], pytest.approx(want["barriers"]))
            assert row.iterations_least in (None, want["least"])
            assert row.iterations_most in (None, want["most"])
    assert judged >= 25


@cache
def rows_of_conditions(name: str, kernel: str = "") -> dict[int, ConditionDocument]:
    launch = program_launch(name, kernel) if kernel else launch_of(name)
    return {row.line: row for row in conditions(LaunchView(launch, reads_code=True))}


def test_conditions_of_real_reports() -> None:
    found = rows_of_conditions("impact", "update_stresses")
    assert {*found} == {122, 231}
    row = found[122]
    assert (row.threads, row.threads_entering) == (884_736, 9216)
    assert (row.warps, row.warps_entering) == (27_648, 288)
    assert (row.to_line, row.stores, row.is_repeated, row.is_by_index) == (123, (), False, False)
    assert row.share_pct == pytest.approx(100 * 9216 / 884_736)
    assert found[231].stores == ("elements.plastic",)
    assert not found[231].is_all_stores  # all threads store the stress
    found = rows_of_conditions("reactive", "transport")
    assert {*found} == {91, 96}
    # Faces of 32 x 33 cells in two directions, of 9 fields.
    assert found[96].threads == found[91].threads == 9 * 1024 * 2 * 32 * 33
    assert found[96].is_repeated
    assert found[96].share_pct == pytest.approx(53.0, abs=0.1)  # one side, in all copies
    assert found[96].to_line == 96
    assert (found[91].warps_entering or 0) > 0.9 * found[91].warps  # few skip it wholly
    row = rows_of_conditions("column_physics")[165]
    assert row.threads_entering == pytest.approx(row.warps_entering, rel=0.1)
    assert row.instructions_pct > 100 * row.threads_entering / row.threads
    row = rows_of_conditions("mask_compact/flag_by_flag")[265]
    assert row.is_all_stores
    assert (row.stores, row.atomics) == (("list", "shared memory"), ("count",))
    row = rows_of_conditions("band_scale")[8]
    assert (row.stores, row.warps_entering) == (("overload",), None)
    assert (row.threads, row.threads_entering) == (8_388_608, 1_119_626)
    row = rows_of_conditions("tridiag_batch/column_of_16")[354]
    assert row.is_by_index
    assert row.share_pct == 50
    row = rows_of_conditions("force_pairs/list_of_each_atom")[100]
    assert row.threads == 2 * 7_554_681 + 97_660
    assert row.threads_entering == 4_871_992 + 5_075_830 + 13_934
    found = rows_of_conditions("mask_compact/counter_per_warp")
    assert {*found} == {63}  # not `if (tid % 32 == 31 && inclusive > 0)`
    assert found[63].threads == 8 * 2_621_440
    assert not rows_of_conditions("topics", "infer_documents")
    assert not rows_of_conditions("impact_first", "kinetic_energy")
    assert conditions(LaunchView(launch_of("band_scale"))) == ()
    view = LaunchView(program_launch("impact_first", "stable_step"), reads_code=True)
    found = {each.name: each.one_address_atomics for each in arrays(view)}
    assert found["smallest"] == 27_648
    assert found["corners"] is None
    assert not conditions(view)  # `if (threadIdx.x % 32 == 0)`


@each_row("name", [
    "pair_reduce",  # `if (threadIdx.x < width)`
    "sparse_apply",  # rows_of_conditions of different length
    "tap_filter",  # what is left over of an unrolled loop
    "orbit_forces",
    "stencil_march",
    "key_count",  # atomics that the compiler combines within a warp
    "interpreter/mixed_programs",  # a switch
])  # fmt: skip
def test_look_alikes(name: str) -> None:
    assert not rows_of_conditions(name)
