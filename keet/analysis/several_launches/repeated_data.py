"""Kernels that are launched in turn, and how much data they move again in each turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.limits import NEGLIGIBLE
from keet.analysis.several_launches.launch_sets import LaunchSet, LaunchSets
from keet.analysis.several_launches.moved_data import MovedData
from keet.documents.amounts import Basis

_MOST_ROWS = 10
"""Kernels and shapes that are compared with each other: those with the most time."""
_LOOKED_AT = 5_000
"""Launches whose order is looked at."""


class DataSize(NamedTuple):
    """How much data launches move. All of it is read or written by each turn."""

    bytes: float
    basis: Basis
    by_names: bool
    """It counts arrays of several kernels once if they have the same name and size."""
    least: float
    """The largest amount that one of the kernels touches for certain."""


def data_size(data: Sequence[MovedData]) -> DataSize:
    """Of one launch of each kernel. Where arrays are not known, all bytes that it reads and writes
    count; they may be the same."""
    named: dict[tuple[str | None, float], float] = {}
    every = unknown = least = 0.0
    for each in data:
        sizes = [(array.name, array.bytes or 0.0) for array in each.arrays]
        if each.basis is None:
            unknown += float(each.moved.value) if each.moved else 0.0
        else:
            named |= {array: array[1] for array in sizes}
            every += sum(size for _, size in sizes)
        exact = sum(array.bytes or 0.0 for array in each.arrays if array.is_exact)
        least = max(least, exact)
    once = sum(named.values())
    found = {each.basis for each in data}
    basis: Basis = "estimate" if found <= {"exact", "estimate"} else "bound"
    if found == {"exact"} and len(data) == 1:
        basis = "exact"
    elif found == {"exact"}:
        basis = "bound"  # names are no proof, but more data than all arrays there is not
    return DataSize(once + unknown, basis, once < every, least)


def taking_turns(sets: LaunchSets, many: int) -> Iterator[tuple[LaunchSet, ...]]:
    """Kernels of one loop: between two launches of one there is one of the other. Kernels of two
    phases, one after the other, take no turns. Those that were not profiled count if they take
    time. `many`: launches of each at least."""
    rows: dict[int, LaunchSet] = {}
    for each in sets.sets:
        matters = each.profiled or sets.share([each]) >= 100 * NEGLIGIBLE
        if matters and each.launches >= many:
            rows.setdefault(each.row, each)
    chosen = list(rows)[:_MOST_ROWS]
    order = [row for row in sets.order[:_LOOKED_AT] if row in chosen]
    loops: list[set[int]] = []
    for at, one in enumerate(chosen):
        near = {one, *(other for other in chosen[:at] if _take_turns(order, one, other))}
        apart = [loop for loop in loops if not loop & near]
        loops = [*apart, near.union(*(loop for loop in loops if loop & near))]
    for loop in loops:
        if len(loop) > 1:
            # In the order in which they are launched first.
            yield tuple(rows[row] for row in dict.fromkeys(order) if row in loop)


def _take_turns(order: Sequence[int], one: int, other: int) -> bool:
    own = [row for row in order if row in (one, other)]
    turns = sum(a != b for a, b in pairwise(own))
    return turns >= min(own.count(one), own.count(other)) > 1
