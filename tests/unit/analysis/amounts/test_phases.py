"""The phases of a block, and code that has none."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from keet.analysis.amounts.phases import phases
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import PhasesDocument
from keet.ingest import read_profile
from tests.rows import each_row

FAMILIES = Path("kernels_samples/casebook/families")


@cache
def document(case: str, *, reads_code: bool = True) -> PhasesDocument | None:
    family, _, side = case.partition("/")
    profile = read_profile(FAMILIES / family / "profiles" / f"{side}.keet.json.zst")
    launch = max(profile.launches, key=lambda each: each.rank_time)
    return phases(LaunchView(launch, reads_code=reads_code))


def test_tiles_that_are_loaded_computed_with_and_stored() -> None:
    found = document("tridiag_batch/rows_f32.staged_33")
    assert [row.phase for row in found.phases] == ["load", "compute", "store"]
    load, compute, store = found.phases
    assert (load.first_line, load.last_line) == (65, 70)
    assert 70 < compute.first_line < store.first_line
    assert sum(row.samples_pct for row in found.phases) == pytest.approx(100, abs=2)
    assert found.blocks_per_sm == 3
    assert set(found.text.ids) <= {each.id for each in found.evidence}
    found = document("gemm_f32/m1408_n1536.one_buffer")
    load, compute, store = found.phases
    assert load.samples_pct > 30 < compute.samples_pct
    assert store.samples_pct < 2
    assert found.blocks_per_sm == 1


@each_row("case", [
    "node_update/deep_columns.by_level",  # one loop loads, computes and stores
    "transpose/f32.rows_in",  # no arithmetic
    "gemm_f32/m1408_n1536.micro_8x8",  # the next tile is loaded while this one is used
    "nbody/field_270k.untiled",
])  # fmt: skip
def test_code_that_mixes_them(case: str) -> None:
    assert document(case) is None
    assert document("tridiag_batch/rows_f32.staged_33", reads_code=False) is None


def test_storing_begins_behind_the_last_barrier() -> None:
    """Lines of photoacoustic.cu: barriers at 154 and 164."""
    profile = read_profile(Path("evals/amounts/programs/photoacoustic_first.ncu-repz"))
    launch = next(each for each in profile.launches if each.kernel == "condition_records")
    found = phases(LaunchView(launch, reads_code=True))
    lines = [(row.first_line or 0, row.last_line or 0) for row in found.phases]
    assert all(last <= barrier for (_, last), barrier in zip(lines, (154, 164)))
    assert lines[2][0] > 164
