"""A source line, as the place of a cause."""

from __future__ import annotations

from keet.profile.names import file_name
from keet.records import NamedTuple


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
