"""Source lines, as the places of a cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LeadingLines(NamedTuple):
    """The lines to list first for a finding, as the machine code shows them.

    Samples show where warps wait. The line to change is often another one: the load that is waited
    for, the conversion to double, the loop whose trip count differs between warps.
    """

    of: str
    """What the costs are shares of."""
    costs: Iterable[tuple[int, int]]
    """Positions of instructions in the code, each with its cost."""
