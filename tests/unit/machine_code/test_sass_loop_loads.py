"""Loads that a loop repeats, loops that end by what they load (retries, searches), and look-alikes."""

from dataclasses import replace

from keet.analysis.machine_code.analyses.loop_loads import (
    RepeatedLoad,
    RepeatedStore,
    repeated_loads,
    repeated_stores,
)
from keet.analysis.machine_code.analyses.source_loops import (
    RetryLoop,
    SearchLoop,
    exit_loads,
    retry_loops,
    search_loops,
)
from keet.analysis.machine_code.launch_code import MachineCode
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, instructions, machine, program

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


def test_tables_results_and_flags_in_loops() -> None:
    (load,) = found()
    assert (load.access.pointer, load.times, len(load.loops)) == ("param+0x0", OUTER, 1)
    texts = assembled(POLLED)
    code = machine(texts, dict(zip(texts, [1, 9, 9, 9, 1], strict=True)))
    assert not repeated_loads(code.program, code.accesses, code.evaluation)
    (store,) = stores()
    assert (store.access.pointer, store.times, store.loads) == ("param+0x18", OUTER, ())
    (store,) = stores("LDG.E R20, [R10.64]")  # a sum in memory is loaded back
    assert len(store.loads) == 1


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


@each_row("after", [
    "IADD3 R10, R10, 0x400, RZ",  # each iteration has its own address
    "LDG.E R20, [R10.64+0x400]",  # another thread's value: it may need each of them
    "LDG.E R20, [R14.64+R6]; IMAD.WIDE R10, R20, 0x4, c[0x0][0x228]",  # data decides
])  # fmt: skip
def test_stores_that_are_needed(after: str) -> None:
    assert stores(after) == []


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


def test_retries_and_look_alikes() -> None:
    (loop,) = retries_in(ADDITION, 10, *[70] * 5, 40)
    assert (loop.memory, loop.entries, loop.executions) == ("shared", 10, 70)
    assert loop.repeated == {**dict.fromkeys(range(2, 7), 60), 7: 30}
    assert retries_in(ADDITION, 10, *[10] * 6)[0].repeated == {}
    (loop,) = retries_in(MAXIMUM, 10, *[25] * 5)
    assert (loop.memory, loop.executions, set(loop.repeated.values())) == ("global", 25, {15})
    (loop,) = retries_in(LOCK, 10, 90, 90, 90, 20, 20, 20, 90, 90)
    assert loop.repeated == {1: 80, 2: 80, 3: 80, 4: 10, 5: 10, 6: 10, 7: 80, 8: 80}
    # Probes of a hash table, waiting for another block, a fixed number of swaps, no counts.
    assert (retries_in(PROBES, 10, *[25] * 5), retries_in(POLL, 10, *[25] * 3)) == ([], [])
    assert (retries_in(COUNTED, 10, *[160] * 4), retry_loops(program(ADDITION))) == ([], [])


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
    counts, inside, rare = list[int](), False, False
    for row in instructions(lines):
        inside = (inside or "again:" in row) and "EXIT" not in row
        rare = (rare or "LDG" in row) and "next:" not in row
        counts.append(hits if rare else iterations if inside else 10)
    return search_loops(program(lines, counts))


def test_a_search_that_seldom_finds_is_counted() -> None:
    (search,) = searches_in(SEARCH, 40_960, 80)
    assert (search.iterations, search.finds, len(search.positions)) == (40_960, 80, 6)


@each_row("lines, iterations, hits", [
    (SEARCH, 40_960, 8_000), (SEARCH, 40_960, 0), (SEARCH, 100, 1), (OWN_ENTRIES, 40_960, 80),
    (OTHER_WORK, 40_960, 80), (STORES_ALWAYS, 40_960, 80), (RUNNING_MAXIMUM, 40_960, 80),
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
