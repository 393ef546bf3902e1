"""Source lines, as the places of a cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from keet.profile.names import file_name


class Place(NamedTuple):
    """A source line, and its share of a finding's effect."""

    file: str
    line: int
    share: float
    """0 to 1."""
    of: str
    """The base of the share: all `excess sectors`, all `samples`; code without lines included."""
    unplaced: float = 0.0
    """0 to 1: the share of the same effect that has no source line."""

    @property
    def where(self) -> str:
        """`file.cu:31`, without the folders of the machine that compiled it."""
        return f"{file_name(self.file)}:{self.line}"


class LeadingLines(NamedTuple):
    """The lines to list first for a finding, as the machine code shows them.

    Samples show where warps wait. The line to change is often another one: the load that is waited
    for, the conversion to double, the loop whose trip count differs between warps.
    """

    of: str
    """What the costs are shares of."""
    costs: Iterable[tuple[int, int]]
    """Positions of instructions in the code, each with its cost."""
