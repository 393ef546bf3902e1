"""Loads that a loop repeats, and code that looks as if it did."""

from __future__ import annotations

from dataclasses import replace

from keet.analysis.sass.analyses.loop_loads import (
    RepeatedLoad,
    RepeatedStore,
    repeated_loads,
    repeated_stores,
)
from keet.analysis.sass.machine_code import MachineCode
from tests.rows import each_row
from tests.unit.sass.assembled import assembled, instructions, machine

OUTER, INNER = 16, 8
CODE = """
    S2R R0, SR_TID.X; IMAD.WIDE R10, R0, 0x4, c[0x0][0x228]
    IMAD.WIDE R14, R0, 0x4, c[0x0][0x218]; LDG.E R9, [R14.64]; MOV R2, RZ
    MOV R16, c[0x0][0x210]; MOV R18, c[0x0][0x220]
    outer: MOV R3, RZ; {before}; IMAD.WIDE R4, R0, 0x4, c[0x0][0x210]; {address}
    inner: {load}; FADD R7, R7, R6; IADD3 R4, R4, 0x400, RZ; IADD3 R3, R3, 0x1, RZ
    ISETP.NE.AND P0, PT, R3, {limit}, PT; @P0 BRA inner; {after}; STG.E [R10.64], R7
    IADD3 R2, R2, 0x1, RZ; ISETP.NE.AND P1, PT, R2, 0x10, PT; @P1 BRA outer; EXIT
"""
LOAD = "LDG.E R6, [R4.64]"


def coded(
    before: str = "NOP", address: str = "NOP", load: str = LOAD, limit: str = "0x8", after: str = ""
) -> tuple[MachineCode, list[int]]:
    """Code that stores through another pointer than it loads from; how often each row runs."""
    text = CODE.format(before=before, address=address, load=load, limit=limit, after=after)
    rows = instructions(text)
    counts, runs = [], 1
    for row in rows:
        runs = {"outer": OUTER, "inner": OUTER * INNER}.get(row.partition(":")[0], runs)
        counts.append(runs if "EXIT" not in row else 1)
        runs = OUTER if row.endswith("BRA inner") else runs
    texts = assembled(rows)
    return machine(texts, dict(zip(texts, counts, strict=True))), counts


def found(**parts: str) -> list[RepeatedLoad]:
    """Of the load in the inner loop."""
    code, counts = coded(**parts)
    loads = repeated_loads(code.program, code.accesses, code.evaluation)
    return [each for each in loads if counts[each.access.position] == OUTER * INNER]


def test_a_table_is_loaded_again_in_every_iteration() -> None:
    (load,) = found()
    assert (load.access.pointer, load.times, len(load.loops)) == ("param+0x0", OUTER, 1)


INDEX_FROM_BEFORE = "IMAD.WIDE R4, R9, 0x4, c[0x0][0x210]"
SKIP = "ISETP.LT.AND P2, PT, R0, 0x3, PT\nMOV R8, RZ\n@P2 BRA skip\nMOV R8, 0x40\nskip: NOP"


@each_row("parts, times", [
    ({"address": INDEX_FROM_BEFORE}, OUTER),  # an index that was loaded before the loop
    ({"before": "LDG.E R8, [R14.64]", "address": "IMAD.WIDE R4, R8, 0x4, c[0x0][0x210]"}, OUTER),
    ({"load": "LDG.E R6, [R14.64]"}, OUTER * INNER),  # no loop moves it
    ({"before": SKIP, "address": "IADD3 R4, R4, R8, RZ"}, OUTER),  # a path that stays the same
])  # fmt: skip
def test_what_stays_the_same_is_repeated(parts: dict[str, str], times: int) -> None:
    assert found(**parts)[0].times == times


@each_row("parts", [
    {"address": "IMAD R4, R2, 0x1000, R4"},  # moves on with the loop
    {"load": "LDG.E.STRONG.GPU R6, [R4.64]"},
    {"after": "STG.E [R4.64], R7"},  # stored through the same pointer
    {"after": "REDG.E.ADD.STRONG.GPU [R4.64], R7"},
    # Two buffers in turn.
    {"before": "LOP3.LUT R8, R2, 0x1, RZ, 0xc0, !PT", "address": "IMAD R4, R8, 0x1000, R4"},
    {"before": "VIMNMX R8, R2, 0x5, PT", "address": "IMAD R4, R8, 0x1000, R4"},  # clamped
    # Another place in one iteration; only in the first one.
    {"before": "ISETP.EQ.AND P2, PT, R2, 0x3, PT", "address": "@P2 IADD3 R4, R4, 0x40, RZ"},
    {"before": "ISETP.EQ.AND P2, PT, R2, RZ, PT", "load": "@P2 LDG.E R6, [R4.64]"},
    {"limit": "R2"},  # as many as the loop's counter
    # An index from shared memory that the loop writes.
    {"before": "LDS R8, [R3]", "address": "IMAD R4, R8, 0x4, R4", "after": "STS [R3], R7"},
    {"before": "S2R R8, SR_CLOCKLO", "address": "IMAD R4, R8, 0x4, R4"},
    # It goes on where the last iteration ended.
    {"after": "MOV R14, R4", "before": "MOV R8, R14", "address": "MOV R4, R8"},
    {"after": "IADD3 R9, R9, 0x1, RZ", "address": INDEX_FROM_BEFORE},  # an index that counts
    {"before": "ATOMG.E.ADD R8, [R18.64], R7", "address": "IMAD R4, R8, 0x4, R4"},
    # Pointers that change places.
    {"address": "IMAD R4, R0, 0x4, R16", "after": "MOV R8, R16; MOV R16, R18; MOV R18, R8"},
    # A path that the counter chooses.
    {"before": SKIP.replace("LT.AND P2, PT, R0", "EQ.AND P2, PT, R2"), "address": "IADD3 R4, R4, R8, RZ"},
])  # fmt: skip
def test_look_alikes(parts: dict[str, str]) -> None:
    assert not found(**parts)


POLLED = """
    MOV R4, c[0x0][0x210]
    poll: LDG.E R6, [R4.64]; ISETP.EQ.AND P0, PT, R6, RZ, PT; @P0 BRA poll; EXIT
"""


def test_a_flag_that_is_polled() -> None:
    texts = assembled(POLLED)
    code = machine(texts, dict(zip(texts, [1, 9, 9, 9, 1], strict=True)))
    assert not repeated_loads(code.program, code.accesses, code.evaluation)


def test_what_a_block_would_have_to_keep() -> None:
    texts = assembled(
        """
        S2R R0, SR_TID.X; S2R R1, SR_CTAID.X; IMAD.WIDE R10, R0, 0x4, c[0x0][0x218]
        IMAD R0, R1, 0x80, R0; MOV R2, RZ
        outer: IMAD.WIDE R4, R0, 0x10, c[0x0][0x210]; LDG.E.64 R12, [R4.64]
        LDG.E.64 R14, [R4.64+0x8]; STG.E [R10.64], R12; IADD3 R2, R2, 0x1, RZ
        ISETP.NE.AND P1, PT, R2, 0x10, PT; @P1 BRA outer; EXIT
        """
    )
    warps = 64 * 2 * 128 // 32
    counts = [warps] * 5 + [16 * warps] * 7 + [warps]
    code = replace(machine(texts, dict(zip(texts, counts, strict=True))), sectors=None)
    (row,) = code.repeated_arrays
    assert (row.times, row.block_bytes, row.thread_bytes) == (16, 128 * 16, 16)


def stores(after: str = "NOP") -> list[RepeatedStore]:
    """Of the store in the outer loop, with an instruction before it."""
    code, _ = coded(after=after)
    return repeated_stores(code.program, code.accesses, code.evaluation)


def test_a_result_is_stored_in_every_iteration() -> None:
    (store,) = stores()
    assert (store.access.pointer, store.times, store.loads) == ("param+0x18", OUTER, ())
    (store,) = stores("LDG.E R20, [R10.64]")  # a sum in memory is loaded back
    assert len(store.loads) == 1


@each_row("after", [
    "IADD3 R10, R10, 0x400, RZ",  # each iteration has its own address
    "LDG.E R20, [R10.64+0x400]",  # another thread's value: it may need each of them
    "LDG.E R20, [R14.64+R6]\n    IMAD.WIDE R10, R20, 0x4, c[0x0][0x228]",  # data decides
])  # fmt: skip
def test_stores_that_are_needed(after: str) -> None:
    assert stores(after) == []
