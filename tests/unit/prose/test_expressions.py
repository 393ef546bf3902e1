"""Expressions over names: grammar, units, comparisons, and what depends on its names."""

from __future__ import annotations

import contextlib
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.prose.expressions import (
    UnitValue,
    ValueProblem,
    add,
    alike,
    bare,
    constants_of,
    evaluate,
    has_influence,
    parse,
    power,
    product,
    value_of,
    value_text,
)
from keet.units import Quantity
from tests.rows import each_row
from tests.unit.prose.prose_names import names

LOOKUP = names().lookup
quotient = partial(product, sign=-1)


def value(text: str) -> str:
    return value_text(evaluate(parse(text), LOOKUP).value)


@each_row("text, result", [
    ("2 + 3 * 4", "14"), ("(2 + 3) * 4", "20"), ("2 * 3 ** 2", "18"), ("-2 ** 2", "-4"),
    ("2 ** 3 ** 2", "512"), ("20 - 3 - 2", "15"), ("64 / 4 / 2", "8"), ("1 << 4 + 1", "32"),
    ("- - 3", "3"), ("-" * 90 + "1", "1"), ("1,024 * 2", "2,048"), ("1_000", "1,000"), ("0x10 + 1", "17"), ("1.5e3", "1,500"),
    ("min(16,128)", "16"), ("max(2, 3, 1)", "3"), ("ceil(7 / 2)", "4"), ("floor(7 / 2)", "3"),
    ("abs(3 - 7)", "4"), ("log2(8)", "3"), ("sqrt(16)", "4"), ("sizeof(float4) * 2", "32 B"),
    ("N * N * 4 B", "268.4 MB"), ("N * sizeof(float)", "32.77 kB"), ("4 KiB", "4.10 kB"),
    ("dram_bytes / (N * 4 B)", "8,921"), ("dram_bytes / duration", "286.5 GB/s"),
    ("cycles / duration", "1.98 GHz"), ("sectors / requests", "32.01 sector/request"),
    ("sectors * bytes_per_sector", "268.5 MB"), ("2 * ipc", "0.360 inst/cycle"),
    ("1 - l2_hit_rate_pct", "10.8%"), ("100 % - l2_hit_rate_pct", "10.8%"), ("2 * dram_busy", "23.0%"),
    ("dram_busy / l2_busy", "0.138"), ("dram_busy * dram_bytes", "33.62 MB"), ("duration / 2", "510.2 us"),
    ("duration × 2 ÷ 4", "510.2 us"), ("SIZE / 4 B", "1,024"), ("min(90, l2_busy)", "83.1%"),
])  # fmt: skip
def test_values(text: str, result: str) -> None:
    assert value(text) == result


@each_row("text, is_true", [
    ("l2_busy > dram_busy", True), ("l2_busy > 2 * dram_busy", True), ("dram_busy > l2_busy", False),
    ("l2_busy > 80", True), ("l2_busy > 80 %", True), ("l2_busy > 84", False), ("l2_busy < 0.9", False),
    ("l2_busy ~ crossbar_busy", True), ("l2_busy ≈ dram_busy", False), ("l2_busy != crossbar_busy", False),
    ("l2_busy == crossbar_busy", True), ("l2_busy ≥ crossbar_busy", True), ("l2_busy <= 80", False),
    ("conflicts == 0", True), ("conflicts > 0", False), ("duration > 1 ms", True), ("duration < 1000 us", False),
    ("dram_bytes > 300 MB", False), ("-dram_busy > -l2_busy", True), ("sectors > 8 * requests", True),
])  # fmt: skip
def test_comparisons(text: str, is_true: bool) -> None:
    result = evaluate(parse(text), LOOKUP)
    assert result.is_comparison
    assert result.is_true is is_true


@each_row("text, shown", [
    ("l2_busy", "L2 busy 83.1%"),
    ("l2_busy > 80", "L2 busy 83.1% > 80%"),
    ("N > l2_busy", "`N` 8,192 > L2 busy 83.1%"),
    ("dram_bytes / (N * 4 B)", "8,921 (DRAM Bytes Read 292.3 MB / (`N` 8,192 × 4 B))"),
    ("sizeof(float) * 1000000", "4 MB (sizeof(float) × 1,000,000)"),
    ("l2_busy >= -dram_busy", "L2 busy 83.1% ≥ -DRAM busy 11.5%"),
])  # fmt: skip
def test_it_is_printed_with_labels_and_values(text: str, shown: str) -> None:
    assert evaluate(parse(text), LOOKUP).text == shown


@each_row("text, problem", [
    ("", "ends too early"), ("2 +", "ends too early"), ("(2", "closing bracket"), ("2 3", "not expected"),
    ("l2_bussy", "there is no `l2_bussy`; similar names: l2_busy"), ("duration + dram_bytes", "different units"),
    ("l2_busy + sectors", "different units"), ("sectors + requests", "different units"), ("dram_bytes + 4", "4 B"),
    ("duration / 0", "divides by zero"), ("1 / (2 - 2)", "divides by zero"), ("duration ** 2", "plain numbers"),
    ("ceil(l2_busy)", "plain number, not %"), ("ceil(duration)", "plain number"), ("sqrt(0 - 1)", "no value"),
    ("log2(0)", "no value"), ("sizeof(thing)", "not known"), ("sizeof(int, 4)", "not known"), ("sin(1)", "no function"),
    ("1 < 2 < 3", "not expected"), ("(1 < 2) + 1", "not expected"), ("10 ** 400", "too large"), ("1e999", "too large"),
    ("0x" + "f" * 290, "too large"), ("9" * 200, "too large"), ("a" * 301, "too long"), ("1+" * 140 + "1", "too long"),
    ("(" * 40 + "1" + ")" * 40, "nested too deeply"), ("min(" * 40, "nested too deeply"),
    ("2 ** " * 40 + "2", "too large"), ("٣ + 1", "cannot be read"), ("l2_busy；", "cannot be read"),
    ("x\u200b", "cannot be read"), ("l2_busy = 3", "cannot be read"), ("'a'", "cannot be read"), ("l2_busy 3", "not expected"),
    ("__import__('os')", "cannot be read"), ("(1,024)", "not expected"),
])  # fmt: skip
def test_problems(text: str, problem: str) -> None:
    with pytest.raises(ValueProblem) as raised:
        evaluate(parse(text), LOOKUP)
    assert problem in str(raised.value)


@given(st.text(alphabet="l2_busy dram_bytes N()+-*/%<>=~,.0123456789eExB#@:²½ ", max_size=80))
def test_any_text_has_a_value_or_a_problem(text: str) -> None:
    with contextlib.suppress(ValueProblem):
        assert evaluate(parse(text), LOOKUP).text


TREES = st.recursive(
    st.sampled_from(["l2_busy", "dram_busy", "sectors", "N", "3", "0", "0.5", "32"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=8,
)


@given(TREES)
def test_it_agrees_with_python(text: str) -> None:
    """Names as fractions and plain numbers; bare numbers beside shares are left out of the sums."""
    plain = {"l2_busy": 0.831, "dram_busy": 0.115, "sectors": 67_130_318.0, "N": 8192.0}
    try:
        found = evaluate(parse(text), lambda name: LOOKUP(name)._replace(value=bare(plain[name])))
    except ValueProblem:
        return
    assert found.value.number == pytest.approx(eval(text, {}, plain), rel=1e-9, abs=1e-9)


@each_row("text, influence", [
    ("l2_busy", True), ("2 * l2_busy", True), ("dram_bytes / (N * 4 B)", True), ("l2_busy / dram_busy", True),
    ("conflicts == 0", True), ("1 - l2_busy", True), ("max(16, sectors)", True), ("l2_busy > 80", True),
    ("ceil(sectors / 32)", True), ("N * 4 B", True), ("l2_busy ~ 2 * dram_busy", True),
    ("l2_busy * 0 + 12", False), ("82 + 0 * l2_busy", False), ("82 * l2_busy / l2_busy", False),
    ("l2_busy - l2_busy", False), ("82 * l2_busy / crossbar_busy", False), ("N * 0 + 12", False),
    ("31 * ceil(sectors / 1e20)", False), ("l2_busy > 0.5 * l2_busy", False), ("l2_busy - l2_busy == 0", False),
    ("sectors ** 0 * 82", False), ("12", False), ("conflicts * 0", False), ("min(3, sectors + 9)", False),
])  # fmt: skip
def test_results_that_do_not_depend_on_names_are_found(text: str, influence: bool) -> None:
    assert has_influence(parse(text), LOOKUP) is influence


@given(TREES, st.sampled_from(["l2_busy", "sectors"]), st.integers(2, 99))
def test_what_is_multiplied_by_zero_has_no_influence(text: str, name: str, number: int) -> None:
    for laundered in (f"{number} + 0 * ({name} * {number})", f"{number} * ({name} / {name})"):
        assert not has_influence(parse(laundered), LOOKUP)


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
    back = quotient(product(one, other), other)
    assert math.isclose(back.number, one.number)
    assert back.dimensions == one.dimensions  # what is counted is lost: 3 sectors * 32 B are bytes


@given(numbers, units, numbers, units)
def test_only_like_units_are_added(a: float, u: str, b: float, v: str) -> None:
    one, other = value_of(a, u), value_of(b, v)
    if (one.dimensions, one.things) == (other.dimensions, other.things):
        assert math.isclose(add(one, other).number, one.number + other.number)
        assert math.isclose(add(other, one).number, one.number + other.number)
    elif one.dimensions != other.dimensions or (one.things and other.things):
        with pytest.raises(ValueProblem, match="different units"):
            add(one, other)


@each_row(("value", "text"), [
    (value_of(82.04, "%"), "82.0%"),
    (product(bare(2), value_of(30, "%")), "60.0%"),
    (quotient(value_of(30, "%"), value_of(60, "%")), "0.500"),
    (product(value_of(50, "%"), value_of(4, "Mbyte")), "2 MB"),
    (product(value_of(10, "sector"), value_of(32, "byte")), "320 B"),
    (product(value_of(10, "sector"), value_of(4, "byte/sector")), "40 B"),
    (quotient(value_of(4, "byte/sector"), value_of(32, "byte")), "0.125"),
    (quotient(value_of(2, "Gbyte"), value_of(1, "s")), "2 GB/s"),
    (quotient(value_of(2e9, "cycle"), value_of(1, "s")), "2 GHz"),
    (quotient(value_of(1024, "byte"), value_of(256, "thread")), "4 B/thread"),
    (quotient(value_of(8, "sector"), value_of(2, "request")), "4 sector/request"),
    (value_of(8, "bit"), "1 B"),
    (add(bare(1), value_of(89.2, "%"), -1), "10.8%"),
    (add(value_of(4.5, "%"), bare(1)), "5.5%"),
])  # fmt: skip
def test_results_have_their_unit(value: UnitValue, text: str) -> None:
    assert value_text(value) == text


def test_counts_and_constants() -> None:
    assert value_of(3, "sector/request").counts == "sector/request"
    assert value_of(3, "byte").counts == ""
    assert list(constants_of(parse("2 * (l2_busy + 4 B) / 0x10"))) == [2, 4, 16]


@each_row("one, other, problem", [
    (value_of(50, "%"), value_of(3, "sector"), "different units"),
    *((value_of(1, unit), bare(1), "give the number a unit") for unit in ("byte", "ns", "byte/s")),
])  # fmt: skip
def test_values_that_are_not_alike(one: UnitValue, other: UnitValue, problem: str) -> None:
    with pytest.raises(ValueProblem, match=problem):
        alike(one, other)


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True))
def test_powers_have_a_value_or_a_problem(base: float, exponent: float) -> None:
    with contextlib.suppress(ValueProblem):
        assert math.isfinite(power(UnitValue(base), UnitValue(exponent)).number)
