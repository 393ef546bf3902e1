"""Loops of real reports whose source is known."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from keet.analysis.amounts.loops import loops
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import InvariantDocument, LoopAmounts
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of, profile_of

AMOUNTS = Path(__file__).parents[4] / "evals" / "amounts"


@cache
def rows(name: str) -> tuple[LoopAmounts, ...]:
    return loops(LaunchView(launch_of(name), reads_code=True))


def at_line(name: str, line: int) -> LoopAmounts:
    return next(row for row in rows(name) if row.line == line)


@pytest.mark.slow
@each_row("name, line, copies, iterations", [
    ("orbit_forces", 37, 1, 8),
    ("orbit_forces", 40, 2, 128),  # unrolled, two bodies per thread: four copies of a line
    ("panel_product", 147, 1, 32),
    ("series_eval", 21, 1, 4),
    ("stencil_march", 39, 1, 24),
    ("kmeans_assign/rows_read_per_thread", 40, 1, 64),
])  # fmt: skip
def test_iterations_are_those_of_the_source(name, line, copies, iterations) -> None:
    row = at_line(name, line)
    assert (row.copies, row.iterations) == (copies, iterations)


def test_copies_and_bounds_that_are_not_known_are_not_guessed() -> None:
    # A counter of bytes, and a limit that the report's files do not have.
    row = at_line("tap_filter", 17)
    assert row.copies is None
    assert row.iterations == 8
    assert at_line("panel_product", 147).iterations_least == 32
    assert at_line("stencil_march", 39).iterations_most is None
    assert loops(LaunchView(launch_of("panel_product"))) == ()


def test_an_iteration_and_what_it_repeats() -> None:
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
    for name in ("kmeans_assign/rows_read_per_thread", "orbit_forces"):
        for row in rows(name):
            assert set(row.text.ids) == {each.id for each in row.evidence}
            assert row.text.ids


def invariants(name: str) -> list[InvariantDocument]:
    return [each for row in rows(name) for each in row.invariant if each.kind == "load"]


@pytest.mark.slow
def test_loops_of_the_compiler_are_left_out() -> None:
    lines = {row.line for row in rows("bin_moments/warps_against_each_other")}
    assert lines.isdisjoint({53, 54})


@cache
def known(name: str) -> tuple[dict[str, Any], dict[str, tuple[LoopAmounts, ...]]]:
    """Truth and rows by kernel."""
    truth = json.loads((AMOUNTS / f"{name}_truth.json").read_text("utf-8"))
    launches = profile_of(AMOUNTS / f"{name}.ncu-repz").launches
    found = {}
    for launch in launches:
        if launch.name.function not in found:
            found[launch.name.function] = loops(LaunchView(launch, reads_code=True))
    return truth, found


@pytest.mark.slow
def test_planted_loads_are_found_and_no_others() -> None:
    truth, found = known("invariant")
    assert len(truth) == 32
    for kernel, planted in truth.items():
        loads = [
            (row.line, each)
            for row in found[kernel]
            for each in row.invariant
            if each.kind == "load"
        ]
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
