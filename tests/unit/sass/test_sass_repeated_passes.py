"""Loops that load from the same addresses are passes over the data, also if the start is data."""

from __future__ import annotations

from keet.analysis.sass.analyses.reuse import PointerReuse
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, machine

ONCE, OFTEN = 10, 80
START = """
    S2R R0, SR_TID.X; LDC.64 R2, c[0x0][0x210]; LDC.64 R8, c[0x0][0x218]
    ULDC.64 UR4, c[0x0][0x208]; S2R R1, SR_CTAID.X; IMAD.WIDE R8, R1, 0x4, R8
    LDG.E R10, desc[UR4][R8.64]; IADD3 R10, R10, R0, RZ
"""
LOOP = """
    MOV R12, RZ
    IMAD.WIDE R4, R10, 0x4, R2
    IADD3 R4, P1, R4, {offset}, RZ
    IADD3.X R5, R5, RZ, RZ, P1, !PT
{name}: LDG.E R20, desc[UR4][R4.64]
    {store}
    IADD3 R4, P1, R4, 0x200, RZ
    IADD3.X R5, R5, RZ, RZ, P1, !PT
    IADD3 R12, R12, 0x1, RZ
    ISETP.NE.AND P0, PT, R12, 0x8, PT
    @P0 BRA {name}
"""
IN_LOOP = [ONCE] * 4 + [OFTEN] * 7


def row(second_offset: str, store: str, times: int = OFTEN) -> PointerReuse:
    one = LOOP.format(name="first", offset="0x0", store="NOP")
    other = LOOP.format(name="second", offset=second_offset, store=store)
    texts = assembled(START + one + other + "\nEXIT")
    second = [ONCE] * 4 + [times] * 7
    counts = [ONCE] * 8 + IN_LOOP + second + [ONCE]
    code = machine(texts, dict(zip(texts, counts, strict=True)))
    return next(each for each in code.reuse_by_passes if each.pointer == "param+0x0")


@each_row("offset, store, times, repeated", [
    ("0x0", "NOP", OFTEN, 32 * 4 * OFTEN),
    ("0x1000", "NOP", OFTEN, 0),  # the second loop reads other data, or not the same part of it
    ("0x0", "NOP", OFTEN // 2, 0),
    ("0x0", "STG.E desc[UR4][R4.64], R20", OFTEN, 0),  # the kernel writes what it reads
])  # fmt: skip
def test_two_loops_over_a_row_whose_start_is_data(offset, store, times, repeated) -> None:
    found = row(offset, store, times)
    assert (found.repeated_bytes, found.distinct_bytes_at_most) == (repeated, repeated or None)
