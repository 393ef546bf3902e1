"""Numbers that may be said: measured in a report, or computed from such, each with its source.

Text is written with evidence objects (`f"{share} of peak"`), never with bare numbers, so that what
is printed can be traced and checked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from keet.units import Number, Quantity

CITED = re.compile(r"\bE\d+\b")
"""An id in a text."""
MEASURED_SPEEDUPS = ("time before over time after", "time after over time before")
"""Labels of what two reports show: such a factor is no forecast."""


class Evidence(NamedTuple):
    """One number of one launch."""

    id: str
    """`E3`: what a text cites."""
    metric: str
    """ncu's name of the metric, or a name of keet's own for what is computed."""
    value: Number
    unit: str
    label: str
    """What people call it."""
    line: str | None = None
    """`file.cu:31`, where the number belongs to one source line."""
    derived_from: tuple[str, ...] | None = None
    """Ids of the evidence that it was computed from."""

    def __str__(self) -> str:
        return str(Quantity(self.value, self.unit))

    def __format__(self, spec: str) -> str:
        """As people read it; `.0f` and the like set the digits, the unit stays."""
        if not spec:
            return str(self)
        number = format(self.value, spec)
        return f"{number}%" if self.unit == "%" else f"{number} {self.unit}".rstrip()
