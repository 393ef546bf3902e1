"""Tiles of matrix products, and what looks like them: a vector, a convolution, a covariance."""

from __future__ import annotations

from keet.analysis.sass.analyses.outer_products import outer_products
from tests.rows import each_row
from tests.unit.sass.assembled import program

LOADS = "LDS.64 R2, [R0]\nLDS.64 R4, [R1]"
STORES = "\n".join(f"STG.E desc[UR4][R20.64], R{each}" for each in range(10, 14))


def factors(*lines: str) -> str | None:
    found = outer_products(program("\n".join((*lines, STORES))))
    return found.factors if found else None


def tile(multiply: str, left: str = "R2 R3", right: str = "R4 R5") -> str:
    """Every left value with every right one; each product to a sum of its own."""
    pairs = [(x, y) for x in left.split() for y in right.split()]
    return "\n".join(f"{multiply} R{10 + i}, {x}, {y}, R{10 + i}" for i, (x, y) in enumerate(pairs))


def every(line: str) -> str:
    return "\n".join(line.format(each) for each in range(2, 6))


STAGED = "LDG.E.U16 R6, desc[UR4][R20.64]\nHADD2.F32 R6, -RZ, R6.H0_H0\nSTS [R0], R6"
SCALED = "FMUL R2, R2, R8"


@each_row("lines, expected", [
    ([LOADS, tile("IDP.4A.S8.S8")], "bytes"),  # dot products of bytes
    # Bytes that are multiplied one by one; integers of 32 bits have no matrix instruction.
    ([LOADS, every("LOP3.LUT R{0}, R{0}, 0xff, RZ, 0xc0, !PT"), tile("IMAD")], "bytes"),
    ([LOADS, tile("IMAD")], ""),
    # A factor that was a byte, also where it was staged as a float.
    ([LOADS, "I2F.S8 R2, R2.B1\nI2F.S8 R3, R3", SCALED, tile("FFMA")], "quantised"),
    ([LOADS, "LDS.U8 R2, [R0]\nI2FP.F32.U32 R2, R2", SCALED, tile("FFMA")], "quantised"),
    (["LDG.E.S8 R6, desc[UR4][R20.64]\nI2F.S16 R6, R6\nSTS [R0], R6", LOADS, tile("FFMA")],
     "quantised"),
    # Halves, and bfloat16: the lower one, by a shift, the upper one.
    ([LOADS, every("HADD2.F32 R{0}, -RZ, R{0}.H0_H0"), tile("FFMA")], "halves"),
    ([LOADS, every("IMAD.U32 R{0}, R{0}, 0x10000, RZ"), tile("FFMA")], "halves"),
    ([LOADS, every("SHF.L.U32 R{0}, R{0}, 0x10, RZ"), tile("FFMA")], "halves"),
    ([LOADS, every("LOP3.LUT R{0}, R{0}, 0xffff0000, RZ, 0xc0, !PT"), tile("FFMA")], "halves"),
    # Both factors have to be halves.
    ([LOADS, "HADD2.F32 R2, -RZ, R2.H0_H0\nHADD2.F32 R3, -RZ, R3.H0_H0", tile("FFMA")], ""),
    ([STAGED, "", LOADS, tile("FFMA")], "halves"),
    ([STAGED, "STS [R1], R7", LOADS, tile("FFMA")], ""),
    (["STS [R0], R6", LOADS, tile("FFMA")], ""),  # floats may need their precision
])  # fmt: skip
def test_factors_of_a_tile(lines: list[str], expected: str) -> None:
    assert factors(*lines) == expected


LOOK_ALIKES = {
    "a matrix and a vector": tile("IDP.4A.S8.S8", left="R2", right="R4 R5"),
    "a convolution, whose products of one value go to few sums": """
        IDP.4A.S8.S8 R10, R2, R4, R10; IDP.4A.S8.S8 R10, R3, R5, R10
        IDP.4A.S8.S8 R11, R3, R4, R11; IDP.4A.S8.S8 R11, R2, R5, R11""",
    "a convolution, whose values meet some of the others": """
        IDP.4A.S8.S8 R10, R2, R4, R10; IDP.4A.S8.S8 R11, R3, R4, R11
        IDP.4A.S8.S8 R12, R3, R5, R12""",
    "a covariance, whose factors are of one set": """
        IDP.4A.S8.S8 R10, R2, R3, R10; IDP.4A.S8.S8 R11, R2, R4, R11
        IDP.4A.S8.S8 R12, R3, R4, R12""",
    "a square": "IDP.4A.S8.S8 R10, R2, R2, R10",
}


@each_row("lines", LOOK_ALIKES.values())
def test_a_look_alike_is_no_tile(lines: str) -> None:
    assert factors(LOADS, lines) is None
