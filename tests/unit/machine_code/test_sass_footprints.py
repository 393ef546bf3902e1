"""The bytes that accesses touch and the indices that ran: exact where addresses and counts prove it, and
not where they only look like it. Grid 64 x 2, blocks of 128 threads."""

import random
from dataclasses import replace
from itertools import product

from keet.analysis.machine_code.analyses.conditions import Comparison, Conditions, executed_box
from keet.analysis.machine_code.analyses.footprints import MANY_ENTRIES, Footprint
from keet.analysis.machine_code.polynomials.polynomial import (
    Polynomial,
    Symbols,
    add,
    launch_shape,
    number,
)
from keet.profile import Location
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, instructions, machine

WARPS = 512
THREADS = 32 * WARPS
START = """
    S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; S2R R2, SR_CTAID.Y; LDC R9, c[0x0][0x218]
    LDC.64 R6, c[0x0][0x210]; ULDC.64 UR4, c[0x0][0x208]
"""
COLUMN = "IMAD R3, R1, 0x80, R0\n"
OWN = COLUMN + "IMAD R3, R2, 0x2000, R3\n"
LOAD = "IMAD.WIDE R4, R3, 0x4, R6\nLDG.E R8, desc[UR4][R4.64]\n"


def touched(
    texts: dict[int, str], warps: dict[int, int], threads: dict[int, int], kind: str = "load"
) -> Footprint:
    """`warps`, `threads`: those that executed each address."""
    footprints = replace(machine(texts, warps), threads=threads).footprints
    footprints.entries = MANY_ENTRIES
    known = footprints.of("param+0x0", (kind,))
    assert known is not None
    return known


def footprint(code: str, loaded: int = THREADS, kind: str = "load") -> Footprint:
    """`loaded`: threads that executed each load or store."""
    texts = assembled(START + code + "EXIT")
    memory = {a for a, text in texts.items() if "LDG" in text or "STG" in text}
    threads = {address: loaded if address in memory else THREADS for address in texts}
    return touched(texts, dict.fromkeys(texts, WARPS), threads, kind)


@each_row("code, loaded, distinct, repeats", [
    (OWN + LOAD, THREADS, 4 * THREADS, []),
    # A check of bounds leaves some threads out: each of the others has its own element.
    (OWN + LOAD, 9001, 4 * 9001, []), (COLUMN + LOAD, THREADS, 2 * THREADS, [("blockIdx.y", 2)]),
    ("IMAD R3, R1, 0x1, RZ\n" + LOAD, THREADS, 256, [("threadIdx.x", 128), ("blockIdx.y", 2)]),
    # Digits of an index: one element per warp.
    ("SHF.R.U32.HI R3, RZ, 0x5, R0\nIMAD R3, R1, 0x4, R3\n" + LOAD, THREADS, 1024,
     [("threadIdx.x", 32), ("blockIdx.y", 2)]),
    # Neighbours overlap: 129 elements per block, 8193 in all.
    (COLUMN + LOAD + "LDG.E R9, desc[UR4][R4.64+0x4]\n", THREADS, 4 * 8193, [("blockIdx.y", 2)]),
])  # fmt: skip
def test_exact(code: str, loaded: int, distinct: int, repeats: list[tuple[str, int]]) -> None:
    found = footprint(code, loaded)
    assert found.is_exact
    assert found.at_most == distinct
    assert [(each.name, each.times) for each in found.repeats] == repeats


def exact(found: Footprint) -> float | None:
    return found.at_most if found.is_exact else None


def test_one_thread_of_a_block_and_conditions_on_other_indices() -> None:
    code = """
        ISETP.NE.AND P0, PT, R0, RZ, PT; @P0 EXIT; IMAD R3, R2, 0x40, R1
        IMAD.WIDE R4, R3, 0x4, R6; STG.E desc[UR4][R4.64], R8
    """
    found = footprint(code, 128, "store")
    assert (exact(found), found.repeats) == (4 * 128, ())
    # Half of the threads load. They may be those of one row of blocks, which touch all elements, or
    # every other thread of both, which touch half of them.
    guard = "ISETP.GE.AND P0, PT, R2, R9, PT\n@P0 EXIT\n"
    found = footprint(guard + COLUMN + LOAD, THREADS // 2)
    assert not found.is_exact
    assert found.at_least <= THREADS < 2 * THREADS == found.at_most
    # The condition is on an index of the address: both rows of blocks load the same.
    assert exact(footprint(BELOW + LOAD, THREADS // 2)) == THREADS


ROWS = "IMAD R3, R1, R9, R0\n" + LOAD
STORED = """
    LDC.64 R14, c[0x0][0x220]; LOP3.LUT R10, R0, 0x3f, RZ, 0xc0, !PT
    SHF.R.U32.HI R11, RZ, 0x6, R0; IMAD R11, R1, 0x2, R11; IMAD R11, R2, 0x80, R11
    IMAD R10, R10, 0x2, RZ; IMAD R3, R11, R9, R10; IMAD.WIDE R14, R3, 0x4, R14
"""


@each_row("guard, is_exact", [
    ("", False),  # frames of 128 elements, `hop` apart: they may overlap
    ("ISETP.GE.AND P0, PT, R2, R9, PT\n@P0 EXIT\n", False),
    ("ISETP.GE.AND P0, PT, R0, R9, PT\n@P0 EXIT\n", True),
    # Two stores write 128 elements of each row together, or 127.
    (STORED + "STG.E desc[UR4][R14.64], RZ\nSTG.E desc[UR4][R14.64+0x4], RZ\n", True),
    (STORED + "STG.E desc[UR4][R14.64], RZ\n", False),
])  # fmt: skip
def test_rows_at_an_unknown_distance(guard: str, *, is_exact: bool) -> None:
    found = footprint(guard + ROWS)
    assert found.has_rows
    assert found.is_exact is is_exact
    assert found.at_most == 2 * THREADS


def test_branches_that_load_different_elements_and_borders() -> None:
    # Even and odd threads load in turn: the same form and the same count, but other elements.
    code = f"""{OWN}
        IMAD.WIDE R4, R3, 0x4, R6; LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT
        @P0 LDG.E R8, desc[UR4][R4.64]; @!P0 LDG.E R9, desc[UR4][R4.64]
    """
    assert footprint(code, THREADS // 2).at_most == 4 * THREADS
    assert footprint(code.replace("@!P0", "@P0"), THREADS // 2).at_most == 2 * THREADS
    border = """
        ISETP.GE.AND P1, PT, R3, 0x1, PT; IADD3 R10, R3, 0x1, RZ
        ISETP.LT.AND P1, PT, R10, R9, P1; LOP3.LUT R3, R3, 0x1, RZ, 0x3c, !PT
        IMAD.WIDE R4, R3, 0x4, R6; @P1 LDG.E R8, desc[UR4][R4.64]
    """
    assert exact(below(border, 2 * (N - 2))) == 4 * (N - 2)
    assert not below(border, 2 * (N - 7)).is_exact
    # Two elements apart, by turns at even and odd places: each thread has its own. If the address
    # has nothing else of the index, blocks share elements or not.
    shifted = "IADD3 R10, R2, R9, RZ\nLOP3.LUT R10, R10, 0x1, RZ, 0xc0, !PT\n"
    own = COLUMN + shifted + "IMAD R3, R3, 0x2, R10\n"
    rows = own + "IMAD R3, R2, 0x8000, R3\n"
    assert footprint(rows + LOAD, 9001).at_least == footprint(rows + LOAD, 9001).at_most == 4 * 9001
    found = footprint(own + LOAD)
    assert not found.is_exact


@each_row(("other", "stored", "is_exact"), [("", 0, True), ("+0x4", 0, False), ("", 400, False)])
def test_two_branches_that_data_chooses(other: str, stored: int, *, is_exact: bool) -> None:
    """`if (a[i]) out[i] = ...; else out[i] = ...;`: each thread stores to its element."""
    code = f"""{OWN}
        LDC.64 R10, c[0x0][0x220]; IMAD.WIDE R4, R3, 0x4, R6; IMAD.WIDE R10, R3, 0x4, R10
        LDG.E R12, desc[UR4][R10.64]; ISETP.NE.AND P0, PT, R12, RZ, PT; @P0 BRA second
        STG.E desc[UR4][R4.64], R12; BRA end
        second: STG.E desc[UR4][R4.64{other}], RZ
        end: """
    found = footprint(code, THREADS // 2 - stored, "store")
    assert found.at_most is not None
    assert (found.at_least == 4 * THREADS) is is_exact
    assert found.is_exact is is_exact


def test_clamped_neighbours_parameters_and_large_grids() -> None:
    code = OWN + LOAD + "IMAD.WIDE R4, R8, 0x4, R6\nLDG.E R9, desc[UR4][R4.64]\n"
    assert footprint(code).at_most is None
    # Behind another condition, and behind none, nearly all threads may be clamped to one element:
    # min(x + 1, n - 1).
    for guard in ("ISETP.GE.AND P0, PT, R0, R9, PT\n@P0 EXIT\n", ""):
        found = footprint(COLUMN + guard + NEIGHBOUR + LOAD, THREADS // 2)
        assert not found.is_exact
        assert found.at_least == 4
        assert found.at_most is not None
    texts = assembled(START + BELOW + WRAPPED.format(limit="R9") + LOAD + "EXIT")
    found = machine(texts, dict.fromkeys(texts, WARPS))
    for blocks in (1 << 31, 1 << 63):
        large = replace(found, shape=launch_shape((blocks, 1, 1), (128, 1, 1), "9.0"))
        known = large.footprints.of("param+0x0", ("load",))
        assert not known.is_exact
    chosen = "ISETP.LT.AND P1, PT, R9, R12, PT\nSEL R3, R3, R12, P1\n"
    assert not below(OTHER + chosen + LOAD).is_exact
    # All columns are below n: `min(x, n & 255)` may have any number of values up to 256.
    bits = BELOW + "LOP3.LUT R10, R9, 0xff, RZ, 0xc0, !PT\nVIMNMX R3, R3, R10, PT\n"
    assert not footprint(bits + LOAD).is_exact
    assert footprint(BELOW + "VIMNMX R3, R3, R9, PT\n" + LOAD).is_exact


NEIGHBOUR = """
    IADD3 R10, R3, 0x1, RZ; IADD3 R11, R9, -0x1, RZ; VIMNMX R3, R10, R11, PT
"""


BELOW = COLUMN + "ISETP.GE.AND P0, PT, R3, R9, PT\n@P0 EXIT\n"
N = 5000
"""What R9 must be, by the threads that pass `BELOW`."""


def below(code: str, loaded: int = 2 * N) -> Footprint:
    """The loads of `code`, behind a condition that 5000 columns of 8192 meet."""
    texts = assembled(START + BELOW + code + "EXIT")
    addresses = sorted(texts)
    leaving = addresses[len(instructions(START)) + 2]
    passed = [each for each in addresses if each > leaving]
    warps = {each: 2 * 157 if each in passed else WARPS for each in addresses}
    memory = [each for each in addresses if "LDG" in texts[each]]
    threads = {each: 2 * N if each in passed else THREADS for each in addresses}
    threads |= {leaving: THREADS - 2 * N, **dict.fromkeys(memory, loaded)}
    return touched(texts, warps, threads)


CLAMPED = """
    IADD3 R10, R3, -0x{margin:x}, RZ; VIMNMX R10, RZ, R10, !PT; IADD3 R11, {limit}, -0x1, RZ
    VIMNMX R3, R10, R11, PT
"""
OTHER = "LDC R12, c[0x0][0x21c]\n"
"""A parameter of which nothing is known."""
WRAPPED = """
    IADD3 R10, R3, 0x1, RZ; ISETP.NE.AND P1, PT, R10, {limit}, PT; SEL R3, R10, RZ, P1
"""
DIVIDED = """
    I2F.U32.RP R10, {by}; IADD3 R3, R3, 0x1, RZ; MUFU.RCP R10, R10
    IADD3 R11, R10, 0xffffffe, RZ; F2I.FTZ.U32.TRUNC.NTZ R15, R11; IMAD.MOV R13, RZ, RZ, -R15
    IMAD.MOV.U32 R14, RZ, RZ, RZ; IMAD R13, R13, {by}, RZ; IMAD.HI.U32 R17, R15, R13, R14
    IMAD.HI.U32 R17, R17, R3, RZ; IADD3 R16, -R17, RZ, RZ; IMAD R16, {by}, R16, R3
    ISETP.GE.U32.AND P0, PT, R16, {by}, PT; @P0 IADD3 R16, R16, -{by}, RZ
    @P0 IADD3 R17, R17, 0x1, RZ; ISETP.GE.U32.AND P0, PT, R16, {by}, PT
    @P0 IADD3 R16, R16, -{by}, RZ; @P0 IADD3 R17, R17, 0x1, RZ
    IMAD.MOV.U32 R3, RZ, RZ, {result}
"""


BYTES = """
    IMAD.WIDE R4, R3, 0x3, R6; LDG.E.U8 R8, desc[UR4][R4.64]
    LDG.E.U8 R9, desc[UR4][R4.64+0x1]; LDG.E.U8 R9, desc[UR4][R4.64+0x2]
"""


@each_row("code, elements", [
    (NEIGHBOUR + LOAD, N - 1),
    # Clamped to 0 and to n - 1: what is left of the columns, from 0 on.
    (CLAMPED.format(margin=1000, limit="R9") + LOAD, N - 1000),
    (OTHER + CLAMPED.format(margin=1000, limit="R12") + LOAD, None),
    # x + 1 == n ? 0 : x + 1 has every value; with another number, it may have one less.
    (WRAPPED.format(limit="R9") + LOAD, N), (OTHER + WRAPPED.format(limit="R12") + LOAD, None),
    # The other way round: all columns but the last load the same element.
    (WRAPPED.format(limit="R9").replace("SEL R3, R10, RZ", "SEL R3, RZ, R10") + LOAD, 2),
    # (x + 1) % n and x / n, by the instructions of a division. With another number: any values.
    (DIVIDED.format(by="R9", result="R16") + LOAD, N),
    (DIVIDED.format(by="R9", result="R17") + LOAD, 2),
    (OTHER + DIVIDED.format(by="R12", result="R16") + LOAD, None),
    ("MUFU.RCP R10, R0\n" + DIVIDED.format(by="R10", result="R16") + LOAD, None),
    # Every third byte of each row, three times: all bytes of the rows.
    (BYTES, 3 * N / 4),
])  # fmt: skip
def test_replayed(code: str, elements: float | None) -> None:
    found = below(code)
    assert found.is_exact is (elements is not None)
    if elements is not None:
        assert found.at_least == found.at_most == 4 * elements


ROW_RANGES_START = """
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
    texts = assembled((ROW_RANGES_START + code + "EXIT").format(**parts))
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


SYMBOLS = Symbols()


def index(axis: str, size: int) -> Polynomial:
    """`size * ctaid.axis + tid.axis`."""
    names = {f"tid.{axis}": 1, f"ctaid.{axis}": size}
    symbols = {name: SYMBOLS.make(name.partition(".")[0], name, depends={name}) for name in names}
    return Polynomial({(symbols[name],): weight for name, weight in names.items()})


def upper(axis: str, size: int) -> Comparison:
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
    inside = [
        (bx, by, (ty * block[0] + tx) // 32)
        for bx, by, tx, ty in product(*map(range, (*grid, *block)))
        if first <= bx * block[0] + tx < wide and by * block[1] + ty < tall
    ]
    return len(inside), len({*inside})


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
        asked = [upper("x", block[0]), from_("x", block[0], first), upper("y", block[1])]
        found = executed_box(conditions(asked), extents, threads, warps)
        sizes = {side.places[0][0]: side[1:3] for side in found}
        assert sizes in ({}, {"tid.x": (first, wide - first), "tid.y": (0, tall)})
        known += bool(found)
    assert known > 30


NEIGHBOURS = """
    IMAD.WIDE R4, R3, 0x4, R6; LDG.E R8, desc[UR4][R4.64+-0x4]; LDG.E R10, desc[UR4][R4.64+0x0]
    LDG.E R11, desc[UR4][R4.64+0x4]; EXIT
"""


def inside(guard: str, threads: int, warps: int) -> Footprint:
    """`threads`, `warps`: those that pass the guard."""
    texts = assembled(START + COLUMN + guard + NEIGHBOURS)
    after = len(texts) - 5
    ran = {address: warps if address >= 16 * after else 512 for address in texts}
    lanes = {address: threads if address >= 16 * after else 512 * 32 for address in texts}
    return touched(texts, ran, lanes)


INSIDE = "ISETP.GE.AND P0, PT, R3, R9, PT\n@P0 EXIT\n"


def test_neighbours_inside_and_uneven_iterations() -> None:
    # 100 of 8192 columns, in two rows of blocks: elements -1 to 100, or from 0 on.
    assert exact(inside(INSIDE, 200, 8)) == 4 * 102
    first = "ISETP.LT.AND P0, PT, R3, 0x1, PT\n@P0 EXIT\n"
    assert exact(inside(first + INSIDE, 198, 8)) == 4 * 101
    code = """
        S2R R0, SR_TID.X; LDC.64 R6, c[0x0][0x210]; LDC R9, c[0x0][0x218]
        ULDC.64 UR4, c[0x0][0x208]
        again: LDG.E R8, desc[UR4][R6.64]; IADD3 R0, R0, 0x80, RZ
        ISETP.LT.AND P0, PT, R0, R9, PT; @P0 BRA again; EXIT
    """
    texts = assembled(code)
    ran = dict(zip(texts, [*[512] * 4, *[1300] * 4, 512], strict=True))
    assert exact(touched(texts, ran, {address: 32 * count for address, count in ran.items()})) == 4


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
    assert not inside(guard, threads, warps).is_exact


def test_places_of_a_side_and_very_many_blocks() -> None:
    extents = {"tid.x": 32, "ctaid.x": 4, "tid.y": 1, "tid.z": 1, "ctaid.y": 3, "ctaid.z": 1}
    side = executed_box(conditions([upper("x", 32)]), extents, 3 * 70, 9)[0]
    assert side[:3] == ((("tid.x", 1), ("ctaid.x", 32)), 0, 70)
    assert side.limit is not None
    fixed = Comparison(add(index("x", 32), number(-70)), "LT")
    cut = executed_box(conditions([upper("x", 32), fixed]), extents, 3 * 70, 9)[0]
    assert cut[:3] == side[:3]
    assert cut.limit is None  # it may be larger
    many = 1 << 31
    extents = {"tid.x": 1, "tid.y": 1, "tid.z": 1, "ctaid.x": many, "ctaid.y": many, "ctaid.z": 1}
    asked = conditions([upper("x", 1), upper("y", 1)])
    assert executed_box(asked, extents, 1 << 40, None) == ()


CLAMPED_ELSEWHERE = """
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
    ("LDC R10, c[0x0][0x21c]", 16384, False), ("IADD3 R10, R9, 0x5, RZ", 16384, True),
    ("IADD3 R10, R9, 0x500, RZ", 16384, False), ("IADD3 R10, R9, 0x5, RZ", 2010, True),
])  # fmt: skip
def test_clamped_to_a_known_limit(limit: str, stored: int, *, is_exact: bool) -> None:
    limit = "LDC.64 R16, c[0x0][0x220]\n" + limit
    texts = assembled(START + COLUMN + CLAMPED_ELSEWHERE + limit + STORE)
    after = 16 * (len(texts) - 3)
    warps = 2 * -(-stored // 64)
    ran = {address: warps if address >= after else 512 for address in texts}
    lanes = {address: stored if address >= after else 512 * 32 for address in texts}
    lanes[after - 16] -= stored  # those that leave
    found = touched(texts, ran, lanes)
    assert found.is_exact == is_exact
    if is_exact:
        assert found.at_most == 4 * min(8192, 1000 if stored != 16384 else 8192)


@each_row("index, is_exact", [
    ("NOP", True),  # blocks have 128 threads, and elements of blocks are 512 apart
    # What is clamped is 2 elements behind what is compared.
    ("IADD3 R20, R3, 0x2, RZ", False), ("IADD3 R20, R3, -0x2, RZ", True),
])  # fmt: skip
def test_a_clamp_that_changes_nothing(index: str, *, is_exact: bool) -> None:
    """All threads pass `i < n` at the store: `min(i, n - 1)` is `i`."""
    clamped = CLAMPED_ELSEWHERE.replace("R3", "R20") if "R20" in index else CLAMPED_ELSEWHERE
    start = START + COLUMN + f"IMAD R3, R1, 0x200, R0; {index}"
    texts = assembled(start + clamped + "LDC.64 R16, c[0x0][0x220]; MOV R10, R9" + STORE)
    found = machine(texts, dict.fromkeys(texts, 512)).footprints.of("param+0x0", ("load",))
    assert found.is_exact == is_exact
