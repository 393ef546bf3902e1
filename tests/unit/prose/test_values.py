"""Arithmetic with units."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.prose import values
from keet.prose.values import UnitValue, ValueProblem, value_of, value_text
from keet.units import Quantity
from tests.rows import each_row

UNITS = [
    "byte", "Kbyte", "Gbyte", "byte/s", "Gbyte/s", "ns", "us", "ms", "s", "hz", "Mhz", "cycle",
    "sector", "sector/request", "byte/sector", "inst/cycle", "cycle/inst", "byte/thread", "warp",
]  # fmt: skip
numbers = st.floats(0.01, 1e5)
units = st.sampled_from(UNITS)


@given(numbers, units)
def test_it_is_printed_as_keet_prints_quantities(number: float, unit: str) -> None:
    assert value_text(value_of(number, unit)) == str(Quantity(number, unit).to_base())


@given(numbers, units, numbers, units)
def test_a_product_divided_by_a_factor_is_the_other(a: float, u: str, b: float, v: str) -> None:
    one, other = value_of(a, u), value_of(b, v)
    back = values.divide(values.multiply(one, other), other)
    assert math.isclose(back.number, one.number)
    assert back.dimensions == one.dimensions  # what is counted is lost: 3 sectors * 32 B are bytes


@given(numbers, units, numbers, units)
def test_only_like_units_are_added(a: float, u: str, b: float, v: str) -> None:
    one, other = value_of(a, u), value_of(b, v)
    if (one.dimensions, one.things) == (other.dimensions, other.things):
        assert math.isclose(values.add(one, other).number, one.number + other.number)
        assert math.isclose(values.add(other, one).number, one.number + other.number)
    elif one.dimensions != other.dimensions or (one.things and other.things):
        with pytest.raises(ValueProblem, match="different units"):
            values.add(one, other)


@each_row(
    ("value", "text"),
    [
        (value_of(82.04, "%"), "82.0%"),
        (values.multiply(values.bare(2), value_of(30, "%")), "60.0%"),
        (values.divide(value_of(30, "%"), value_of(60, "%")), "0.500"),
        (values.multiply(value_of(50, "%"), value_of(4, "Mbyte")), "2 MB"),
        (values.multiply(value_of(10, "sector"), value_of(32, "byte")), "320 B"),
        (values.multiply(value_of(10, "sector"), value_of(4, "byte/sector")), "40 B"),
        (values.divide(value_of(4, "byte/sector"), value_of(32, "byte")), "0.125"),
        (values.divide(value_of(2, "Gbyte"), value_of(1, "s")), "2 GB/s"),
        (values.divide(value_of(2e9, "cycle"), value_of(1, "s")), "2 GHz"),
        (values.divide(value_of(1024, "byte"), value_of(256, "thread")), "4 B/thread"),
        (values.divide(value_of(8, "sector"), value_of(2, "request")), "4 sector/request"),
        (value_of(8, "bit"), "1 B"),
    ],
)
def test_results_have_their_unit(value: UnitValue, text: str) -> None:
    assert value_text(value) == text


def test_one_minus_a_percentage_is_a_percentage() -> None:
    assert value_text(values.add(values.bare(1), value_of(89.2, "%"), -1)) == "10.8%"
    assert value_text(values.add(value_of(4.5, "%"), values.bare(1))) == "5.5%"


@pytest.mark.parametrize("unit", ["byte", "ns", "byte/s"])
def test_a_number_without_unit_is_not_bytes_or_time(unit: str) -> None:
    with pytest.raises(ValueProblem, match="give the number a unit"):
        values.alike(value_of(1, unit), values.bare(1))


def test_a_share_is_not_compared_with_a_count() -> None:
    with pytest.raises(ValueProblem):
        values.alike(value_of(50, "%"), value_of(3, "sector"))


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True))
def test_powers_have_a_value_or_a_problem(base: float, exponent: float) -> None:
    try:
        found = values.power(UnitValue(base), UnitValue(exponent))
    except ValueProblem:
        return
    assert math.isfinite(found.number)


def test_what_is_counted_can_be_asked_for() -> None:
    assert value_of(3, "sector/request").counts == "sector/request"
    assert value_of(3, "byte").counts == ""
