"""What amounts are counted per, and the work per item."""

from __future__ import annotations

import pytest

from evals.public_reports import MANUALLY_READ, NOT_FOUND
from keet.analysis.amounts.bounds import bounds
from keet.analysis.amounts.items import item_of, per_item
from keet.analysis.launch_view import LaunchView
from keet.ingest import read_profile
from tests.rows import each_row
from tests.unit.analysis.real_launches import SAMPLES


def view_of(sample: str, *, reads_code: bool = True) -> LaunchView:
    path = SAMPLES[sample].folder / "slow.ncu-rep"
    path = path if path.exists() else path.with_suffix(".ncu-repz")
    return LaunchView(read_profile(path).launches[0], reads_code=reads_code)


def work(view: LaunchView) -> dict[str, float]:
    item = item_of(view)
    assert item is not None
    return {row.id: row.value for row in per_item(view, item)}


@each_row("sample, name, count, basis", [
    ("matrix_flip", "element of out", 8192**2, "stores"),
    ("half_dense", "element of c", 4096**2, "stores"),  # stored four at a time
    ("decay_ratios", "element of param+0x30", 2_000_000, "stores"),  # the first of two
    ("key_count", "thread", 16384 * 256, "threads"),  # atomics at indices from memory
])  # fmt: skip
def test_item(sample: str, name: str, count: int, basis: str) -> None:
    item = item_of(view_of(sample))
    assert (item.name, item.count, item.basis) == (name, count, basis)


@pytest.mark.slow
@pytest.mark.skipif(not MANUALLY_READ.is_dir(), reason=NOT_FOUND)
def test_a_sum_is_counted_per_element_that_is_read() -> None:
    """LakshyaSingh354: a dot product. All threads update one number."""
    (path,) = MANUALLY_READ.glob("Laksh*dot_product*")
    item = item_of(LaunchView(read_profile(path).launches[0], reads_code=True))
    assert (item.name, item.count, item.basis) == ("element of param+0x0", 1 << 20, "loads")


def test_the_same_instructions_and_their_kinds() -> None:
    view = view_of("half_dense")
    item = item_of(view)
    assert item is not None
    (row,) = (row for row in per_item(view, item) if row.id == "instructions")
    named = row.text.evidence.values()
    parts = [each.value for each in named if each.id.startswith("per_item_instructions_")]
    assert sum(parts) == pytest.approx(row.value)
    # Tensor cores at 94 %, issue slots at 17 %.
    path = SAMPLES["token_mix"].folder / "slow.ncu-repz"
    view = LaunchView(read_profile(path).launches[0])
    (bound,) = (each for each in bounds(view) if each.id == "same_instructions")
    duration = view.value("duration")
    assert bound.us > 0.94e-3 * duration


def test_the_user_names_another_and_counters_alone_count_threads() -> None:
    view = view_of("matrix_flip")
    view.counted_per = ("tile", 65536.0)
    item = item_of(view)
    assert (item.name, item.count, item.basis, work(view)["loads"]) == ("tile", 65536, "user", 1024)
    view = view_of("half_dense", reads_code=False)
    item = item_of(view)
    assert item.basis == "threads"
    found = work(view)
    with_code = work(view_of("half_dense"))
    assert abs(found["instructions"] * item.count / 4096**2 / with_code["instructions"] - 1) < 0.01


def test_work_of_a_copy_a_product_and_divisions() -> None:
    found = work(view_of("matrix_flip"))
    assert (found["loads"], found["stores"]) == (1, 1)
    purposes = [value for name, value in found.items() if name.startswith("instructions.")]
    assert abs(sum(purposes) - found["instructions"]) < 1e-9
    assert "fp32" not in found  # nothing that is not done
    assert 8 < found["dram_bytes"] < 9
    found = work(view_of("half_dense"))
    assert (found["fp32"], found["loads"]) == (2 * 2048, 4)
    found = work(view_of("decay_ratios"))
    assert found["divisions"] == 98
    assert found["special"] > found["divisions"]
