"""Bytes of addresses that are sums of tables, against all addresses one by one; functions of bits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.sass.analyses import index_tables, replayed_addresses
from keet.analysis.sass.analyses.index_tables import (
    Number,
    Tables,
    TooLargeError,
    bytes_of,
    constant,
)
from keet.analysis.sass.instructions.instruction import parse
from keet.analysis.sass.instructions.operands import Operand

EXTENTS = {"tid.x": 4, "tid.y": 3, "ctaid.x": 5, "ctaid.y": 2}
GROUPS = [("tid.x", "tid.y", "ctaid.x"), ("tid.x", "tid.y", "ctaid.y"), ("ctaid.x",), ("tid.y",)]


@given(st.data(), st.sampled_from([10_000, 61]))
def test_sums_of_tables_that_share_indices(data: st.DataObject, largest: int) -> None:
    """A tile with margins: its column depends on the thread and on one index of the block, its row
    on the thread and on the other one. One table of both may be too large."""
    every = [*product(*(range(size) for size in EXTENTS.values()))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_tables, "_LARGEST", largest)
        tables = Tables(EXTENTS, 1_000_000)
        address, values = {}, [0] * len(every)
        for group in GROUPS:
            size = tables.size(group)
            own = data.draw(st.lists(st.integers(0, 40), min_size=size, max_size=size))
            address = tables.add(address, {(): {group: own}})
            spread = tables.spread(own, group, tuple(EXTENTS))
            values = [a + b for a, b in zip(values, spread, strict=True)]
        limit = data.draw(st.integers(1, 40))
        number = {(): {("tid.x",): [*range(0, 40, 10)], ("tid.y",): [0, 1, 2]}}
        where = tables.compare(lambda each: each < limit, number)
        assert where is not None
        try:
            found = bytes_of(tables.rows(address.get((), {}), where, 2))
        except TooLargeError:
            assert largest < len(every)
            return
    touched = [v for v, at in zip(values, every, strict=True) if 10 * at[0] + at[1] < limit]
    assert found == len({v + byte for v in touched for byte in (0, 1)})


INPUTS = {"R1": 0b11110000, "R2": 0b11001100, "R3": 0b10101010}
"""The bits that the inputs of a truth table have in its rows."""


class Run:
    """What LOP3 asks of a replay."""

    tables = Tables({}, 1_000_000)

    def operand(self, operand: Operand, _position: int) -> Number:
        return constant(INPUTS[operand.name])

    def bits(self, number: Number) -> Number:
        return number


def test_truth_tables() -> None:
    for table in range(256):
        each = parse(0, f"LOP3.LUT R4, R1, R2, R3, 0x{table:x}, !PT")
        found = replayed_addresses._logic(Run(), each, 0)  # type: ignore[arg-type]
        assert found.get((), {}).get((), [0])[0] % 256 == table
