"""The indices that ran, where a kernel cuts off what lies outside of its data."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

from keet.analysis.sass.analyses.conditions import Comparison, Conditions
from keet.analysis.sass.analyses.executed_boxes import executed_box
from keet.analysis.sass.analyses.footprints import MANY_ENTRIES, Footprint
from keet.analysis.sass.polynomials.polynomial import Polynomial, add, number
from keet.analysis.sass.polynomials.symbols import Symbols
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, machine

SYMBOLS = Symbols()


def index(axis: str, size: int) -> Polynomial:
    """`size * ctaid.axis + tid.axis`."""
    names = (("tid", 1), ("ctaid", size))
    return Polynomial(
        {
            (SYMBOLS.make(kind, f"{kind}.{axis}", depends={f"{kind}.{axis}"}),): weight
            for kind, weight in names
        }
    )


def below(axis: str, size: int) -> Comparison:
    limit = SYMBOLS.make("param", f"n{axis}")
    return Comparison(Polynomial({**index(axis, size).terms, (limit,): -1}), "LT")


def from_(axis: str, size: int, first: int) -> Comparison:
    return Comparison(Polynomial({**index(axis, size).terms, (): -first}), "GE")


def conditions(known: list[Comparison]) -> Conditions:
    names = frozenset(name for each in known for name in each.left.depends)
    return Conditions(tuple(known), names, is_whole=True)


def counted(
    block: tuple[int, int], grid: tuple[int, int], first: int, wide: int, tall: int
) -> tuple[int, int]:
    """Threads and warps with `first <= x < wide` and `y < tall`, one by one."""
    threads, warps = 0, set[tuple[int, int, int]]()
    for bx, by, tx, ty in product(range(grid[0]), range(grid[1]), range(block[0]), range(block[1])):
        if first <= bx * block[0] + tx < wide and by * block[1] + ty < tall:
            threads += 1
            warps.add((bx, by, (ty * block[0] + tx) // 32))
    return threads, len(warps)


def test_a_box_is_the_one_that_ran_or_is_not_known() -> None:
    chance = random.Random(1)
    known = 0
    for _ in range(60):
        block = chance.choice([(8, 8), (16, 4), (32, 2), (6, 5)])
        grid = (chance.randint(1, 4), chance.randint(1, 4))
        wide = chance.randint(2, block[0] * grid[0])
        tall = chance.randint(1, block[1] * grid[1])
        first = chance.randint(0, 1)
        threads, warps = counted(block, grid, first, wide, tall)
        extents = {"tid.x": block[0], "tid.y": block[1], "tid.z": 1}
        extents |= {"ctaid.x": grid[0], "ctaid.y": grid[1], "ctaid.z": 1}
        asked = [below("x", block[0]), from_("x", block[0], first), below("y", block[1])]
        found = executed_box(conditions(asked), extents, threads, warps)
        sizes = {side.places[0][0]: side[1:3] for side in found}
        assert sizes in ({}, {"tid.x": (first, wide - first), "tid.y": (0, tall)})
        known += bool(found)
    assert known > 30


def test_time_for_very_many_blocks_is_bounded() -> None:
    many = 1 << 31
    extents = {"tid.x": 1, "tid.y": 1, "tid.z": 1}
    extents |= {"ctaid.x": many, "ctaid.y": many, "ctaid.z": 1}
    asked = conditions([below("x", 1), below("y", 1)])
    assert executed_box(asked, extents, 1 << 40, None) == ()


START = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; S2R R2, SR_CTAID.Y; LDC R9, c[0x0][0x218]
    LDC.64 R6, c[0x0][0x210]; ULDC.64 UR4, c[0x0][0x208]; IMAD R3, R1, 0x80, R0
"""
NEIGHBOURS = """
    IMAD.WIDE R4, R3, 0x4, R6; LDG.E R8, desc[UR4][R4.64+-0x4]; LDG.E R10, desc[UR4][R4.64+0x0]
    LDG.E R11, desc[UR4][R4.64+0x4]; EXIT
"""


def footprint(guard: str, threads: int, warps: int) -> Footprint:
    """`threads`, `warps`: those that pass the guard."""
    texts = assembled(START + guard + NEIGHBOURS)
    after = len(texts) - 5
    ran = {address: warps if address >= 16 * after else 512 for address in texts}
    lanes = {address: threads if address >= 16 * after else 512 * 32 for address in texts}
    found = replace(machine(texts, ran), threads=lanes).footprints.of("param+0x0", ("load",))
    assert found is not None
    return found


INSIDE = "ISETP.GE.AND P0, PT, R3, R9, PT\n@P0 EXIT\n"


def test_neighbours_of_the_elements_inside() -> None:
    # 100 of 8192 columns, in two rows of blocks: elements -1 to 100.
    found = footprint(INSIDE, 200, 8)
    assert found.is_exact
    assert found.at_most == 4 * 102
    found = footprint("ISETP.LT.AND P0, PT, R3, 0x1, PT\n@P0 EXIT\n" + INSIDE, 198, 8)
    assert found.is_exact
    assert found.at_most == 4 * 101


@each_row("guard, threads, warps", [
    # x < n or y == 0: two unlike rows of blocks
    ("ISETP.GE.AND P0, PT, R3, R9, PT\nISETP.NE.AND P0, PT, R2, RZ, P0\n@P0 EXIT\n", 200, 8),
    (INSIDE, 200, 100),  # every other thread: more warps than 100 columns have
    # x - 1 < n without sign: x = 0 is not inside
    ("IADD3 R12, R3, -0x1, RZ\nISETP.GE.U32.AND P0, PT, R12, R9, PT\n@P0 EXIT\n", 200, 8),
    ("LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT\n@P0 EXIT\n" + INSIDE, 200, 8),  # x & 1 as well
    ("IMAD R9, R9, R2, RZ\n" + INSIDE, 200, 8),  # x < y * n
])  # fmt: skip
def test_other_guards_leave_it_open(guard: str, threads: int, warps: int) -> None:
    assert not footprint(guard, threads, warps).is_exact


def test_places_of_a_side() -> None:
    extents = {"tid.x": 32, "ctaid.x": 4, "tid.y": 1, "tid.z": 1, "ctaid.y": 3, "ctaid.z": 1}
    side = executed_box(conditions([below("x", 32)]), extents, 3 * 70, 9)[0]
    assert side[:3] == ((("tid.x", 1), ("ctaid.x", 32)), 0, 70)
    assert side.limit is not None
    fixed = Comparison(add(index("x", 32), number(-70)), "LT")
    cut = executed_box(conditions([below("x", 32), fixed]), extents, 3 * 70, 9)[0]
    assert cut[:3] == side[:3]
    assert cut.limit is None  # it may be larger


CLAMPED = """
    IADD3 R12, R9, -0x1, RZ; VIMNMX R13, R3, R12, PT; IMAD.WIDE R4, R13, 0x4, R6
    LDG.E R8, desc[UR4][R4.64]
"""
STORE = """
    ISETP.GE.AND P0, PT, R3, R10, PT; @P0 EXIT; IMAD.WIDE R14, R3, 0x4, R16
    STG.E desc[UR4][R14.64], R8; EXIT
"""


@each_row("limit, stored, is_exact", [
    ("MOV R10, R9", 16384, True),  # all elements are below the limit, or 1000 of 8192 are
    ("MOV R10, R9", 2000, True),
    # Another limit says nothing. If all are below a larger one, 5 of 8192 may be clamped.
    ("LDC R10, c[0x0][0x21c]", 16384, False),
    ("IADD3 R10, R9, 0x5, RZ", 16384, True),
    ("IADD3 R10, R9, 0x500, RZ", 16384, False),
    ("IADD3 R10, R9, 0x5, RZ", 2010, True),
])  # fmt: skip
def test_clamped_to_a_known_limit(limit: str, stored: int, *, is_exact: bool) -> None:
    texts = assembled(START + CLAMPED + "LDC.64 R16, c[0x0][0x220]\n" + limit + STORE)
    after = 16 * (len(texts) - 3)
    warps = 2 * -(-stored // 64)
    ran = {address: warps if address >= after else 512 for address in texts}
    lanes = {address: stored if address >= after else 512 * 32 for address in texts}
    lanes[after - 16] -= stored  # those that leave
    footprints = replace(machine(texts, ran), threads=lanes).footprints
    footprints.entries = MANY_ENTRIES
    found = footprints.of("param+0x0", ("load",))
    assert found.is_exact == is_exact
    if is_exact:
        assert found.at_most == 4 * min(8192, 1000 if stored != 16384 else 8192)


@each_row("index, is_exact", [
    # Blocks have 128 threads, and elements of blocks are 512 apart.
    ("IMAD R3, R1, 0x200, R0", True),
    # What is clamped is 2 elements behind what is compared.
    ("IMAD R3, R1, 0x200, R0\nIADD3 R20, R3, 0x2, RZ", False),
    ("IMAD R3, R1, 0x200, R0\nIADD3 R20, R3, -0x2, RZ", True),
])  # fmt: skip
def test_a_clamp_that_changes_nothing(index: str, *, is_exact: bool) -> None:
    """All threads pass `i < n` at the store: `min(i, n - 1)` is `i`."""
    clamped = CLAMPED.replace("R3", "R20") if "R20" in index else CLAMPED
    code = START + index + clamped + "LDC.64 R16, c[0x0][0x220]\nMOV R10, R9\n" + STORE
    texts = assembled(code)
    found = machine(texts, dict.fromkeys(texts, 512)).footprints.of("param+0x0", ("load",))
    assert found.is_exact == is_exact


def test_one_element_in_uneven_iterations() -> None:
    code = """
        S2R R0, SR_TID.X; LDC.64 R6, c[0x0][0x210]; LDC R9, c[0x0][0x218]
        ULDC.64 UR4, c[0x0][0x208]
        again: LDG.E R8, desc[UR4][R6.64]; IADD3 R0, R0, 0x80, RZ
        ISETP.LT.AND P0, PT, R0, R9, PT; @P0 BRA again; EXIT
    """
    texts = assembled(code)
    counts = [512, 512, 512, 512, 1300, 1300, 1300, 1300, 512]
    found = machine(texts, dict(zip(texts, counts, strict=True))).footprints
    known = found.of("param+0x0", ("load",))
    assert known.is_exact
    assert known.at_most == 4
