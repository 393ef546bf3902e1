"""Barriers that wait for few warps, and accesses that were inlined from a header of the toolkit."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.library import is_of_toolkit
from keet.analysis.launch_view import LaunchView
from keet.analysis.sass.analyses.blame import barrier_waits, polls_memory
from keet.diagnosis.advice import advice_for
from keet.diagnosis.diagnosis import diagnose
from tests.conftest import REPORTS, needs_corpus
from tests.unit.analysis.real_launches import launch_of, profile_of, public_launch
from tests.unit.sass.assembled import program

WARPS = 16
LOOK_BACK = """
    S2R R0, SR_TID.X
    BAR.SYNC 0x0
    ISETP.GT.AND P0, PT, R0, 0x1f, PT
    @P0 BRA join
    poll: LDG.E.STRONG.GPU R2, [R4.64]
    ISETP.NE.AND P1, PT, R2, RZ, PT
    @!P1 BRA poll
    join: BAR.SYNC 0x0
    LDS R3, [R6]
    EXIT
"""
ALONE = (160, 160, 160, 160, 12, 12, 12, 160, 160, 160)
"""Executions for ten blocks: one warp of each polls, once or twice."""


def test_one_warp_explains_the_waiting_of_the_others() -> None:
    code = program(LOOK_BACK, ALONE)
    samples = {"barrier": {16 * 8: 300}, "long_scoreboard": {16 * 5: 24}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.position, wait.samples) == (7, 300)
    assert 250 < wait.by_few <= 300
    assert (wait.alone[0], polls_memory(code, wait.alone)) == (5, [4])


def test_warps_that_all_work_explain_nothing() -> None:
    code = program(LOOK_BACK, [160] * 10)
    samples = {"barrier": {16 * 8: 300}, "long_scoreboard": {16 * 5: 24}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.by_few, wait.alone) == (0, ())


IN_LOOP = """
    S2R R0, SR_TID.X
    MOV R1, RZ
    again: LDS R3, [R6]
    BAR.SYNC 0x0
    IADD3 R1, R1, 0x1, RZ
    ISETP.LT.AND P0, PT, R1, 0x20, PT
    @P0 BRA again
    EXIT
"""


def test_what_runs_once_before_a_loop_is_not_the_work_of_few_warps() -> None:
    """A tiled product: the barrier runs once per tile, the code before the loop once."""
    code = program(IN_LOOP, [160, 160, *([5120] * 5), 160])
    samples = {"barrier": {16 * 4: 300}, "mio_throttle": {0: 100, 16: 100}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.by_few, wait.alone) == (0, ())


SERIAL = """
    S2R R0, SR_TID.X
    ISETP.NE.AND P0, PT, R0, RZ, PT
    @P0 BRA join
    MOV R1, RZ
    again: LDS R2, [R4]
    FADD R3, R3, R2
    ISETP.LT.AND P1, PT, R1, 0x80, PT
    @P1 BRA again
    join: BAR.SYNC 0x0
    EXIT
"""


def test_iterations_of_a_loop_are_not_warps() -> None:
    """One thread of each of ten blocks runs a loop of 128 iterations before the barrier."""
    code = program(SERIAL, [160, 160, 160, 10, *([1280] * 4), 160, 160])
    samples = {"barrier": {16 * 9: 300}, "short_scoreboard": {16 * 5: 24}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.by_few, set(wait.alone)) == (300, {3, 4, 5, 6, 7})


def test_code_that_every_warp_runs_once_is_not_the_work_of_few() -> None:
    """The barrier is in a routine that is called four times."""
    code = program("S2R R0, SR_TID.X\nLDS R2, [R4]\nBAR.SYNC 0x0\nEXIT", [160, 160, 640, 160])
    samples = {"barrier": {16 * 3: 300}, "short_scoreboard": {16: 100}}
    (wait,) = barrier_waits(code, samples, WARPS)
    assert (wait.by_few, wait.alone) == (0, ())


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


def test_code_without_barriers_has_no_waits() -> None:
    assert barrier_waits(program("EXIT"), {"barrier": {0: 3}}, WARPS) == []


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


def test_an_atomic_is_at_the_line_of_its_call() -> None:
    """`atomicAdd(&bins[...], 1)`: the line table has a line of device_atomic_functions.hpp."""
    launch = profile_of(REPORTS / "zoo.ncu-repz").launches[5]
    (finding, *_) = diagnose(launch).findings
    assert (finding.id, finding.locations[0].where) == ("atomic_contention", "zoo.cu:87")
    assert finding.advice.variant == "privatise"


def test_loads_of_fragments_are_at_the_line_of_their_call() -> None:
    view = LaunchView(profile_of(REPORTS / "zoo.ncu-repz").launches[2], reads_code=True)
    places = view.column_places("excess sectors", "src_l2_sectors_global_excess")
    assert {place.where for place in places[:2]} == {"zoo.cu:48", "zoo.cu:49"}


def test_headers_of_the_toolkit_are_recognised() -> None:
    assert is_of_toolkit("/usr/local/cuda/targets/x86_64-linux/include/crt/mma.hpp")
    assert is_of_toolkit("/usr/local/cuda-12.4/include/cuda_fp16.hpp")
    assert is_of_toolkit(r"C:\NVIDIA GPU Computing Toolkit\CUDA\v12.4\include\sm_60.hpp")
    assert not is_of_toolkit("/home/me/cuda_project/src/include_me.cuh")
    assert not is_of_toolkit("/work/include/tiles.cuh")
