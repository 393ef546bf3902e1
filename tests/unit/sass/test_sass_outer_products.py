"""Tiles of matrix products, and what looks like them: a vector, a convolution, a covariance."""

from __future__ import annotations

import pytest

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


def test_dot_products_of_bytes_are_a_tile() -> None:
    assert factors(LOADS, tile("IDP.4A.S8.S8")) == "bytes"


def test_bytes_that_are_multiplied_one_by_one_are_a_tile() -> None:
    bytes_of = "\n".join(f"LOP3.LUT R{each}, R{each}, 0xff, RZ, 0xc0, !PT" for each in range(2, 6))
    assert factors(LOADS, bytes_of, tile("IMAD")) == "bytes"


def test_integers_of_32_bits_have_no_matrix_instruction() -> None:
    assert factors(LOADS, tile("IMAD")) == ""


@pytest.mark.parametrize(
    "converts", ["I2F.S8 R2, R2.B1\nI2F.S8 R3, R3", "LDS.U8 R2, [R0]\nI2FP.F32.U32 R2, R2"]
)
def test_a_factor_that_was_a_byte_is_quantised(converts: str) -> None:
    assert factors(LOADS, converts, "FMUL R2, R2, R8", tile("FFMA")) == "quantised"


def test_a_byte_that_was_staged_as_a_float_is_quantised() -> None:
    stages = "LDG.E.S8 R6, desc[UR4][R20.64]\nI2F.S16 R6, R6\nSTS [R0], R6"
    assert factors(stages, LOADS, tile("FFMA")) == "quantised"


WIDENED = {
    "halves": "HADD2.F32 R{0}, -RZ, R{0}.H0_H0",
    "bfloat16, the lower one": "IMAD.U32 R{0}, R{0}, 0x10000, RZ",
    "bfloat16, by a shift": "SHF.L.U32 R{0}, R{0}, 0x10, RZ",
    "bfloat16, the upper one": "LOP3.LUT R{0}, R{0}, 0xffff0000, RZ, 0xc0, !PT",
}


@each_row("widens", WIDENED.values())
def test_floats_that_were_halves_in_memory_are_halves(widens: str) -> None:
    every = "\n".join(widens.format(each) for each in range(2, 6))
    assert factors(LOADS, every, tile("FFMA")) == "halves"


def test_both_factors_have_to_be_halves() -> None:
    one = "HADD2.F32 R2, -RZ, R2.H0_H0\nHADD2.F32 R3, -RZ, R3.H0_H0"
    assert factors(LOADS, one, tile("FFMA")) == ""


@pytest.mark.parametrize(("also", "found"), [("", "halves"), ("STS [R1], R7", "")])
def test_halves_staged_as_floats(also: str, found: str) -> None:
    stages = "LDG.E.U16 R6, desc[UR4][R20.64]\nHADD2.F32 R6, -RZ, R6.H0_H0\nSTS [R0], R6"
    assert factors(stages, also, LOADS, tile("FFMA")) == found


def test_floats_may_need_their_precision() -> None:
    assert factors("STS [R0], R6", LOADS, tile("FFMA")) == ""


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
