"""Special functions of multiples of one value are found, and others are left alone."""

from __future__ import annotations

from collections import Counter

import pytest

from keet.analysis.limits import POWER
from keet.analysis.sass.analyses.repeated_work import multiples
from tests.rows import each_row
from tests.unit.sass.assembled import program
from tests.unit.sass.test_sass_expansions import code_of

EXPONENTIALS = """
    LDG.E R9, desc[UR4][R2.64]; FMUL R4, R9, -1.4426950216293334961; FMUL R5, R9, {factor}
    FMUL R5, R5, 1.4426950216293334961; FSETP.GEU.AND P0, PT, R5, -126, PT
    @!P0 FMUL R5, R5, 0.5; MUFU.EX2 R6, R4; MUFU.EX2 R7, R5; @!P0 FMUL R7, R7, R7
    FADD R6, R6, R7; STG.E desc[UR4][R2.64], R6; EXIT
"""
LOOP = """
    LDG.E R9, desc[UR4][R2.64]; MOV R0, RZ; {start}
    loop: {argument}; MUFU.SIN R5, R4; FADD R8, R8, R5; {step}; IADD3 R0, R0, 0x1, RZ
    ISETP.NE.AND P0, PT, R0, 0x10, PT; @P0 BRA loop; STG.E desc[UR4][R2.64], R8; EXIT
"""
ONCE, OFTEN = 10, 160
TRIPS = [ONCE, ONCE, ONCE, *[OFTEN] * 7, ONCE, ONCE]


@pytest.mark.parametrize("factor", ["-2", "-3"])
def test_exponentials_of_multiples_are_powers_of_the_first(factor: str) -> None:
    """The second one goes with its scaling: the comparison, and the square of the result."""
    code = program(EXPONENTIALS.format(factor=factor), [ONCE] * 12)
    found = multiples(code, ())
    assert (sorted(found.gone), found.products) == ([2, 3, 4, 5, 7, 8], ONCE)
    assert set(found.gone.values()) == {1.0}
    assert not multiples(code, (6, 7)).gone  # functions with another name


@each_row("factor", ["-1.5", "2", "c[0x0][0x220]"])
def test_other_factors_need_a_call_of_their_own(factor: str) -> None:
    """1.5 is no whole multiple, 2 is of the other sign, a parameter may be anything."""
    assert not multiples(program(EXPONENTIALS.format(factor=factor), [ONCE] * 12), ()).gone


PRODUCT = """
    LDG.E R9, desc[UR4][R2.64]; LDG.E R8, desc[UR4][R2.64+0x4]; {argument}
    FSETP.GEU.AND P0, PT, R8, -126, PT; @!P0 FMUL R8, R8, 0.5; MUFU.EX2 R6, R5; MUFU.EX2 R7, R8
    @!P0 FMUL R7, R7, R7; FMUL R4, R6, R7; {other}; STG.E desc[UR4][R2.64], R4; EXIT
"""


def test_a_product_of_exponentials_is_one_of_the_sum() -> None:
    """One call goes with its scaling, and the product with it; the sum takes an instruction.
    Exponentials that are needed alone stay."""
    for other, gone in (("NOP", [3, 4, 6, 7, 8]), ("FADD R4, R4, R7", []), ("FADD R4, R4, R6", [])):
        texts = PRODUCT.format(argument="MOV R5, R9", other=other)
        found = multiples(program(texts, [ONCE] * 12), ())
        assert (sorted(found.gone), found.products) == (gone, ONCE if gone else 0)


@each_row("start, argument, step, gone", [
    ("FMUL R4, R9, R9", "NOP", "FADD R4, R4, R9", {4}),  # a step is added
    ("NOP", "I2FP.F32.S32 R4, R0", "NOP", {3, 4}),  # the counter is converted
    ("FMUL R4, R9, R9", "NOP", "FMUL R4, R4, R9", ()),  # a factor
    ("NOP", "LDG.E R4, desc[UR4][R6.64]", "NOP", ()),
    ("I2FP.F32.S32 R7, R0", "FMUL R4, R7, R7", "FADD R7, R7, R9", ()),  # a square
])  # fmt: skip
def test_each_iteration_follows_from_the_one_before(start, argument, step, gone) -> None:
    """Where arguments have a fixed step, the function goes, and with it a conversion that serves
    nothing else."""
    texts = LOOP.format(start=start, argument=argument, step=step)
    assert multiples(program(texts, TRIPS), ()).gone == dict.fromkeys(gone, 1 - ONCE / OFTEN)


def test_powers_of_a_fixed_base_follow_from_the_iteration_before() -> None:
    """`powf(up, 2 * (first + j) - level)` in a loop over levels, and not
    `powf(density / rest_density, gamma)` of each neighbour."""
    code = code_of("option_tree/power_per_node")
    (powers,) = (each for each in code.expansions if each.name == POWER)
    assert 0.9 * powers.calls < code.multiples.powers <= powers.calls
    code = code_of("sph_density/pressure_per_pair")
    assert code.expanded(POWER)
    assert code.multiples.powers == 0


def test_the_arithmetic_of_an_argument_goes_with_its_function() -> None:
    """`exp2f(log2_up * (2 * (first + j) - level))`: an addition, a conversion and a product each."""
    code = code_of("option_tree/exponential_per_node")
    opcodes = Counter(code.program.code[each].opcode for each in code.multiples.gone)
    assert opcodes["I2FP"] == opcodes["MUFU"] == 8
    assert opcodes["FMUL"] == 3 * 8


def test_divisions_by_a_root_go_with_the_root() -> None:
    """A root and three quotients: the reciprocal root and three products are left."""
    code = code_of("spin_dynamics/root_and_three_quotients")
    gone, program = code.quotients.gone, code.program
    opcodes = Counter(program.code[each].opcode for each in gone)
    assert opcodes["FCHK"] == opcodes["BSSY"] == opcodes["BSYNC"] == 3
    assert opcodes["MUFU"] == 3
    assert not any(program.code[each].has("RSQ") for each in gone)
    assert opcodes["FFMA"] + opcodes["FMUL"] == 3 * 5 + 4
    checks = [each for each in gone if program.code[each].opcode == "FCHK"]
    assert code.quotients.products == sum(program.counts[each] for each in checks)


def test_the_first_of_several_divisions_by_one_value_stays() -> None:
    code = code_of("cell_list/liquid_pairs")
    checks = [each for each in code.program.ran if code.program.code[each].opcode == "FCHK"]
    gone = code.quotients.gone.keys() & set(checks)
    assert 0 < len(gone) < len(checks)


def test_functions_of_what_all_threads_share_are_told_from_those_of_their_own_values() -> None:
    shared = code_of("spin_dynamics/sine_per_spin")
    own = code_of("spin_dynamics/one_spin_a_thread")
    assert shared.share(shared.shared_functions) > 0.3
    assert own.share(own.shared_functions) < 0.01
