"""Conditions of real reports: how many threads enter, and code that only looks so."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.conditions import conditions
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import ConditionDocument
from keet.profile import Launch
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of, profile_of

PROGRAMS = Path(__file__).parents[4] / "evals" / "amounts" / "programs"


def of_program(program: str, kernel: str) -> Launch:
    launches = profile_of(PROGRAMS / f"{program}.ncu-repz").launches
    return next(each for each in launches if each.name.function == kernel)


@cache
def rows(name: str, kernel: str = "") -> dict[int, ConditionDocument]:
    launch = of_program(name, kernel) if kernel else launch_of(name)
    return {row.line: row for row in conditions(LaunchView(launch, reads_code=True))}


def test_elements_that_yield_and_copies_of_inlined_functions() -> None:
    # `if (square <= limit) return 0.0;`: the others go on.
    found = rows("impact", "update_stresses")
    assert {*found} == {122, 231}
    row = found[122]
    assert (row.threads, row.threads_entering) == (884_736, 9216)
    assert (row.warps, row.warps_entering) == (27_648, 288)
    assert (row.to_line, row.stores, row.is_repeated, row.is_by_index) == (123, (), False, False)
    assert row.share_pct == pytest.approx(100 * 9216 / 884_736)
    assert found[231].stores == ("elements.plastic",)
    assert not found[231].is_all_stores  # all threads store the stress
    found = rows("reactive", "transport")
    assert {*found} == {91, 96}
    # Faces of 32 x 33 cells in two directions, of 9 fields.
    assert found[96].threads == found[91].threads == 9 * 1024 * 2 * 32 * 33
    assert found[96].is_repeated
    assert found[96].share_pct == pytest.approx(53.0, abs=0.1)  # one side, in all copies
    assert found[96].to_line == 96
    assert (found[91].warps_entering or 0) > 0.9 * found[91].warps  # few skip it wholly


def test_threads_that_enter() -> None:
    row = rows("column_physics")[165]
    assert row.threads_entering == pytest.approx(row.warps_entering, rel=0.1)
    assert row.instructions_pct > 100 * row.threads_entering / row.threads
    row = rows("mask_compact/flag_by_flag")[265]
    assert row.is_all_stores
    assert (row.stores, row.atomics) == (("list", "shared memory"), ("count",))
    row = rows("band_scale")[8]
    assert (row.stores, row.warps_entering) == (("overload",), None)
    assert (row.threads, row.threads_entering) == (8_388_608, 1_119_626)
    row = rows("tridiag_batch/column_of_16")[354]
    assert row.is_by_index
    assert row.share_pct == 50


def test_copies_of_a_loop_or_a_branch() -> None:
    # Two copies of a loop's body and what is left over: the compiler gives its checks the line of
    # the `if`.
    row = rows("force_pairs/list_of_each_atom")[100]
    assert row.threads == 2 * 7_554_681 + 97_660
    assert row.threads_entering == 4_871_992 + 5_075_830 + 13_934
    found = rows("mask_compact/counter_per_warp")
    assert {*found} == {63}  # not `if (tid % 32 == 31 && inclusive > 0)`
    assert found[63].threads == 8 * 2_621_440


@each_row("name", [
    "pair_reduce",  # `if (threadIdx.x < width)`
    "sparse_apply",  # rows of different length
    "tap_filter",  # what is left over of an unrolled loop
    "orbit_forces",
    "stencil_march",
    "key_count",  # atomics that the compiler combines within a warp
    "interpreter/mixed_programs",  # a switch
])  # fmt: skip
def test_look_alikes(name: str) -> None:
    assert not rows(name)


def test_texts_print_evidence_and_look_alikes_have_none() -> None:
    assert not rows("topics", "infer_documents")
    assert not rows("impact_first", "kinetic_energy")
    assert conditions(LaunchView(launch_of("band_scale"))) == ()
    for row in (*rows("band_scale").values(), *rows("reactive", "transport").values()):
        assert row.text.ids
        assert set(row.text.ids) == {each.id for each in row.evidence}
    view = LaunchView(of_program("impact_first", "stable_step"), reads_code=True)
    found = {each.name: each.one_address_atomics for each in arrays(view)}
    assert found["smallest"] == 27_648
    assert found["corners"] is None
    assert not conditions(view)  # `if (threadIdx.x % 32 == 0)`
