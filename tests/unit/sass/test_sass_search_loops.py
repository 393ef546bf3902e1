"""Loops that search, and loops that only look like them."""

from __future__ import annotations

from keet.analysis.sass.analyses.data_dependent_loops import SearchLoop, search_loops
from tests.rows import each_row
from tests.unit.sass.assembled import program

SEARCH = """
    S2R R0, SR_TID.X
    MOV R5, RZ
    again: LDS R7, [R5]
    ISETP.NE.AND P0, PT, R7, R8, PT
    @P0 BRA next
    LDG.E R4, desc[UR4][R10.64]
    STG.E desc[UR4][R10.64], R4
    next: IADD3 R5, R5, 0x4, RZ
    ISETP.NE.AND P1, PT, R5, 0x4000, PT
    @P1 BRA again
    EXIT
"""
OWN_ENTRIES = SEARCH.replace("MOV R5, RZ", "MOV R5, R0")
"""Each thread reads entries of its own, which may have to be read once."""
OTHER_WORK = SEARCH.replace("next: IADD3", "next: FADD R12, R12, R7\n    IADD3")
"""A rare path in a loop that adds up all entries."""
STORES_ALWAYS = SEARCH.replace("next: IADD3", "next: STS [R5], R8\n    IADD3")
RUNNING_MAXIMUM = SEARCH.replace("STG.E desc[UR4][R10.64], R4", "MOV R8, R7")
"""What is looked for depends on what was found."""
FOLLOWS_LINKS = SEARCH.replace("next: IADD3 R5, R5", "next: IADD3 R5, R7")


def found(lines: str, iterations: int, hits: int) -> list[SearchLoop]:
    """Of 10 warps, which go through the loop `iterations` times and take the branch `hits`
    times."""
    rows = [row for row in lines.splitlines() if row.strip()]
    counts, inside, rare = list[int](), False, False
    for row in rows:
        inside = (inside or "again:" in row) and "EXIT" not in row
        rare = (rare or "LDG" in row) and "next:" not in row
        counts.append(hits if rare else iterations if inside else 10)
    return search_loops(program(lines, counts))


def test_a_search_that_seldom_finds_is_counted() -> None:
    (search,) = found(SEARCH, 40_960, 80)
    assert (search.iterations, search.found) == (40_960, 80)
    assert len(search.positions) == 6


@each_row(
    "lines, iterations, hits",
    [
        (SEARCH, 40_960, 8_000),
        (SEARCH, 40_960, 0),
        (SEARCH, 100, 1),
        (OWN_ENTRIES, 40_960, 80),
        (OTHER_WORK, 40_960, 80),
        (STORES_ALWAYS, 40_960, 80),
        (RUNNING_MAXIMUM, 40_960, 80),
        (FOLLOWS_LINKS, 40_960, 80),
    ],
)
def test_what_looks_like_a_search_is_none(lines: str, iterations: int, hits: int) -> None:
    """It finds often, or never (an error path), or is short; or the loop has other work."""
    assert found(lines, iterations, hits) == []
