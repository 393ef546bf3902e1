"""Blocks, loops, trips and calls of small programs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.sass.flow.control_flow import dominators, intervals
from keet.analysis.sass.flow.program import SassProgram, trips_of
from tests.unit.sass.assembled import program


def edges(found: SassProgram) -> set[tuple[int, int]]:
    """Between the positions where blocks begin."""
    blocks = found.flow.blocks
    return {(b.start, blocks[each].start) for b in blocks for each in b.successors}


def headers(found: SassProgram) -> list[int]:
    return [found.flow.blocks[loop.header].start for loop in found.flow.loops]


IF_ELSE = """
    ISETP.GE.AND P0, PT, R0, R1, PT
    @P0 BRA yes
    MOV R2, R3
    BRA join
    yes: MOV R2, R4
    join: IADD3 R5, R2, 0x1, RZ
    EXIT
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
    first: IADD3 R0, R0, 0x1, RZ
    ISETP.GE.AND P0, PT, R0, R1, PT
    @!P0 BRA first
    meet: BSYNC B0
    second: IADD3 R2, R2, 0x1, RZ
    ISETP.GE.AND P0, PT, R2, R3, PT
    @!P0 BRA second
    EXIT
"""


@pytest.mark.parametrize("target", ["meet", "second"])
def test_parts_of_a_warp_meet_before_the_next_loop(target: str) -> None:
    """The threads of four warps leave the first loop in three parts, which all execute BSYNC."""
    counts = [4, 40, 40, 40, 12, 20, 20, 20, 4]
    first, second = program(LOOP_AFTER_LOOP.format(target=target), counts).flow.loops
    assert (first.entries, second.entries, second.trips) == (4, 4, 5)


DO_WHILE = """
    MOV R0, RZ
    top: IADD3 R0, R0, 0x1, RZ
    ISETP.GE.AND P0, PT, R0, 0xa, PT
    @!P0 BRA top
    EXIT
"""


def test_trips_of_a_loop_with_its_test_at_the_end() -> None:
    found = program(DO_WHILE, [4, 40, 40, 40, 4])
    (loop,) = found.flow.loops
    assert (loop.trips, loop.entries, loop.depth, loop.parent) == (10, 4, 1, None)
    assert found.flow.loops_around(found.flow.block_of[2]) == [loop]
    assert found.flow.loops_around(0) == []
    assert trips_of(found, loop) == (10, True)


def test_trips_without_execution_counts() -> None:
    (loop,) = program(DO_WHILE).flow.loops
    assert (loop.trips, loop.entries) == (None, None)


def test_trips_of_a_loop_with_its_test_at_the_start() -> None:
    found = program(
        """
        MOV R0, RZ
        top: ISETP.GE.AND P0, PT, R0, 0xa, PT
        @P0 BRA out
        IADD3 R0, R0, 0x1, RZ
        BRA top
        out: EXIT
        """,
        [4, 44, 44, 40, 40, 4],
    )
    (loop,) = found.flow.loops
    assert (loop.trips, loop.entries) == (11, 4)  # the last pass only tests


def test_a_loop_that_some_warps_skip() -> None:
    found = program(
        """
        ISETP.GE.AND P0, PT, R0, R1, PT
        @P0 BRA out
        top: IADD3 R0, R0, 0x1, RZ
        @!P1 BRA top
        out: EXIT
        """,
        [8, 8, 30, 30, 8],
    )
    (loop,) = found.flow.loops
    # Both blocks that lead out of the branch have other ways in, so all warps count as entering.
    assert loop.entries == 8


def test_entries_of_a_loop_follow_from_the_other_successor() -> None:
    found = program(
        """
        @P0 BRA top
        EXIT
        top: IADD3 R0, R0, 0x1, RZ
        @!P1 BRA top
        EXIT
        """,
        [8, 5, 30, 30, 3],
    )
    (loop,) = found.flow.loops
    assert (loop.entries, loop.trips) == (3, 10)


def test_nested_loops() -> None:
    found = program(
        """
        MOV R0, RZ
        outer: MOV R1, RZ
        inner: IADD3 R1, R1, 0x1, RZ
        @P0 BRA inner
        IADD3 R0, R0, 0x1, RZ
        @P1 BRA outer
        EXIT
        """,
        [2, 10, 80, 80, 10, 10, 2],
    )
    outer, inner = found.flow.loops
    assert (headers(found), outer.trips, outer.depth, outer.parent) == ([1, 2], 5, 1, None)
    assert (inner.trips, inner.depth, inner.parent) == (8, 2, outer.index)
    assert found.flow.loops_around(found.flow.block_of[3]) == [inner, outer]


def test_two_ways_back_to_one_header_are_one_loop() -> None:
    found = program(
        """
        MOV R0, RZ
        top: IADD3 R0, R0, 0x1, RZ
        @P0 BRA top
        MOV R2, R3
        @P1 BRA top
        EXIT
        """
    )
    (loop,) = found.flow.loops
    assert len(loop.latches) == 2


def test_a_kernel_that_begins_with_a_loop() -> None:
    found = program("top: IADD3 R0, R0, 0x1, RZ\n@P0 BRA top\nEXIT", [40, 40, 4])
    (loop,) = found.flow.loops
    assert (loop.entries, loop.trips) == (4, 10)


def test_a_branch_to_itself() -> None:
    found = program(["EXIT", "BRA 0x10"], [8, 0])
    assert found.flow.loops == []
    found = program(["EXIT", "BRA 0x10"])  # the padding after every kernel
    assert headers(found) == [1]
    assert found.flow.loops[0].trips is None


def test_a_loop_that_only_an_indirect_branch_enters() -> None:
    found = program(
        """
        BRX R4 -0x10
        NOP
        top: IADD3 R2, R2, 0x1, RZ
        @P0 BRA top
        NOP
        out: EXIT
        """,
        [6, 0, 60, 60, 6, 6],
    )
    assert headers(found) == [2]
    assert found.flow.block_of[2] in found.flow.entries
    assert found.flow.loops[0].trips == 10


def test_a_detached_loop_that_joins_other_code() -> None:
    """This one made the search for dominators run in a circle."""
    found = program(
        """
        BRA out
        top: IADD3 R2, R2, 0x1, RZ
        @P0 BRA top
        NOP
        out: EXIT
        """
    )
    assert (headers(found), found.flow.dominators[found.flow.block_of[4]]) == ([1], -1)


def test_an_irreducible_cycle_is_not_a_loop() -> None:
    found = program(
        """
        @P0 BRA second
        first: IADD3 R2, R2, 0x1, RZ
        second: IADD3 R3, R3, 0x1, RZ
        @P1 BRA first
        EXIT
        """
    )
    assert found.flow.loops == []


def test_convergence_points_begin_blocks_and_do_not_branch() -> None:
    found = program(
        """
        BSSY B0, join
        @P0 BRA join
        MOV R2, R3
        join: BSYNC B0
        EXIT
        """
    )
    assert edges(found) == {(0, 2), (0, 3), (2, 3)}


def test_conditions_without_a_guard() -> None:
    found = program("BRA !P2, out\nMOV R2, R3\nBRA.DIV UR6, out\nNOP\nout: EXIT")
    assert edges(found) == {(0, 1), (0, 4), (1, 3), (1, 4), (3, 4)}


def test_a_predicated_exit_goes_on() -> None:
    assert edges(program("@P0 EXIT\nMOV R2, R3\nEXIT\nNOP")) == {(0, 1)}


CALLS = """
    MOV R4, R1
    CALL.REL.NOINC half
    MOV R5, R2
    CALL.REL.NOINC half
    EXIT
    half: FMUL R2, R4, 0.5
    RET.REL.NODEC R20, 0x0
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


def test_code_that_two_routines_share_has_two_call_sites() -> None:
    found = program(
        """
        CALL.REL.NOINC one
        CALL.REL.NOINC two
        EXIT
        one: FMUL R2, R4, 0.5
        two: FADD R2, R2, 0.5
        RET.REL.NODEC R20, 0x0
        """
    )
    assert found.call_sites[3] == (0,)
    assert set(found.call_sites[4]) == {0, 1}


def test_routines_that_call_each_other() -> None:
    found = program(
        """
        CALL.REL.NOINC ping
        EXIT
        ping: CALL.REL.NOINC pong
        RET.REL.NODEC R20, 0x0
        pong: CALL.REL.NOINC ping
        RET.REL.NODEC R20, 0x0
        self_: CALL.REL.NOINC self_
        RET.REL.NODEC R20, 0x0
        """
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
