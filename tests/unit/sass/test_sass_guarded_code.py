"""Which code only part of the threads reach, in small programs with counts."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.sass.analyses.guarded_code import Guarded, guarded_code
from keet.analysis.sass.flow.program import SassProgram
from keet.profile import Location
from tests.unit.sass.assembled import assembled


def guarded(
    text: str, warps: Sequence[int], threads: Sequence[int], passed: Sequence[int] = ()
) -> list[Guarded]:
    """`passed`: threads whose predicate is on, if not all. Everything stands at one line."""
    texts = assembled(text)
    reached = dict(zip(texts, threads, strict=True))
    program = SassProgram.of(texts, dict(zip(texts, warps, strict=True)))
    on = dict(zip(texts, passed or threads, strict=True))
    return guarded_code(program, reached, on, lambda _: Location("k.cu", 7))


IF = """
    @P0 BRA end
    FADD R1, R1, R1
    STG.E [R2.64], R1
    end: EXIT
"""


def test_threads_and_warps_behind_a_branch() -> None:
    (found,) = guarded(IF, [4, 1, 1, 4], [128, 24, 24, 128])
    assert (found.threads, found.entering, found.warps, found.warps_entering) == (128, 24, 4, 1)
    assert (found.effects, found.instructions, found.loop) == ((2,), 2, None)


def test_where_all_go_one_way() -> None:
    (all_enter,) = guarded(IF, [4, 4, 4, 4], [128] * 4)
    assert (all_enter.entering, all_enter.effects) == (128, (2,))
    (none_enters,) = guarded(IF, [4, 0, 0, 4], [128, 0, 0, 128])
    assert none_enters.is_one_way
    assert (none_enters.blocks, none_enters.effects) == ((1,), ())


def test_an_early_end_guards_what_follows() -> None:
    text = "@P0 EXIT\nSTG.E [R2.64], R1\nEXIT"
    (found,) = guarded(text, [4, 2, 2], [128, 64, 64])
    assert (found.threads, found.entering, found.effects) == (128, 64, (1,))


def test_two_branches_to_one_block_are_one_condition() -> None:
    """`if (a || b)`."""
    text = """
        @P0 BRA then
        @!P1 BRA end
        then: STG.E [R2.64], R1
        end: EXIT
    """
    found = guarded(text, [4, 4, 4, 4], [128, 96, 64, 128])
    (store,) = (each for each in found if each.effects)
    assert (store.decided, store.threads, store.entering) == ((0, 1), 128, 64)


def test_the_exit_of_a_loop_is_no_condition() -> None:
    text = """
        again: FADD R1, R1, R1
        @P0 BRA again
        STG.E [R2.64], R1
        EXIT
    """
    assert not guarded(text, [12, 12, 4, 4], [200, 200, 128, 128])


def test_a_condition_in_a_loop() -> None:
    text = """
        again: @P1 BRA on
        STG.E [R2.64], R1
        on: FADD R1, R1, R1
        @P0 BRA again
        EXIT
    """
    (found,) = guarded(text, [12, 3, 12, 12, 4], [384, 30, 384, 384, 128])
    assert (found.threads, found.entering, found.loop) == (384, 30, 0)


def test_threads_that_enter_a_loop_count_once() -> None:
    text = """
        @P0 BRA end
        again: STG.E [R2.64], R1
        @P1 BRA again
        end: EXIT
    """
    (found,) = guarded(text, [4, 20, 20, 4], [128, 600, 600, 128], [88, 600, 560, 128])
    assert (found.threads, found.entering, found.warps_entering) == (128, 40, None)


def test_stores_under_one_predicate() -> None:
    text = "@P0 STG.E [R2.64], R1\n@P0 STG.E [R4.64], R1\nEXIT"
    (found,) = guarded(text, [4, 4, 4], [128] * 3, [5, 5, 128])
    assert (found.threads, found.entering, found.warps_entering) == (128, 5, None)
    assert found.effects == (0, 1)


def test_a_routine_for_rare_operands_is_left_out() -> None:
    text = """
        @P0 BRA end
        CALL.REL.NOINC slow
        end: STG.E [R2.64], R1
        EXIT
        slow: FADD R1, R1, R1
        RET.REL.NODEC R6 0x0
    """
    assert not guarded(text, [4, 1, 4, 4, 1, 1], [128, 9, 128, 128, 9, 9])
