"""An instruction that keet does not know makes results unknown, never wrong."""

from __future__ import annotations

from keet.analysis.sass.analyses.purpose import Purpose
from tests.unit.sass.assembled import assembled, machine

CODE = [
    "S2R R0, SR_TID.X",
    "{}",
    "MOV R2, c[0x0][0x210]",
    "MOV R3, c[0x0][0x214]",
    "IMAD.WIDE R4, R9, 0x4, R2",
    "LDG.E R6, [R4.64]",
    "STG.E [R4.64], R6",
    "EXIT",
]


def test_an_address_behind_an_unknown_opcode_has_no_bound() -> None:
    known, unknown = (
        machine(assembled([text.format(line) for text in CODE]), {})
        for line in ("IADD3 R9, R0, 0x1, RZ", "XYZZY R8, R0, 0x1")
    )
    assert known.accesses[0].shape is not None
    assert unknown.accesses[0].shape is None  # R9 may be written, too
    assert "unknown" in unknown.accesses[0].offset.depends


def test_it_and_what_it_reads_have_no_purpose() -> None:
    texts = ["S2R R0, SR_TID.X", "IADD3 R1, R0, 0x1, RZ", "XYZZY R8, R1", "EXIT"]
    code = machine(assembled(texts), {})
    assert code.purposes[2] is Purpose.UNKNOWN
    assert code.purposes[1] is Purpose.UNKNOWN
    assert code.unknown_share == 1 / 4
