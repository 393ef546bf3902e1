"""What amounts are counted per, the work per item, and what a block takes of an SM."""

import pytest

from evals.public_reports import MANUALLY_READ, NOT_FOUND
from keet.analysis.amounts.items import item_of, per_item
from keet.analysis.amounts.resources import bounds, resources
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import ResourcesDocument
from keet.report import read_profile
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import launch_of, profile_of, program_launch


def view_of(sample: str, *, reads_code: bool = True) -> LaunchView:
    return LaunchView(launch_of(sample), reads_code=reads_code)


def work(view: LaunchView) -> dict[str, float]:
    return {row.id: row.value for row in per_item(view, item_of(view))}


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


def test_the_same_instructions_and_work_of_samples() -> None:
    view = view_of("half_dense")
    (row,) = (row for row in per_item(view, item_of(view)) if row.id == "instructions")
    named = row.text.evidence.items()
    parts = [each.value for id_, each in named if id_.startswith("per_item_instructions_")]
    assert sum(parts) == pytest.approx(row.value)
    # Tensor cores at 94 %, issue slots at 17 %.
    view = view_of("token_mix", reads_code=False)
    (bound,) = (each for each in bounds(view) if each.id == "same_instructions")
    assert bound.us > 0.94e-3 * view.value("duration")
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


def known(name: str, *, reads_code: bool = False) -> ResourcesDocument:
    return resources(LaunchView(launch_of(name), reads_code=reads_code))


@each_row("sample, blocks, fit, warps, limits", [
    ("stencil_march", 2, 2, 32, ("registers",)),
    ("matrix_flip", 8, 8, 64, ()),
    ("window_median", 2, 2, 8, ("shared memory",)),
    ("ring_steps", 1, 8, 8, ("grid",)),
    ("half_dense:fast", 1, 1, 8, ("registers", "shared memory")),
    # Blocks of one warp without shared memory of their own: that of the driver is no limit.
    ("page_walk", 32, 32, 32, ("blocks",)),
])  # fmt: skip
def test_what_fits(sample: str, blocks: int, fit: int, warps: int, limits: tuple[str, ...]) -> None:
    found = known(sample)
    assert (found.blocks_per_sm, found.blocks_that_fit, found.warps_per_sm) == (blocks, fit, warps)
    assert found.limited_by == limits


def test_what_a_block_takes_of_an_sm() -> None:
    assert known("score_tiles").shared_bytes_per_block == 17_408
    assert known("matrix_flip").shared_bytes_per_block == 0
    # The code takes 0x320 bytes off the stack pointer, all of them for registers.
    found = known("softmax_rows", reads_code=True)
    assert (found.spills_per_thread, found.spilled_bytes_per_thread) == (645, 800)
    assert known("softmax_rows").spilled_bytes_per_thread is None
    assert known("softmax_rows:fast").spilled_bytes_per_thread == 0
    found = known("column_physics", reads_code=True)
    assert (found.spills_per_thread, found.spilled_bytes_per_thread) == (0, 0)
    limits = {"block_limit_registers": 4.0, "block_limit_warps": 8.0, "block_size": 256.0}
    found = resources(LaunchView(made_up({}, **limits, theoretical_warps_per_sm=16.0)))
    assert (found.warps_per_sm, found.limited_by) == (16, ())
    assert resources(LaunchView(made_up({}))) is None
    assert resources(LaunchView(profile_of(REPORTS / "range.ncu-rep").launches[0])) is None
    for kernel, known_of in (("place_sensors", (32, 0)), ("condition_records", (0, 2))):
        found = of_program("photoacoustic", kernel)
        assert (found.local_bytes_per_thread, found.barriers_per_block) == known_of
    assert known("matrix_flip").barriers_per_block is None  # the code was not read
    text = of_program("ising", "measure_final").text
    assert {"grid_size", "device_sm_count"} <= {each.partition("#")[0] for each in text.ids}


def of_program(name: str, kernel: str) -> ResourcesDocument:
    return resources(LaunchView(program_launch(f"{name}_first", kernel), reads_code=True))
