"""Loops that end by what they load (retries, searches, loops that a load ends), and loops that only
look like them."""

from __future__ import annotations

from keet.analysis.sass.analyses.data_dependent_loops import (
    RetryLoop,
    SearchLoop,
    exit_loads,
    retry_loops,
    search_loops,
)
from tests.rows import each_row
from tests.unit.sass.assembled import instructions, program

ADDITION = """
    S2R R0, SR_TID.X; LDG.E R4, desc[UR4][R2.64]
    again: LDS R18, [R20]; FADD R19, R4, R18; ATOMS.CAST.SPIN R19, [R20], R18, R19
    ISETP.EQ.U32.AND P1, PT, R19, 0x1, PT; @!P1 BRA again; BSYNC B0
    met: EXIT
"""
MAXIMUM = """
    LDG.E R5, desc[UR4][R2.64]
    again: FMNMX R7, R4, R5, !PT; ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R7
    ISETP.NE.AND P0, PT, R7, R5, PT; IMAD.MOV.U32 R5, RZ, RZ, R7; @P0 BRA again; EXIT
"""
LOCK = """
    MOV R8, RZ
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], RZ, R9; ISETP.NE.AND P0, PT, R7, RZ, PT
    @P0 BRA busy; LDG.E R4, desc[UR4][R10.64]; STG.E desc[UR4][R10.64], R4; MOV R8, 0x1
    busy: ISETP.EQ.AND P1, PT, R8, RZ, PT; @P1 BRA again; EXIT
"""
PROBES = """
    MOV R5, 0xffff
    again: IMAD.WIDE R2, R6, 0x4, R10; ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R4
    IADD3 R6, R6, 0x1, RZ; ISETP.NE.AND P0, PT, R7, R5, PT; @P0 BRA again; EXIT
"""
POLL = """
    MOV R5, 0x1
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R5; ISETP.NE.AND P0, PT, R7, R5, PT
    @P0 BRA again; EXIT
"""
COUNTED = """
    MOV R5, RZ
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], RZ, R4; IADD3 R5, R5, 0x1, RZ
    ISETP.NE.AND P0, PT, R5, 0x10, PT; @P0 BRA again; EXIT
"""


def retries_in(lines: str, entries: int, *inside: int) -> list[RetryLoop]:
    """`inside`: executions from the loop's first instruction to the last but one."""
    rows = instructions(lines)
    first = next(place for place, row in enumerate(rows) if "again:" in row)
    counts = [entries] * first + list(inside)
    return retry_loops(program(lines, counts + [entries] * (len(rows) - len(counts))))


def test_loops_that_are_retries() -> None:
    # Threads that are done meet at BSYNC in several parts, which are repeats too. One round per
    # update is no retry.
    (loop,) = retries_in(ADDITION, 10, *[70] * 5, 40)
    assert (loop.memory, loop.entries, loop.executions) == ("shared", 10, 70)
    assert loop.repeated == {**dict.fromkeys(range(2, 7), 60), 7: 30}
    assert retries_in(ADDITION, 10, *[10] * 6)[0].repeated == {}
    (loop,) = retries_in(MAXIMUM, 10, *[25] * 5)
    assert (loop.memory, loop.executions, set(loop.repeated.values())) == ("global", 25, {15})
    (loop,) = retries_in(LOCK, 10, 90, 90, 90, 20, 20, 20, 90, 90)
    assert loop.repeated == {1: 80, 2: 80, 3: 80, 4: 10, 5: 10, 6: 10, 7: 80, 8: 80}


def test_loops_that_are_no_retries() -> None:
    """Probes of a hash table, waiting for another block, a fixed number of swaps, no counts."""
    assert retries_in(PROBES, 10, *[25] * 5) == []
    assert retries_in(POLL, 10, *[25] * 3) == []
    assert retries_in(COUNTED, 10, *[160] * 4) == []
    assert retry_loops(program(ADDITION)) == []


SEARCH = """
    S2R R0, SR_TID.X; MOV R5, RZ
    again: LDS R7, [R5]; ISETP.NE.AND P0, PT, R7, R8, PT; @P0 BRA next
    LDG.E R4, desc[UR4][R10.64]; STG.E desc[UR4][R10.64], R4
    next: IADD3 R5, R5, 0x4, RZ; ISETP.NE.AND P1, PT, R5, 0x4000, PT; @P1 BRA again; EXIT
"""
OWN_ENTRIES = SEARCH.replace("MOV R5, RZ", "MOV R5, R0")
"""Each thread reads entries of its own, which may have to be read once."""
OTHER_WORK = SEARCH.replace("next: IADD3", "next: FADD R12, R12, R7\n    IADD3")
"""A rare path in a loop that adds up all entries."""
STORES_ALWAYS = SEARCH.replace("next: IADD3", "next: STS [R5], R8\n    IADD3")
RUNNING_MAXIMUM = SEARCH.replace("STG.E desc[UR4][R10.64], R4", "MOV R8, R7")
"""What is looked for depends on what was found."""
FOLLOWS_LINKS = SEARCH.replace("next: IADD3 R5, R5", "next: IADD3 R5, R7")


def searches_in(lines: str, iterations: int, hits: int) -> list[SearchLoop]:
    """Of 10 warps, which go through the loop `iterations` times and take the branch `hits`
    times."""
    rows = instructions(lines)
    counts, inside, rare = list[int](), False, False
    for row in rows:
        inside = (inside or "again:" in row) and "EXIT" not in row
        rare = (rare or "LDG" in row) and "next:" not in row
        counts.append(hits if rare else iterations if inside else 10)
    return search_loops(program(lines, counts))


def test_a_search_that_seldom_finds_is_counted() -> None:
    (search,) = searches_in(SEARCH, 40_960, 80)
    assert (search.iterations, search.found, len(search.positions)) == (40_960, 80, 6)


@each_row("lines, iterations, hits", [
    (SEARCH, 40_960, 8_000),
    (SEARCH, 40_960, 0),
    (SEARCH, 100, 1),
    (OWN_ENTRIES, 40_960, 80),
    (OTHER_WORK, 40_960, 80),
    (STORES_ALWAYS, 40_960, 80),
    (RUNNING_MAXIMUM, 40_960, 80),
    (FOLLOWS_LINKS, 40_960, 80),
])  # fmt: skip
def test_what_looks_like_a_search_is_none(lines: str, iterations: int, hits: int) -> None:
    """It finds often, or never (an error path), or is short; or the loop has other work."""
    assert searches_in(lines, iterations, hits) == []


MARKER = """
    MOV R6, RZ
    again: IMAD.WIDE R2, R6, 0x4, R10; LDG.E R7, desc[UR4][R2.64]; IADD3 R6, R6, 0x1, RZ
    ISETP.GE.AND P0, PT, R7, RZ, PT; @P0 BRA again; EXIT
"""
FLAG = """
    MOV R6, RZ
    again: LDG.E.STRONG.GPU R7, desc[UR4][R2.64]; ISETP.EQ.AND P0, PT, R7, RZ, PT; @P0 BRA again
    EXIT
"""
COUNTED_LOADS = """
    MOV R6, RZ
    again: IMAD.WIDE R2, R6, 0x4, R10; LDG.E R7, desc[UR4][R2.64]; FADD R8, R8, R7
    IADD3 R6, R6, 0x1, RZ; ISETP.NE.AND P0, PT, R6, R5, PT; @P0 BRA again; EXIT
"""


def loads_that_end(lines: str) -> list[int]:
    rows = instructions(lines)
    made = program(lines, [4, *[40] * (len(rows) - 2), 4])
    (loop,) = made.flow.loops
    return exit_loads(made, loop)


def test_loops_that_a_load_ends() -> None:
    """A search for a marker; not waiting for another thread's flag, and no counted loop."""
    assert loads_that_end(MARKER) == [2]
    assert loads_that_end(FLAG) == loads_that_end(COUNTED_LOADS) == []
