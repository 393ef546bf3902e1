"""Whether data is read once or several times: what each verdict requires, and loops that load from the
same addresses."""

from keet.analysis.machine_code.analyses.reuse import (
    PointerReuse,
    _apportioned,
    compared_parameters,
)
from keet.analysis.machine_code.streaming import verdict_of
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, machine

MB = 1_000_000


def row(distinct: int | None, asked: int, *, overlaps: bool = False) -> PointerReuse:
    return PointerReuse(
        "param+0x0", (), asked, distinct, distinct, "bound", may_overlap=overlaps, l1_bytes=asked
    )


def test_negative_byte_counts_are_treated_as_zero_and_spills_prevent_a_verdict() -> None:
    # L2's reads are a difference of counters of two passes at times.
    for rows in ([row(None, MB)], [row(None, MB), row(None, MB)], [row(MB, MB), row(MB, MB)]):
        assert {each.l2_bytes for each in _apportioned(rows, -32)} == {0}
    assert verdict_of(300 * MB, [row(100 * MB, 300 * MB)], others="spills").verdict == "unknown"


@each_row("dram, rows, verdict", [
    (100 * MB, [row(100 * MB, 100 * MB)], "once"), (300 * MB, [row(100 * MB, 300 * MB)], "several"),
    (135 * MB, [row(100 * MB, 300 * MB)], "between"),
    (50 * MB, [row(100 * MB, 300 * MB)], "unknown"),  # the bound is not reached
    (100 * MB, [row(100 * MB, 100 * MB, overlaps=True)], "unknown"),
    (300 * MB, [row(100 * MB, 300 * MB, overlaps=True)], "several"),  # only more, then
    (300 * MB, [row(100 * MB, 300 * MB), row(None, 300 * MB)], "unknown"),  # a gather
    (300 * MB, [row(100 * MB, 300 * MB), row(None, 3 * MB)], "several"),  # a small one
    (3000, [row(1000, 3000)], "unknown"),  # too small to tell
    (None, [row(100 * MB, 100 * MB)], "unknown"), (100 * MB, [], "unknown"),
])  # fmt: skip
def test_verdicts(dram: int | None, rows, verdict: str) -> None:
    found = verdict_of(dram, rows)
    assert (found.verdict, bool(found.reason)) == (verdict, verdict == "unknown")


ROWS = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; LDC R2, c[0x0][0x218]; {}; @P0 EXIT
    IMAD R3, R1, R2, R0; LDC.64 R4, c[0x0][0x210]; IMAD.WIDE R6, R3, 0x4, R4; LDG.E R8, [R6.64]
    STG.E [R6.64], R8; EXIT
"""


@each_row("guard, overlaps", [
    ("ISETP.GE.AND P0, PT, R0, R2, PT", False),  # x < width
    ("ISETP.GE.AND P0, PT, R0, 0x40, PT", True),
])  # fmt: skip
def test_rows_do_not_overlap_if_an_index_is_compared_with_their_distance(guard, overlaps) -> None:
    code = machine(assembled(ROWS.format(guard)), {})
    (found,) = code.reuse
    assert found.may_overlap == overlaps
    assert bool(compared_parameters(code.evaluation)) != overlaps


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


@each_row("offset, store, times, repeated", [
    ("0x0", "NOP", OFTEN, 32 * 4 * OFTEN),
    ("0x1000", "NOP", OFTEN, 0),  # the second loop reads other data, or not the same part of it
    ("0x0", "NOP", OFTEN // 2, 0),
    ("0x0", "STG.E desc[UR4][R4.64], R20", OFTEN, 0),  # the kernel writes what it reads
])  # fmt: skip
def test_two_loops_over_a_row_whose_start_is_data(offset, store, times, repeated) -> None:
    one = LOOP.format(name="first", offset="0x0", store="NOP")
    other = LOOP.format(name="second", offset=offset, store=store)
    counts = [ONCE] * 8 + IN_LOOP + [ONCE] * 4 + [times] * 7 + [ONCE]
    texts = assembled(START + one + other + "\nEXIT")
    code = machine(texts, dict(zip(texts, counts, strict=True)))
    found = next(each for each in code.reuse_by_passes if each.pointer == "param+0x0")
    assert (found.repeated_bytes, found.distinct_bytes_at_most) == (repeated, repeated or None)
