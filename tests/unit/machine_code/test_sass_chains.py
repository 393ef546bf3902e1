"""Chains of dependent instructions in loops, what waits for what, work that repeats, and barriers that
wait for few warps."""

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.library import is_of_toolkit
from keet.analysis.machine_code.analyses.blame import barrier_waits, polls_memory, waits
from keet.analysis.machine_code.analyses.loop_chains import LoopChains, loop_chains
from keet.analysis.machine_code.analyses.repeated_work import invariants
from keet.diagnosis.advice import advice_for
from keet.diagnosis.diagnosis import diagnose
from keet.pages.hotspots_line import _chains_text
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of, profile_of
from tests.unit.machine_code.assembled import instructions, program


def only(body: str, trips: int = 10) -> LoopChains:
    """The chains of a loop with a counter in R0 around the body."""
    test = ("ISETP.GE.AND P0, PT, R0, R1, PT", "@!P0 BRA 0x10")
    inner = ["IADD3 R0, R0, 0x1, RZ", *instructions(body), *test]
    counts = [4, *[4 * trips] * len(inner), 4]
    (found,) = loop_chains(program(["MOV R0, RZ", *inner, "EXIT"], counts))
    return found


def test_loop_counters_and_loops_that_ran_once_are_no_chains() -> None:
    found = only("FADD R2, R3, R4")
    assert (found.recurrence, found.independent_loads) == (None, 0)
    assert (found.trips, found.instructions, found.loads, found.load_depth) == (10, 4, 0, 0)
    assert found.share == pytest.approx(160 / 168)
    # Nor is a running address.
    found = only("LDG.E R4, desc[UR4][R2.64]; IADD3 R2, P1, R2, 0x4, RZ; IMAD.X R3, RZ, RZ, R3, P1")
    assert (found.recurrence, found.load_depth) == (None, 1)
    lines = "MOV R0, RZ\ntop: FADD R0, R0, R1\n@P0 BRA top\nEXIT"
    assert loop_chains(program(lines, [4, 4, 4, 4])) == []
    assert len(loop_chains(program(lines))) == 1  # without counts it may have run often
    rows = "MOV R0, RZ; outer: MOV R1, RZ; inner: FADD R2, R2, R3; @P0 BRA inner"
    rows += "; IADD3 R0, R0, 0x1, RZ; @P1 BRA outer; EXIT"
    found = loop_chains(program(rows, [1, 10, 100, 100, 10, 10, 1]))
    assert [each.instructions for each in found] == [2, 3]
    assert found[0].share > found[1].share


def test_pointer_chasing_gathers_and_independent_loads() -> None:
    found = only("LDG.E.64 R2, desc[UR4][R2.64+0x8]")
    assert (found.recurrence.positions, found.recurrence.loads) == ((2,), 1)
    assert (found.loads, found.load_depth, found.load_chain) == (1, 1, (2,))
    by_index = only("IMAD.WIDE R4, R2, 0x4, R6\nLDG.E R2, desc[UR4][R4.64]")
    assert by_index.recurrence.positions == (2, 3)
    assert by_index.recurrence.cycles > 200
    found = only(
        """
        IMAD.WIDE R4, R0, 0x4, R8; LDG.E R6, desc[UR4][R4.64]; IMAD.WIDE R10, R6, 0x4, R12
        LDG.E R14, desc[UR4][R10.64]; FADD R15, R14, R15
        """
    )
    assert (found.load_depth, found.load_chain, found.loads) == (2, (3, 5), 2)
    assert found.independent_loads == 1
    assert found.recurrence.positions == (6,)  # the sum; the loads do not need the one before
    assert found.recurrence.loads == 0
    loads = "\n".join(f"LDG.E R{10 + n}, desc[UR4][R2.64+{16 * n:#x}]" for n in range(6))
    found = only(loads)
    assert (found.load_depth, found.loads, found.independent_loads) == (1, 6, 6)
    found = only("LDS R4, [R2]\nLDS R5, [R4]")  # shared memory does not count
    assert (found.loads, found.load_depth) == (0, 0)


def test_a_search_through_a_texture_is_a_chain() -> None:
    """The fetch writes its second operand: what is compared decides where the next one looks."""
    body = """
        MOV R9, RZ
        again: IADD3 R11, R12, R9, RZ; TLD.SCR.LZ RZ, R13, R11, 0x0, 0x5a.1D, 0x1
        ISETP.GT.U32.AND P0, PT, R13, R6, PT; SEL R9, R11, R9, !P0
        ISETP.GE.AND P1, PT, R9, R5, PT; @!P1 BRA again; EXIT
    """
    code = program(body, [4, *[40] * 6, 4])
    (found,) = loop_chains(code)
    assert found.recurrence.loads == 1
    (wait,) = waits(code, {"long_scoreboard": {code.code[3].address: 7}})
    assert (wait.producers, wait.link) == ((2,), "result")


def test_iterations_through_shared_memory_and_samples_without_code(wording) -> None:
    found = only("LDS R4, [R2]\nFADD R5, R4, R6\nSTS [R2+0x4], R5")
    assert found.recurrence is None  # by registers
    assert found.is_through_shared
    wording(_chains_text(found))
    assert not only("LDS R4, [R2]\nFADD R5, R4, R6").is_through_shared
    found = waits(program(f"{STORE}EXIT\nNOP", [4, 4, 0]), {"drain": {32: 5}})
    assert found[0].producers == (0,)
    found = waits(program(LOADED), {"wait": {0: 1, 16: 4, 999: 7, 32: 0}})
    assert [each.position for each in found] == [1, 0]


@each_row("body, positions, cycles", [
    *(("\n".join(["FADD R2, R2, R3"] * n), tuple(range(2, n + 2)), 4 * n) for n in (1, 2, 8, 100)),
    ("FADD R2, R2, R3\nFADD R4, R4, R3\nDADD R6, R6, R8\nFADD R5, R5, R3", (4,), None),  # the slowest
    ("FADD R2, R3, R9\nFMUL R3, R2, R9", (2, 3), 8),  # through two registers
    ("@P1 FADD R2, R2, R3", (2,), 4),
])  # fmt: skip
def test_accumulations(body, positions, cycles) -> None:
    found = only(body).recurrence
    assert (found.positions, found.length) == (positions, len(positions))
    assert cycles in (None, found.cycles)


LOADED = """
    LDG.E R2, desc[UR4][R4.64]; LDG.E R3, desc[UR4][R4.64+0x4]; IADD3 R9, R8, 0x1, RZ
    FADD R6, R2, R3; FADD R7, R2, R6; EXIT
"""


STORE = "STG.E desc[UR4][R4.64], R2\n"
PATHS = f"@P0 BRA other\n{STORE}BRA join\nother: STG.E desc[UR4][R6.64], R2\njoin: EXIT"
BEFORE = "MOV R2, RZ\ntop: FADD R6, R2, R6\nLDG.E R2, desc[UR4][R4.64]\n@P0 BRA top\nEXIT"


@each_row("lines, position, reason, producers, link", [
    (LOADED, 3, "long_scoreboard", (1, 0), "result"),
    (LOADED, 4, "long_scoreboard", (0,), "result"),  # awaited before: the last candidate
    (LOADED, 4, "wait", (3,), "result"), (LOADED, 2, "wait", (), "itself"),
    (STORE + "MOV R2, R9\nEXIT", 1, "long_scoreboard", (0,), "register reuse"),
    ("NOP\nBAR.SYNC 0x0\nEXIT", 1, "barrier", (1,), "completion"),
    ("NOP\nBAR.SYNC 0x0", 1, "barrier", (1,), "completion"),
    ("BAR.SYNC 0x0\nEXIT", 1, "barrier", (0,), "completion"),
    ("NOP\nEXIT", 1, "barrier", (), "itself"), (STORE + "EXIT", 1, "drain", (0,), "completion"),
    (PATHS, 4, "drain", (1, 3), "completion"),
    (BEFORE, 1, "long_scoreboard", (2,), "result"),  # a load of the iteration before
    (LOADED, 3, "lg_throttle", (), "itself"),  # a busy unit
    (LOADED, 3, "math_pipe_throttle", (), "itself"), (LOADED, 3, "no_instruction", (), "itself"),
    (LOADED, 3, "tea_break", (), "unknown"),
])  # fmt: skip
def test_what_waits_for_what(lines, position, reason, producers, link) -> None:
    (found,) = waits(program(lines), {reason: {16 * position: 5}})
    assert (found.position, found.samples, found.link) == (position, 5, link)
    assert found.producers == producers


def test_work_with_the_same_inputs_in_every_iteration() -> None:
    rows = "MOV R0, RZ; top: FMUL R2, R8, R9; FADD R3, R2, 1; FADD R4, R4, R3"
    rows += "; LDG.E R5, desc[UR4][R6.64]; MOV R10, R9; IADD3 R0, R0, 0x1, RZ; @P0 BRA top; EXIT"
    (found,) = invariants(program(rows, [1, *[10] * 7, 1]))
    assert (found.positions, found.loads, found.share) == ((1, 2, 4), 1, pytest.approx(27 / 72))
    lines = "MOV R0, RZ\ntop: FADD R2, R2, R3\nFMUL R4, R2, R3\n@P0 BRA top\nEXIT"
    assert invariants(program(lines, [1, 10, 10, 10, 1])) == []
    assert invariants(program(lines)) == []  # without counts there is nothing to gain
    rows = "MOV R0, RZ; outer: FADD R5, R5, 1; inner: FMUL R2, R8, R9; FMUL R3, R5, R9"
    rows += "; @P0 BRA inner; @P1 BRA outer; EXIT"
    found = invariants(program(rows, [1, 10, 100, 100, 100, 10, 1]))
    assert {each.positions for each in found} == {(2,), (3,)}
    lines = "MOV R0, RZ\ntop: {load}\nFMUL R4, R2, R3\n{store}\n@P0 BRA top\nEXIT"
    counts = [1, 10, 10, 10, 10, 1]
    for load, store, found in (
        ("LDS R2, [R8]", "STS [R9], R0", ()),
        ("LDS R2, [R8]", "STG.E desc[UR4][R6.64], R0", (1, 2)),
        ("LDL R2, [R8]", "STL [R9], R0", ()),
        ("LDL R2, [R8]", "STS [R9], R0", (1, 2)),
    ):
        one = program(lines.format(load=load, store=store), counts)
        assert [each.positions for each in invariants(one)] == [found][: len(found)], (load, store)
    one = program(lines.format(load="LDG.E R2, desc[UR4][R6.64]", store="NOP"), counts)
    assert invariants(one)
    assert not invariants(one, rewritten={1})


@each_row("body, is_serial", [
    ("FADD R2, R2, R4", False),  # a sum
    ("FFMA R2, R3, R4, R2", False),  # a sum of products
    ("FMNMX R2, R2, R4, PT", False),
    ("FFMA R2, R2, R3, R4", True),  # a state times a factor
    ("FMUL R3, R2, R4 \n FADD R2, R2, R3", True),
    ("LDG.E R4, [R6] \n FFMA R2, R2, R3, R4", False),  # a part of the data per thread
    ("LDG.E R6, [R6]", True),  # each load needs the one before
])  # fmt: skip
def test_a_loop_is_serial_if_it_computes_with_what_it_returned(body: str, is_serial: bool) -> None:
    found = only(body)
    assert found.recurrence is not None
    assert found.is_serial is is_serial


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


def test_one_warp_explains_the_waiting_and_a_scan_gets_other_advice() -> None:
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
    (finding,) = diagnose(launch_of("scan/tiles_one_thread")).findings
    assert (finding.id, finding.variant) == ("barrier_bound", "one_thread")
    diagnosis = diagnose(launch_of("scan_rows"))
    for finding in diagnosis.findings:
        assert advice_for(finding, diagnosis.view).variant not in ("look_back", "few_warps")


def test_what_every_warp_runs_is_not_the_work_of_few() -> None:
    for lines, counts, samples in (
        (LOOK_BACK, [160] * 10, WAITING),  # all warps work
        # A tiled product: the barrier runs once per tile, the code before the loop once.
        (IN_LOOP, [160, 160, *([5120] * 5), 160], IN_LOOP_WAITING),
        # The barrier is in a routine that is called four times.
        (IN_ROUTINE, [160, 160, 640, 160], IN_ROUTINE_WAITING),
    ):
        (wait,) = barrier_waits(program(lines, counts), samples, WARPS)
        assert (wait.by_few, wait.alone) == (0, ())


SERIAL = """
    S2R R0, SR_TID.X; ISETP.NE.AND P0, PT, R0, RZ, PT; @P0 BRA join; MOV R1, RZ
    again: LDS R2, [R4]; FADD R3, R3, R2; ISETP.LT.AND P1, PT, R1, 0x80, PT; @P1 BRA again
    join: BAR.SYNC 0x0; EXIT
"""


def test_places_of_inlined_accesses() -> None:
    """`atomicAdd(&bins[...], 1)`, whose line in the table is of device_atomic_functions.hpp, and loads
    of fragments."""
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
    ("/home/me/cuda_project/src/include_me.cuh", False), ("/work/include/tiles.cuh", False),
])  # fmt: skip
def test_headers_of_the_toolkit_are_recognised(path, is_toolkit) -> None:
    assert is_of_toolkit(path) is is_toolkit
