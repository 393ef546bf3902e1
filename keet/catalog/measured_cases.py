"""The casebook in short: what fixing a finding gained, and what is needed to find the nearest case.

Separate files, so that an explanation does not load the index of all cases. `make casebook-import`
writes all of them, and a test fails if they differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

PRECEDENTS = Path(__file__).with_name("precedents.json")


class Precedents(NamedTuple):
    """Times faster, in the measured cases of one finding."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int
    """Number of look-alikes, where the same fix gained less than 10 %; not included in the
    others."""


@cache
def precedents() -> Mapping[str, Precedents]:
    """By finding; findings without a measured gain are missing."""
    rows = json.loads(PRECEDENTS.read_text(encoding="utf-8"))
    return {finding: Precedents(**row) for finding, row in rows.items()}


CASE_SUMMARIES = Path(__file__).with_name("case_summaries.json")


class CaseSummary(NamedTuple):
    """A measured case in short."""

    id: str
    finding: str
    archetype: str
    language: str
    """`cuda` or `triton`."""
    gain: float
    """Times faster, of this cause alone."""
    kernels: tuple[str, ...]
    """Names of the kernel before and after the fix."""
    changes: tuple[str, ...]
    """Two or three lines of the diff, each with its `-` or `+`."""

    @property
    def family(self) -> str:
        return self.id.partition("/")[0]


@cache
def case_summaries() -> tuple[CaseSummary, ...]:
    """Look-alikes are left out: they gained nothing."""
    rows = json.loads(CASE_SUMMARIES.read_text(encoding="utf-8"))
    return tuple(
        CaseSummary(id_, finding, archetype, language, gain, tuple(kernels), tuple(changes))
        for id_, finding, archetype, language, gain, kernels, changes in rows
    )
