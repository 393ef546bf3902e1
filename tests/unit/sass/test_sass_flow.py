"""Blocks, loops, trips and calls of small programs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.sass.flow.control_flow import dominators, intervals
from keet.analysis.sass.flow.program import SassProgram, trips_of
from tests.rows import each_row
from tests.unit.sass.assembled import program


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


def test_if_and_else() -> None:
    found = program(IF_ELSE)
    assert edges(found) == {(0, 2), (0, 4), (2, 5), (4, 5)}
    assert found.flow.entries == (0,)
    assert found.flow.loops == []
    join = found.flow.block_of[5]
    assert found.flow.dominators[join] == 0


def test_code_that_never_ran_is_left_out() -> None:
    found = program(IF_ELSE, [8, 8, 0, 0, 8, 8, 8])
    assert (edges(found), found.flow.block_of[2]) == ({(0, 4), (4, 5)}, -1)
    assert (found.ran, found.counts[2]) == ([0, 1, 4, 5, 6], 0)


LOOP_AFTER_LOOP = """
    BSSY B0, {target}
    first: IADD3 R0, R0, 0x1, RZ; ISETP.GE.AND P0, PT, R0, R1, PT; @!P0 BRA first
    meet: BSYNC B0
    second: IADD3 R2, R2, 0x1, RZ; ISETP.GE.AND P0, PT, R2, R3, PT; @!P0 BRA second; EXIT
"""


@pytest.mark.parametrize("target", ["meet", "second"])
def test_parts_of_a_warp_meet_before_the_next_loop(target: str) -> None:
    """The threads of four warps leave the first loop in three parts, which all execute BSYNC."""
    counts = [4, 40, 40, 40, 12, 20, 20, 20, 4]
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
    (DO_WHILE, [4, 40, 40, 40, 4], [(1, 10, 4)]),
    (DO_WHILE, None, [(1, None, None)]),
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
    assert [
        (h, loop.trips, loop.entries) for h, loop in zip(headers(found), found.flow.loops)
    ] == loops


def test_loops_around_a_block() -> None:
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


def test_a_routine_with_two_callers() -> None:
    found = program(CALLS, [2, 2, 2, 2, 2, 4, 4])
    routine = found.flow.block_of[5]
    assert found.flow.routines == {routine: (routine,)}
    assert [found.flow.blocks[each].end - 1 for each in found.flow.callers[routine]] == [1, 3]
    assert found.flow.blocks[routine].returns
    assert found.flow.blocks[routine].successors == []
    assert found.flow.loops == []  # no way from the end of the routine to the other caller
    assert found.flow.entries == (0,)
    assert found.call_sites == {5: (1, 3), 6: (1, 3)}


def test_routines_that_share_code_or_call_each_other() -> None:
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


graphs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.lists(
            st.lists(st.integers(0, size - 1), max_size=3, unique=True),
            min_size=size,
            max_size=size,
        ),
        st.sets(st.integers(0, size - 1), min_size=1, max_size=2),
    )
)


def _reached(successors: list[list[int]], roots: Iterable[int], without: int | None) -> set[int]:
    seen: set[int] = set()
    waiting = [each for each in roots if each != without]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [each for each in successors[node] if each != without]
    return seen


@given(graphs)
def test_a_dominator_is_on_every_path(graph) -> None:
    successors, roots = graph
    before = [
        [node for node, after in enumerate(successors) if each in after]
        for each in range(len(successors))
    ]
    above = dominators(successors, before, roots)
    nodes = _reached(successors, roots, None)
    assert set(above) == nodes
    span = intervals(above)
    for upper in nodes:
        lost = nodes - _reached(successors, roots, upper)
        assert lost == {each for each in nodes if span[upper][0] <= span[each][0] <= span[upper][1]}
