"""The index of the casebook: measured pairs of kernels, before and after one or several fixes.

Profiles and programs of the cases are in keet's repository; the index ships with keet. `make
casebook-import` writes it from measurements, never by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_INDEX = Path(__file__).with_name("cases.json")


class CaseStep(NamedTuple):
    """One of several causes, fixed alone."""

    finding: str
    after_us: float
    speedup: float
    why: str


class MovedCounter(NamedTuple):
    """The counter that shows that `after` does not have the cause."""

    metric: str
    before: float | None
    after: float | None


class CaseEntry(NamedTuple):
    """One measured pair."""

    id: str
    family: str
    split: str
    """`work`, `locked` or `opened` (locked before): rules are fitted on work families alone."""
    finding: str
    """The dominant cause; for a look-alike, the finding that it resembles."""
    lookalike: bool
    """A look-alike: the symptom is present, but removing it gains less than 10 %."""
    also: tuple[str, ...]
    accept: tuple[str, ...]
    archetype: str
    severity: str
    speedup: float
    before_us: float
    after_us: float
    spread_pct: float
    """Spread of the durations: tenth to ninetieth percentile over the median; the larger of both
    sides."""
    hidden: bool
    """Whether the kernel's source does not show the cause."""
    start_share_of_roofline: float
    """Least time of the needed work at the GPU's peaks, over the time of `before`."""
    gpu: str
    driver: str
    cuda: str
    ncu: str
    date: str
    launches: int
    seeds: tuple[int, ...]
    language: str
    title: str
    problem: str
    why: str
    fix: str
    kernel: str
    """The kernel before the fix, which keet is judged on."""
    kernel_after: str
    file: str
    lines: tuple[int, ...]
    moved: MovedCounter
    steps: tuple[CaseStep, ...]
    counters: Mapping[str, tuple[float | None, float | None]]
    """By catalog id: before and after."""
    profiles: tuple[str, str]
    """Paths in the repository."""
    diff: str


@cache
def casebook() -> tuple[CaseEntry, ...]:
    document = json.loads(_INDEX.read_text(encoding="utf-8"))
    usual = document["usual"]
    return tuple(_entry(usual | row, document["diffs"]) for row in document["cases"])


def _entry(row: dict[str, Any], diffs: Mapping[str, str]) -> CaseEntry:
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return CaseEntry(
        **row
        | lists
        | {
            "diff": diffs[row["diff"]],
            "moved": MovedCounter(**row["moved"]),
            "steps": tuple(CaseStep(**step) for step in row["steps"]),
            "counters": {name: (pair[0], pair[1]) for name, pair in row["counters"].items()},
        }
    )
