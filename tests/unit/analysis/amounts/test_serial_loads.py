"""Round trips to memory that loads make one after the other, and code that only looks so."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.amounts.serial_loads import serial_loads
from keet.analysis.launch_view import LaunchView
from keet.analysis.sass.analyses.serial_loads import SerialLoads
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.machine_code import MachineCode
from keet.analysis.sass.polynomials.symbols import launch_shape
from keet.documents.amounts import SerialLoadsDocument
from keet.ingest import read_profile
from tests.rows import each_row
from tests.unit.sass.assembled import assembled

FAMILIES = Path("kernels_samples/casebook/families")
START = """
    S2R R0, SR_TID.X
    S2R R1, SR_CTAID.X
    IMAD R0, R1, 0x80, R0
    ULDC.64 UR4, c[0x0][0x208]
    IMAD.WIDE R2, R0, 0x4, c[0x0][0x210]
    IMAD.WIDE R4, R0, 0x4, c[0x0][0x218]
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
    return MachineCode(
        program,
        launch_shape((64, 1, 1), (128, 1, 1), "9.0"),
        None,
        {"long_scoreboard": used},
        None,
        None,
        None,
        {},
    ).serial_loads


def trips(body: str, skipped: Mapping[str, int] | None = None) -> list[tuple[str | None, bool]]:
    """The reason of each round trip of the region with most waits, and whether it is avoidable."""
    return [(trip.reason, trip.is_avoidable) for trip in regions(body, skipped)[0].trips]


FIRST = """
    LDG.E R10, desc[UR4][R2.64]
    FADD R11, R10, R10
"""
SECOND = """
    LDG.E R12, desc[UR4][R4.64]
    FADD R13, R12, R11
    STG.E desc[UR4][R6.64+0x100], R13
    EXIT
"""


def test_a_store_to_another_array_delays_a_load() -> None:
    body = FIRST + "STG.E desc[UR4][R6.64], R11\n" + SECOND
    assert trips(body) == [(None, False), ("store", True)]
    (region,) = regions(body)
    assert (region.needed, region.avoidable, region.loop) == (1, 1, None)
    assert region.avoidable_samples == 100


def test_data_that_is_not_written_is_not_delayed_by_a_store() -> None:
    second = SECOND.replace("LDG.E R12", "LDG.E.CONSTANT R12")
    assert trips(FIRST + "STG.E desc[UR4][R6.64], R11\n" + second) == [
        (None, False),
        ("unknown", False),
    ]


def test_a_store_a_known_distance_away_is_no_reason() -> None:
    assert trips(FIRST + "STG.E desc[UR4][R4.64+0x40], R11\n" + SECOND)[1] == ("unknown", False)


def test_a_store_to_the_same_place_is_needed() -> None:
    assert trips(FIRST + "STG.E desc[UR4][R4.64], R11\n" + SECOND)[1] == ("unknown", False)


def test_a_store_by_an_index_from_memory_into_the_same_array_may_be_meant() -> None:
    body = """
        LDG.E R10, desc[UR4][R2.64]
        IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
        STG.E desc[UR4][R8.64], R0
        STG.E desc[UR4][R6.64], R0
    """
    assert trips(body + SECOND.replace("R11", "R0"))[1] == ("unknown", False)


def test_an_atomic_delays_a_load() -> None:
    assert trips(FIRST + "REDG.E.ADD.F32 desc[UR4][R6.64], R11\n" + SECOND)[1] == ("atomic", True)


def test_loads_behind_a_barrier_are_needed() -> None:
    body = FIRST + "STG.E desc[UR4][R6.64], R11\nBAR.SYNC 0x0\n" + SECOND
    assert trips(body)[1] == ("barrier", False)


def test_a_gather_is_needed() -> None:
    body = """
        LDG.E R10, desc[UR4][R2.64]
        IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
        STG.E desc[UR4][R6.64], R10
        LDG.E R12, desc[UR4][R8.64]
        FADD R13, R12, R12
        STG.E desc[UR4][R6.64], R13
        EXIT
    """
    assert trips(body) == [(None, False), ("address", False)]


def test_two_gathers_with_a_store_between_need_two_round_trips() -> None:
    body = """
        LDG.E R10, desc[UR4][R2.64]
        IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
        LDG.E R12, desc[UR4][R8.64]
        FADD R13, R12, R12
        STG.E desc[UR4][R6.64], R13
        LDG.E R10, desc[UR4][R2.64+0x4]
        IMAD.WIDE R8, R10, 0x4, c[0x0][0x218]
        LDG.E R12, desc[UR4][R8.64]
        FADD R13, R12, R12
        STG.E desc[UR4][R6.64+0x4], R13
        EXIT
    """
    (region,) = regions(body)
    reasons = [trip.reason for trip in region.trips]
    assert reasons == [None, "address", "store", "address"]
    assert (region.needed, region.avoidable) == (2, 2)


def test_pointers_that_are_loaded_again_after_a_store() -> None:
    """A structure in memory holds the pointers: each store may change them."""
    body = """
        MOV R2, c[0x0][0x210]
        MOV R3, c[0x0][0x214]
        LDG.E.64 R14, desc[UR4][R2.64]
        LDG.E.64 R16, desc[UR4][R2.64+0x8]
        IMAD.WIDE R8, R0, 0x4, R14
        LDG.E R10, desc[UR4][R8.64]
        FADD R11, R10, R10
        IMAD.WIDE R18, R0, 0x4, R16
        STG.E desc[UR4][R18.64], R11
        LDG.E.64 R14, desc[UR4][R2.64+0x10]
        IMAD.WIDE R8, R0, 0x4, R14
        LDG.E R10, desc[UR4][R8.64]
        FADD R11, R10, R10
        STG.E desc[UR4][R18.64+0x4], R11
        EXIT
    """
    (region,) = regions(body)
    reasons = [trip.reason for trip in region.trips]
    assert reasons == [None, "address", "store", "address"]
    assert region.needed == 2


def test_loads_in_one_batch_are_one_round_trip() -> None:
    body = """
        LDG.E R10, desc[UR4][R2.64]
        LDG.E R12, desc[UR4][R4.64]
        FADD R11, R10, R10
        STG.E desc[UR4][R6.64], R11
        FADD R13, R12, R12
        STG.E desc[UR4][R6.64+0x4], R13
        EXIT
    """
    assert trips(body) == [(None, False)]


def test_a_branch_on_loaded_data_that_ends_the_thread_is_needed() -> None:
    body = FIRST + "FSETP.GT.AND P0, PT, R11, RZ, PT\n@P0 EXIT\n" + SECOND
    assert trips(body)[1] == ("branch", False)


def test_a_branch_to_a_slow_path_that_comes_back_decides_nothing() -> None:
    body = (
        FIRST
        + """
        FSETP.GT.AND P0, PT, R11, RZ, PT
        @P0 BRA slow
    back: NOP
        """
        + SECOND
        + "slow: FMUL R11, R11, R11\nBRA back"
    )
    assert trips(body, {"FMUL": 0, "BRA back": 0})[1] == ("branch", True)


def test_two_sides_of_a_branch_are_not_serial() -> None:
    body = """
        ISETP.GT.AND P0, PT, R0, 0x10, PT
        @P0 BRA other
        LDG.E R10, desc[UR4][R2.64]
        FADD R11, R10, R10
        BRA join
    other: LDG.E R10, desc[UR4][R4.64]
        FADD R11, R10, R10
    join: STG.E desc[UR4][R6.64], R11
        EXIT
    """
    assert regions(body)[0].avoidable == 0


LOOP = """
    MOV R20, RZ
    LDG.E R10, desc[UR4][R2.64]
again: LDG.E R12, desc[UR4][R4.64]
    FADD R11, R10, R11
    STG.E desc[UR4][R6.64], R11
    LDG.E R14, desc[UR4][R4.64+0x4]
    FADD R11, R12, R11
    STG.E desc[UR4][R6.64+0x4], R11
    LDG.E R10, desc[UR4][R4.64+0x8]
    FADD R11, R14, R11
    STG.E desc[UR4][R6.64+0x8], R11
    IADD3 R20, R20, 0x1, RZ
    ISETP.GE.AND P0, PT, R20, 0x8, PT
    @!P0 BRA again
    EXIT
"""


def test_a_loop_that_loads_one_step_ahead_is_not_serial() -> None:
    assert all(not region.avoidable for region in regions(LOOP))


def test_a_loop_that_loads_each_step_after_the_store_of_the_one_before_is() -> None:
    body = LOOP.replace("FADD R11, R10, R11", "FADD R11, R12, R11")
    body = body.replace("FADD R11, R14, R11", "FADD R11, R10, R11")
    body = body.replace("LDG.E R14", "LDG.E R12").replace("R4.64+0x8", "R2.64+0x8")
    assert any(region.avoidable == 2 and region.loop == 0 for region in regions(body))


# --- reports


@cache
def document(case: str) -> SerialLoadsDocument | None:
    family, _, side = case.partition("/")
    profile = read_profile(FAMILIES / family / "profiles" / f"{side}.keet.json.zst")
    return serial_loads(LaunchView(profile.launches[0], reads_code=True))


def test_stores_between_the_loads_of_an_unrolled_loop() -> None:
    found = document("node_update/deep_columns.by_level")
    assert found is not None
    assert (found.round_trips, found.needed, found.loads, found.iterations) == (16, 1, 32, 12)
    assert found.loop is not None
    assert found.loop.line == 45
    assert {(trip.line, trip.after_line, trip.reason) for trip in found.trips[1:]} == {
        (47, 48, "store")
    }
    assert set(found.pointers) == {"rate", "source", "level"}
    assert found.avoidable_pct == pytest.approx(90, abs=2)
    assert {each.metric for each in found.evidence} >= {"serial_round_trips", "serial_waits"}
    assert set(found.text.ids) <= {each.id for each in found.evidence}


def test_stores_through_pointers_of_one_structure() -> None:
    """Three loads, a store, a load, two stores, for each of three axes. L2 is busy, too."""
    profile = read_profile(Path("evals/amounts/programs/impact.ncu-repz"))
    launch = next(each for each in profile.launches if each.name.function == "update_nodes")
    found = serial_loads(LaunchView(launch, reads_code=True))
    assert found is not None
    assert (found.round_trips, found.needed, found.loads, found.loop) == (6, 1, 12, None)
    assert [(trip.line, trip.after_line) for trip in found.trips[1:]] == [
        (266, 265),
        (268, 267),
        (269, 268),
        (271, 270),
        (272, 271),
    ]
    assert {trip.reason for trip in found.trips[1:]} == {"store"}
    assert found.waits_pct > 90
    assert found.avoidable_pct == pytest.approx(78, abs=1)


def test_a_load_that_the_compiler_put_behind_a_slow_path() -> None:
    """Two of 32 loads stand behind the branch of the first division."""
    found = document("tridiag_batch/long_f64.march_ahead")
    assert found is not None
    assert [(trip.loads, trip.reason) for trip in found.trips] == [(30, None), (2, "branch")]
    assert (found.trips[1].line, found.trips[1].after_line) == (233, 237)


LOOK_ALIKES = (
    "node_update/deep_columns.eight_levels",  # all loads of an iteration are issued first
    "node_update/deep_columns.next_level_early",  # one step ahead
    "node_update/mesh.node_per_thread",  # each index comes from the load before
    "node_update/mesh.four_nodes_per_thread",
    "node_update/contacts.contact_by_contact",  # a list
    "node_update/records.list_per_thread",
    "gemm_f32/nt_1024.nt_micro",  # tiles between barriers
    "vote_grid/words_flat.words_head_first",  # two sides of a branch
    "graph_bfs/mesh.mark_each",  # stores into the array that is loaded
)


@each_row("case", LOOK_ALIKES)
def test_look_alikes(case: str) -> None:
    assert document(case) is None


def test_without_machine_code_nothing_is_said() -> None:
    path = FAMILIES / "node_update" / "profiles" / "deep_columns.by_level.keet.json.zst"
    assert serial_loads(LaunchView(read_profile(path).launches[0])) is None
