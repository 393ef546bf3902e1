"""Rules of single opcodes and of loop values, and the search for a parameter."""

from keet.analysis.machine_code.analyses.replayed_addresses import Replayed, fitting
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import Polynomial, launch_shape
from tests.rows import each_row
from tests.unit.machine_code.assembled import program

START = "S2R R0, SR_TID.X; S2R R1, SR_TID.Y; S2R R2, SR_CTAID.X\n"
QUOTIENT = "IMAD.HI.U32 R9, R0, 0xaaaaaaab, RZ; SHF.R.U32.HI R9, RZ, 0x1, R9\n"


def stored(lines: str) -> Polynomial:
    """What the last store writes, at its place."""
    code = program(START + lines)
    at = max(at for at, each in enumerate(code.code) if each.text.startswith("STG"))
    evaluation = Evaluation(code, launch_shape((5, 3, 1), (8, 4, 1), "9.0"))
    value = evaluation.polynomial(code.values.read[at]["R3"])
    return evaluation.resolved(value, code.flow.block_of[at])


STORE = "\nSTG.E [R20.64], R3\n"


@each_row("lines, form", [
    (QUOTIENT + "IMAD R3, R9, -0x3, R0", "(tid.x mod 3)"),
    (QUOTIENT + "IMAD R3, R9, -0x3, R1", None),  # not the rest of the same number
    ("SEL R3, R0, R1, PT", "tid.x"), ("SEL R3, R0, R1, !PT", "tid.y"),
    ("SHFL.IDX PT, R3, R2, RZ, 0x1f", "ctaid.x"), ("SHFL.IDX PT, R3, R0, RZ, 0x1f", None),
])  # fmt: skip
def test_results_that_are_polynomials(lines: str, form: str | None) -> None:
    found = stored(lines + STORE + "EXIT")
    assert str(found) == form or form is None
    assert form or {each.kind for each in found.symbols} & {"scaled", "shuffled"}


def test_a_loop_value_with_two_starts() -> None:
    """Two branches go to the loop, each with its own start."""
    found = stored("""
        ISETP.GE.AND P0, PT, R0, 0x5, PT; MOV R4, RZ; @P0 BRA other; MOV R3, R1; BRA head
        other: MOV R3, R2; BRA head
        head: STG.E [R20.64], R3; IADD3 R3, R3, 0x10, RZ; IADD3 R4, R4, 0x1, RZ
        ISETP.LT.AND P1, PT, R4, 0x8, PT; @P1 BRA head; EXIT
    """)
    (loop,) = (symbol for symbol in found.symbols if symbol.kind == "loop")
    assert found.terms[loop,] == 16
    assert {symbol.kind for symbol in found.symbols} == {"loop", "choice", "tid", "ctaid"}


@each_row("limit, step, least, fits", [
    (64, 1, 64, [64]), (777, 1, 64, [777]), (100_001, 1, 64, [100_001]),
    (777, 8, 64, []),  # eight values are not refuted
    (775, 775, 1, []),
])  # fmt: skip
def test_a_limit_above_the_least_value_is_found(
    limit: int, step: int, least: int, fits: list[int]
) -> None:
    """So many more threads run for each `step` of the value."""

    def run(value: int, is_check: bool) -> Replayed:
        excess = value // step - limit // step
        return Replayed({}, excess, excess != 0)

    assert [*fitting(run, least)] == fits
