"""Arrays that are read in ranges between offsets. Grid 64 x 2, blocks of 128 threads."""

from __future__ import annotations

from dataclasses import replace

from keet.profile import Location
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, machine

START = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; S2R R2, SR_CTAID.Y; LDC.64 R6, c[0x0][0x210]
    LDC.64 R10, c[0x0][0x218]; LDC.64 R18, c[0x0][0x220]; ULDC.64 UR4, c[0x0][0x208]
    IMAD R3, R2, 0x40, R1; {row}; IMAD.WIDE R4, R3, 0x4, R6; LDG.E R8, desc[UR4][R4.64]
    LDG.E R9, desc[UR4][R4.64+{next}]; ISETP.GE.AND P0, PT, R8, R9, PT; @P0 EXIT; MOV R12, R8
    {own}
"""
LOOP = """
    again: IMAD.WIDE R14, R12, 0x4, R10; LDG.E R16, desc[UR4][R14.64]
    IADD3 R12, R12, {step}, RZ; ISETP.GE.AND P1, PT, R12, R9, PT; @!P1 BRA again
"""
BY_THREAD = {"row": "IMAD R3, R3, 0x80, R0", "next": "0x4", "own": "NOP", "step": "0x1"}
BY_BLOCK = {**BY_THREAD, "row": "NOP"}
LANES = {**BY_BLOCK, "own": "IADD3 R12, R8, R0, RZ", "step": "0x80"}
ROUNDS = 3


def size(parts: dict[str, str], code: str = LOOP) -> float | None:
    """Distinct bytes of the array if rows do not overlap, by bytes that one thread requests."""
    texts = assembled((START + code + "EXIT").format(**parts))
    loop = next(a for a, text in texts.items() if "R14" in text)
    ran = {a: 512 * (ROUNDS if a >= loop else 1) for a in texts}
    ran[max(texts)] = 512
    lanes = {a: 32 * count for a, count in ran.items()}
    second = [a for a, text in texts.items() if "R14" in text][2:]
    lines = {a: Location("k.cu", 2 if second and a >= second[0] else 1) for a in texts}
    found = replace(machine(texts, ran), threads=lanes, locations=lines)
    known = found.footprints.of("param+0x8", ("load",))
    assert not known.is_exact
    return None if known.in_rows is None else known.in_rows / 4


@each_row("parts, elements", [
    (BY_THREAD, ROUNDS * 512 * 32),
    (BY_BLOCK, ROUNDS * 128),  # all threads of a block read the same row
    (LANES, ROUNDS * 512 * 32),  # each its part of it
    ({**BY_THREAD, "next": "0x8"}, None),  # what follows is not the end of the row
    ({**LANES, "step": "0x1"}, None),  # threads begin at their own element, and go on by one
])  # fmt: skip
def test_rows(parts: dict[str, str], elements: int | None) -> None:
    assert size(parts) == elements


def test_two_passes_at_two_lines() -> None:
    assert size(BY_THREAD, LOOP + "MOV R12, R8\n" + LOOP.replace("again", "more")) is None
