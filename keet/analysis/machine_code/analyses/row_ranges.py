"""Arrays that are read range by range, where another array holds the ends of the ranges.

`for (k = start[i]; k < start[i + 1]; k++) sum += value[k]`: row i ends where row i + 1 begins. If
each row is read by one thread, or by the lanes of a group together, each byte of `value` is read
once. That rows do not overlap is a property of data: what follows from it is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from keet.analysis.machine_code.analyses.conditions import RunConditions
from keet.analysis.machine_code.analyses.reuse import Access
from keet.analysis.machine_code.flow.program import Locate, SassProgram
from keet.analysis.machine_code.polynomials.polynomial import Symbol, add

_OF_LOOPS = ("loop", "exit", "choice")


class Rows(NamedTuple):
    """What is known of the load of the first or last index of each row."""

    times: float
    """Threads that load the same one."""
    is_once: bool
    """Whether each is loaded by no more threads than these."""


class RowRanges:
    """The arrays of one kernel that are read in ranges."""

    def __init__(
        self,
        program: SassProgram,
        conditions: RunConditions,
        loads: Sequence[Access],
        locate: Locate,
        rows_of: Callable[[Access], Rows | None],
    ) -> None:
        """`loads`: all that ran. `rows_of`: how often each element is loaded by one of them."""
        self.program = program
        self.conditions = conditions
        self.loads = {load.position: load for load in loads if load.kind == "load"}
        self.locate = locate
        self.rows_of = rows_of

    def bytes_of(self, accesses: Sequence[Access]) -> float | None:
        """Distinct bytes of an array's accesses, if no two rows overlap; None if it is not read in
        rows, or perhaps in several passes."""
        starts = {self._start(access) for access in accesses}
        places = {self.locate(access.position) for access in accesses}
        if len(starts) != 1 or len(places) != 1 or None in starts | places:
            return None
        start = starts.pop()
        assert start is not None
        load = self.loads.get(_position(start))
        rows = self.rows_of(load) if load is not None else None
        if load is None or rows is None or not rows.is_once:
            return None
        if not all(self._is_in_row(access, start, load) for access in accesses):
            return None
        shares = {self._share(access, start, rows.times) for access in accesses}
        share = shares.pop()
        if shares or share is None:
            return None
        return sum(access.requested_bytes or 0 for access in accesses) / share

    def _start(self, access: Access) -> Symbol | None:
        """The loaded number that an address begins with."""
        loaded = [p for p in access.offset.terms if any("data" in symbol.depends for symbol in p)]
        if len(loaded) != 1 or len(loaded[0]) != 1 or "@" not in loaded[0][0].name:
            return None
        return loaded[0][0] if access.offset.terms[loaded[0]] >= access.width else None

    def _is_in_row(self, access: Access, start: Symbol, load: Access) -> bool:
        """Whether it runs only between a row's first and last index, once for each."""
        flow = self.program.flow
        around = [
            flow.loops_around(flow.block_of[accessed.position]) for accessed in (access, load)
        ]
        inner = [loop.index for loop in around[0]]
        outer = [loop.index for loop in around[1]]
        if inner != outer and inner[1:] != outer:
            return False  # a loop around the row: it is read again and again
        comparisons = self.conditions.of(access.position).known
        return any(
            self._is_next(other, load)
            for comparison in comparisons
            if (start,) in comparison.left.terms
            for other in comparison.left.symbols
            if other is not start
            and comparison.left.terms.get((other,), 0) == -comparison.left.terms[start,]
        )

    def _is_next(self, end: Symbol, load: Access) -> bool:
        """Whether it is loaded from the element after that of another load."""
        other = self.loads.get(_position(end))
        return (
            other is not None
            and other.pointer == load.pointer
            and add(other.offset, load.offset, -1).value == load.width
        )

    def _share(self, access: Access, start: Symbol, times: float) -> float | None:
        """How many threads load each element of a row: all that share the row, or one of them."""
        lanes: list[tuple[Symbol, int]] = []
        steps: list[int] = []
        for product, factor in access.offset.terms.items():
            varying = [symbol for symbol in product if not symbol.is_uniform]
            if not varying or varying == [start]:
                continue
            if all(symbol.kind in _OF_LOOPS for symbol in varying):
                steps.append(abs(factor))
            elif len(product) == 1:
                lanes.append((product[0], factor))
            else:
                return None
        element = access.offset.terms[start,]
        step = math.gcd(*steps) if steps else element * times
        if not lanes:
            return times if step % element == 0 else None
        symbol, factor = lanes[0]
        fills = len(lanes) == 1 and symbol.range == (0, times - 1) and factor == element
        return 1.0 if fills and step % (element * times) == 0 else None


def _position(symbol: Symbol) -> int:
    """Of the load that gave it."""
    number = symbol.name.rpartition("@")[2]
    return int(number) if number.isdigit() else -1
