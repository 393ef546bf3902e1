"""Functions that the compiler expands are found with all their instructions and lines."""

from __future__ import annotations

from collections import Counter

from keet.analysis.limits import (
    DIVISION,
    HUGE_DIVISION,
    INTEGER_DIVISIONS,
    LONG_DIVISION,
    POWER,
    SLOW_DIVISION,
)
from keet.analysis.sass.analyses.expansions import expansions
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.machine_code import MachineCode, machine_code
from keet.profile import Absent
from tests.unit.analysis.real_launches import launch_of


def code_of(name: str) -> MachineCode:
    code = machine_code(launch_of(name))
    assert not isinstance(code, Absent)
    return code


def lines_of(code: MachineCode, *names: str) -> set[int]:
    places = (code.location(position) for position in code.expanded(*names))
    return {place.line for place in places if place is not None}


def test_integer_division_is_found_with_its_line_and_all_instructions() -> None:
    """`i / columns` by a value that is not known at compile time, once per thread."""
    code = code_of("stencil2d/one_division")
    positions = code.expanded(*INTEGER_DIVISIONS)
    opcodes = Counter(code.program.code[each].opcode for each in positions)
    assert len(lines_of(code, DIVISION)) == 1
    assert opcodes["I2F"] == opcodes["MUFU"] == opcodes["F2I"] == 1
    assert 14 <= len(positions) <= 22
    assert not any(code.program.code[each].memory for each in positions)


def test_several_divisions_are_told_apart_from_other_index_arithmetic() -> None:
    code = code_of("stencil2d/remainders")
    positions = code.expanded(*INTEGER_DIVISIONS)
    starts = sum(code.program.code[each].opcode == "I2F" for each in positions)
    assert starts == 5
    assert 14 * starts <= len(positions) <= 22 * starts
    overhead = [each for each in code.program.ran if code.purposes[each].value == "address"]
    assert set(overhead) - set(positions)


def test_divisions_of_128_bits_are_found_with_the_loops_over_their_digits() -> None:
    code = code_of("decimal_columns/products_of_128_bits")
    (found,) = (each for each in code.expansions if each.name == HUGE_DIVISION)
    threads = max(code.program.counts[each] for each in code.program.ran[:9])
    assert found.calls == 3 * threads
    loops = {code.program.flow.loop_of.get(code.program.flow.block_of[p]) for p in found.positions}
    assert len(loops - {None}) == 3
    assert 0.75 < code.share(found.positions) < 0.95
    assert not any(code.program.code[each].memory for each in found.positions)
    of_64_bits = code_of("decimal_columns/quotients_per_row")
    assert of_64_bits.expanded(LONG_DIVISION)
    assert not of_64_bits.expanded(HUGE_DIVISION)


def test_powers_are_named_at_the_lines_that_compute_them() -> None:
    """Constants of the polynomial name `powf`; to the GPU it is plain arithmetic on data."""
    code = code_of("column_physics:slow")
    assert {137, 138, 140} <= lines_of(code, POWER)
    assert 139 not in lines_of(code, POWER)  # logf and expf are on that line
    assert lines_of(code, "logf") == {139}


def test_powers_of_one_base_share_a_logarithm() -> None:
    """Eight powers of the same base: one logarithm, eight exponentials."""
    code = code_of("option_tree/power_per_node")
    (powers,) = (each for each in code.expansions if each.name == POWER)
    program = code.program
    rounded = [each for each in powers.positions if program.code[each].opcode == "F2I"]
    assert len(rounded) == 2 * 8  # before the loop, and in it
    assert powers.calls == sum(program.counts[each] for each in rounded)
    assert code.share(powers.positions) > 0.8


def test_a_slow_path_that_never_ran_does_not_split_a_function() -> None:
    """110 instructions for large angles are between the range reduction and the polynomials."""
    code = code_of("rope_cache/angles_per_pair")
    texts = [code.program.code[each].text for each in code.expanded("sinf, cosf or tanf")]
    assert any("0.0083327032625675201416" in text for text in texts)


def test_kernels_without_such_functions_have_none() -> None:
    assert code_of("matrix_flip:slow").expansions == []
    assert code_of("score_tiles:fast").expanded(*INTEGER_DIVISIONS) == []


def test_the_slow_path_of_divisions_counts_where_it_runs() -> None:
    """An edited snapshot: all instructions run, that of the slow path included."""
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
