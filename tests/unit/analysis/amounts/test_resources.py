"""What a block takes of an SM, and how many fit."""

from __future__ import annotations

from pathlib import Path

from keet.analysis.amounts.resources import resources
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import ResourcesDocument
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import launch_of, profile_of


def known(name: str, *, reads_code: bool = False) -> ResourcesDocument:
    found = resources(LaunchView(launch_of(name), reads_code=reads_code))
    assert found is not None
    return found


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


def test_shared_memory_and_spills_are_those_of_the_kernel() -> None:
    # In bytes, without the 1,024 that the driver adds.
    assert known("score_tiles").shared_bytes_per_block == 17_408
    assert known("matrix_flip").shared_bytes_per_block == 0
    # The code takes 0x320 bytes off the stack pointer, all of them for registers.
    found = known("softmax_rows", reads_code=True)
    assert (found.spills_per_thread, found.spilled_bytes_per_thread) == (645, 800)
    assert known("softmax_rows").spilled_bytes_per_thread is None
    assert known("softmax_rows:fast").spilled_bytes_per_thread == 0
    found = known("column_physics", reads_code=True)
    assert (found.spills_per_thread, found.spilled_bytes_per_thread) == (0, 0)


def test_fewer_warps_than_the_limits_allow() -> None:
    # Made up: clusters let fewer blocks onto an SM than its resources.
    limits = {"block_limit_registers": 4.0, "block_limit_warps": 8.0, "block_size": 256.0}
    made = made_up({}, **limits, theoretical_warps_per_sm=16.0)
    found = resources(LaunchView(made))
    assert (found.warps_per_sm, found.limited_by) == (16, ())
    assert resources(LaunchView(made_up({}))) is None
    assert resources(LaunchView(profile_of(REPORTS / "range.ncu-rep").launches[0])) is None


def of_program(name: str, kernel: str) -> ResourcesDocument:
    profile = profile_of(Path(f"evals/amounts/programs/{name}_first.ncu-repz"))
    launch = next(each for each in profile.launches if each.kernel == kernel)
    found = resources(LaunchView(launch, reads_code=True))
    assert found is not None
    return found


def test_what_the_code_and_the_grid_tell() -> None:
    sensors, records = (
        of_program("photoacoustic", kernel) for kernel in ("place_sensors", "condition_records")
    )
    assert (sensors.local_bytes_per_thread, sensors.barriers_per_block) == (32, 0)
    assert (records.local_bytes_per_thread, records.barriers_per_block) == (0, 2)
    assert known("matrix_flip").barriers_per_block is None  # the code was not read
    text = of_program("ising", "measure_final").text
    assert {"grid_size", "device_sm_count"} <= {each.partition("#")[0] for each in text.ids}
