"""Integers that neighbouring threads compute equally."""

from __future__ import annotations

import pytest

from keet.analysis.sass.analyses.lane_groups import lane_groups
from keet.analysis.sass.analyses.purpose import purposes
from keet.analysis.sass.polynomials.symbols import launch_shape
from tests.rows import each_row
from tests.unit.sass.assembled import program

COUNTER = """
    S2R R0, SR_TID.X; S2R R7, SR_CTAID.X; {index}; {part}; IMAD R6, R5, 0x2545f491, RZ
    LOP3.LUT R6, R6, 0x5eed, RZ, 0x3c, !PT; STG.E desc[UR4][R2.64], R6; EXIT
"""
QUARTER = "SHF.R.U32.HI R5, RZ, 0x2, R4"


def found(
    index: str, part: str = QUARTER, block: tuple[int, int, int] = (128, 1, 1)
) -> dict[int, float]:
    code = program(COUNTER.format(index=index, part=part), [100] * (8 + part.count("\n")))
    shape = launch_shape((64, 2, 1), block, "9.0")
    return lane_groups(code, shape, purposes(code))


@each_row("index", [
    "MOV R4, R0",
    "IADD3 R4, R0, 0x200, RZ",
    "IMAD R4, R7, c[0x0][0x0], R0",  # blocks of 128 threads
])  # fmt: skip
def test_what_follows_from_a_quarter_of_the_index_is_the_same_in_four_lanes(index: str) -> None:
    assert found(index) == {4: 0.75, 5: 0.75}


def test_pairs_and_blocks_of_few_columns() -> None:
    assert set(found("MOV R4, R0", "LOP3.LUT R5, R4, 0xfffffffe, RZ, 0xc0, !PT").values()) == {0.5}
    assert set(found("S2R R4, SR_TID.Y", "MOV R5, R4", (4, 32, 1)).values()) == {0.75}


@pytest.mark.parametrize(("index", "part"), [
    ("MOV R4, R0", "MOV R5, R4"),
    ("IADD3 R4, R0, 0x1, RZ", QUARTER),  # the groups do not start at multiples of four lanes
    ("IMAD R4, R0, R0, RZ", QUARTER),  # every second thread: the quarter is that of two lanes
    # The same in the whole warp: one instruction of it computes it once.
    ("MOV R4, R0", "SHF.R.U32.HI R5, RZ, 0x5, R4"),
    ("LDG.E R4, desc[UR4][R2.64]", QUARTER),  # data of the thread itself
], ids=["index", "odd start", "square", "warp", "data"])  # fmt: skip
def test_lanes_with_values_of_their_own_are_no_group(index: str, part: str) -> None:
    assert not found(index, part)


def test_a_shift_by_an_amount_of_each_lane_leaves_no_group() -> None:
    part = "SHF.R.U32.HI R8, RZ, 0x2, R4\n LOP3.LUT R9, R4, 0x3, RZ, 0xc0, !PT\n"
    assert not found("MOV R4, R0", part + "SHF.R.U32.HI R5, RZ, R9, R8")


def test_an_entry_of_a_table_is_that_of_its_index() -> None:
    quarter = "SHF.R.U32.HI R8, RZ, 0x2, R4\n"
    assert set(found("MOV R4, R0", quarter + "LDC R5, c[0x3][R8]").values()) == {0.75}
    assert not found("MOV R4, R0", "LDC R5, c[0x3][R4]")


COUNT = """
    S2R R0, SR_TID.X; SHF.R.U32.HI R5, RZ, 0x2, R0; {limit}; MOV R9, RZ
    again: IADD3 R9, R9, 0x1, RZ; ISETP.LT.AND P0, PT, R9, R8, PT; @P0 BRA again
    IADD3 R6, R9, R5, RZ; IMAD R6, R6, 0x2545f491, RZ; STG.E desc[UR4][R2.64], R6; EXIT
"""


@each_row("limit, groups", [
    ("LDG.E R8, desc[UR4][R2.64]", set()),  # each lane leaves the loop on its own
    ("LOP3.LUT R8, R0, 0xfffffffe, RZ, 0xc0, !PT", {0.5}),
    ("MOV R8, 0x7", {0.75}),
])  # fmt: skip
def test_after_a_loop_lanes_have_the_value_of_their_last_iteration(limit, groups) -> None:
    code = program(COUNT.format(limit=limit), [100] * 4 + [700] * 3 + [100] * 4)
    shape = launch_shape((64, 2, 1), (128, 1, 1), "9.0")
    parts = lane_groups(code, shape, purposes(code))
    assert {part for at, part in parts.items() if at in (7, 8)} == groups


def test_lanes_that_end_an_iteration_in_two_ways_differ_in_the_next() -> None:
    text = """
        S2R R0, SR_TID.X; SHF.R.U32.HI R5, RZ, 0x2, R0; MOV R9, RZ; MOV R7, RZ
        again: IADD3 R7, R7, 0x1, RZ; IMAD R6, R9, R5, R7; IMAD R6, R6, 0x2545f491, RZ
        STG.E desc[UR4][R2.64], R6; LDG.E R8, desc[UR4][R2.64]; ISETP.LT.AND P0, PT, R8, RZ, PT
        @P0 BRA again; IADD3 R9, R9, 0x1, RZ; ISETP.LT.AND P1, PT, R7, 0x10, PT; @P1 BRA again
        EXIT
    """
    code = program(text, [100] * 4 + [700] * 7 + [500] * 3 + [100])
    shape = launch_shape((64, 2, 1), (128, 1, 1), "9.0")
    assert not {5, 6} & set(lane_groups(code, shape, purposes(code)))
