"""The type `Evidence`: a number measured in a report, or computed from such, with its source.

Texts are written with evidence (`Sentence("{share} of peak", share=share)`), never with bare
numbers, so that every printed number can be traced and checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.formatting import (
    count_text,
    percent_cell,
    percent_text,
    speedup_text,
    time_share_text,
    times_text,
)
from keet.units import Number, Quantity

MEASURED_SPEEDUPS = ("time before over time after", "time after over time before")
"""Labels of speed-ups measured with two reports, as opposed to forecasts."""


@lru_cache(maxsize=4096)
def slug_of(name: str) -> str:
    """A name in the form of ids: `left.DRAM` becomes `left_dram`. A minus sign becomes a word, and
    the first character is a letter."""
    plain = re.sub(r"(?<![A-Za-z0-9])-(?=[0-9])", "minus ", name)
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_").lower()
    return slug if slug[:1].isalpha() else f"n_{slug}"


Confidence = Literal["high", "medium", "low"]
"""How certain a conclusion from evidence is."""


class Evidence(NamedTuple):
    """One number of one launch."""

    id: str
    """How texts refer to it: the metric, the source line if it belongs to one, and after `#` the
    launch: `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. For several launches: `#run`. With
    several reports, the report precedes the launch: `#before.3`, `#1.3`. Empty for constants."""
    metric: str
    """ncu's name of the metric, or keet's own name for a computed number."""
    value: Number
    unit: str
    label: str
    """Name for display."""
    line: str | None = None
    """`file.cu:31` if the number belongs to one source line."""
    derived_from: tuple[str, ...] | None = None
    """Ids of the evidence that it was computed from."""

    @property
    def slug(self) -> str:
        """The id without the launch."""
        return self.id.partition("#")[0]

    def __str__(self) -> str:
        return str(Quantity(self.value, self.unit))

    def __format__(self, spec: str) -> str:
        """For display. A spec such as `.0f` sets the digits; the unit is always added. `base`: in
        the unit that a person would choose. `number`: without the unit. `cell`, `count`, `share`,
        `speedup`, `times`: see `keet.formatting`."""
        if not spec:
            return str(self)
        if spec in _FORMS:
            return _FORMS[spec](self.value)
        quantity = Quantity(self.value, self.unit)
        if spec in ("number", "base"):
            return quantity.parts()[0] if spec == "number" else str(quantity.to_base())
        if self.unit == "%" and spec.endswith("g"):
            return f"{self.value:{spec}}%"
        if self.unit == "%":
            return percent_text(self.value, int(spec.removeprefix(",")[1:-1]))
        return f"{_rounded(self.value, spec)} {self.unit}".rstrip()


def of_quantity(quantity: Quantity, label: str) -> Evidence:
    """A quantity of a document, to be printed in a sentence."""
    return constant(quantity.value, quantity.unit, label)


def constant(value: Number, unit: str, label: str) -> Evidence:
    """A number that no report measures (a constant of the source or of an architecture), or a count
    of a listing, whose document has no evidence. It has no id, and is in no ledger."""
    return Evidence("", slug_of(label), value, unit, label)


def report_number(name: str, value: Number, label: str, unit: str = "") -> Evidence:
    """A number of the whole report, such as how many launches it has."""
    return Evidence(f"{name}#run", name, value, unit, label)


def finite(number: Evidence | None) -> float | None:
    """Its value; None for one that JSON does not have."""
    return float(number.value) if number and math.isfinite(number.value) else None


_FORMS: Mapping[str, Callable[[float], str]] = {
    "cell": percent_cell,
    "count": count_text,
    "share": time_share_text,
    "speedup": speedup_text,
    "times": times_text,
}
_ENOUGH = 100
"""From this value on, tenths are false precision."""


def _rounded(value: Number, spec: str) -> str:
    """An amount that is not zero is not written as 0."""
    if spec == ".1f" and abs(value) >= _ENOUGH:
        return format(value, ",.0f")
    written = format(value, spec)
    if value > _NEGLIGIBLE and not written.strip("0."):
        return format(value, f".{-math.floor(math.log10(value))}f")
    return written


_NEGLIGIBLE = 1e-4
"""Numbers up to this may be written as 0."""
