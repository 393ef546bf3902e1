"""Arithmetic with units: bytes / bytes is a ratio, bytes + time is an error."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from keet.units import Quantity, base_unit, format_number, parse_unit, symbol

_DIMENSIONS: Mapping[str, tuple[Mapping[str, int], float]] = {
    "byte": ({"byte": 1}, 1.0),
    "bit": ({"byte": 1}, 0.125),
    "s": ({"s": 1}, 1.0),
    "cycle": ({"cycle": 1}, 1.0),
    "hz": ({"cycle": 1, "s": -1}, 1.0),
}
"""Units with dimensions, in SI. All others count things (sectors, instructions)."""
_DEGREE = 4
"""Powers of a unit beyond this are a mistake."""
_LARGEST = 1e30


Powers = tuple[tuple[str, int], ...]
"""Units with their powers, by name: bytes per second are `(("byte", 1), ("s", -1))`."""


class ValueProblem(Exception):
    """The expression has no value; the message says why."""


class UnitValue(NamedTuple):
    """A number with its unit."""

    number: float
    """In bytes, seconds and cycles; a percentage as a fraction."""
    dimensions: Powers = ()
    things: Powers = ()
    """What is counted, if anything: sectors, or sectors per request. Used to print the result and
    to reject sums of different things; `sectors * 32 B` is bytes."""
    is_percent: bool = False
    is_bare: bool = False
    """Written without a unit: it takes the unit of the value that it is compared with."""

    @property
    def has_dimension(self) -> bool:
        return bool(self.dimensions)

    @property
    def counts(self) -> str:
        """What is counted as a unit: `sector`, `sector/request`; empty for a plain number."""
        return "" if self.dimensions else _unit(self)


def value_of(number: float, unit: str) -> UnitValue:
    """A number in one of keet's units."""
    if unit == "%":
        return UnitValue(number / 100, is_percent=True)
    parsed = parse_unit(unit)
    dimensions: Counter[str] = Counter()
    things: Counter[str] = Counter()
    scale = float(10.0**parsed.power)
    for place, part in enumerate(parsed.kind.split("/")):
        sign = 1 if place == 0 else -1
        if part not in _DIMENSIONS:
            things[part] += sign
            continue
        powers, factor = _DIMENSIONS[part]
        scale *= factor**sign
        for name, power in powers.items():
            dimensions[name] += sign * power
    for plain in ("", "x", "1"):
        del things[plain]
    things["wavefront"] += things.pop("conflict", 0)  # a bank conflict is one more wavefront
    return UnitValue(number * scale, _powers(dimensions), _powers(things))


def _powers(found: Mapping[str, int]) -> Powers:
    return tuple(sorted((name, power) for name, power in found.items() if power))


def bare(number: float) -> UnitValue:
    """Raises ValueProblem for numbers that no report can contain."""
    return checked(UnitValue(number, is_bare=True))


def add(one: UnitValue, other: UnitValue, sign: int = 1) -> UnitValue:
    if sign < 0 and one.is_bare and one.number == 1 and other.is_percent:
        one = value_of(100, "%")  # the 1 in `1 - hit_rate` is 100 %, not 1 %
    one, other = same_things(one, other)
    kept = one if one.has_dimension or one.things or one.is_percent else other
    return checked(
        kept._replace(number=one.number + sign * other.number, is_bare=_bare(one, other))
    )


def same_things(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Raises ValueProblem if the values count different things."""
    if one.things and other.things and one.things != other.things:
        raise ValueProblem(f"{unit_name(one)} and {unit_name(other)} are different units")
    return alike(one, other)


def multiply(one: UnitValue, other: UnitValue) -> UnitValue:
    return _product(one, other, 1)


def divide(one: UnitValue, other: UnitValue) -> UnitValue:
    if not other.number:
        raise ValueProblem("it divides by zero")
    return _product(one, other, -1)


def power(one: UnitValue, other: UnitValue) -> UnitValue:
    if other.has_dimension or one.has_dimension or one.is_percent:
        raise ValueProblem("only plain numbers are raised to a power")
    try:
        raised = one.number**other.number
    except (OverflowError, ZeroDivisionError):
        raise ValueProblem("it is too large") from None
    if isinstance(raised, complex):
        raise ValueProblem("it is not a real number")
    return checked(UnitValue(raised, is_bare=_bare(one, other)))


def alike(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Both in the same unit. A number without a unit takes the other's unit, except for bytes and
    time, where that would be a guess."""
    if one.is_bare and other.is_percent:
        return one._replace(number=one.number / 100, is_percent=True), other
    if other.is_bare and one.is_percent:
        return one, other._replace(number=other.number / 100, is_percent=True)
    shares = one.is_percent != other.is_percent and (one.things or other.things)
    if one.dimensions != other.dimensions or shares:
        raise ValueProblem(
            f"{unit_name(one)} and {unit_name(other)} are different units{_unit_hint(one, other)}"
        )
    return one, other


def _unit_hint(one: UnitValue, other: UnitValue) -> str:
    if not (one.is_bare or other.is_bare):
        return ""
    want = unit_name(other if one.is_bare else one)
    examples = {"B": "4 B", "s": "5 us", "B/s": "2 GB/s"}
    return f"; give the number a unit, as in {examples[want]}" if want in examples else ""


def _product(one: UnitValue, other: UnitValue, sign: int) -> UnitValue:
    dimensions = _combined(one.dimensions, other.dimensions, sign)
    if any(abs(degree) > _DEGREE for _, degree in dimensions):
        raise ValueProblem("its unit makes no sense")
    things = _combined(one.things, other.things, sign)
    if sign > 0 and one.has_dimension != other.has_dimension:
        # Sectors times bytes are bytes: the bytes are per sector.
        counted, amount = (other, one) if one.has_dimension else (one, other)
        things = things if amount.things else _combined(things, _over(counted.things), -1)
    number = one.number * other.number if sign > 0 else one.number / other.number
    percent = not (dimensions or things) and _is_share(one, other, sign)
    return checked(UnitValue(number, dimensions, things, percent, _bare(one, other)))


def _is_share(one: UnitValue, other: UnitValue, sign: int) -> bool:
    """Twice a share, half a share and a share of a share are shares."""
    return (one.is_percent and (sign > 0 or not other.is_percent)) or (
        sign > 0 and other.is_percent and not one.is_percent
    )


def _combined(one: Powers, other: Powers, sign: int) -> Powers:
    found = Counter(dict(one))
    for name, degree in other:
        found[name] += sign * degree
    return _powers(found)


def _bare(one: UnitValue, other: UnitValue) -> bool:
    return one.is_bare and other.is_bare


def checked(value: UnitValue) -> UnitValue:
    if not math.isfinite(value.number) or abs(value.number) > _LARGEST:
        raise ValueProblem("it is too large")
    return value


# --- as text


def unit_name(value: UnitValue) -> str:
    """`B/s`, `%`, `sector`; `a plain number` for none."""
    if value.is_percent:
        return "%"
    unit = _unit(value)
    return symbol(base_unit(unit) if unit == "hz" else unit) if unit else "a plain number"


def value_text(value: UnitValue) -> str:
    """`537 MB`, `82.0%`, `31.4 sector/request`."""
    if value.is_percent:
        return f"{_digits(100 * value.number, 1)}%"
    unit = _unit(value)
    if not unit:
        return format_number(round(value.number, 6))
    return str(Quantity(value.number, unit).to_base())


def _digits(number: float, places: int) -> str:
    if number and abs(number) < 0.05:
        return format_number(number)
    return f"{number:,.{places}f}"


def _unit(value: UnitValue) -> str:
    """As keet writes units: numerator first, one slash per divisor. Empty for a plain number."""
    if dict(value.dimensions) == {"cycle": 1, "s": -1} and not value.things:
        return "hz"
    over, under = _split(value.dimensions)
    counted, per = _split(value.things)
    # Sectors times bytes per sector are bytes: counted things are printed only without a unit.
    over = over or (counted if len(counted) == 1 else [])
    per = per if len(per) == 1 else []  # `B/block/thread` would be read as bytes of a block
    if not over and not value.dimensions:
        return ""
    return "/".join(["*".join(over) or "1", *under, *per])


def _over(powers: Powers) -> Powers:
    return tuple((name, degree) for name, degree in powers if degree > 0)


def _split(powers: Powers) -> tuple[list[str], list[str]]:
    over = [name for name, degree in powers for _ in range(degree)]
    return over, [name for name, degree in powers for _ in range(-degree)]
