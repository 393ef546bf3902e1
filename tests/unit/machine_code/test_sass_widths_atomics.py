"""Addresses (loads that could be one, distances between lanes, atomics, indices that are loaded), and
tiles of matrix products."""

from dataclasses import replace

from keet.analysis.machine_code.analyses.address_patterns import (
    Merge,
    index_loads,
    is_gather,
    is_uniform,
    lane_stride,
)
from keet.analysis.machine_code.analyses.lane_groups import outer_products
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, machine, program

PROLOGUE = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; LDC.64 R2, c[0x0][0x210]; ULDC.64 UR4, c[0x0][0x208]
"""
FIRST = 4
"""Position of the first instruction after the prologue."""


def kernel(body: str) -> MachineCode:
    texts = assembled(PROLOGUE + body + "\nEXIT")
    return machine(texts, dict.fromkeys(texts, 256))


def loads(offsets: list[int], width: str = "") -> str:
    rows = [
        f"LDG.E{width} R{20 + 4 * place}, desc[UR4][R4.64+{offset:#x}]"
        for place, offset in enumerate(offsets)
    ]
    return "\n".join(["IMAD.WIDE R4, R0, 0x10, R2", *rows])


@each_row("offsets, width, expected", [
    ([0, 4, 8, 12], "", [Merge((5, 6, 7, 8), 4, 16, True)]),
    ([12, 0, 8, 4], "", [Merge((6, 8, 7, 5), 4, 16, True)]),
    ([0, 4], "", [Merge((5, 6), 4, 8, True)]), ([0, 4, 8], "", [Merge((5, 6, 7), 4, 8, True)]),
    ([4, 8], "", [Merge((5, 6), 4, 8, False)]), ([0, 8], "", []), ([0], "", []), ([0, 0], "", []),
    ([0, 4, 64, 68], "", [Merge((5, 6), 4, 8, True), Merge((7, 8), 4, 8, True)]),
    ([0, 8], ".64", [Merge((5, 6), 8, 16, True)]),
    ([0, 16], ".128", []),  # the widest loads stay as they are
])  # fmt: skip
def test_loads_of_consecutive_words(offsets, width, expected) -> None:
    assert kernel(loads(offsets, width)).merges == expected


BY_PARAMETER = """
    LDC R6, c[0x0][0x218]; IMAD R7, R0, 0x2, RZ; IMAD R7, R1, R6, R7; IMAD.WIDE R4, R7, 0x4, R2
"""


@each_row("address, is_aligned", [(BY_PARAMETER, None), ("IMAD.WIDE R4, R0, 0x4, R2\n", False)])
def test_alignment_that_a_parameter_decides_or_the_lanes_break(address, is_aligned) -> None:
    code = "LDG.E R20, desc[UR4][R4.64]\nLDG.E R21, desc[UR4][R4.64+0x4]"
    (found,) = kernel(address + code).merges
    assert (found.merged_width, found.is_aligned) == (8, is_aligned)


def test_accesses_of_two_kinds_or_under_two_conditions_stay_apart() -> None:
    load = "LDG.E R20, desc[UR4][R4.64]"
    for first, second in (
        (f"@P0 {load}", "@P1 LDG.E R21, desc[UR4][R4.64+0x4]"),
        (load, "STG.E desc[UR4][R4.64+0x4], R20"),
    ):
        assert kernel(f"IMAD.WIDE R4, R0, 0x8, R2\n{first}\n{second}").merges == []


@each_row("address, stride, is_gather_", [
    ("IMAD.WIDE R4, R0, 0x4, R2", 4, False), ("IMAD.WIDE R4, R1, 0x4, R2", 0, False),
    ("IMAD R6, R1, 0x80, R0\nIMAD.WIDE R4, R6, 0x8, R2", 8, False),
    ("LDC R6, c[0x0][0x218]\nIMAD R7, R0, R6, RZ\nIMAD.WIDE R4, R7, 0x4, R2", None, False),
    ("LDG.E R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R6, 0x4, R2", None, True),
    # A pointer from memory, to which threads add their index.
    ("LDG.E.64 R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R0, 0x4, R6", None, False),
    # The next node of a list.
    ("IMAD.WIDE R8, R0, 0x8, R2\nLDG.E.64 R4, desc[UR4][R8.64]", None, True),
])  # fmt: skip
def test_distances_between_lanes_and_gathers(address: str, stride, *, is_gather_: bool) -> None:
    access = kernel(f"{address}\nLDG.E R20, desc[UR4][R4.64]").accesses[-1]
    assert lane_stride(access.offset) == stride
    assert is_gather(access) is is_gather_


@each_row("address, block, answer", [
    ("IMAD.WIDE R4, R1, 0x4, R2", (128, 1, 1), True),
    ("IMAD.WIDE R4, R0, 0x4, R2", (128, 1, 1), False),
    ("SHF.R.U32.HI R6, RZ, 0x5, R0\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), True),
    ("SHF.R.U32.HI R6, RZ, 0x4, R0\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), None),
    # A warp has two rows of 16 threads, or one of 32.
    ("S2R R6, SR_TID.Y\nIMAD.WIDE R4, R6, 0x4, R2", (16, 8, 1), None),
    ("S2R R6, SR_TID.Y\nIMAD.WIDE R4, R6, 0x4, R2", (32, 4, 1), True),
    # What is loaded from one address is the same for all, but not what others return.
    ("LDG.E R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), None),
    ("LDC R6, c[0x0][0x218]\nIMAD R7, R0, R6, RZ\nIMAD.WIDE R4, R7, 0x4, R2", (128, 1, 1), None),
])  # fmt: skip
def test_uniform_addresses(address: str, block: tuple[int, int, int], answer: bool | None) -> None:
    plain = kernel(f"{address}\nLDG.E R20, desc[UR4][R4.64]")
    code = replace(plain, shape=launch_shape((64, 2, 1), block, "9.0"))
    assert is_uniform(code.accesses[-1].offset, block) is answer


@each_row("index, spread, addresses", [
    ("MOV R6, RZ", "one address", 1), ("LDC R6, c[0x0][0x218]", "one address", 1),
    ("MOV R6, R1", "one address per block", 64),
    ("SHF.R.U32.HI R6, RZ, 0x5, R0", "one address per warp or less", 4),
    ("MOV R6, R0", "different addresses", 128),
    ("IMAD R6, R1, 0x80, R0", "different addresses", 64 * 128),
    ("LDG.E R6, desc[UR4][R2.64]", "chosen by data", None),
    ("IADD3 R6, R77, R0, RZ", "unknown", None),
])  # fmt: skip
def test_addresses_of_atomics(index: str, spread: str, addresses: int | None) -> None:
    add = "IMAD.WIDE R4, R6, 0x4, R2; REDG.E.ADD.STRONG.GPU desc[UR4][R4.64], R9"
    (found,) = kernel(f"{index}; {add}").atomics
    assert (found.position, found.memory, found.has_result) == (FIRST + 2, "global", False)
    assert (found.spread, found.addresses_at_most) == (spread, addresses)


def test_atomics_with_results_and_in_shared_memory() -> None:
    code = kernel(
        """
        ATOMG.E.ADD.STRONG.GPU PT, R7, desc[UR4][R2.64], R9
        ATOMG.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R2.64], R9
        ATOMG.E.CAS.STRONG.GPU P0, R8, [R2], R18, R19; LOP3.LUT R6, R0, 0x7, RZ, 0xc0, !PT
        IMAD.SHL.U32 R6, R6, 0x4, RZ; ATOMS.ADD RZ, [R6+0x100], R9; ATOMS.POPC.INC.32 RZ, [RZ]
        """
    )
    assert [each.has_result for each in code.atomics[:3]] == [True, False, True]
    spreads = [(each.memory, each.spread, each.addresses_at_most) for each in code.atomics[3:]]
    assert spreads == [("shared", "different addresses", 8), ("shared", "one address", 1)]
    never_ran = assembled("EXIT\nREDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R9\nEXIT")
    assert machine(never_ran, {0: 4}).atomics == []


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


LOADS = "LDS.64 R2, [R0]\nLDS.64 R4, [R1]"
STORES = "\n".join(f"STG.E desc[UR4][R20.64], R{each}" for each in range(10, 14))


def factors(*lines: str) -> str | None:
    found = outer_products(program("\n".join((*lines, STORES))))
    return found.factors if found else None


def tile(multiply: str, left: str = "R2 R3", right: str = "R4 R5") -> str:
    """Every left value with every right one; each product to a sum of its own."""
    pairs = [(x, y) for x in left.split() for y in right.split()]
    return "\n".join(f"{multiply} R{10 + i}, {x}, {y}, R{10 + i}" for i, (x, y) in enumerate(pairs))


def dots(products: str) -> str:
    """Of bytes: the numbers of the registers of a sum and its factors."""
    rows = (product.split() for product in products.split(";"))
    return "\n".join(f"IDP.4A.S8.S8 R{total}, R{x}, R{y}, R{total}" for total, x, y in rows)


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
    # No tile: a matrix and a vector; a square.
    ([LOADS, tile("IDP.4A.S8.S8", left="R2", right="R4 R5")], None),
    ([LOADS, "IDP.4A.S8.S8 R10, R2, R2, R10"], None),
    # A convolution, whose products of one value go to few sums, or meet some of the others.
    ([LOADS, dots("10 2 4; 10 3 5; 11 3 4; 11 2 5")], None),
    ([LOADS, dots("10 2 4; 11 3 4; 12 3 5")], None),
    ([LOADS, dots("10 2 3; 11 2 4; 12 3 4")], None),  # a covariance: factors of one set
])  # fmt: skip
def test_factors_of_a_tile(lines: list[str], expected: str | None) -> None:
    assert factors(*lines) == expected
