"""Which definition each read sees, and how many registers are live."""

from __future__ import annotations

from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind
from tests.rows import each_row
from tests.unit.sass.assembled import program


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
CALLS = f"""
    MOV R4, R1; CALL.REL.NOINC half; MOV R4, R2; CALL.REL.NOINC half; IADD3 R6, R2, R5, RZ
    {ROUTINE.format("R4")}
"""


@each_row("lines, position, register, origins, of_kind", [
    (BLOCK, 2, "R0", {1}, None),
    (BLOCK, 0, "R1", {-1}, Kind.ENTRY),
    (PAIR, 2, "R2", {0}, None),
    (PAIR, 2, "R3", {1}, None),
    (OWN, 1, "R0", {0}, None),
    (OWN, 2, "R0", {1}, None),
    (GUARDED + "MOV R3, R0", 3, "R0", {0, 2}, Kind.GUARDED),
    (GUARDED + "@P0 MOV R3, R0", 3, "R0", {2}, None),  # under the same predicate
    (GUARDED + "NOP\n@!P0 MOV R4, R0", 4, "R0", {0}, None),
    (GUARDED + "@P1 MOV R3, R0", 3, "R0", {0, 2}, None),
    (GUARDED + "@!P1 MOV R4, R0", 3, "R0", {0, 2}, None),
    # A predicate that was written again is another one.
    (GUARDED + "ISETP.GE.AND P0, PT, R5, R6, PT\n@P0 MOV R3, R0", 4, "R0", {0, 2}, None),
    (GUARDED + "@!P0 MOV R0, R7\nMOV R3, R0", 4, "R0", {2, 3}, None),
    (GUARDED + "@P0 MOV R0, R7\nMOV R3, R0", 4, "R0", {0, 3}, None),
    (GUARDED, 2, "P0", {1}, None),
    (JOIN, 4, "R2", {1, 3}, Kind.JOIN),
    (JOIN, 4, "R6", {-1}, Kind.ENTRY),  # the same on both ways: no join
    (LOOP, 2, "R0", {0, 2}, Kind.JOIN),
    (LOOP, 2, "R1", {1}, Kind.DEFINITION),  # the loop does not change it
    (LOOP, 5, "R0", {2}, None),
    ("top: IADD3 R0, R0, 0x1, RZ\n@P0 BRA top\nEXIT", 0, "R0", {-1, 0}, None),
    (CALLS, 2, "R2", {6}, Kind.CALL),  # writes of a routine are results of the call
    (CALLS, 4, "R2", {6}, None),
    (CALLS, 4, "R5", {-1}, Kind.ENTRY),  # routines leave it alone
    (CALLS, 6, "R4", {0, 2}, None),  # a routine sees the values of all callers
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


def test_values_that_nested_loops_leave_alone_are_not_joined() -> None:
    lines = ["MOV R1, R9"]
    lines += [f"l{depth}: MOV R{10 + depth}, RZ" for depth in range(10)]
    lines += ["IADD3 R2, R1, 0x1, RZ"]
    lines += [f"@P0 BRA l{depth}" for depth in reversed(range(10))]
    found = program([*lines, "EXIT"])
    assert kind(found, 11, "R1") is Kind.DEFINITION
    assert found.flow.loops[-1].depth == 10


def test_code_that_never_ran_writes_nothing() -> None:
    lines = "MOV R2, R3\n@P0 BRA join\nMOV R2, R4\njoin: MOV R5, R2\nEXIT"
    assert seen(program(lines, [4, 4, 0, 4, 4]), 3, "R2") == {0}


def test_users() -> None:
    found = program("MOV R0, R1\nIADD3 R2, R0, R0, RZ\n@P0 MOV R3, R0\nEXIT")
    users = found.values.users()
    assert users[found.values.written[0]["R0"]] == [1, 2]


def test_origins_stop_at_a_limit() -> None:
    lines = [f"@P{number % 7} MOV R0, R{1 + number}" for number in range(200)]
    found = program([*lines, "MOV R0, R0", "EXIT"])
    assert 0 < len(found.values.definitions(found.values.read[200]["R0"], limit=10)) <= 11
