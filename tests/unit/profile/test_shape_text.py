"""Grids and blocks in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keet.profile import shape_text
from keet.verification.text.numbers import find_numbers

SIZES = st.tuples(*[st.integers(1, 5000)] * 3)


def test_only_trailing_ones_are_left_out() -> None:
    assert shape_text((32, 1, 2)) == "32×1×2"
    assert shape_text((64, 256, 1)) == "64×256"
    assert shape_text((1, 1, 7)) == "1×1×7"
    assert shape_text((1, 1, 1)) == "1"
    assert shape_text(None) == "unknown"
    assert shape_text(None, "-") == "-"


@given(SIZES)
def test_what_is_printed_is_the_shape(shape: tuple[int, int, int]) -> None:
    sizes = [int(size) for size in shape_text(shape).split("×")]
    assert tuple(sizes + [1] * (3 - len(sizes))) == shape


@given(SIZES.filter(lambda shape: shape[1:] != (1, 1)))
def test_a_text_that_has_it_is_read_as_that_shape(shape: tuple[int, int, int]) -> None:
    (number,) = find_numbers(f"grid {shape_text(shape)}, in all")
    assert number.shape is not None
    assert number.shape + (1,) * (3 - len(number.shape)) == shape
