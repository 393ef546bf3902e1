"""Whether DRAM data is read once or several times: what each verdict requires."""

from __future__ import annotations

import pytest

from keet.analysis.sass.analyses.reuse import PointerReuse, _apportioned, compared_parameters
from keet.analysis.sass.streaming import verdict_of
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, machine

MB = 1_000_000


def row(distinct: int | None, asked: int, *, overlaps: bool = False) -> PointerReuse:
    return PointerReuse(
        "param+0x0", (), asked, distinct, distinct, "bound", may_overlap=overlaps, l1_bytes=asked
    )


def test_negative_byte_counts_are_treated_as_zero() -> None:
    """L2's reads are a difference of counters of two passes at times."""
    for rows in ([row(None, MB)], [row(None, MB), row(None, MB)], [row(MB, MB), row(MB, MB)]):
        assert {each.l2_bytes for each in _apportioned(rows, -32)} == {0}


@each_row("dram, rows, verdict", [
    (100 * MB, [row(100 * MB, 100 * MB)], "once"),
    (300 * MB, [row(100 * MB, 300 * MB)], "several"),
    (135 * MB, [row(100 * MB, 300 * MB)], "between"),
    (50 * MB, [row(100 * MB, 300 * MB)], "unknown"),  # the bound is not reached
    (100 * MB, [row(100 * MB, 100 * MB, overlaps=True)], "unknown"),
    (300 * MB, [row(100 * MB, 300 * MB, overlaps=True)], "several"),  # only more, then
    (300 * MB, [row(100 * MB, 300 * MB), row(None, 300 * MB)], "unknown"),  # a gather
    (300 * MB, [row(100 * MB, 300 * MB), row(None, 3 * MB)], "several"),  # a small one
    (3000, [row(1000, 3000)], "unknown"),  # too small to tell
    (None, [row(100 * MB, 100 * MB)], "unknown"),
    (100 * MB, [], "unknown"),
])  # fmt: skip
def test_verdicts(dram: int | None, rows: list[PointerReuse], verdict: str) -> None:
    found = verdict_of(dram, rows)
    assert (found.verdict, bool(found.reason)) == (verdict, verdict == "unknown")


def test_spills_prevent_a_verdict() -> None:
    assert verdict_of(300 * MB, [row(100 * MB, 300 * MB)], others="spills").verdict == "unknown"


ROWS = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; LDC R2, c[0x0][0x218]; {}; @P0 EXIT
    IMAD R3, R1, R2, R0; LDC.64 R4, c[0x0][0x210]; IMAD.WIDE R6, R3, 0x4, R4; LDG.E R8, [R6.64]
    STG.E [R6.64], R8; EXIT
"""


@pytest.mark.parametrize(("guard", "overlaps"), [
    ("ISETP.GE.AND P0, PT, R0, R2, PT", False),  # x < width
    ("ISETP.GE.AND P0, PT, R0, 0x40, PT", True),
])  # fmt: skip
def test_rows_do_not_overlap_if_an_index_is_compared_with_their_distance(guard, overlaps) -> None:
    code = machine(assembled(ROWS.format(guard)), {})
    (found,) = code.reuse
    assert found.may_overlap == overlaps
    assert bool(compared_parameters(code.evaluation)) != overlaps
