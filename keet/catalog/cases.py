"""The index of the casebook: measured pairs of kernels, before and after one fix (or several).

Profiles and programs of the cases are in keet's repository; the index ships with keet. It is
written from what was measured by `make casebook-import`, never by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from keet.records import NamedTuple

_INDEX = Path(__file__).with_name("cases.json")


class CaseStep(NamedTuple):
    """One of several causes, fixed alone."""

    finding: str
    after_us: float
    speedup: float
    why: str


class MovedCounter(NamedTuple):
    """The counter that shows that `after` lacks the cause."""

    metric: str
    before: float | None
    after: float | None


class CaseEntry(NamedTuple):
    """One measured pair."""

    id: str
    family: str
    split: str
    """`work`, or `locked`: rules are never fitted on locked families."""
    finding: str
    """The dominant cause; of a look-alike what it resembles."""
    lookalike: bool
    """The symptom is there, and removing it gains less than a tenth."""
    also: tuple[str, ...]
    accept: tuple[str, ...]
    archetype: str
    severity: str
    speedup: float
    before_us: float
    after_us: float
    spread_pct: float
    """Tenth to ninetieth percentile of the launches over their median; the larger of the sides."""
    hidden: bool
    """The kernel's source does not show the cause."""
    start_share_of_roofline: float
    """The least time that the needed work takes at the GPU's peaks, over the time of `before`."""
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
    """The judged kernel before the fix."""
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
    return tuple(_entry(row, document["diffs"]) for row in document["cases"])


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
