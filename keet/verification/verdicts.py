"""Verdicts on the numbers and comparisons of a text, and whether a number agrees with a value.

A number agrees with a quantity within the rounding of its printed digits; with a value of a report
also as people round and bound it, and as ncu prints it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from keet.catalog import metric_named
from keet.documents.document import live
from keet.documents.verify import ClaimVerdict, NumberCheck, RelationDocument
from keet.units import Quantity, parse_unit
from keet.verification.numbers import TextNumber
from keet.verification.report_values import ReportValue
from keet.verification.sentences import SentenceSpan

VERDICTS: tuple[ClaimVerdict, ...] = ("confirmed", "contradicted", "not_found")


class CheckedNumber(NumberCheck):
    """One number of the text, and the verdict on it."""

    number: TextNumber = live()
    """With positions in the whole text, after the whole sentence was checked."""
    report_value: ReportValue | None = live()
    """What it was compared with."""

    def __init__(
        self,
        number: TextNumber,
        verdict: ClaimVerdict,
        report_value: ReportValue | None,
        reason: str,
        sentence: str = "",
    ) -> None:
        value = report_value or ReportValue(None, None, None, None)  # type: ignore[arg-type]
        is_amount = number.shape is None and math.isfinite(number.value)
        super().__init__(  # type: ignore[call-arg]  # mypy: of the base; here: all fields
            text=number.text,
            start=number.start,
            end=number.end,
            value=number.value if is_amount else None,
            unit=number.unit,
            sentence=sentence,
            verdict=verdict,
            reason=reason,
            label=value.label,
            metric=value.metric,
            measured=value.quantity,
            launch=value.launch,
            line=value.line,
            number=number,
            report_value=report_value,
        )

    def moved(self, by: int) -> CheckedNumber:
        return CheckedNumber(self.number.moved(by), self.verdict, self.report_value, self.reason)

    def within(self, sentence: str) -> CheckedNumber:
        return CheckedNumber(self.number, self.verdict, self.report_value, self.reason, sentence)


def confirmed(number: TextNumber, value: ReportValue) -> CheckedNumber:
    return CheckedNumber(number, "confirmed", value, str(value))


def not_found(number: TextNumber, reason: str) -> CheckedNumber:
    return CheckedNumber(number, "not_found", None, reason)


class CheckedSentence(NamedTuple):
    sentence: SentenceSpan
    checks: tuple[CheckedNumber, ...]
    relations: tuple[RelationDocument, ...] = ()
    is_quantified: bool = False
    """It is about several launches, which were checked together or not at all."""

    @property
    def all(self) -> list[NumberCheck | RelationDocument]:
        """Its numbers, then its comparisons."""
        return [*self.checks, *self.relations]

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        return [each.verdict for each in self.all]

    def unchecked(
        self, reason: str, *, only: Container[ClaimVerdict] = VERDICTS
    ) -> CheckedSentence:
        """With `not_found` instead of its verdicts. `only`: of these."""
        return self._replace(
            checks=tuple(
                not_found(check.number, reason) if check.verdict in only else check
                for check in self.checks
            ),
            relations=tuple(
                replace(relation, verdict="not_found", reason=reason)
                if relation.verdict in only
                else relation
                for relation in self.relations
            ),
        )


_NOISE = 1e-12
"""Relative floating-point error of unit conversions."""

_WHOSE = {"thread", "block", "SM", "scheduler", "warp", "launch", "kernel", "SMSP", "lane", "line"}
"""Denominators that may be left out: `registers` and `registers/thread` are the same."""
_OF_EACH = {"request", "sector", "inst", "wavefront", "issue"}
"""Denominators that a text may express in words: `each request takes 32 sectors`."""
_PLAIN = {"", "x"}
"""Units of plain numbers and multiples."""
_UNITLESS = {"x", "way", "wave", "wave/SM"}
"""Units that ncu does not print."""
_NEED_A_UNIT = {"s", "byte", "hz", "%", "flop"}
"""Kinds of units that a number needs to have a meaning."""


Amount = tuple[float, float]
"""A value, and half a unit of its last printed digit."""


def agrees(
    number: TextNumber, quantity: Quantity, *, lenient: bool = False, rounding: float = 0.0
) -> bool:
    """Whether the number equals the quantity, in any equivalent unit.

    `lenient`: a bare number may be a percentage; for texts by others, whose tables name the unit
    elsewhere. `rounding`: error of the quantity itself, because exports contain rounded numbers.
    """
    measured, bound = quantity.value, number.bound
    if not math.isfinite(measured):
        return False
    # No calls in this loop: each number is compared with all evidence of its launch.
    for value, half in amounts(number, quantity.unit, lenient=lenient):
        slack = half + rounding + _NOISE * max(abs(value), abs(measured))
        if bound is None:
            close = abs(value - measured) <= slack
        elif bound == "above":
            close = measured >= value - slack
        else:
            close = measured <= value + slack
        if close:
            return True
    return False


def is_near(number: TextNumber, quantity: Quantity) -> bool:
    """For a bound: whether a person would give this bound for the value.

    Nine of ten percentages are `more than 10 %`. Such a bound is true for almost everything, so it
    must not be confirmed by any value.
    """
    if number.bound is None:
        return True
    for value, _ in amounts(number, quantity.unit):
        # One unit of the leading digit: 10 for 60, 100 for 250.
        step = 10.0 ** math.floor(math.log10(abs(value))) if value else 1.0
        if abs(value - quantity.value) <= step:
            return True
    return False


def fits(number: TextNumber, unit: str, *, lenient: bool = False) -> bool:
    """Whether the number can be given in this unit at all."""
    return next(amounts(number, unit, lenient=lenient), None) is not None


def amounts(number: TextNumber, unit: str, *, lenient: bool = False) -> Iterator[Amount]:
    """The number and its rounding in `unit`, for each meaning that it can have."""
    if number.shape:
        return
    if number.alone:
        bare = number._replace(value=number.alone[0], half=number.alone[1], unit="", alone=None)
        yield from _bare(bare, unit, lenient=False)
    if not number.unit:
        yield from _bare(number, unit, lenient=lenient)
    elif number.unit == "%" and unit in _PLAIN:
        yield number.value / 100, number.half / 100
    elif unit in _PLAIN and (number.unit in _UNITLESS or (is_count(number.unit) and not lenient)):
        yield number.value, number.half  # a ratio; the text names what is counted
    elif same_kind(number.unit, unit) and not (lenient and _of_another(number.unit, unit)):
        factor = 10.0 ** (parse_unit(number.unit).power - parse_unit(unit).power)
        yield number.value * factor, number.half * factor


@lru_cache(maxsize=1024)
def is_count(unit: str) -> bool:
    """Whether numbers of this unit have a meaning without it."""
    return parse_unit(unit).kind.split("/")[0] not in _NEED_A_UNIT


def _bare(number: TextNumber, unit: str, *, lenient: bool) -> Iterator[Amount]:
    if is_count(unit) or (lenient and unit == "%"):
        yield number.value, number.half
    if lenient and unit == "%" and 0 < number.value <= 1:
        yield number.value * 100, number.half * 100


@lru_cache(maxsize=4096)
def _of_another(said: str, measured: str) -> bool:
    """`49 kB per thread`, but the quantity is per block."""
    parts, of = (set(parse_unit(unit).kind.split("/")[1:]) & _WHOSE for unit in (said, measured))
    return bool(parts - of and of - parts)


@lru_cache(maxsize=4096)
def same_kind(said: str, measured: str) -> bool:
    """Whether two units are compatible: `registers` and `register/thread` are, GB and GB/s are
    not."""
    head, *parts = parse_unit(said).kind.split("/")
    wanted, *of = parse_unit(measured).kind.split("/")
    added, left_out = set(parts) - set(of), set(of) - set(parts)
    return head == wanted and added <= _WHOSE and left_out <= _WHOSE | _OF_EACH


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
    is_split = number.unit == "%" and number.text[-1:].isdigit()
    if is_split and report_value.quantity.unit in ("", "x"):
        return agrees(number._replace(unit=""), report_value.quantity, rounding=rounding)
    # Most people call 49,152 bytes of shared memory 48 KB; ncu does not.
    spec = metric_named(report_value.metric or "")
    if not number.binary or spec is None or not spec.id.startswith(_ALLOCATED):
        return False
    prefix = number.text[number.text.index("B") - 1]
    scale = {"K": 1.024, "M": 1.024**2, "G": 1.024**3}[prefix]
    binary = number._replace(value=number.value * scale, half=number.half * scale)
    return agrees(binary, report_value.quantity, rounding=rounding)


def _as_rounded(number: TextNumber, quantity: Quantity) -> Quantity:
    """38.547 is printed as 38.55, which people round to 38.6: allows rounding twice."""
    value = quantity.value
    printed = Quantity(float(f"{value:.4g}"), quantity.unit)
    is_finer = number.half and 10 * abs(printed.value - value) <= number.half
    return printed if is_finer and not agrees(number, quantity, lenient=True) else quantity
