"""Bounds on distinct bytes, compared with an enumeration."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.sass.analyses.distinct_bytes import (
    Stride,
    bound_of,
    distinct_bytes,
    distinct_values,
    merged,
    sector_bytes,
    shape_of,
)
from keet.analysis.sass.polynomials.polynomial import (
    Polynomial,
    Range,
    Symbol,
    add,
    of_symbol,
    scale,
)

strides = st.lists(st.builds(Stride, st.integers(1, 40), st.integers(1, 6)), min_size=0, max_size=4)
offsets = st.lists(st.integers(-50, 50), min_size=1, max_size=4, unique=True)


def sums(of: list[Stride], starts: list[int]) -> set[int]:
    choices = [range(0, stride.step * stride.count, stride.step) for stride in of]
    return {start + sum(values) for start in starts for values in product(*choices)}


@given(strides, offsets)
def test_no_more_values_than_the_bound(of: list[Stride], starts: list[int]) -> None:
    assert len(sums(of, starts)) <= distinct_values(of, starts)


@given(strides, offsets, st.sampled_from([1, 2, 4, 8, 16]))
def test_no_more_bytes_than_the_bound(of: list[Stride], starts: list[int], width: int) -> None:
    touched = {start + byte for start in sums(of, starts) for byte in range(width)}
    assert len(touched) <= distinct_bytes(of, width, starts)


@given(strides)
def test_merging_strides_loses_no_value(of: list[Stride]) -> None:
    assert sums(of, [0]) <= sums(list(merged(of)), [0])


@given(strides, st.integers(0, 64), st.sampled_from([1, 2, 4, 8]))
def test_no_more_sectors_than_the_worst(of: list[Stride], start: int, width: int) -> None:
    of = [Stride(stride.step * width, stride.count) for stride in of]
    touched = {(width * start + at + byte) // 32 for at in sums(of, [0]) for byte in range(width)}
    assert 32 * len(touched) <= sector_bytes(of, width, is_aligned=False)


def test_bounds_are_exact_where_strides_nest() -> None:
    rows = [Stride(4, 32), Stride(4096, 8)]
    assert distinct_bytes(rows, 4) == 4 * 32 * 8
    assert merged([Stride(4, 32), Stride(128, 16)]) == (Stride(4, 512),)


def test_offsets_between_rows_of_unknown_length_all_count() -> None:
    """Sixteen rows at 0, K, 2K, ...: the spread alone does not tell how many there are."""
    assert distinct_values([], [0, 4, 8, 12, 16]) == 5


_NUMBER = 0


def symbol(kind: str, count: int | None, depends: str) -> Symbol:
    global _NUMBER  # noqa: PLW0603 - symbols are told apart by their order
    _NUMBER += 1
    bounds = Range(0, count - 1) if count else Range(None, None)
    return Symbol(kind, f"{kind}{_NUMBER}", bounds, frozenset({depends} - {""}), order=_NUMBER)


coefficients = st.integers(-20, 20).filter(bool)
forms = st.lists(
    st.lists(st.tuples(coefficients, st.integers(1, 5)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


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
            term = of_symbol(index)
            factor = coefficient
            if place % 2:
                term = Polynomial({(parameter, index): 1})
                factor = coefficient * pitch
            form = add(form, scale(term, coefficient))
            choices.append([factor * value for value in range(count)])
        shape = shape_of(form, width)
        assert shape is not None
        shapes.append(shape)
        touched |= {sum(v) + byte for v in product(*choices) for byte in range(width)}
    assert len(touched) <= bound_of(shapes).bytes


def test_an_unbounded_index_has_no_shape() -> None:
    assert shape_of(of_symbol(symbol("opaque", None, "data")), 4) is None
