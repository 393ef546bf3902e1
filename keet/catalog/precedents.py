"""What fixing a finding gained in the casebook's measured cases, summarised per finding.

The summary is a separate file, so that an explanation does not load the index of all cases. `make
casebook-import` writes both, and a test fails if they differ.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from keet.catalog.cases import CaseEntry

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


def precedents_text(entries: Iterable[CaseEntry]) -> str:
    """The content of the file, from the index of the casebook."""
    gains: dict[str, list[float]] = defaultdict(list)
    lookalikes: dict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.lookalike:
            lookalikes[entry.finding] += 1
        else:
            gains[entry.finding].append(gain_of_cause(entry))
    rows = (
        f" {json.dumps(finding)}: {json.dumps(_row(gains[finding], lookalikes[finding]))}"
        for finding in sorted(gains)
    )
    return "{\n" + ",\n".join(rows) + "\n}\n"


def gain_of_cause(entry: CaseEntry) -> float:
    """The gain of this cause alone, if the case has several."""
    alone = (step.speedup for step in entry.steps if step.finding == entry.finding)
    return next(alone, entry.speedup)


def _row(gains: list[float], lookalikes: int) -> dict[str, float]:
    from statistics import median

    summed_up = Precedents(len(gains), min(gains), median(gains), max(gains), lookalikes)
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in summed_up._asdict().items()
    }
