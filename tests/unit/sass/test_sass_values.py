"""Which definition each read sees, and how many registers are live."""

from __future__ import annotations

from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind
from tests.unit.sass.assembled import program


def seen(found: SassProgram, position: int, register: str) -> set[int]:
    """Positions of the instructions that may have written what is read; -1: not written."""
    values = found.values
    origins = values.origins(values.read[position][register])
    return {each.position if each.kind is Kind.DEFINITION else -1 for each in origins}


def kind(found: SassProgram, position: int, register: str) -> Kind:
    return found.values.all[found.values.read[position][register]].kind


def test_the_last_write_of_a_block_is_seen() -> None:
    found = program("MOV R0, R1\nMOV R0, R2\nMOV R3, R0\nEXIT")
    assert (seen(found, 2, "R0"), seen(found, 0, "R1")) == ({1}, {-1})
    assert kind(found, 0, "R1") is Kind.ENTRY


def test_the_second_word_of_a_pair() -> None:
    found = program("LDG.E.64 R2, desc[UR4][R6.64]\nMOV R3, R9\nDADD R4, R2, R2\nEXIT")
    assert (seen(found, 2, "R2"), seen(found, 2, "R3")) == ({0}, {1})


def test_an_instruction_does_not_see_its_own_result() -> None:
    found = program("MOV R0, 0x1\nIADD3 R0, R0, 0x1, RZ\nMOV R1, R0\nEXIT")
    assert (seen(found, 1, "R0"), seen(found, 2, "R0")) == ({0}, {1})


GUARDED = """
    MOV R0, R9
    ISETP.GE.AND P0, PT, R1, R2, PT
    @P0 MOV R0, R8
    {}
    {}
    EXIT
"""


def test_a_predicated_write_leaves_the_value_before() -> None:
    found = program(GUARDED.format("MOV R3, R0", "NOP"))
    assert seen(found, 3, "R0") == {0, 2}
    assert kind(found, 3, "R0") is Kind.GUARDED


def test_readers_under_the_same_predicate_see_only_the_write() -> None:
    found = program(GUARDED.format("@P0 MOV R3, R0", "@!P0 MOV R4, R0"))
    assert (seen(found, 3, "R0"), seen(found, 4, "R0")) == ({2}, {0})


def test_readers_under_another_predicate_see_both() -> None:
    found = program(GUARDED.format("@P1 MOV R3, R0", "@!P1 MOV R4, R0"))
    assert (seen(found, 3, "R0"), seen(found, 4, "R0")) == ({0, 2}, {0, 2})


def test_a_predicate_that_was_written_again_is_another() -> None:
    found = program(GUARDED.format("ISETP.GE.AND P0, PT, R5, R6, PT", "@P0 MOV R3, R0"))
    assert seen(found, 4, "R0") == {0, 2}


def test_writes_under_a_predicate_and_its_opposite_leave_nothing_before() -> None:
    found = program(GUARDED.format("@!P0 MOV R0, R7", "MOV R3, R0"))
    assert seen(found, 4, "R0") == {2, 3}


def test_a_second_write_under_the_same_predicate_replaces_the_first() -> None:
    found = program(GUARDED.format("@P0 MOV R0, R7", "MOV R3, R0"))
    assert seen(found, 4, "R0") == {0, 3}


def test_the_guard_is_read() -> None:
    found = program(GUARDED.format("NOP", "NOP"))
    assert seen(found, 2, "P0") == {1}


def test_joins() -> None:
    found = program(
        """
        @P0 BRA yes
        MOV R2, R3
        BRA join
        yes: MOV R2, R4
        join: IADD3 R5, R2, R6, RZ
        EXIT
        """
    )
    assert seen(found, 4, "R2") == {1, 3}
    assert kind(found, 4, "R2") is Kind.JOIN
    assert kind(found, 4, "R6") is Kind.ENTRY  # the same on both ways: no join


LOOP = """
    MOV R0, RZ
    MOV R1, R9
    top: IADD3 R0, R0, R1, RZ
    ISETP.GE.AND P0, PT, R0, 0xa, PT
    @!P0 BRA top
    MOV R2, R0
    EXIT
"""


def test_values_passed_between_iterations_are_joined() -> None:
    found = program(LOOP)
    assert seen(found, 2, "R0") == {0, 2}
    assert kind(found, 2, "R0") is Kind.JOIN
    assert seen(found, 2, "R1") == {1}
    assert kind(found, 2, "R1") is Kind.DEFINITION  # the loop does not change it
    assert seen(found, 5, "R0") == {2}


def test_values_that_nested_loops_leave_alone_are_not_joined() -> None:
    lines = ["MOV R1, R9"]
    lines += [f"l{depth}: MOV R{10 + depth}, RZ" for depth in range(10)]
    lines += ["IADD3 R2, R1, 0x1, RZ"]
    lines += [f"@P0 BRA l{depth}" for depth in reversed(range(10))]
    found = program([*lines, "EXIT"])
    assert kind(found, 11, "R1") is Kind.DEFINITION
    assert found.flow.loops[-1].depth == 10


def test_a_loop_at_the_start_sees_what_was_there_before() -> None:
    found = program("top: IADD3 R0, R0, 0x1, RZ\n@P0 BRA top\nEXIT")
    assert seen(found, 0, "R0") == {-1, 0}


CALLS = """
    MOV R4, R1
    CALL.REL.NOINC half
    MOV R4, R2
    CALL.REL.NOINC half
    IADD3 R6, R2, R5, RZ
    EXIT
    half: FMUL R2, R4, 0.5
    RET.REL.NODEC R20, 0x0
"""


def test_writes_of_a_routine_are_results_of_the_call() -> None:
    found = program(CALLS)
    assert kind(found, 2, "R2") is Kind.CALL
    assert (seen(found, 2, "R2"), seen(found, 4, "R2")) == ({6}, {6})
    assert kind(found, 4, "R5") is Kind.ENTRY  # routines leave it alone
    assert found.values.all[found.values.read[2]["R2"]].position == 1


def test_a_routine_sees_the_values_of_all_callers() -> None:
    found = program(CALLS)
    assert seen(found, 6, "R4") == {0, 2}


def test_a_routine_sees_predicated_writes_before_the_call() -> None:
    found = program(
        """
        MOV R2, R1
        @P0 MOV R2, R3
        CALL.REL.NOINC half
        EXIT
        half: FMUL R2, R2, 0.5
        RET.REL.NODEC R20, 0x0
        """
    )
    assert seen(found, 4, "R2") == {0, 1}


def test_a_predicated_call_may_not_happen() -> None:
    found = program(
        """
        MOV R2, R1
        @P0 CALL.REL.NOINC half
        MOV R3, R2
        EXIT
        half: FMUL R2, R9, 0.5
        RET.REL.NODEC R20, 0x0
        """
    )
    assert seen(found, 2, "R2") == {0, 4}


def test_code_that_never_ran_writes_nothing() -> None:
    found = program(
        """
        MOV R2, R3
        @P0 BRA join
        MOV R2, R4
        join: MOV R5, R2
        EXIT
        """,
        [4, 4, 0, 4, 4],
    )
    assert seen(found, 3, "R2") == {0}


def test_users() -> None:
    found = program("MOV R0, R1\nIADD3 R2, R0, R0, RZ\n@P0 MOV R3, R0\nEXIT")
    users = found.values.users()
    assert users[found.values.written[0]["R0"]] == [1, 2]


def test_origins_stop_at_a_limit() -> None:
    lines = [f"@P{number % 7} MOV R0, R{1 + number}" for number in range(200)]
    found = program([*lines, "MOV R0, R0", "EXIT"])
    assert 0 < len(found.values.definitions(found.values.read[200]["R0"], limit=10)) <= 11
