"""Shares, factors, shapes and first letters, as keet writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
from tests.rows import each_row

SIZES = st.tuples(*[st.integers(1, 5000)] * 3)


def test_shapes() -> None:
    """Only trailing ones are left out, and so are unknown shapes."""
    shapes = [(32, 1, 2), (64, 256, 1), (1, 1, 7), (1, 1, 1), None]
    assert [*map(shape_text, shapes)] == ["32×1×2", "64×256", "1×1×7", "1", "unknown"]
    assert shape_text(None, "-") == "-"
    assert shapes_text((256, 1024, 1), (32, 8, 1)) == "grid 256×1024, block 32×8"
    assert shapes_text(None, (32, 1, 1)) == "block 32"
    assert not shapes_text(None, None)


@given(SIZES)
def test_a_shape_that_is_printed_is_read_as_that_shape(shape: tuple[int, int, int]) -> None:
    text = shape_text(shape)
    sizes = [int(size) for size in text.split("×")]
    assert tuple(sizes + [1] * (3 - len(sizes))) == shape
    if len(sizes) > 1:
        (number,) = find_numbers(f"grid {text}, in all")
        assert number.shape == tuple(sizes)


@each_row("format_, texts", [
    (percent_text, {0: "0%", 0.003: "0.003%", 0.3: "0.3%", 0.96: "1%", 83.4: "83%"}),
    # A large share is not all of it.
    (percent_text, {99.4: "99%", 99.5: "99.5%", 99.94: "99.9%", 99.96: "100%", 120: "120%"}),
    (partial(percent_text, digits=1), {83.44: "83.4%", 0.02: "0.02%"}),
    # A column has one digit.
    (percent_cell, {0: "0.0%", 0.04: "<0.1%", 0.05: "0.1%", 83.44: "83.4%", 100: "100.0%"}),
    # An estimated factor has two digits, and a small gain three.
    (times_text, {1.0: "1.0x", 1.07: "1.07x", 1.2: "1.2x", 12.4: "12x", 2500: "2,500x"}),
    # A measured factor has three.
    (speedup_text, {0.97: "0.97x", 1.874: "1.87x", 12.34: "12.3x", 140.2: "140x"}),
    (capitalized, {"the L2 cache": "The L2 cache", "": ""}),
    # An acronym at the start keeps its capitals.
    (uncapitalized, {"The L2": "the L2", "FP64 is": "FP64 is", "L2 at": "L2 at"}),
])  # fmt: skip
def test_texts(format_: Callable[[Any], str], texts: dict[Any, str]) -> None:
    assert {value: format_(value) for value in texts} == texts
