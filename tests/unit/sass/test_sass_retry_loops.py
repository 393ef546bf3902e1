"""Retry loops around a compare-and-swap, and loops that only look like them."""

from __future__ import annotations

from keet.analysis.sass.analyses.data_dependent_loops import RetryLoop, retry_loops
from tests.unit.sass.assembled import program

ADDITION = """
    S2R R0, SR_TID.X
    LDG.E R4, desc[UR4][R2.64]
    again: LDS R18, [R20]
    FADD R19, R4, R18
    ATOMS.CAST.SPIN R19, [R20], R18, R19
    ISETP.EQ.U32.AND P1, PT, R19, 0x1, PT
    @!P1 BRA again
    BSYNC B0
    met: EXIT
"""
MAXIMUM = """
    LDG.E R5, desc[UR4][R2.64]
    again: FMNMX R7, R4, R5, !PT
    ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R7
    ISETP.NE.AND P0, PT, R7, R5, PT
    IMAD.MOV.U32 R5, RZ, RZ, R7
    @P0 BRA again
    EXIT
"""
LOCK = """
    MOV R8, RZ
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], RZ, R9
    ISETP.NE.AND P0, PT, R7, RZ, PT
    @P0 BRA busy
    LDG.E R4, desc[UR4][R10.64]
    STG.E desc[UR4][R10.64], R4
    MOV R8, 0x1
    busy: ISETP.EQ.AND P1, PT, R8, RZ, PT
    @P1 BRA again
    EXIT
"""
PROBES = """
    MOV R5, 0xffff
    again: IMAD.WIDE R2, R6, 0x4, R10
    ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R4
    IADD3 R6, R6, 0x1, RZ
    ISETP.NE.AND P0, PT, R7, R5, PT
    @P0 BRA again
    EXIT
"""
POLL = """
    MOV R5, 0x1
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R5, R5
    ISETP.NE.AND P0, PT, R7, R5, PT
    @P0 BRA again
    EXIT
"""
COUNTED = """
    MOV R5, RZ
    again: ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], RZ, R4
    IADD3 R5, R5, 0x1, RZ
    ISETP.NE.AND P0, PT, R5, 0x10, PT
    @P0 BRA again
    EXIT
"""


def found(lines: str, entries: int, *inside: int) -> list[RetryLoop]:
    """`inside`: executions from the loop's first instruction to the last but one."""
    rows = [row for row in lines.splitlines() if row.strip()]
    first = next(place for place, row in enumerate(rows) if "again:" in row)
    counts = [entries] * first + list(inside)
    return retry_loops(program(lines, counts + [entries] * (len(rows) - len(counts))))


def test_an_addition_of_floats_in_shared_memory() -> None:
    """Threads that are done meet at BSYNC in several parts, which are repeats too."""
    (loop,) = found(ADDITION, 10, *[70] * 5, 40)
    assert (loop.memory, loop.entries, loop.executions) == ("shared", 10, 70)
    assert loop.repeated == {**dict.fromkeys(range(2, 7), 60), 7: 30}


def test_one_round_per_update_is_no_retry() -> None:
    (loop,) = found(ADDITION, 10, *[10] * 6)
    assert loop.repeated == {}


def test_a_maximum_of_floats_in_global_memory() -> None:
    (loop,) = found(MAXIMUM, 10, *[25] * 5)
    assert (loop.memory, loop.executions, set(loop.repeated.values())) == ("global", 25, {15})


def test_a_lock_is_retried_and_its_section_runs_for_one_thread_at_a_time() -> None:
    (loop,) = found(LOCK, 10, 90, 90, 90, 20, 20, 20, 90, 90)
    assert loop.repeated == {1: 80, 2: 80, 3: 80, 4: 10, 5: 10, 6: 10, 7: 80, 8: 80}


def test_loops_that_are_no_retries() -> None:
    """Probes of a hash table, waiting for another block, and a fixed number of swaps."""
    assert found(PROBES, 10, *[25] * 5) == []
    assert found(POLL, 10, *[25] * 3) == []
    assert found(COUNTED, 10, *[160] * 4) == []


def test_without_counts_nothing_is_known() -> None:
    assert retry_loops(program(ADDITION)) == []
