"""Bounds on distinct bytes, and bytes of addresses that are sums of tables, compared with an enumeration."""

from itertools import product
from operator import add as add_up

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.machine_code.analyses import index_tables
from keet.analysis.machine_code.analyses.index_tables import Tables, TooLargeError, bytes_of
from keet.analysis.machine_code.analyses.reuse import (
    Stride,
    bound_of,
    distinct_bytes,
    distinct_values,
    merged,
    sector_bytes,
    shape_of,
)
from keet.analysis.machine_code.polynomials.opcode_rules import truth_table
from keet.analysis.machine_code.polynomials.polynomial import (
    Polynomial,
    Range,
    Symbol,
    Symbols,
    add,
    number,
    of_symbol,
)

strides = st.lists(st.builds(Stride, st.integers(1, 40), st.integers(1, 6)), min_size=0, max_size=4)
offsets = st.lists(st.integers(-50, 50), min_size=1, max_size=4, unique=True)


def sums(of: list[Stride], starts: list[int]) -> set[int]:
    choices = [range(0, stride.step * stride.count, stride.step) for stride in of]
    return {start + sum(values) for start in starts for values in product(*choices)}


@given(strides, offsets, st.sampled_from([1, 2, 4, 8, 16]))
def test_no_more_values_and_bytes_than_the_bound(of, starts: list[int], width: int) -> None:
    assert len(sums(of, starts)) <= distinct_values(of, starts)
    touched = {start + byte for start in sums(of, starts) for byte in range(width)}
    assert len(touched) <= distinct_bytes(of, width, starts)
    assert sums(of, [0]) <= sums(list(merged(of)), [0])


@given(strides, st.integers(0, 64), st.sampled_from([1, 2, 4, 8]))
def test_no_more_sectors_than_the_worst(of, start: int, width: int) -> None:
    of = [Stride(stride.step * width, stride.count) for stride in of]
    touched = {(width * start + at + byte) // 32 for at in sums(of, [0]) for byte in range(width)}
    assert 32 * len(touched) <= sector_bytes(of, width, is_aligned=False)


def test_exact_bounds_and_truth_tables() -> None:
    rows = [Stride(4, 32), Stride(4096, 8)]
    assert distinct_bytes(rows, 4) == 4 * 32 * 8
    assert merged([Stride(4, 32), Stride(128, 16)]) == (Stride(4, 512),)
    # Sixteen rows at 0, K, 2K, ...: the spread alone does not tell how many there are.
    assert distinct_values([], [0, 4, 8, 12, 16]) == 5
    assert shape_of(of_symbol(symbol("opaque", None, "data")), 4) is None
    assert Symbols().shifted_right(number(64), 5).value == 2
    for table in range(256):
        used, function = truth_table(table)
        assert function(*((0xF0, 0xCC, 0xAA)[place] for place in used)) % 256 == table


_NUMBER = 0


def symbol(kind: str, count: int | None, depends: str) -> Symbol:
    global _NUMBER  # noqa: PLW0603 - symbols are told apart by their order
    _NUMBER += 1
    bounds = Range(0, count - 1) if count else Range(None, None)
    return Symbol(kind, f"{kind}{_NUMBER}", bounds, frozenset({depends} - {""}), order=_NUMBER)


terms = st.tuples(st.integers(-20, 20).filter(bool), st.integers(1, 5))
forms = st.lists(st.lists(terms, min_size=1, max_size=3), min_size=1, max_size=3)


@given(forms, st.integers(1, 30), st.sampled_from([1, 4, 8]))
def test_a_union_of_accesses_is_never_below_the_truth(accesses, pitch, width) -> None:
    """Every second term is multiplied by a parameter whose value the bound must not need."""
    parameter = symbol("param", None, "")
    shapes, touched = [], set()
    for terms in accesses:
        form = Polynomial({})
        choices: list[list[int]] = []
        for place, (coefficient, count) in enumerate(terms):
            index = symbol("tid", count, "tid.x")
            by_pitch = place % 2
            form = add(
                form, Polynomial({(parameter, index) if by_pitch else (index,): coefficient})
            )
            factor = coefficient * (pitch if by_pitch else 1)
            choices.append([factor * value for value in range(count)])
        shapes.append(shape_of(form, width))
        touched |= {sum(v) + byte for v in product(*choices) for byte in range(width)}
    assert len(touched) <= bound_of(shapes).bytes


EXTENTS = {"tid.x": 4, "tid.y": 3, "ctaid.x": 5, "ctaid.y": 2}
GROUPS = [("tid.x", "tid.y", "ctaid.x"), ("tid.x", "tid.y", "ctaid.y"), ("ctaid.x",), ("tid.y",)]


@given(st.data(), st.sampled_from([10_000, 61]))
def test_sums_of_tables_that_share_indices(data, largest: int) -> None:
    """A tile with margins: its column depends on the thread and on one index of the block, its row
    on the thread and on the other one. One table of both may be too large."""
    every = [*product(*(range(size) for size in EXTENTS.values()))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_tables, "_LARGEST_TABLE", largest)
        tables = Tables(EXTENTS, 1_000_000)
        address, values = {}, [0] * len(every)
        for group in GROUPS:
            size = tables.size(group)
            own = data.draw(st.lists(st.integers(0, 40), min_size=size, max_size=size))
            address = tables.add(address, {(): {group: own}})
            values = [*map(add_up, values, tables.spread(own, group, tuple(EXTENTS)))]
        limit = data.draw(st.integers(1, 40))
        place = {(): {("tid.x",): [*range(0, 40, 10)], ("tid.y",): [0, 1, 2]}}
        where = tables.compare(lambda each: each < limit, place)
        try:
            found = bytes_of(tables.rows(address.get((), {}), where, 2))
        except TooLargeError:
            assert largest < len(every)
            return
    touched = [v for v, at in zip(values, every, strict=True) if 10 * at[0] + at[1] < limit]
    assert found == len({v + byte for v in touched for byte in (0, 1)})
