"""Shares, factors, shapes and first letters, as keet writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keet.formatting import (
    capitalized,
    percent_cell,
    percent_text,
    shape_text,
    shapes_text,
    speedup_text,
    times_text,
    uncapitalized,
)
from keet.verification.numbers import find_numbers

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


def test_grid_and_block_are_named_and_unknown_ones_left_out() -> None:
    assert shapes_text((256, 1024, 1), (32, 8, 1)) == "grid 256×1024, block 32×8"
    assert shapes_text(None, (32, 1, 1)) == "block 32"
    assert not shapes_text(None, None)


def test_a_small_share_is_not_zero_and_a_large_one_is_not_all() -> None:
    assert [percent_text(x) for x in (0, 0.003, 0.3, 0.96, 83.4, 99.4)] == [
        "0%", "0.003%", "0.3%", "1%", "83%", "99%",
    ]  # fmt: skip
    assert [percent_text(x) for x in (99.5, 99.94, 99.96, 100, 120)] == [
        "99.5%", "99.9%", "100%", "100%", "120%",
    ]  # fmt: skip
    assert percent_text(83.44, 1) == "83.4%"
    assert percent_text(0.02, 1) == "0.02%"


def test_a_column_of_shares_has_one_digit() -> None:
    assert [percent_cell(x) for x in (0, 0.04, 0.05, 83.44, 100)] == [
        "0.0%", "<0.1%", "0.1%", "83.4%", "100.0%",
    ]  # fmt: skip


def test_an_estimated_factor_has_two_digits_and_a_small_gain_three() -> None:
    assert [times_text(x) for x in (1.0, 1.07, 1.2, 4.52, 12.4, 2500)] == [
        "1.0x", "1.07x", "1.2x", "4.5x", "12x", "2,500x",
    ]  # fmt: skip


def test_a_measured_factor_has_three_digits() -> None:
    assert [speedup_text(x) for x in (0.97, 1.874, 12.34, 140.2)] == [
        "0.97x", "1.87x", "12.3x", "140x",
    ]  # fmt: skip


def test_only_the_first_letter_becomes_a_capital() -> None:
    assert capitalized("the L2 cache") == "The L2 cache"
    assert not capitalized("")


def test_an_acronym_at_the_start_keeps_its_capitals() -> None:
    kept = ["FP64 may not be needed", "L2 at 83% of peak"]
    assert [uncapitalized(text) for text in kept] == kept
    assert uncapitalized("The L2 cache") == "the L2 cache"
