"""What fixing a finding gained in the casebook's measured cases, summarised per finding.

The summary is a separate file, so that an explanation does not load the index of all cases. `make
casebook-import` writes both, and a test fails if they differ.
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
