"""Loops that a load ends, and loops that only look like them."""

from __future__ import annotations

from keet.analysis.sass.analyses.data_dependent_loops import exit_loads
from tests.unit.sass.assembled import program

MARKER = """
    MOV R6, RZ
    again: IMAD.WIDE R2, R6, 0x4, R10
    LDG.E R7, desc[UR4][R2.64]
    IADD3 R6, R6, 0x1, RZ
    ISETP.GE.AND P0, PT, R7, RZ, PT
    @P0 BRA again
    EXIT
"""
FLAG = """
    MOV R6, RZ
    again: LDG.E.STRONG.GPU R7, desc[UR4][R2.64]
    ISETP.EQ.AND P0, PT, R7, RZ, PT
    @P0 BRA again
    EXIT
"""
COUNTED = """
    MOV R6, RZ
    again: IMAD.WIDE R2, R6, 0x4, R10
    LDG.E R7, desc[UR4][R2.64]
    FADD R8, R8, R7
    IADD3 R6, R6, 0x1, RZ
    ISETP.NE.AND P0, PT, R6, R5, PT
    @P0 BRA again
    EXIT
"""


def found(lines: str) -> list[int]:
    rows = [row for row in lines.splitlines() if row.strip()]
    made = program(lines, [4, *[40] * (len(rows) - 2), 4])
    (loop,) = made.flow.loops
    return exit_loads(made, loop)


def test_a_search_for_a_marker_waits_for_each_load() -> None:
    assert found(MARKER) == [2]


def test_loops_that_no_load_ends() -> None:
    """Waiting for another thread's flag, and a counted loop over loaded values."""
    assert found(FLAG) == []
    assert found(COUNTED) == []
