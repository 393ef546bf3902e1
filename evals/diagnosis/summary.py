"""Summarises the scores of all samples, with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.bootstrap import Interval, Paired, alone, paired
from evals.diagnosis.answers import Unscored
from evals.diagnosis.scoring import HealthyRow, Row


@dataclass(frozen=True, slots=True)
class Share:
    """A number out of a total."""

    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}"


@dataclass(frozen=True, slots=True)
class Hits:
    """How often the cause was found in a group of samples."""

    samples: int
    top1: Paired
    top1_global: Paired
    """Compared with NVIDIA's global estimates only."""
    top3: Paired
    top3_global: Paired
    located: Interval


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over samples."""

    hits: Hits
    by_difficulty: dict[str, Hits]
    nvidia_first_means: float
    """Number of findings that NVIDIA's first rank can mean; keet's means one."""
    without_places: tuple[str, ...]
    beside: Interval
    """Findings per sample that were not planted."""
    false_alarms: Paired | None
    healthy_named: Share
    still_raised: Share
    """Fast variants that still raise the fixed cause."""
    left_named: Share
    unscored: tuple[Unscored, ...] = ()


def summarise(
    rows: Sequence[Row], healthy: Sequence[HealthyRow], unscored: Iterable[Unscored] = ()
) -> Summary:
    _check_once([row.sample for row in rows])
    _check_once([(row.sample, row.variant) for row in healthy])
    left = [named for row in rows for _, named in row.left_named]
    return Summary(
        hits=hits_of(rows),
        by_difficulty=_by_difficulty(rows),
        nvidia_first_means=statistics.mean(row.nvidia_first_means for row in rows),
        without_places=tuple(row.sample for row in rows if not row.places),
        beside=alone([[float(row.beside)] for row in rows]),
        false_alarms=_alarms(healthy),
        healthy_named=Share(sum(row.named for row in healthy), len(healthy)),
        still_raised=Share(sum(bool(row.still_raised) for row in rows), len(rows)),
        left_named=Share(sum(left), len(left)),
        unscored=tuple(unscored),
    )


def threshold_values(summary: Summary) -> dict[str, float]:
    hits, alarms = summary.hits, summary.false_alarms
    return {
        "top-1": hits.top1.keet.mean,
        "top-3": hits.top3.keet.mean,
        "top-1 less NVIDIA's": hits.top1_global.difference.mean,
        "located": hits.located.mean,
        "false alarms": alarms.keet.mean if alarms else math.inf,
        "still raised on fast": float(summary.still_raised.count),
        "unscored": float(len(summary.unscored)),
    }


def hits_of(rows: Sequence[Row]) -> Hits:
    return Hits(
        len(rows),
        top1=_hits(rows, 1, lambda row: row.nvidia_rank),
        top1_global=_hits(rows, 1, lambda row: row.nvidia_global_rank),
        top3=_hits(rows, 3, lambda row: row.nvidia_rank),
        top3_global=_hits(rows, 3, lambda row: row.nvidia_global_rank),
        located=alone([[float(row.located)] for row in rows]),
    )


def _check_once(keys: Sequence[Hashable]) -> None:
    """Raises if a sample is scored twice: it would count twice and make intervals too narrow."""
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"{twice} is scored twice; score each sample once")


def _by_difficulty(rows: Sequence[Row]) -> dict[str, Hits]:
    kinds = sorted({row.difficulty for row in rows if row.difficulty})
    return {kind: hits_of([row for row in rows if row.difficulty == kind]) for kind in kinds}


def _hits(rows: Sequence[Row], most: int, theirs: Callable[[Row], int | None]) -> Paired:
    return paired([[(_within(row.rank, most), _within(theirs(row), most))] for row in rows])


def _within(rank: int | None, most: int) -> float:
    return float(rank is not None and rank <= most)


def _alarms(healthy: Sequence[HealthyRow]) -> Paired | None:
    ordered = sorted(healthy, key=lambda row: row.sample)
    samples = [list(group) for _, group in groupby(ordered, lambda row: row.sample)]
    alarms = [[(float(bool(r.raised)), float(r.nvidia_alarm)) for r in rows] for rows in samples]
    return paired(alarms) if alarms else None
