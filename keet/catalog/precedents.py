"""What fixing a finding gained in the measured cases of the casebook, summed up per finding.

The summary is a file of its own, so that an explanation need not load the index of all cases.
`make casebook-import` writes both, and a test fails when they differ.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from keet.records import NamedTuple

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
    """Cases that look like it, where the same fix gained less than 10 %; not in the others."""


@cache
def precedents() -> Mapping[str, Precedents]:
    """By finding; those without a measured gain are not there."""
    rows = json.loads(PRECEDENTS.read_text(encoding="utf-8"))
    return {finding: Precedents(**row) for finding, row in rows.items()}


def precedents_text(entries: Iterable[CaseEntry]) -> str:
    """The file, from the index of the casebook."""
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
    """Of the cause alone, where the case has several."""
    alone = (step.speedup for step in entry.steps if step.finding == entry.finding)
    return next(alone, entry.speedup)


def _row(gains: list[float], lookalikes: int) -> dict[str, float]:
    from statistics import median

    summed_up = Precedents(len(gains), min(gains), median(gains), max(gains), lookalikes)
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in summed_up._asdict().items()
    }
