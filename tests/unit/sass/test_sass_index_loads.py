"""Which loads return an index: not those that return a pointer, nor those that only decide."""

from __future__ import annotations

from keet.analysis.sass.analyses.address_patterns import index_loads
from tests.rows import each_row
from tests.unit.sass.assembled import program

START = """
    S2R R0, SR_TID.X; LDC.64 R6, c[0x0][0x210]; ULDC.64 UR4, c[0x0][0x208]
    IMAD.WIDE R4, R0, 0x4, R6; {load}; {between}; LDG.E R20, desc[UR4][R10.64]; EXIT
"""
LOAD = "LDG.E R8, desc[UR4][R4.64]"


@each_row("load, between, is_index", [
    (LOAD, "IMAD.WIDE R10, R8, 0x4, R6", True),
    (LOAD, "SHFL.IDX PT, R9, R8, RZ, 0x1f\nIMAD.WIDE R10, R9, 0x4, R6", True),
    ("LDS R8, [R4]", "IMAD.WIDE R10, R8, 0x4, R6", True),
    # A pointer that is loaded, with an index of the thread.
    ("LDG.E.64 R8, desc[UR4][R4.64]", "IMAD.WIDE R10, R0, 0x4, R8", False),
    # The loaded value decides which of two indices it is.
    (LOAD, "ISETP.GT.AND P0, PT, R8, RZ, PT\nSEL R9, R0, RZ, P0\nIMAD.WIDE R10, R9, 0x4, R6",
     False),
    # A counter that an atomic returns, a parameter, a spilled register.
    ("ATOMG.E.ADD PT, R8, desc[UR4][R4.64], R0", "IMAD.WIDE R10, R8, 0x4, R6", False),
    ("LDC R8, c[0x0][0x220]", "IMAD.WIDE R10, R8, 0x4, R6", False),
    ("LDL R8, [R1]", "IMAD.WIDE R10, R8, 0x4, R6", False),
])  # fmt: skip
def test_index(load: str, between: str, *, is_index: bool) -> None:
    code = program(START.format(load=load, between=between))
    last = max(at for at, each in enumerate(code.code) if each.text.startswith("LDG.E R20"))
    assert bool(index_loads(code, last)) is is_index
