"""Units: parsing of all spellings, conversion and formatting."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.errors import UsageError
from keet.units import Quantity, UnitMismatch, base_unit, format_number, parse_unit
from tests.rows import each_row

SCALED = ["ns", "us", "ms", "s", "byte", "Kbyte", "Mbyte", "Gbyte/s", "byte/s", "hz", "Khz", "Ghz"]
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@each_row("spelled, kept", [
    ("nsecond", "ns"),
    ("usecond", "ns"),
    ("cycle/nsecond", "hz"),
    ("Ghz", "hz"),
    ("Gbyte/second", "byte/s"),
    ("Kbyte/block", "byte/block"),
    ("sectors", "sector"),
    ("sector/ns", "sector/s"),
    ("branches", "branch"),
    ("%", "%"),
    ("", ""),
    ("register/thread", "register/thread"),
])  # fmt: skip
def test_every_spelling_has_its_base_unit(spelled: str, kept: str) -> None:
    assert base_unit(spelled) == kept


@each_row("quantity, unit, value", [
    (Quantity(69856, "ns"), "us", 69.856),
    (Quantity(1.98, "cycle/nsecond"), "hz", 1.98e9),
    (Quantity(4.8, "Tbyte/s"), "byte/s", 4.8e12),
    (Quantity(8192, "byte/block"), "Kbyte/block", 8.192),
    (Quantity(50, "%"), "%", 50),
])  # fmt: skip
def test_quantities_are_converted(quantity: Quantity, unit: str, value: float) -> None:
    assert quantity.to(unit).value == pytest.approx(value, rel=1e-15)


@each_row(("have", "want"), [("byte", "sector"), ("ns", "cycle"), ("%", "")])
def test_units_of_different_kinds_are_not_converted(have: str, want: str) -> None:
    with pytest.raises(UnitMismatch, match="can't be converted") as caught:
        Quantity(1, have).to(want)
    assert isinstance(caught.value, UsageError), "a program catches it with keet's other errors"
    assert isinstance(caught.value, ValueError)


@given(finite, st.sampled_from(SCALED), st.sampled_from(SCALED))
def test_a_round_trip_is_exact(value: float, here: str, there: str) -> None:
    if parse_unit(here).kind == parse_unit(there).kind:
        back = Quantity(value, here).to(there).to(here)
        assert back.value == pytest.approx(value, rel=1e-12, abs=1e-300)


@each_row("quantity, text", [
    (Quantity(69856, "ns"), "69.86 us"),
    (Quantity(999_600, "ns"), "1.000 ms"),
    (Quantity(0, "ns"), "0 ns"),
    (Quantity(4.02e12, "byte/s"), "4.02 TB/s"),
    (Quantity(1_980_000_000, "hz"), "1.98 GHz"),
    (Quantity(3_670_016, "sector"), "3,670,016 sector"),
    (Quantity(0.1661, "inst/cycle"), "0.166 inst/cycle"),
    (Quantity(84.6123, "%"), "84.61%"),
    (Quantity(15.5151, ""), "15.52"),
    (Quantity(16384, "byte/cycle"), "16.38 kB/cycle"),
])  # fmt: skip
def test_quantities_are_formatted_for_reading(quantity: Quantity, text: str) -> None:
    assert str(quantity) == text


@each_row("value, text", [
    (math.nan, "n/a"),
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (0, "0"),
    (1234567.89, "1,234,568"),
    (0.000123, "0.000123"),
    (1e-9, "1.00e-09"),
    (-0.5, "-0.500"),
    (123.456, "123.5"),
    (2**63, "9,223,372,036,854,775,808"),
])  # fmt: skip
def test_numbers_are_formatted(value: float, text: str) -> None:
    assert format_number(value) == text


@given(
    st.one_of(st.integers(-(10**22), 10**22), finite),
    st.sampled_from(
        [*SCALED, "flop", "flop/s", "flop/byte", "op/s", "byte/cycle", "s/s", "inst", ""]
    ),
)
def test_parts_equal_a_conversion_to_the_scaled_unit(value: float, unit: str) -> None:
    """The short way of `parts` gives what `to` gives: the value, to the digits shown."""
    quantity = Quantity(value, unit)
    scaled = quantity.to(quantity.scaled_unit())
    number, _ = quantity.parts()
    assert number == format_number(scaled.value)
    assert float(number.replace(",", "")) == pytest.approx(scaled.value, rel=5.1e-3, abs=1e-300)
    assert scaled.parts()[1] == quantity.parts()[1] or scaled.unit == quantity.unit
