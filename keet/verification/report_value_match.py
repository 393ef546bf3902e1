"""Whether a number in a text agrees with a value of a report, given how people round and bound.

`number_match` compares with a bare quantity; this also knows the metric and how ncu prints it.
"""

from __future__ import annotations

from keet.catalog import metric_named
from keet.units import Quantity
from keet.verification.number_match import agrees
from keet.verification.text.numbers import TextNumber
from keet.verification.values.report_values import ReportValue

_BOUND_SLACK = 0.02
"""Relative tolerance of a bound: people say `over 60 %` for 59.7 % too."""
_ALLOCATED = ("shared_memory", "device_")
"""Prefixes of sizes that people give in units of 1024 bytes and call KB."""


def agrees_with_report(number: TextNumber, report_value: ReportValue) -> bool:
    if number.bound:  # `less than 4` is wrong for 4.4, although 4.4 rounds to 4
        number = number._replace(half=min(number.half, _BOUND_SLACK * abs(number.value)))
    rounding = report_value.rounding
    if agrees(number, _as_rounded(number, report_value.quantity), lenient=True, rounding=rounding):
        return True
    # ncu prints a ratio of 0.04 as `%  0.04`, with the unit in a separate column.
    if (
        number.unit == "%"
        and number.text[-1:].isdigit()
        and report_value.quantity.unit in ("", "x")
    ):
        return agrees(number._replace(unit=""), report_value.quantity, rounding=rounding)
    # Most people call 49,152 bytes of shared memory 48 KB; ncu does not.
    spec = metric_named(report_value.metric or "")
    if not number.binary or spec is None or not spec.id.startswith(_ALLOCATED):
        return False
    scale = {"K": 1.024, "M": 1.024**2, "G": 1.024**3}[_prefix(number.text)]
    binary = number._replace(value=number.value * scale, half=number.half * scale)
    return agrees(binary, report_value.quantity, rounding=rounding)


def _as_rounded(number: TextNumber, quantity: Quantity) -> Quantity:
    """38.547 is printed as 38.55, which people round to 38.6: allows rounding twice."""
    value = quantity.value
    printed = Quantity(float(f"{value:.4g}"), quantity.unit)
    is_finer = number.half and 10 * abs(printed.value - value) <= number.half
    return printed if is_finer and not agrees(number, quantity, lenient=True) else quantity


def _prefix(text: str) -> str:
    """The letter before the B."""
    return text[text.index("B") - 1]
