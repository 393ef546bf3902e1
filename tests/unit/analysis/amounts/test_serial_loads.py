"""Round trips to memory that loads make one after the other, the phases of a block, and look-alikes."""

from collections.abc import Mapping
from functools import cache

import pytest

from keet.analysis.amounts.accesses import serial_loads
from keet.analysis.amounts.phases import phases
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.analyses.serial_loads import SerialLoads
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from keet.documents.amounts import PhasesDocument, SerialLoadsDocument
from tests.rows import each_row
from tests.unit.analysis.real_launches import program_launch, side_of
from tests.unit.machine_code.assembled import assembled

START = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; IMAD R0, R1, 0x80, R0; ULDC.64 UR4, c[0x0][0x208]
    IMAD.WIDE R2, R0, 0x4, c[0x0][0x210]; IMAD.WIDE R4, R0, 0x4, c[0x0][0x218]
    IMAD.WIDE R6, R0, 0x4, c[0x0][0x220]
"""
"""R2, R4 and R6 are the addresses of one element of three arrays."""


def regions(body: str, skipped: Mapping[str, int] | None = None) -> list[SerialLoads]:
    """Of code that runs once, in which all samples wait for loads where they are used first.
    `skipped`: executions by a part of the text, where they are not 4."""
    texts = assembled(START + body)
    executed = dict.fromkeys(texts, 4)
    for part, count in (skipped or {}).items():
        executed.update({at: count for at, text in texts.items() if part in text})
    program = SassProgram.of(texts, executed)
    used = {at: 100 for at, text in texts.items() if text.startswith(("FADD", "IMAD.WIDE R8"))}
    shape, waits = launch_shape((64, 1, 1), (128, 1, 1), "9.0"), {"long_scoreboard": used}
    return MachineCode(program, shape, None, waits, None, None, None, {}).serial_loads


def trips(body: str, skipped: Mapping[str, int] | None = None) -> list[tuple[str | None, bool]]:
    """The reason of each round trip of the region with most waits, and whether it is avoidable."""
    return [(trip.reason, trip.is_avoidable) for trip in regions(body, skipped)[0].trips]


FIRST = "LDG.E R10, desc[UR4][R2.64]\nFADD R11, R10, R10\n"
SECOND = """
    LDG.E R12, desc[UR4][R4.64]; FADD R13, R12, R11; STG.E desc[UR4][R6.64+0x100], R13; EXIT
"""
BY_INDEX = """
    LDG.E R10, desc[UR4][R2.64]; IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
    STG.E desc[UR4][R8.64], R0; STG.E desc[UR4][R6.64], R0
"""
GATHER = """
    LDG.E R10, desc[UR4][R2.64]; IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
    STG.E desc[UR4][R6.64], R10; LDG.E R12, desc[UR4][R8.64]; FADD R13, R12, R12
    STG.E desc[UR4][R6.64], R13; EXIT
"""
STORE = "STG.E desc[UR4][R6.64], R11\n"


def test_stores_that_delay_a_load_and_loads_that_are_not_serial() -> None:
    body = FIRST + STORE + SECOND
    assert trips(body) == [(None, False), ("store", True)]
    (region,) = regions(body)
    assert (region.needed, region.avoidable, region.loop) == (1, 1, None)
    assert region.avoidable_samples == 100
    assert all(not region.avoidable for region in regions(LOOP))
    body = LOOP.replace("FADD R11, R10, R11", "FADD R11, R12, R11")
    body = body.replace("FADD R11, R14, R11", "FADD R11, R10, R11")
    body = body.replace("LDG.E R14", "LDG.E R12").replace("R4.64+0x8", "R2.64+0x8")
    assert any(region.avoidable == 2 and region.loop == 0 for region in regions(body))
    body = """
        LDG.E R10, desc[UR4][R2.64]; LDG.E R12, desc[UR4][R4.64]; FADD R11, R10, R10
        STG.E desc[UR4][R6.64], R11; FADD R13, R12, R12; STG.E desc[UR4][R6.64+0x4], R13; EXIT
    """
    assert trips(body) == [(None, False)]
    body = """
        ISETP.GT.AND P0, PT, R0, 0x10, PT; @P0 BRA other; LDG.E R10, desc[UR4][R2.64]
        FADD R11, R10, R10; BRA join
        other: LDG.E R10, desc[UR4][R4.64]; FADD R11, R10, R10
        join: STG.E desc[UR4][R6.64], R11; EXIT
    """
    assert regions(body)[0].avoidable == 0
    branch = "FSETP.GT.AND P0, PT, R11, RZ, PT\n@P0 BRA slow\nback: NOP\n"
    body = FIRST + branch + SECOND + "slow: FMUL R11, R11, R11\nBRA back"
    assert trips(body, {"FMUL": 0, "BRA back": 0})[1] == ("branch", True)


@each_row("body, reason, is_avoidable", [
    # Data that is not written.
    (FIRST + STORE + SECOND.replace("LDG.E R12", "LDG.E.CONSTANT R12"), "unknown", False),
    (FIRST + STORE.replace("R6.64", "R4.64+0x40") + SECOND, "unknown", False),  # a known distance
    (FIRST + STORE.replace("R6.64", "R4.64") + SECOND, "unknown", False),  # the same place
    # An index from memory into the same array may be meant.
    (BY_INDEX + SECOND.replace("R11", "R0"), "unknown", False),
    (FIRST + "REDG.E.ADD.F32 desc[UR4][R6.64], R11\n" + SECOND, "atomic", True),
    (FIRST + STORE + "BAR.SYNC 0x0\n" + SECOND, "barrier", False),
    (GATHER, "address", False),
    # A branch on loaded data that ends the thread.
    (FIRST + "FSETP.GT.AND P0, PT, R11, RZ, PT\n@P0 EXIT\n" + SECOND, "branch", False),
])  # fmt: skip
def test_why_a_second_round_trip_is_needed_or_not(body, reason, is_avoidable) -> None:
    assert trips(body) == [(None, False), (reason, is_avoidable)]


TWO_GATHERS = """
    LDG.E R10, desc[UR4][R2.64]; IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
    LDG.E R12, desc[UR4][R8.64]; FADD R13, R12, R12; STG.E desc[UR4][R6.64], R13
    LDG.E R10, desc[UR4][R2.64+0x4]; IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
    LDG.E R12, desc[UR4][R8.64]; FADD R13, R12, R12; STG.E desc[UR4][R6.64+0x4], R13; EXIT
"""
POINTERS = """
    MOV R2, c[0x0][0x210]; MOV R3, c[0x0][0x214]; LDG.E.64 R14, desc[UR4][R2.64]
    LDG.E.64 R16, desc[UR4][R2.64+0x8]; IMAD.WIDE R8, R0, 0x4, R14; LDG.E R10, desc[UR4][R8.64]
    FADD R11, R10, R10; IMAD.WIDE R18, R0, 0x4, R16; STG.E desc[UR4][R18.64], R11
    LDG.E.64 R14, desc[UR4][R2.64+0x10]; IMAD.WIDE R8, R0, 0x4, R14; LDG.E R10, desc[UR4][R8.64]
    FADD R11, R10, R10; STG.E desc[UR4][R18.64+0x4], R11; EXIT
"""
"""A structure in memory holds the pointers: each store may change them."""


@each_row("body", [TWO_GATHERS, POINTERS])
def test_two_gathers_with_a_store_between_need_two_round_trips(body: str) -> None:
    (region,) = regions(body)
    assert [trip.reason for trip in region.trips] == [None, "address", "store", "address"]
    assert (region.needed, region.avoidable) == (2, 2)


LOOP = """
    MOV R20, RZ; LDG.E R10, desc[UR4][R2.64]
    again: LDG.E R12, desc[UR4][R4.64]; FADD R11, R10, R11; STG.E desc[UR4][R6.64], R11
    LDG.E R14, desc[UR4][R4.64+0x4]; FADD R11, R12, R11; STG.E desc[UR4][R6.64+0x4], R11
    LDG.E R10, desc[UR4][R4.64+0x8]; FADD R11, R14, R11; STG.E desc[UR4][R6.64+0x8], R11
    IADD3 R20, R20, 0x1, RZ; ISETP.GE.AND P0, PT, R20, 0x8, PT; @!P0 BRA again; EXIT
"""


@cache
def document(case: str, *, reads_code: bool = True) -> SerialLoadsDocument | None:
    return serial_loads(LaunchView(side_of(case).launches[0], reads_code=reads_code))


def test_round_trips_of_real_kernels() -> None:
    found = document("node_update/deep_columns.by_level")
    assert (found.round_trips, found.needed, found.loads, found.iterations) == (16, 1, 32, 12)
    assert found.loop.line == 45
    trips = {(trip.line, trip.after_line, trip.reason) for trip in found.trips[1:]}
    assert trips == {(47, 48, "store")}
    assert set(found.pointers) == {"rate", "source", "level"}
    assert found.avoidable_pct == pytest.approx(90, abs=2)
    assert {each.metric for each in found.evidence} >= {"serial_round_trips", "serial_waits"}
    # Three loads, a store, a load, two stores, for each of three axes. L2 is busy, too.
    found = serial_loads(LaunchView(program_launch("impact", "update_nodes"), reads_code=True))
    assert (found.round_trips, found.needed, found.loads, found.loop) == (6, 1, 12, None)
    assert [trip.line for trip in found.trips[1:]] == [266, 268, 269, 271, 272]
    assert all(trip.line == trip.after_line + 1 for trip in found.trips[1:])
    assert {trip.reason for trip in found.trips[1:]} == {"store"}
    assert found.waits_pct > 90
    assert found.avoidable_pct == pytest.approx(78, abs=1)
    # Two of 32 loads stand behind the branch of the first division.
    found = document("tridiag_batch/long_f64.march_ahead")
    assert [(trip.loads, trip.reason) for trip in found.trips] == [(30, None), (2, "branch")]
    assert (found.trips[1].line, found.trips[1].after_line) == (233, 237)


@each_row("case", [
    "node_update/deep_columns.eight_levels",  # all loads of an iteration are issued first
    "node_update/deep_columns.next_level_early",  # one step ahead
    "node_update/mesh.node_per_thread",  # each index comes from the load before
    "node_update/mesh.four_nodes_per_thread",
    "node_update/contacts.contact_by_contact",  # a list
    "node_update/records.list_per_thread",
    "gemm_f32/nt_1024.nt_micro",  # tiles between barriers
    "vote_grid/words_flat.words_head_first",  # two sides of a branch
    "graph_bfs/mesh.mark_each",  # stores into the array that is loaded
])  # fmt: skip
def test_look_alikes(case: str) -> None:
    assert document(case) is None
    assert document("node_update/deep_columns.by_level", reads_code=False) is None


@cache
def document_of_phases(case: str, *, reads_code: bool = True) -> PhasesDocument | None:
    launch = max(side_of(case).launches, key=lambda each: each.rank_time)
    return phases(LaunchView(launch, reads_code=reads_code))


def test_tiles_that_are_loaded_computed_with_and_stored() -> None:
    found = document_of_phases("tridiag_batch/rows_f32.staged_33")
    assert [row.phase for row in found.phases] == ["load", "compute", "store"]
    load, compute, store = found.phases
    assert (load.first_line, load.last_line) == (65, 70)
    assert 70 < compute.first_line < store.first_line
    assert sum(row.samples_pct for row in found.phases) == pytest.approx(100, abs=2)
    assert found.blocks_per_sm == 3
    found = document_of_phases("gemm_f32/m1408_n1536.one_buffer")
    load, compute, store = found.phases
    assert load.samples_pct > 30 < compute.samples_pct
    assert store.samples_pct < 2
    assert found.blocks_per_sm == 1
    # Lines of photoacoustic.cu: barriers at 154 and 164.
    launch = program_launch("photoacoustic_first", "condition_records")
    found = phases(LaunchView(launch, reads_code=True))
    lines = [(row.first_line or 0, row.last_line or 0) for row in found.phases]
    assert all(last <= barrier for (_, last), barrier in zip(lines, (154, 164)))
    assert lines[2][0] > 164


@each_row("case", [
    "node_update/deep_columns.by_level",  # one loop loads, computes and stores
    "transpose/f32.rows_in",  # no arithmetic
    "gemm_f32/m1408_n1536.micro_8x8",  # the next tile is loaded while this one is used
    "nbody/field_270k.untiled",
])  # fmt: skip
def test_code_that_mixes_them(case: str) -> None:
    assert document_of_phases(case) is None
    assert document_of_phases("tridiag_batch/rows_f32.staged_33", reads_code=False) is None
