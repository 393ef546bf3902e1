"""Barriers that wait for few warps, and accesses that were inlined from a header of the toolkit."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.library import is_of_toolkit
from keet.analysis.launch_view import LaunchView
from keet.analysis.sass.analyses.blame import barrier_waits, polls_memory
from keet.diagnosis.advice import advice_for
from keet.diagnosis.diagnosis import diagnose
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of, profile_of, public_launch
from tests.unit.sass.assembled import program

WARPS = 16
LOOK_BACK = """
    S2R R0, SR_TID.X; BAR.SYNC 0x0; ISETP.GT.AND P0, PT, R0, 0x1f, PT; @P0 BRA join
    poll: LDG.E.STRONG.GPU R2, [R4.64]; ISETP.NE.AND P1, PT, R2, RZ, PT; @!P1 BRA poll
    join: BAR.SYNC 0x0; LDS R3, [R6]; EXIT
"""
ALONE = (160, 160, 160, 160, 12, 12, 12, 160, 160, 160)
"""Executions for ten blocks: one warp of each polls, once or twice."""


WAITING = {"barrier": {16 * 8: 300}, "long_scoreboard": {16 * 5: 24}}
IN_LOOP = """
    S2R R0, SR_TID.X; MOV R1, RZ
    again: LDS R3, [R6]; BAR.SYNC 0x0; IADD3 R1, R1, 0x1, RZ; ISETP.LT.AND P0, PT, R1, 0x20, PT
    @P0 BRA again; EXIT
"""
IN_LOOP_WAITING = {"barrier": {16 * 4: 300}, "mio_throttle": {0: 100, 16: 100}}
IN_ROUTINE = "S2R R0, SR_TID.X\nLDS R2, [R4]\nBAR.SYNC 0x0\nEXIT"
IN_ROUTINE_WAITING = {"barrier": {16 * 3: 300}, "short_scoreboard": {16: 100}}


def test_one_warp_explains_the_waiting_of_the_others() -> None:
    code = program(LOOK_BACK, ALONE)
    (wait,) = barrier_waits(code, WAITING, WARPS)
    assert (wait.position, wait.samples, wait.alone[0]) == (7, 300, 5)
    assert 250 < wait.by_few <= 300
    assert polls_memory(code, wait.alone) == [4]
    # One thread of each of ten blocks runs a loop of 128 iterations before the barrier.
    code = program(SERIAL, [160, 160, 160, 10, *([1280] * 4), 160, 160])
    samples = {"barrier": {16 * 9: 300}, "short_scoreboard": {16 * 5: 24}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.by_few, set(wait.alone)) == (300, {3, 4, 5, 6, 7})
    assert barrier_waits(program("EXIT"), {"barrier": {0: 3}}, WARPS) == []


@each_row("lines, counts, samples", [
    (LOOK_BACK, [160] * 10, WAITING),  # all warps work
    # A tiled product: the barrier runs once per tile, the code before the loop once.
    (IN_LOOP, [160, 160, *([5120] * 5), 160], IN_LOOP_WAITING),
    # The barrier is in a routine that is called four times.
    (IN_ROUTINE, [160, 160, 640, 160], IN_ROUTINE_WAITING),
])  # fmt: skip
def test_what_every_warp_runs_is_not_the_work_of_few(lines, counts, samples) -> None:
    (wait,) = barrier_waits(program(lines, counts), samples, WARPS)
    assert (wait.by_few, wait.alone) == (0, ())


SERIAL = """
    S2R R0, SR_TID.X; ISETP.NE.AND P0, PT, R0, RZ, PT; @P0 BRA join; MOV R1, RZ
    again: LDS R2, [R4]; FADD R3, R3, R2; ISETP.LT.AND P1, PT, R1, 0x80, PT; @P1 BRA again
    join: BAR.SYNC 0x0; EXIT
"""


def test_a_serial_step_is_one_finding_of_barriers_and_inactive_threads(wording) -> None:
    """The first thread of a block adds a tile's values while the others wait: measured 2.1x."""
    diagnosis = diagnose(launch_of("scan/tiles_one_thread"))
    wording([each.label for each in diagnosis.findings])
    (finding,) = diagnosis.findings
    assert (finding.id, finding.variant) == ("barrier_bound", "one_thread")
    wording(finding.text)
    assert finding.action.startswith("One thread works")
    assert "cub::BlockScan" in finding.action
    assert 1.8 < finding.forecast.likely < 3


@needs_corpus
@pytest.mark.slow
def test_a_decoupled_look_back_gets_the_advice_of_fewer_blocks() -> None:
    """A single-pass scan: one warp of sixteen reads what the blocks before have written."""
    finding = diagnose(public_launch("thedavidchu__")).findings[0]
    assert (finding.id, finding.advice.variant) == ("barrier_bound", "look_back")
    assert "offset 0x0a90" in finding.action
    assert "several items" in finding.action


def test_a_scan_by_all_warps_does_not_get_that_advice() -> None:
    diagnosis = diagnose(launch_of("scan_rows"))
    for finding in diagnosis.findings:
        assert advice_for(finding, diagnosis.view).variant not in ("look_back", "few_warps")


def test_accesses_that_were_inlined_are_at_the_line_of_their_call() -> None:
    """`atomicAdd(&bins[...], 1)`, whose line in the table is of device_atomic_functions.hpp, and
    loads of fragments."""
    launches = profile_of(REPORTS / "zoo.ncu-repz").launches
    (finding, *_) = diagnose(launches[5]).findings
    assert (finding.id, finding.advice.variant) == ("atomic_contention", "privatise")
    assert finding.locations[0].where == "zoo.cu:87"
    view = LaunchView(launches[2], reads_code=True)
    places = view.column_places("excess sectors", "src_l2_sectors_global_excess")
    assert {place.where for place in places[:2]} == {"zoo.cu:48", "zoo.cu:49"}


@each_row("path, is_toolkit", [
    ("/usr/local/cuda/targets/x86_64-linux/include/crt/mma.hpp", True),
    ("/usr/local/cuda-12.4/include/cuda_fp16.hpp", True),
    (r"C:\NVIDIA GPU Computing Toolkit\CUDA\v12.4\include\sm_60.hpp", True),
    ("/home/me/cuda_project/src/include_me.cuh", False),
    ("/work/include/tiles.cuh", False),
])  # fmt: skip
def test_headers_of_the_toolkit_are_recognised(path, is_toolkit) -> None:
    assert is_of_toolkit(path) is is_toolkit
