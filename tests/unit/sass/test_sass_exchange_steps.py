"""Steps on groups of values in shared memory are told apart from other uses of it."""

from __future__ import annotations

import pytest

from tests.rows import each_row
from tests.unit.sass.test_sass_expansions import code_of


@pytest.mark.parametrize(
    ("case", "group", "passes"),
    [("walsh_rows/twelve_passes", 2, 1 / 4), ("walsh_rows/six_passes", 4, 1 / 2)],
)
def test_a_thread_holds_enough_values_for_several_steps(case, group, passes) -> None:
    code = code_of(case)
    steps = code.exchange_steps
    assert (steps.group, steps.left) == (pytest.approx(group), pytest.approx(passes, rel=0.1))
    opcodes = {code.program.code[each].opcode for each in steps.positions}
    assert opcodes == {"LDS", "STS"}


@each_row("case", [
    "walsh_rows/room_for_longest_row",  # sixteen values at a time already
    "filter_bank/one_filter_a_thread",  # results do not go back to where values came from
    "fft/separate_scaling",  # radix four, with as many values per thread
])  # fmt: skip
def test_no_fewer_passes_are_possible(case: str) -> None:
    steps = code_of(case).exchange_steps
    assert steps is None or steps.left == 1
