"""Units: parsing, conversion and formatting of numbers with units, only here.

Nsight Compute spells a unit in several ways (`nsecond` and `ns`, `cycle/second` and `hz`,
`sectors` and `sector`) and scales some values when it prints them (`Gbyte/s`, `Kbyte/block`; K is
1000). keet converts every input to one spelling and to the base units below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from keet.errors import UsageError

Number = int | float

_PREFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "K": 3, "M": 6, "G": 9, "T": 12}
"""Powers of ten, as integers so that a round trip is exact."""

_COUNTED_THINGS = "sector inst thread warp block cycle request register sample"
_SPELLINGS = {
    **{f"{thing}s": thing for thing in _COUNTED_THINGS.split()},
    "second": "s",
    "sec": "s",
    "nsecond": "ns",
    "usecond": "us",
    "msecond": "ms",
    "B": "byte",
    "bytes": "byte",
    "Hz": "hz",
    "kHz": "Khz",
    "khz": "Khz",
    "MHz": "Mhz",
    "GHz": "Ghz",
    "kB": "Kbyte",
    "KB": "Kbyte",
    "MB": "Mbyte",
    "GB": "Gbyte",
    "TB": "Tbyte",
    "branches": "branch",
    "instruction": "inst",
    "instructions": "inst",
    "percent": "%",
}
"""Other spellings of a unit or a part of one; prefixes are parsed after this replacement."""

_SCALED = {"s", "hz", "byte", "bit", "flop", "op"}
"""The only units that have prefixes."""


class UnitMismatch(UsageError, ValueError):
    """Two units of different kinds, such as bytes and sectors."""

    def __init__(self, have: str, want: str) -> None:
        super().__init__(f"the unit {have!r} can't be converted to {want!r}")


@dataclass(frozen=True, slots=True)
class Unit:
    """A parsed unit: its kind, and the power of ten that it is scaled by."""

    kind: str
    power: int


def _parse_part(text: str) -> Unit:
    text = _SPELLINGS.get(text, text)
    for name in _SCALED:
        prefix = text.removesuffix(name)
        if prefix != text and prefix in _PREFIXES:
            return Unit(name, _PREFIXES[prefix])
    return Unit(text, 0)


@cache
def parse_unit(text: str) -> Unit:
    """Parse `Gbyte/s` into its kind (`byte/s`) and its power of ten (9)."""
    parts = [_parse_part(part.strip()) for part in text.strip().split("/")]
    power = parts[0].power - sum(part.power for part in parts[1:])
    kind = "/".join(part.kind for part in parts)
    return Unit("hz" if kind == "cycle/s" else kind, power)


def _rescale(value: Number, power: int) -> Number:
    if power == 0:
        return value
    return value * float(10**power) if power > 0 else value / float(10**-power)


def base_unit(text: str) -> str:
    """The base unit of a unit's kind, which reports use: `byte/s` for `Gbyte/s`, `ns` for `s`."""
    kind = parse_unit(text).kind
    return "ns" if kind == "s" else kind


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit. `str()` is for display, `value` and `unit` are for computing."""

    value: Number
    unit: str

    def to(self, unit: str) -> Quantity:
        """The same amount in another unit of the same kind. Raises UnitMismatch."""
        have, want = parse_unit(self.unit), parse_unit(unit)
        if have.kind != want.kind:
            raise UnitMismatch(self.unit, unit)
        return Quantity(_rescale(self.value, have.power - want.power), unit)

    def to_base(self) -> Quantity:
        return self.to(base_unit(self.unit))

    def __str__(self) -> str:
        number, unit = self.parts()
        return f"{number}%" if unit == "%" else f"{number} {unit}".rstrip()

    def parts(self) -> tuple[str, str]:
        """The number and the unit for display: `69.9`, `us`."""
        value, unit = _scaled(self.value, self.unit)
        return format_number(value), symbol(unit)

    def scaled_unit(self) -> str:
        """The unit with the prefix that leaves one to three digits before the point."""
        return _scaled(self.value, self.unit)[1]


def _scaled(value: Number, unit: str) -> tuple[Number, str]:
    steps = _steps_of(unit)
    if not steps or not math.isfinite(value) or value == 0:
        return value, unit
    first, power = steps[0]
    best, written = first, _rescale(value, power)
    for step, power in steps[1:]:
        # 999.95 would be rounded to 1000: use the next prefix instead.
        if abs(written) < 999.5:
            break
        best, written = step, _rescale(value, power)
    return written, best


@cache
def _steps_of(unit: str) -> tuple[tuple[str, int], ...]:
    """The unit with each of its prefixes, and the power of ten of the conversion; empty for a unit
    that is printed unscaled."""
    head, slash, rest = unit.partition("/")
    kind = parse_unit(head).kind
    if kind in _COUNTED and rest not in ("", "s"):
        return ()  # flop/cycle and flop/byte are customary without a prefix: 33,792 flop/cycle
    if unit != base_unit(unit):
        return ()  # the caller chose this unit
    units = [step + slash + rest for step in _STEPS.get(kind, ())]
    return tuple((each, parse_unit(unit).power - parse_unit(each).power) for each in units)


_STEPS = {
    "s": ("ns", "us", "ms", "s"),
    "hz": ("hz", "Khz", "Mhz", "Ghz"),
    "byte": ("byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte"),
    "flop": ("flop", "Kflop", "Mflop", "Gflop", "Tflop"),
    "op": ("op", "Kop", "Mop", "Gop", "Top"),
}
_COUNTED = ("flop", "op")
"""Scaled as amounts and as rates per second, but not in other quotients."""
_WRITTEN = {
    "register": "reg",
    "byte": "B",
    "Kbyte": "kB",
    "Mbyte": "MB",
    "Gbyte": "GB",
    "Tbyte": "TB",
    "hz": "Hz",
    "Khz": "kHz",
    "Mhz": "MHz",
    "Ghz": "GHz",
    "Kflop": "kFLOP",
    "Mflop": "MFLOP",
    "Gflop": "GFLOP",
    "Tflop": "TFLOP",
    "Kop": "kop",
    "Gop": "GOP",
    "Top": "TOP",
}


@cache
def symbol(unit: str) -> str:
    """The usual symbol of a unit: `GB/s` for `Gbyte/s`."""
    head, slash, rest = unit.partition("/")
    return _WRITTEN.get(head, head) + slash + rest


def format_number(value: Number) -> str:
    """Integers without decimals, other numbers with about three significant digits."""
    if isinstance(value, float) and not math.isfinite(value):
        return "n/a" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    size = abs(value)
    if size >= 1e20:
        return f"{value:.2e}"
    if size >= 1000 or (value == int(value) and size < 1e15):
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return _small(value)


def _small(value: float) -> str:
    """Three significant digits below one, without an exponent down to a millionth."""
    if abs(value) < 1e-6:
        return f"{value:.2e}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}"
