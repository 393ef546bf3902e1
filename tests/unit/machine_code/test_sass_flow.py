"""Blocks, loops, trips, calls and ways not taken of small programs, which definition each read sees, and
which code only part of the threads reach."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.machine_code.analyses.conditions import Guarded, guarded_code
from keet.analysis.machine_code.flow.control_flow import dominators, intervals, reached
from keet.analysis.machine_code.flow.program import Kind, SassProgram, paths_not_taken, trips_of
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import launch_shape, text_of
from keet.profile import Location
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, program


def edges(found: SassProgram) -> set[tuple[int, int]]:
    """Between the positions where blocks begin."""
    blocks = found.flow.blocks
    return {(b.start, blocks[each].start) for b in blocks for each in b.successors}


def headers(found: SassProgram) -> list[int]:
    return [found.flow.blocks[loop.header].start for loop in found.flow.loops]


IF_ELSE = """
    ISETP.GE.AND P0, PT, R0, R1, PT; @P0 BRA yes; MOV R2, R3; BRA join
    yes: MOV R2, R4
    join: IADD3 R5, R2, 0x1, RZ; EXIT
"""


def test_branches_and_routines() -> None:
    found = program(IF_ELSE)
    assert edges(found) == {(0, 2), (0, 4), (2, 5), (4, 5)}
    assert found.flow.entries == (0,)
    assert found.flow.loops == []
    join = found.flow.block_of[5]
    assert found.flow.dominators[join] == 0
    found = program(IF_ELSE, [8, 8, 0, 0, 8, 8, 8])
    assert (edges(found), found.flow.block_of[2]) == ({(0, 4), (4, 5)}, -1)
    assert (found.ran, found.counts[2]) == ([0, 1, 4, 5, 6], 0)
    lines = "MOV R2, R3\n@P0 BRA join\nMOV R2, R4\njoin: MOV R5, R2\nEXIT"
    assert seen(program(lines, [4, 4, 0, 4, 4]), 3, "R2") == {0}
    found = program(CALLS, [2, 2, 2, 2, 2, 4, 4])
    routine = found.flow.block_of[5]
    assert found.flow.routines == {routine: (routine,)}
    assert [found.flow.blocks[each].end - 1 for each in found.flow.callers[routine]] == [1, 3]
    assert found.flow.blocks[routine].returns
    assert found.flow.blocks[routine].successors == []
    assert found.flow.loops == []  # no way from the end of the routine to the other caller
    assert found.flow.entries == (0,)
    assert found.call_sites == {5: (1, 3), 6: (1, 3)}
    found = program(
        """CALL.REL.NOINC one; CALL.REL.NOINC two; EXIT; one: FMUL R2, R4, 0.5;
        two: FADD R2, R2, 0.5; RET.REL.NODEC R20, 0x0"""
    )
    assert (found.call_sites[3], set(found.call_sites[4])) == ((0,), {0, 1})
    found = program(
        """CALL.REL.NOINC ping; EXIT; ping: CALL.REL.NOINC pong; RET.REL.NODEC R20, 0x0;
        pong: CALL.REL.NOINC ping; RET.REL.NODEC R20, 0x0; self_: CALL.REL.NOINC self_;
        RET.REL.NODEC R20, 0x0"""
    )
    assert len(found.flow.callers) == 3
    assert found.values.all is not None


LOOP_AFTER_LOOP = """
    BSSY B0, {target}
    first: IADD3 R0, R0, 0x1, RZ; ISETP.GE.AND P0, PT, R0, R1, PT; @!P0 BRA first
    meet: BSYNC B0
    second: IADD3 R2, R2, 0x1, RZ; ISETP.GE.AND P0, PT, R2, R3, PT; @!P0 BRA second; EXIT
"""


def test_parts_of_a_warp_meet_before_the_next_loop() -> None:
    """The threads of four warps leave the first loop in three parts, which all execute BSYNC."""
    counts = [4, 40, 40, 40, 12, 20, 20, 20, 4]
    for target in ("meet", "second"):
        first, second = program(LOOP_AFTER_LOOP.format(target=target), counts).flow.loops
        assert (first.entries, second.entries, second.trips) == (4, 4, 5)


DO_WHILE = (
    "MOV R0, RZ; top: IADD3 R0, R0, 0x1, RZ; ISETP.GE.AND P0, PT, R0, 0xa, PT; @!P0 BRA top; EXIT"
)
TEST_FIRST = """MOV R0, RZ; top: ISETP.GE.AND P0, PT, R0, 0xa, PT; @P0 BRA out; IADD3 R0, R0, 0x1, RZ;
    BRA top; out: EXIT"""
SKIPPED = "NOP; @P0 BRA out; top: IADD3 R0, R0, 0x1, RZ; @!P1 BRA top; out: EXIT"
NESTED = """MOV R0, RZ; outer: MOV R1, RZ; inner: IADD3 R1, R1, 0x1, RZ; @P0 BRA inner;
    IADD3 R0, R0, 0x1, RZ; @P1 BRA outer; EXIT"""
TWO_LATCHES = "NOP; top: IADD3 R0, R0, 0x1, RZ; @P0 BRA top; MOV R2, R3; @P1 BRA top; EXIT"
INDIRECT = "BRX R4 -0x10; NOP; top: IADD3 R2, R2, 0x1, RZ; @P0 BRA top; NOP; EXIT"
DETACHED = "BRA out; top: IADD3 R2, R2, 0x1, RZ; @P0 BRA top; NOP; out: EXIT"
IRREDUCIBLE = """@P0 BRA second; first: IADD3 R2, R2, 0x1, RZ; second: IADD3 R3, R3, 0x1, RZ;
    @P1 BRA first; EXIT"""


@each_row("text, counts, loops", [
    (DO_WHILE, [4, 40, 40, 40, 4], [(1, 10, 4)]), (DO_WHILE, None, [(1, None, None)]),
    (TEST_FIRST, [4, 44, 44, 40, 40, 4], [(1, 11, 4)]),  # the last pass only tests
    # Both blocks that lead out of the branch have other ways in: all warps count as entering.
    (SKIPPED, [8, 8, 30, 30, 8], [(2, 30 / 8, 8)]),
    # Entries follow from the other successor.
    ("@P0 BRA top; EXIT; top: NOP; @!P1 BRA top; EXIT", [8, 5, 30, 30, 3], [(2, 10, 3)]),
    (NESTED, [2, 10, 80, 80, 10, 10, 2], [(1, 5, 2), (2, 8, 10)]),
    (TWO_LATCHES, None, [(1, None, None)]),  # two ways back are one loop
    ("top: IADD3 R0, R0, 0x1, RZ; @P0 BRA top; EXIT", [40, 40, 4], [(0, 10, 4)]),
    ("EXIT; BRA 0x10", [8, 0], []),
    ("EXIT; BRA 0x10", None, [(1, None, None)]),  # the padding after every kernel
    (INDIRECT, [6, 0, 60, 60, 6, 6], [(2, 10, 6)]),  # only an indirect branch enters
    (DETACHED, None, [(1, None, None)]),  # this one made the search for dominators run in a circle
    (IRREDUCIBLE, None, []),
])  # fmt: skip
def test_loops_with_their_trips_and_entries(text, counts, loops) -> None:
    found = program(text, counts)
    every = zip(headers(found), found.flow.loops, strict=True)
    assert [(at, loop.trips, loop.entries) for at, loop in every] == loops


def test_loops_around_a_block_users_and_origins() -> None:
    found = program(DO_WHILE, [4, 40, 40, 40, 4])
    (loop,) = found.flow.loops
    assert (loop.depth, loop.parent, trips_of(found, loop)) == (1, None, (10, True))
    assert found.flow.loops_around(found.flow.block_of[2]) == [loop]
    assert found.flow.loops_around(0) == []
    found = program(NESTED)
    outer, inner = found.flow.loops
    assert (outer.depth, outer.parent, inner.depth, inner.parent) == (1, None, 2, outer.index)
    assert found.flow.loops_around(found.flow.block_of[3]) == [inner, outer]
    assert len(program(TWO_LATCHES).flow.loops[0].latches) == 2
    found = program(INDIRECT, [6, 0, 60, 60, 6, 6])
    assert found.flow.block_of[2] in found.flow.entries
    found = program(DETACHED)
    assert found.flow.dominators[found.flow.block_of[4]] == -1
    starts = [f"l{depth}: MOV R{10 + depth}, RZ" for depth in range(10)]
    ends = [f"@P0 BRA l{depth}" for depth in reversed(range(10))]
    found = program(["MOV R1, R9", *starts, "IADD3 R2, R1, 0x1, RZ", *ends, "EXIT"])
    assert kind(found, 11, "R1") is Kind.DEFINITION
    assert found.flow.loops[-1].depth == 10
    found = program("MOV R0, R1\nIADD3 R2, R0, R0, RZ\n@P0 MOV R3, R0\nEXIT")
    users = found.values.users()
    assert users[found.values.written[0]["R0"]] == [1, 2]
    lines = [f"@P{number % 7} MOV R0, R{1 + number}" for number in range(200)]
    found = program([*lines, "MOV R0, R0", "EXIT"])
    assert 0 < len(found.values.definitions(found.values.read[200]["R0"], limit=10)) <= 11


@each_row("text, expected", [
    # Convergence points begin blocks and do not branch.
    ("BSSY B0, join; @P0 BRA join; MOV R2, R3; join: BSYNC B0; EXIT", {(0, 2), (0, 3), (2, 3)}),
    ("BRA !P2, out; MOV R2, R3; BRA.DIV UR6, out; NOP; out: EXIT",
     {(0, 1), (0, 4), (1, 3), (1, 4), (3, 4)}),
    ("@P0 EXIT; MOV R2, R3; EXIT; NOP", {(0, 1)}),
])  # fmt: skip
def test_ways_between_blocks(text, expected) -> None:
    assert edges(program(text)) == expected


CALLS = """
    MOV R4, R1; CALL.REL.NOINC half; MOV R5, R2; CALL.REL.NOINC half; EXIT
    half: FMUL R2, R4, 0.5; RET.REL.NODEC R20, 0x0
"""


def graph_of(size: int) -> st.SearchStrategy[tuple[list[list[int]], set[int]]]:
    """Successors of each node, and the roots."""
    node = st.integers(0, size - 1)
    after = st.lists(node, max_size=3, unique=True)
    return st.tuples(
        st.lists(after, min_size=size, max_size=size), st.sets(node, min_size=1, max_size=2)
    )


@given(st.integers(1, 8).flatmap(graph_of))
def test_a_dominator_is_on_every_path(graph) -> None:
    successors, roots = graph
    every = range(len(successors))
    before = [[node for node in every if each in successors[node]] for each in every]
    above = dominators(successors, before, roots)
    nodes = {*reached(roots, successors.__getitem__)}
    assert set(above) == nodes
    span = intervals(above)
    for upper in nodes:
        others = [{*after} - {upper} for after in successors]
        lost = nodes - {*reached(roots - {upper}, others.__getitem__)}
        assert lost == {each for each in nodes if span[upper][0] <= span[each][0] <= span[upper][1]}


def seen(found: SassProgram, position: int, register: str) -> set[int]:
    """Positions of the instructions that may have written what is read; -1: not written."""
    values = found.values
    origins = values.origins(values.read[position][register])
    return {each.position if each.kind is Kind.DEFINITION else -1 for each in origins}


def kind(found: SassProgram, position: int, register: str) -> Kind:
    return found.values.all[found.values.read[position][register]].kind


GUARDED = """
    MOV R0, R9; ISETP.GE.AND P0, PT, R1, R2, PT; @P0 MOV R0, R8
"""
BLOCK = "MOV R0, R1\nMOV R0, R2\nMOV R3, R0\nEXIT"
PAIR = "LDG.E.64 R2, desc[UR4][R6.64]\nMOV R3, R9\nDADD R4, R2, R2\nEXIT"
OWN = "MOV R0, 0x1\nIADD3 R0, R0, 0x1, RZ\nMOV R1, R0\nEXIT"
JOIN = "@P0 BRA yes\nMOV R2, R3\nBRA join\nyes: MOV R2, R4\njoin: IADD3 R5, R2, R6, RZ\nEXIT"
LOOP = """
    MOV R0, RZ; MOV R1, R9
    top: IADD3 R0, R0, R1, RZ; ISETP.GE.AND P0, PT, R0, 0xa, PT; @!P0 BRA top; MOV R2, R0; EXIT
"""
ROUTINE = "EXIT\nhalf: FMUL R2, {}, 0.5\nRET.REL.NODEC R20, 0x0"
VALUES_CALLS = f"""
    MOV R4, R1; CALL.REL.NOINC half; MOV R4, R2; CALL.REL.NOINC half; IADD3 R6, R2, R5, RZ
    {ROUTINE.format("R4")}
"""


@each_row("lines, position, register, origins, of_kind", [
    (BLOCK, 2, "R0", {1}, None), (BLOCK, 0, "R1", {-1}, Kind.ENTRY), (PAIR, 2, "R2", {0}, None),
    (PAIR, 2, "R3", {1}, None), (OWN, 1, "R0", {0}, None), (OWN, 2, "R0", {1}, None),
    (GUARDED + "MOV R3, R0", 3, "R0", {0, 2}, Kind.GUARDED),
    (GUARDED + "@P0 MOV R3, R0", 3, "R0", {2}, None),  # under the same predicate
    (GUARDED + "NOP\n@!P0 MOV R4, R0", 4, "R0", {0}, None),
    (GUARDED + "@P1 MOV R3, R0", 3, "R0", {0, 2}, None),
    (GUARDED + "@!P1 MOV R4, R0", 3, "R0", {0, 2}, None),
    # A predicate that was written again is another one.
    (GUARDED + "ISETP.GE.AND P0, PT, R5, R6, PT\n@P0 MOV R3, R0", 4, "R0", {0, 2}, None),
    (GUARDED + "@!P0 MOV R0, R7\nMOV R3, R0", 4, "R0", {2, 3}, None),
    (GUARDED + "@P0 MOV R0, R7\nMOV R3, R0", 4, "R0", {0, 3}, None), (GUARDED, 2, "P0", {1}, None),
    (JOIN, 4, "R2", {1, 3}, Kind.JOIN),
    (JOIN, 4, "R6", {-1}, Kind.ENTRY),  # the same on both ways: no join
    (LOOP, 2, "R0", {0, 2}, Kind.JOIN),
    (LOOP, 2, "R1", {1}, Kind.DEFINITION),  # the loop does not change it
    (LOOP, 5, "R0", {2}, None),
    ("top: IADD3 R0, R0, 0x1, RZ\n@P0 BRA top\nEXIT", 0, "R0", {-1, 0}, None),
    (VALUES_CALLS, 2, "R2", {6}, Kind.CALL),  # writes of a routine are results of the call
    (VALUES_CALLS, 4, "R2", {6}, None),
    (VALUES_CALLS, 4, "R5", {-1}, Kind.ENTRY),  # routines leave it alone
    (VALUES_CALLS, 6, "R4", {0, 2}, None),  # a routine sees the values of all callers
    ("MOV R2, R1\n@P0 MOV R2, R3\nCALL.REL.NOINC half\n" + ROUTINE.format("R2"), 4, "R2", {0, 1},
     None),
    # A predicated call may not happen.
    ("MOV R2, R1\n@P0 CALL.REL.NOINC half\nMOV R3, R2\n" + ROUTINE.format("R9"), 2, "R2", {0, 4},
     None),
])  # fmt: skip
def test_what_a_read_sees(lines, position, register, origins, of_kind) -> None:
    found = program(lines)
    assert seen(found, position, register) == origins
    assert of_kind in (None, kind(found, position, register))
    if of_kind is Kind.CALL:
        assert found.values.all[found.values.read[position][register]].position == 1


CODE = """
    S2R R0, SR_TID.X; LDC R9, c[0x0][0x218]; ULDC.64 UR4, c[0x0][0x208]; MOV R2, RZ; {test}
    @P0 BRA past; MOV R2, 0x5
    past: IMAD R3, R2, 0x1, R0; EXIT
"""


def written(test: str, counts: list[int]) -> str:
    """R3 at its end. `test` is one or two instructions."""
    code = program(CODE.format(test=test), counts)
    at = next(p for p, each in enumerate(code.code) if each.opcode == "IMAD")
    found = Evaluation(code, launch_shape((64, 2, 1), (128, 1, 1), "9.0"))
    return text_of(found.polynomial(code.values.written[at]["R3"]))


ALL = [8] * 9


def test_a_condition_on_a_parameter() -> None:
    assert written("ISETP.EQ.AND P0, PT, R9, RZ, PT", ALL) == "5 + tid.x"
    # What never ran is no block: both values would come by one way.
    assert written("ISETP.EQ.AND P0, PT, R9, RZ, PT", [8, 8, 8, 8, 8, 8, 0, 8, 8]) == "tid.x"
    code = """
        S2R R0, SR_TID.X; LDC R9, c[0x0][0x218]; MOV R1, RZ
        again: ISETP.EQ.AND P0, PT, R1, 0x2, PT; @P0 BRA past; IADD3 R2, R2, 0x1, RZ
        past: IADD3 R1, R1, 0x1, RZ; ISETP.LT.AND P1, PT, R1, R9, PT; @P1 BRA again; EXIT
    """
    assert not paths_not_taken(program(code, [8, 8, 8, 40, 40, 32, 40, 40, 40, 8]))
    assert not paths_not_taken(program(CODE.format(test="ISETP.EQ.AND P0, PT, R9, RZ, PT")))


def test_other_conditions() -> None:
    """Threads, or data, may go both ways."""
    test = "ISETP.EQ.AND P0, PT, {}, RZ, PT"
    assert "choice" in written(test.format("R0"), ALL)
    for before in ("LDG.E R9, desc[UR4][R6.64]", "@P1 MOV R9, R0"):
        assert "choice" in written(f"{before}; {test.format('R9')}", [8, *ALL])


def guarded(
    text: str, warps: Sequence[int], threads: Sequence[int], passed: Sequence[int] = ()
) -> list[Guarded]:
    """`passed`: threads whose predicate is on, if not all. Everything stands at one line."""
    texts = assembled(text)
    reached = dict(zip(texts, threads, strict=True))
    program = SassProgram.of(texts, dict(zip(texts, warps, strict=True)))
    on = dict(zip(texts, passed or threads, strict=True))
    return guarded_code(program, reached, on, lambda _: Location("k.cu", 7))


IF = "@P0 BRA end\nFADD R1, R1, R1\nSTG.E [R2.64], R1\nend: EXIT"
IN_LOOP = "again: @P1 BRA on\nSTG.E [R2.64], R1\non: FADD R1, R1, R1\n@P0 BRA again\nEXIT"
LOOP_BEHIND = "@P0 BRA end\nagain: STG.E [R2.64], R1\n@P1 BRA again\nend: EXIT"
STORES = "@P0 STG.E [R2.64], R1\n@P0 STG.E [R4.64], R1\nEXIT"


@each_row("text, warps, threads, passed, entering, effects", [
    (IF, [4, 1, 1, 4], [128, 24, 24, 128], (), (128, 24, 4, 1), (2,)),
    (IF, [4, 4, 4, 4], [128] * 4, (), (128, 128, 4, 4), (2,)),  # all enter
    ("@P0 EXIT\nSTG.E [R2.64], R1\nEXIT", [4, 2, 2], [128, 64, 64], (), (128, 64, 4, 2), (1,)),
    (IN_LOOP, [12, 3, 12, 12, 4], [384, 30, 384, 384, 128], (), (384, 30, 12, 3), (1,)),
    # Threads that enter a loop count once.
    (LOOP_BEHIND, [4, 20, 20, 4], [128, 600, 600, 128], [88, 600, 560, 128], (128, 40, 4, None), (1,)),
    (STORES, [4, 4, 4], [128] * 3, [5, 5, 128], (128, 5, 4, None), (0, 1)),
])  # fmt: skip
def test_threads_and_warps_that_enter(text, warps, threads, passed, entering, effects) -> None:
    (found,) = guarded(text, warps, threads, passed)
    assert (found.threads, found.entering, found.warps, found.warps_entering) == entering
    assert (found.effects, found.loop) == (effects, 0 if text == IN_LOOP else None)


def test_where_none_enters_or_no_condition_is() -> None:
    assert guarded(IF, [4, 1, 1, 4], [128, 24, 24, 128])[0].instructions == 2
    (none_enters,) = guarded(IF, [4, 0, 0, 4], [128, 0, 0, 128])
    assert none_enters.is_one_way
    assert (none_enters.blocks, none_enters.effects) == ((1,), ())
    either = "@P0 BRA then\n@!P1 BRA end\nthen: STG.E [R2.64], R1\nend: EXIT"  # `if (a || b)`
    found = guarded(either, [4, 4, 4, 4], [128, 96, 64, 128])
    (store,) = (each for each in found if each.effects)
    assert (store.decided, store.threads, store.entering) == ((0, 1), 128, 64)
    text = "again: FADD R1, R1, R1\n@P0 BRA again\nSTG.E [R2.64], R1\nEXIT"
    assert not guarded(text, [12, 12, 4, 4], [200, 200, 128, 128])
    text = "@P0 BRA end\nCALL.REL.NOINC slow\nend: STG.E [R2.64], R1\nEXIT\n"
    text += "slow: FADD R1, R1, R1\nRET.REL.NODEC R6 0x0"
    assert not guarded(text, [4, 1, 4, 4, 1, 1], [128, 9, 128, 128, 9, 9])
