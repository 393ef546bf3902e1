"""Judges whether the points of a sweep do the same work, and which counter measures it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from keet.corpus.insights.points import Point
from keet.documents.insights import Work

_SAME = 1.15
"""Largest ratio at which a counter counts as unchanged."""
_GROWN = 1.3
"""Smallest ratio at which it counts as another problem."""
_SLOPE = (0.75, 1.35)
"""Range of slopes at which instructions are proportional to the knob, which is then a size."""
_SEEN = 0.01
"""Bytes stored over bytes moved; below that, the result says nothing about the problem size."""

Counter = Callable[[Point], float | None]


class WorkJudgement(NamedTuple):
    work: Work
    counter: str | None
    """The counter that measures the work, if it varies."""


def judge_work(points: Sequence[Point], knob: Sequence[float] | None) -> WorkJudgement:
    """`knob`: its values if they are numbers."""
    known = {name: values for name, f in _COUNTERS.items() if (values := _all(points, f))}
    if knob and "inst_executed_total" in known:
        slope = _slope(knob, known["inst_executed_total"])
        if slope is not None and _SLOPE[0] <= slope <= _SLOPE[1]:
            return WorkJudgement("varies", "inst_executed_total")
    if not known:
        return WorkJudgement("unknown", None)
    spans = {name: max(values) / min(values) for name, values in known.items()}
    if any(span <= _SAME for span in spans.values()):
        return WorkJudgement("same", None)
    if all(span >= _GROWN for span in spans.values()) and _agree(list(known.values())):
        return WorkJudgement("varies", next(iter(known)))
    return WorkJudgement("unknown", None)


def unchanged_work(points: Sequence[Point]) -> list[str]:
    """Names of the counters of work that are about the same at all points."""
    known = {name: values for name, f in _COUNTERS.items() if (values := _all(points, f))}
    return [_NAMES[name] for name, each in known.items() if max(each) / min(each) <= _SAME]


def work_of(point: Point, counter: str) -> float | None:
    return _COUNTERS[counter](point)


def _instructions(point: Point) -> float | None:
    return point.number("inst_executed_total")


def _dram_bytes(point: Point) -> float | None:
    read, written = point.number("dram_bytes_read"), point.number("dram_bytes_written")
    return None if read is None or written is None else read + written


def _stored_bytes(point: Point) -> float | None:
    """Bytes that the kernel stores; None if they are few compared with the bytes it moves."""
    sectors = point.number("global_store_sectors")
    each, moved = point.number("global_store_bytes_per_sector"), _dram_bytes(point)
    if sectors is None or each is None or moved is None:
        return None
    return sectors * each if sectors * each >= _SEEN * moved else None


_COUNTERS: dict[str, Counter] = {
    "inst_executed_total": _instructions,
    "dram_bytes": _dram_bytes,
    "stored_bytes": _stored_bytes,
}


_NAMES = {
    "inst_executed_total": "executed instructions",
    "dram_bytes": "DRAM bytes",
    "stored_bytes": "stored bytes",
}


def _all(points: Sequence[Point], counter: Counter) -> list[float]:
    """Empty if a point lacks the counter."""
    values = [counter(point) for point in points]
    return [v for v in values if v] if all(v is not None and v > 0 for v in values) else []


def _agree(series: list[list[float]]) -> bool:
    """All counters rise and fall together."""
    orders = [sorted(range(len(values)), key=values.__getitem__) for values in series]
    return all(order == orders[0] for order in orders)


def _slope(knob: Sequence[float], values: Sequence[float]) -> float | None:
    """Least-squares slope of ln(value) over ln(knob); None if the correlation is low."""
    if min(knob) <= 0:
        return None
    pairs = [(math.log(k), math.log(v)) for k, v in zip(knob, values)]
    mean_k = sum(k for k, _ in pairs) / len(pairs)
    mean_v = sum(v for _, v in pairs) / len(pairs)
    spread = sum((k - mean_k) ** 2 for k, _ in pairs)
    slope = sum((k - mean_k) * (v - mean_v) for k, v in pairs) / spread if spread else 0.0
    rest = sum((v - mean_v - slope * (k - mean_k)) ** 2 for k, v in pairs)
    total = sum((v - mean_v) ** 2 for _, v in pairs)
    return slope if total and 1 - rest / total > 0.95 else None
