"""Functions that the compiler expands, and special functions of multiples of one value. What else real
kernels gain by them is measured in tests/unit/findings/test_amounts.py."""

from collections import Counter

from keet.analysis.machine_code.analyses.expansions import expansions
from keet.analysis.machine_code.analyses.repeated_work import multiples
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.parameters import (
    HUGE_DIVISION,
    INTEGER_DIVISIONS,
    LONG_DIVISION,
    POWER,
    SLOW_DIVISION,
)
from tests.rows import each_row
from tests.unit.analysis.real_launches import code_of
from tests.unit.machine_code.assembled import assembled, machine, program


def lines_of(code: MachineCode, name: str) -> set[int]:
    places = (code.location(position) for position in code.expanded(name))
    return {place.line for place in places if place is not None}


def test_divisions_are_found_with_all_instructions() -> None:
    code = code_of("stencil2d/remainders")
    positions = code.expanded(*INTEGER_DIVISIONS)
    starts = sum(code.program.code[each].opcode == "I2F" for each in positions)
    assert starts == 5
    assert 14 * starts <= len(positions) <= 22 * starts
    assert not any(code.program.code[each].memory for each in positions)
    assert code_of("score_tiles:fast").expanded(*INTEGER_DIVISIONS) == []
    code = code_of("decimal_columns/products_of_128_bits")
    (found,) = (each for each in code.expansions if each.name == HUGE_DIVISION)
    assert found.calls == 3 * max(code.program.counts[each] for each in code.program.ran[:9])
    loops = {code.program.flow.loop_of.get(code.program.flow.block_of[p]) for p in found.positions}
    assert len(loops - {None}) == 3
    of_64_bits = code_of("decimal_columns/quotients_per_row")
    assert of_64_bits.expanded(LONG_DIVISION)
    assert not of_64_bits.expanded(HUGE_DIVISION)
    # An edited snapshot: all instructions run, that of the slow path included.
    code = code_of("cell_list/droplets_pairs")
    opcodes = [each.opcode for each in code.program.code]
    assert "FCHK" in opcodes
    assert code.expanded(SLOW_DIVISION) == []
    texts = {each.address: each.text for each in code.program.code}
    every = SassProgram.of(texts, dict.fromkeys(texts, 100))
    (slow,) = (each for each in expansions(every, lambda _: None) if each.name == SLOW_DIVISION)
    assert 20 <= len(slow.positions) <= 120
    assert {opcodes[each] for each in slow.positions} >= {"CALL", "SHF"}
    assert "FCHK" not in {opcodes[each] for each in slow.positions}


def test_powers_are_named_and_follow_from_each_other() -> None:
    code = code_of("column_physics:slow")
    assert {137, 138, 140} <= lines_of(code, POWER)
    assert 139 not in lines_of(code, POWER)  # logf and expf are on that line
    assert lines_of(code, "logf") == {139}
    # 110 instructions for large angles are between the range reduction and the polynomials.
    code = code_of("rope_cache/angles_per_pair")
    texts = [code.program.code[each].text for each in code.expanded("sinf, cosf or tanf")]
    assert any("0.0083327032625675201416" in text for text in texts)
    # Eight powers of the same base: one logarithm, eight exponentials.
    code = code_of("option_tree/power_per_node")
    (powers,) = (each for each in code.expansions if each.name == POWER)
    rounded = [each for each in powers.positions if code.program.code[each].opcode == "F2I"]
    assert len(rounded) == 2 * 8  # before the loop, and in it
    assert powers.calls == sum(code.program.counts[each] for each in rounded)
    assert 0.9 * powers.calls < code.multiples.powers <= powers.calls
    code = code_of("sph_density/pressure_per_pair")
    assert code.expanded(POWER)
    assert code.multiples.powers == 0


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


@each_row("factor, gone", [
    ("-2", [2, 3, 4, 5, 7, 8]), ("-3", [2, 3, 4, 5, 7, 8]),
    # 1.5 is no whole multiple, 2 is of the other sign, a parameter may be anything.
    ("-1.5", []), ("2", []), ("c[0x0][0x220]", []),
])  # fmt: skip
def test_exponentials_of_multiples_are_powers_of_the_first(factor: str, gone: list[int]) -> None:
    """The second one goes with its scaling: the comparison, and the square of the result."""
    code = program(EXPONENTIALS.format(factor=factor), [ONCE] * 12)
    found = multiples(code, ())
    assert (found.gone, found.products) == (dict.fromkeys(gone, 1.0), ONCE if gone else 0)
    assert not multiples(code, (6, 7)).gone  # functions with another name


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


def test_a_step_from_an_array_that_the_loop_writes_is_not_fixed() -> None:
    start = "MOV R10, c[0x0][0x210]; MOV R2, c[0x0][0x218]"
    step = "LDG.E R7, desc[UR4][R10.64]; FADD R4, R4, R7"
    for other, gone in (("NOP", True), ("STG.E desc[UR4][R10.64], R8", False)):
        texts = assembled(LOOP.format(start=start, argument=other, step=step))
        counts = [ONCE, *TRIPS[:4], OFTEN, *TRIPS[4:]]
        code = machine(texts, dict(zip(texts, counts, strict=True)))
        assert bool(code.multiples.gone) is gone


def test_divisions_by_a_root_go_with_the_root() -> None:
    """A root and three quotients: the reciprocal root and three products are left."""
    code = code_of("spin_dynamics/root_and_three_quotients")
    gone, program = code.quotients.gone, code.program
    opcodes = Counter(program.code[each].opcode for each in gone)
    assert opcodes["FCHK"] == opcodes["BSSY"] == opcodes["BSYNC"] == opcodes["MUFU"] == 3
    assert not any(program.code[each].has("RSQ") for each in gone)
    assert opcodes["FFMA"] + opcodes["FMUL"] == 3 * 5 + 4
    checks = [each for each in gone if program.code[each].opcode == "FCHK"]
    assert code.quotients.products == sum(program.counts[each] for each in checks)
    code = code_of("cell_list/liquid_pairs")
    checks = [each for each in code.program.ran if code.program.code[each].opcode == "FCHK"]
    assert 0 < len(code.quotients.gone.keys() & set(checks)) < len(checks)
