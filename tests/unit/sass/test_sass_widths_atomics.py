"""Loads that could be one, distances between lanes, and the addresses of atomics."""

from __future__ import annotations

from dataclasses import replace

from keet.analysis.sass.analyses.address_patterns import (
    Merge,
    is_gather,
    is_uniform,
    lane_stride,
)
from keet.analysis.sass.machine_code import MachineCode
from keet.analysis.sass.polynomials.symbols import launch_shape
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, machine

PROLOGUE = """
    S2R R0, SR_TID.X
    S2R R1, SR_CTAID.X
    LDC.64 R2, c[0x0][0x210]
    ULDC.64 UR4, c[0x0][0x208]
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


@each_row(
    ("offsets", "expected"),
    [
        ([0, 4, 8, 12], [Merge((5, 6, 7, 8), 4, 16, True)]),
        ([12, 0, 8, 4], [Merge((6, 8, 7, 5), 4, 16, True)]),
        ([0, 4], [Merge((5, 6), 4, 8, True)]),
        ([0, 4, 8], [Merge((5, 6, 7), 4, 8, True)]),
        ([4, 8], [Merge((5, 6), 4, 8, False)]),
        ([0, 8], []),
        ([0], []),
        ([0, 0], []),
        ([0, 4, 64, 68], [Merge((5, 6), 4, 8, True), Merge((7, 8), 4, 8, True)]),
    ],
)
def test_loads_of_consecutive_words(offsets: list[int], expected: list[Merge]) -> None:
    assert kernel(loads(offsets)).merges == expected


def test_pairs_become_quads() -> None:
    assert kernel(loads([0, 8], ".64")).merges == [Merge((5, 6), 8, 16, True)]


def test_the_widest_loads_stay_as_they_are() -> None:
    assert kernel(loads([0, 16], ".128")).merges == []


def test_alignment_that_depends_on_a_parameter() -> None:
    body = """
        LDC R6, c[0x0][0x218]
        IMAD R7, R0, 0x2, RZ
        IMAD R7, R1, R6, R7
        IMAD.WIDE R4, R7, 0x4, R2
        LDG.E R20, desc[UR4][R4.64]
        LDG.E R21, desc[UR4][R4.64+0x4]
    """
    (found,) = kernel(body).merges
    assert (found.merged_width, found.is_aligned) == (8, None)


def test_alignment_that_the_lanes_break() -> None:
    body = """
        IMAD.WIDE R4, R0, 0x4, R2
        LDG.E R20, desc[UR4][R4.64]
        LDG.E R21, desc[UR4][R4.64+0x4]
    """
    (found,) = kernel(body).merges
    assert found.is_aligned is False


def test_loads_under_different_guards_stay_apart() -> None:
    body = """
        IMAD.WIDE R4, R0, 0x8, R2
        @P0 LDG.E R20, desc[UR4][R4.64]
        @P1 LDG.E R21, desc[UR4][R4.64+0x4]
    """
    assert kernel(body).merges == []


def test_loads_and_stores_stay_apart() -> None:
    body = """
        IMAD.WIDE R4, R0, 0x8, R2
        LDG.E R20, desc[UR4][R4.64]
        STG.E desc[UR4][R4.64+0x4], R20
    """
    assert kernel(body).merges == []


@each_row(
    ("address", "stride"),
    [
        ("IMAD.WIDE R4, R0, 0x4, R2", 4),
        ("IMAD.WIDE R4, R1, 0x4, R2", 0),
        ("IMAD R6, R1, 0x80, R0\nIMAD.WIDE R4, R6, 0x8, R2", 8),
        ("LDC R6, c[0x0][0x218]\nIMAD R7, R0, R6, RZ\nIMAD.WIDE R4, R7, 0x4, R2", None),
        ("LDG.E R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R6, 0x4, R2", None),
    ],
)
def test_lane_stride(address: str, stride: int | None) -> None:
    code = kernel(f"{address}\nLDG.E R20, desc[UR4][R4.64]")
    assert lane_stride(code.accesses[-1].offset) == stride


@each_row(
    ("address", "block", "answer"),
    [
        ("IMAD.WIDE R4, R1, 0x4, R2", (128, 1, 1), True),
        ("IMAD.WIDE R4, R0, 0x4, R2", (128, 1, 1), False),
        ("SHF.R.U32.HI R6, RZ, 0x5, R0\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), True),
        ("SHF.R.U32.HI R6, RZ, 0x4, R0\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), None),
        # A warp has two rows of 16 threads, or one of 32.
        ("S2R R6, SR_TID.Y\nIMAD.WIDE R4, R6, 0x4, R2", (16, 8, 1), None),
        ("S2R R6, SR_TID.Y\nIMAD.WIDE R4, R6, 0x4, R2", (32, 4, 1), True),
        # What is loaded from one address is the same for all, but not what others return.
        ("LDG.E R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R6, 0x4, R2", (128, 1, 1), None),
        (
            "LDC R6, c[0x0][0x218]\nIMAD R7, R0, R6, RZ\nIMAD.WIDE R4, R7, 0x4, R2",
            (128, 1, 1),
            None,
        ),
    ],
)
def test_uniform_addresses(address: str, block: tuple[int, int, int], answer: bool | None) -> None:
    plain = kernel(f"{address}\nLDG.E R20, desc[UR4][R4.64]")
    code = replace(plain, shape=launch_shape((64, 2, 1), block, "9.0"))
    assert is_uniform(code.accesses[-1].offset, block) is answer


@each_row(
    ("address", "answer"),
    [
        ("LDG.E R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R6, 0x4, R2", True),
        ("IMAD.WIDE R4, R0, 0x4, R2", False),
        # A pointer from memory, to which threads add their index.
        ("LDG.E.64 R6, desc[UR4][R2.64]\nIMAD.WIDE R4, R0, 0x4, R6", False),
        # The next node of a list.
        ("IMAD.WIDE R8, R0, 0x8, R2\nLDG.E.64 R4, desc[UR4][R8.64]", True),
    ],
)
def test_gathers(address: str, answer: bool) -> None:
    code = kernel(f"{address}\nLDG.E R20, desc[UR4][R4.64]")
    assert is_gather(code.accesses[-1]) is answer


# --- atomics


@each_row(
    ("index", "spread", "addresses"),
    [
        ("MOV R6, RZ", "one address", 1),
        ("LDC R6, c[0x0][0x218]", "one address", 1),
        ("MOV R6, R1", "one address per block", 64),
        ("SHF.R.U32.HI R6, RZ, 0x5, R0", "one address per warp or less", 4),
        ("MOV R6, R0", "different addresses", 128),
        ("IMAD R6, R1, 0x80, R0", "different addresses", 64 * 128),
        ("LDG.E R6, desc[UR4][R2.64]", "chosen by data", None),
        ("IADD3 R6, R77, R0, RZ", "unknown", None),
    ],
)
def test_addresses_of_atomics(index: str, spread: str, addresses: int | None) -> None:
    code = kernel(
        f"""
        {index}
        IMAD.WIDE R4, R6, 0x4, R2
        REDG.E.ADD.STRONG.GPU desc[UR4][R4.64], R9
        """
    )
    (found,) = code.atomics
    assert (found.position, found.memory, found.has_result) == (FIRST + 2, "global", False)
    assert (found.spread, found.addresses_at_most) == (spread, addresses)


def test_atomics_with_results() -> None:
    code = kernel(
        """
        ATOMG.E.ADD.STRONG.GPU PT, R7, desc[UR4][R2.64], R9
        ATOMG.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R2.64], R9
        ATOMG.E.CAS.STRONG.GPU P0, R8, [R2], R18, R19
        """
    )
    assert [each.has_result for each in code.atomics] == [True, False, True]


def test_atomics_in_shared_memory() -> None:
    code = kernel(
        """
        LOP3.LUT R6, R0, 0x7, RZ, 0xc0, !PT
        IMAD.SHL.U32 R6, R6, 0x4, RZ
        ATOMS.ADD RZ, [R6+0x100], R9
        ATOMS.POPC.INC.32 RZ, [RZ]
        """
    )
    some, one = code.atomics
    assert (some.memory, some.spread, some.addresses_at_most) == (
        "shared",
        "different addresses",
        8,
    )
    assert (one.memory, one.spread, one.addresses_at_most) == ("shared", "one address", 1)


def test_atomics_that_never_ran_are_left_out() -> None:
    texts = assembled("EXIT\nREDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R9\nEXIT")
    assert machine(texts, {0: 4}).atomics == []
