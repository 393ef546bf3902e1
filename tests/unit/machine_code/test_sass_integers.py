"""Integer work beyond what is needed: upper halves of 64-bit integers, bytes of words one by one, and
integers that neighbouring threads compute equally. Look-alikes need all 64 bits, or each byte on its own."""

from keet.analysis.machine_code.analyses.integer_arithmetic import (
    PackedBytes,
    packed_bytes,
    wide_integers,
)
from keet.analysis.machine_code.analyses.lane_groups import lane_groups
from keet.analysis.machine_code.analyses.purpose import purposes
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from tests.rows import each_row
from tests.unit.analysis.real_launches import code_of
from tests.unit.machine_code.assembled import program


def wide(lines: str) -> set[int]:
    sass = program(lines)
    return set(wide_integers(sass, purposes(sass)))


def packed(lines: str) -> PackedBytes:
    sass = program(lines)
    return packed_bytes(sass, purposes(sass))


LOAD = "LDG.E.64 R10, desc[UR4][R2.64]"
STORE = "STG.E desc[UR4][R2.64], R6"
STORE_BOTH = "STG.E.64 desc[UR4][R2.64], R6"

# 64-bit code, and the positions that 32 bits would not need.
WIDE = {
    "a sum that is compared": (f"""{LOAD}; IADD3 R6, P0, R10, 0x5, RZ; IADD3.X R7, R11, RZ, RZ, P0, !PT
        ISETP.GE.U32.AND P1, PT, R6, 0x5f8, PT; ISETP.GE.AND.EX P1, PT, R7, RZ, PT, P1
        SEL R6, R6, RZ, P1; {STORE}""", {2, 4}),
    "a product with a small number": (f"""{LOAD}; IMAD R8, R11, 0xa, RZ; IMAD.WIDE.U32 R6, R10, 0xa, RZ
        IMAD.IADD R7, R7, 0x1, R8; I2F.S64 R6, R6; {STORE}""", {3}),
    "a division by a constant": (f"""{LOAD}; IMAD.WIDE.U32 R4, R11, -0x31aed6a9, RZ; ISETP.LT.AND P1, PT, R11, RZ, PT
        IMAD.WIDE.U32 R6, P0, R10, 0x1845c8a0, R4; IMAD.WIDE.U32 R4, R10, -0x31aed6a9, RZ
        IMAD.X R9, RZ, RZ, RZ, P0; IADD3 RZ, P0, R5, R6, RZ; IMAD.MOV.U32 R8, RZ, RZ, R7
        IMAD.WIDE.U32.X R4, R11, 0x1845c8a0, R8, P0; IADD3 R15, P0, R4, 0x31aed6a9, RZ
        IADD3.X R7, R5, -0x1845c8a1, RZ, P0, !PT; SEL R15, R15, R4, P1; SEL R16, R7, R5, P1
        SHF.R.S64 R15, R15, 0xd, R16; LEA.HI R6, R16, R15, RZ, 0x1; {STORE}""", {1, 3, 4, 5, 6, 7, 9, 10, 11, 12}),
    "a sum that is stored": (f"{LOAD}; IADD3 R6, P0, R10, 0x5, RZ; IADD3.X R7, R11, RZ, RZ, P0, !PT; {STORE_BOTH}", set()),
    "a hash": (f"""{LOAD}; IMAD.WIDE.U32 R6, R10, 0x1b3, RZ; IMAD R8, R11, 0x1b3, RZ
        IMAD.IADD R7, R7, 0x1, R8; LOP3.LUT R6, R6, R7, RZ, 0x3c, !PT; {STORE}""", set()),
    "random numbers: the upper bits of a product": (f"""{LOAD}; IMAD.WIDE.U32 R12, R10, 0x4c957f2d, RZ; IMAD R8, R11, 0x4c957f2d, RZ
        IADD3 R12, P0, R12, 0x1, RZ; IADD3.X R9, R13, R8, RZ, P0, !PT
        SHF.R.U32.HI R6, RZ, 0x1, R9; ISETP.GT.AND P1, PT, R12, R6, PT; {STORE}""", set()),
    "sums of four words": (f"""{LOAD}; LDG.E.128 R12, desc[UR4][R2.64+0x10]; IADD3 R6, P0, R10, R12, RZ
        IADD3.X R7, P0, R11, R13, RZ, P0, !PT; IADD3.X R8, P0, R14, R10, RZ, P0, !PT
        IADD3.X R9, R15, R11, RZ, P0, !PT; ISETP.GT.U32.AND P1, PT, R8, 0x5, PT
        ISETP.GT.U32.AND.EX P1, PT, R9, RZ, PT, P1; SEL R6, R6, RZ, P1; {STORE}""", set()),
    "a product of two variables": (f"""{LOAD}; IMAD.WIDE.U32 R6, R10, R11, RZ; IADD3 R6, P0, R6, 0x1, RZ
        IADD3.X R7, R7, RZ, RZ, P0, !PT; SHF.R.U64 R6, R6, 0x10, R7; {STORE}""", set()),
    "loaded keys that are compared": (f"""{LOAD}; LDG.E.64 R12, desc[UR4][R2.64+0x10]; ISETP.GT.U32.AND P1, PT, R10, R12, PT
        ISETP.GT.AND.EX P1, PT, R11, R13, PT, P1; SEL R6, RZ, 0x1, P1; {STORE}""", set()),
    "a division in 32 bits": (f"{LOAD}; IMAD.WIDE.U32 R4, R10, 0x2aaaaaab, RZ; SHF.R.U32.HI R6, RZ, 0x2, R5; {STORE}", set()),
}  # fmt: skip


@each_row("lines, expected", WIDE.values())
def test_upper_halves_that_nothing_needs(lines: str, expected: set[int]) -> None:
    assert wide(lines) == expected


WORD = "LDG.E R4, desc[UR4][R2.64]"
TAKEN = """SHF.R.U32.HI R5, RZ, 0x8, R4; SHF.R.U32.HI R6, RZ, 0x10, R4
        LOP3.LUT R7, R4, 0xff, RZ, 0xc0, !PT; LOP3.LUT R5, R5, 0xff, RZ, 0xc0, !PT
        LOP3.LUT R6, R6, 0xff, RZ, 0xc0, !PT"""
"""Positions 1 to 5: three bytes in R7, R5 and R6."""

BYTES = {
    "a sum": (f"{WORD}; {TAKEN}; IADD3 R6, R7, R5, R6; LEA.HI R6, R4, R6, RZ, 0x8; {STORE}", ({1, 2, 3, 4, 5}, {6, 7})),
    "by permutation": (f"""{WORD}; PRMT R5, R4, 0x7770, RZ; PRMT R6, R4, 0x7771, RZ; PRMT R7, R4, 0x7772, RZ
        IADD3 R6, R7, R5, R6; {STORE}""", ({1, 2, 3}, {4})),
    "comparisons": (f"""{WORD}; {TAKEN}; ISETP.EQ.AND P0, PT, R7, 0x2e, PT; ISETP.EQ.OR P0, PT, R5, 0x2e, P0
        ISETP.EQ.OR P0, PT, R6, 0x2e, P0; SEL R6, RZ, 0x1, P0; {STORE}""", ({1, 2, 3, 4, 5}, {6, 7, 8})),
    "quantised weights become floats": (f"""{WORD}; {TAKEN}; VIADD R7, R7, 0xffffff80; VIADD R5, R5, 0xffffff80
        VIADD R6, R6, 0xffffff80; I2FP.F32.S32 R7, R7; I2FP.F32.S32 R5, R5; I2FP.F32.S32 R6, R6
        FADD R6, R6, R5; FADD R6, R6, R7; {STORE}""", (set(), set())),
    "bins of a histogram": (f"""{WORD}; {TAKEN}; IMAD.SHL.U32 R7, R7, 0x4, RZ; IMAD.SHL.U32 R5, R5, 0x4, RZ
        IMAD.SHL.U32 R6, R6, 0x4, RZ; ATOMS.POPC.INC.32 RZ, [R7]; ATOMS.POPC.INC.32 RZ, [R5]
        ATOMS.POPC.INC.32 RZ, [R6]""", (set(), set())),
    "one flag of a word": (f"{WORD}; LOP3.LUT R5, R4, 0xff, RZ, 0xc0, !PT; VIADD R6, R5, 0x1; {STORE}", (set(), set())),
}  # fmt: skip


@each_row("lines, expected", BYTES.values())
def test_bytes_that_are_taken_one_by_one(lines: str, expected: tuple[set[int], set[int]]) -> None:
    found = packed(lines)
    assert (set(found.extractions), set(found.arithmetic)) == expected


def test_bytes_that_a_real_kernel_packs_again() -> None:
    """Four fifths of its instructions build the operands of IDP.4A out of single bytes. Rows that
    start at any byte need their one funnel shift per difference."""
    code = code_of("quant_dense/byte_arithmetic_in_a_batch")
    repacked = code.packed_bytes.repacked
    assert 0.75 < code.share(repacked) < 0.9
    assert 0.6 < min(repacked.values()) < 0.9
    assert not code_of("block_sad/short_threads").packed_bytes.repacked


COUNTER = """
    S2R R0, SR_TID.X; S2R R7, SR_CTAID.X; {index}; {part}; IMAD R6, R5, 0x2545f491, RZ
    LOP3.LUT R6, R6, 0x5eed, RZ, 0x3c, !PT; STG.E desc[UR4][R2.64], R6; EXIT
"""
QUARTER = "SHF.R.U32.HI R5, RZ, 0x2, R4"


def found(
    index: str, part: str = QUARTER, block: tuple[int, int, int] = (128, 1, 1)
) -> dict[int, float]:
    code = program(COUNTER.format(index=index, part=part), [100] * (8 + part.count("\n")))
    shape = launch_shape((64, 2, 1), block, "9.0")
    return lane_groups(code, shape, purposes(code))


def test_what_follows_from_a_quarter_of_the_index_is_the_same_in_four_lanes() -> None:
    of_blocks = "IMAD R4, R7, c[0x0][0x0], R0"  # blocks of 128 threads
    for index in ("MOV R4, R0", "IADD3 R4, R0, 0x200, RZ", of_blocks):
        assert found(index) == {4: 0.75, 5: 0.75}


def test_pairs_tables_shifts_and_iterations_of_lanes() -> None:
    assert set(found("MOV R4, R0", "LOP3.LUT R5, R4, 0xfffffffe, RZ, 0xc0, !PT").values()) == {0.5}
    assert set(found("S2R R4, SR_TID.Y", "MOV R5, R4", (4, 32, 1)).values()) == {0.75}
    part = "SHF.R.U32.HI R8, RZ, 0x2, R4\n LOP3.LUT R9, R4, 0x3, RZ, 0xc0, !PT\n"
    assert not found("MOV R4, R0", part + "SHF.R.U32.HI R5, RZ, R9, R8")
    quarter = "SHF.R.U32.HI R8, RZ, 0x2, R4\n"
    assert set(found("MOV R4, R0", quarter + "LDC R5, c[0x3][R8]").values()) == {0.75}
    assert not found("MOV R4, R0", "LDC R5, c[0x3][R4]")
    text = """
        S2R R0, SR_TID.X; SHF.R.U32.HI R5, RZ, 0x2, R0; MOV R9, RZ; MOV R7, RZ
        again: IADD3 R7, R7, 0x1, RZ; IMAD R6, R9, R5, R7; IMAD R6, R6, 0x2545f491, RZ
        STG.E desc[UR4][R2.64], R6; LDG.E R8, desc[UR4][R2.64]; ISETP.LT.AND P0, PT, R8, RZ, PT
        @P0 BRA again; IADD3 R9, R9, 0x1, RZ; ISETP.LT.AND P1, PT, R7, 0x10, PT; @P1 BRA again
        EXIT
    """
    code = program(text, [100] * 4 + [700] * 7 + [500] * 3 + [100])
    shape = launch_shape((64, 2, 1), (128, 1, 1), "9.0")
    assert not {5, 6} & set(lane_groups(code, shape, purposes(code)))


@each_row("index, part", [
    ("MOV R4, R0", "MOV R5, R4"),
    ("IADD3 R4, R0, 0x1, RZ", QUARTER),  # the groups do not start at multiples of four lanes
    ("IMAD R4, R0, R0, RZ", QUARTER),  # every second thread: the quarter is that of two lanes
    # The same in the whole warp: one instruction of it computes it once.
    ("MOV R4, R0", "SHF.R.U32.HI R5, RZ, 0x5, R4"),
    ("LDG.E R4, desc[UR4][R2.64]", QUARTER),  # data of the thread itself
])  # fmt: skip
def test_lanes_with_values_of_their_own_are_no_group(index: str, part: str) -> None:
    assert not found(index, part)


COUNT = """
    S2R R0, SR_TID.X; SHF.R.U32.HI R5, RZ, 0x2, R0; {limit}; MOV R9, RZ
    again: IADD3 R9, R9, 0x1, RZ; ISETP.LT.AND P0, PT, R9, R8, PT; @P0 BRA again
    IADD3 R6, R9, R5, RZ; IMAD R6, R6, 0x2545f491, RZ; STG.E desc[UR4][R2.64], R6; EXIT
"""


@each_row("limit, groups", [
    ("LDG.E R8, desc[UR4][R2.64]", set()),  # each lane leaves the loop on its own
    ("LOP3.LUT R8, R0, 0xfffffffe, RZ, 0xc0, !PT", {0.5}), ("MOV R8, 0x7", {0.75}),
])  # fmt: skip
def test_after_a_loop_lanes_have_the_value_of_their_last_iteration(limit, groups) -> None:
    code = program(COUNT.format(limit=limit), [100] * 4 + [700] * 3 + [100] * 4)
    shape = launch_shape((64, 2, 1), (128, 1, 1), "9.0")
    parts = lane_groups(code, shape, purposes(code))
    assert {part for at, part in parts.items() if at in (7, 8)} == groups
