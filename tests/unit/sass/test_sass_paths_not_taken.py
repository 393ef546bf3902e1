"""Ways that no thread took give no values."""

from __future__ import annotations

from keet.analysis.sass.flow.paths_not_taken import paths_not_taken
from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.polynomial import text_of
from keet.analysis.sass.polynomials.symbols import launch_shape
from tests.rows import each_row
from tests.unit.sass.assembled import program

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


@each_row("test", [
    "ISETP.EQ.AND P0, PT, R0, RZ, PT",  # threads, or data, may go both ways
    "LDG.E R9, desc[UR4][R6.64]\nISETP.EQ.AND P0, PT, R9, RZ, PT",
    "@P1 MOV R9, R0\nISETP.EQ.AND P0, PT, R9, RZ, PT",
])  # fmt: skip
def test_other_conditions(test: str) -> None:
    assert "choice" in written(test, [8] * (8 + len(test.splitlines())))


def test_the_way_past_was_taken() -> None:
    """What never ran is no block: both values would come by one way."""
    assert written("ISETP.EQ.AND P0, PT, R9, RZ, PT", [8, 8, 8, 8, 8, 8, 0, 8, 8]) == "tid.x"


def test_a_condition_that_changes_in_a_loop() -> None:
    code = """
        S2R R0, SR_TID.X; LDC R9, c[0x0][0x218]; MOV R1, RZ
        again: ISETP.EQ.AND P0, PT, R1, 0x2, PT; @P0 BRA past; IADD3 R2, R2, 0x1, RZ
        past: IADD3 R1, R1, 0x1, RZ; ISETP.LT.AND P1, PT, R1, R9, PT; @P1 BRA again; EXIT
    """
    assert not paths_not_taken(program(code, [8, 8, 8, 40, 40, 32, 40, 40, 40, 8]))


def test_without_counts() -> None:
    assert not paths_not_taken(program(CODE.format(test="ISETP.EQ.AND P0, PT, R9, RZ, PT")))
