"""Options of ncu, and a remedy that consists of some."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

OF_CODE = "SourceCounters"
"""The section with counters per instruction, which ncu can't collect for ranges and graphs."""


class NcuOption(NamedTuple):
    name: str
    value: str = ""
    between: str = " "
    """The name and the value, as a command line has them."""

    @property
    def text(self) -> str:
        return f"{self.name}{self.between}{self.value}"


class ProfileAgain(str):
    """Options with which ncu collects what is missing; as a `str`, what a reader is told."""

    options: tuple[NcuOption, ...]

    def __new__(cls, *options: NcuOption) -> Self:
        told = super().__new__(cls, f"profile again with: ncu {' '.join(o.text for o in options)}")
        told.options = options
        return told

    def __reduce__(self) -> tuple[Any, ...]:
        return ProfileAgain, self.options


SECTION_OF_CODE = NcuOption("--section", OF_CODE)
IMPORT_SOURCE = NcuOption("--import-source", "yes")
