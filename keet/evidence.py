"""Numbers that may be said: measured in a report, or computed from such, each with its source.

Text is written with evidence objects (`f"{share} of peak"`), never with bare numbers, so that what
is printed can be traced and checked.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from keet.formatting import percent_text
from keet.records import NamedTuple
from keet.units import Number, Quantity

MEASURED_SPEEDUPS = ("time before over time after", "time after over time before")
"""Labels of what two reports show: such a factor is no forecast."""


@lru_cache(maxsize=4096)  # bounded, as names with an address in them never end
def slug_of(name: str) -> str:
    """A name as ids have it: `left.DRAM` is `left_dram`. A minus sign is kept as a word, and a
    letter comes first."""
    plain = re.sub(r"(?<![A-Za-z0-9])-(?=[0-9])", "minus ", name)
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_").lower()
    return slug if slug[:1].isalpha() else f"n_{slug}"


class Evidence(NamedTuple):
    """One number of one launch."""

    id: str
    """What a text cites: the metric, the source line if it belongs to one, and behind `#` the
    launch: `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. Of several launches: `#run`. Where
    several reports are looked at, the launch has the report before it: `#before.3`, `#1.3`."""
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

    @property
    def slug(self) -> str:
        """The id without the launch."""
        return self.id.partition("#")[0]

    def __str__(self) -> str:
        return str(Quantity(self.value, self.unit))

    def __format__(self, spec: str) -> str:
        """As people read it; `.0f` and the like set the digits, the unit stays."""
        if not spec:
            return str(self)
        if self.unit == "%":
            return percent_text(self.value, int(spec[1:-1]))
        return f"{_rounded(self.value, spec)} {self.unit}".rstrip()


_ENOUGH = 100
"""From here on, tenths are false precision."""


def _rounded(value: Number, spec: str) -> str:
    """An amount that is not zero is not written as 0."""
    if spec == ".1f" and abs(value) >= _ENOUGH:
        return format(value, ",.0f")
    written = format(value, spec)
    if value > _NOTHING and not written.strip("0."):
        return format(value, f".{-math.floor(math.log10(value))}f")
    return written


_NOTHING = 1e-4
"""Less is as good as nothing."""
