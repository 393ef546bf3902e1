"""Loops that the threads of a warp leave at different times: a warp iterates as often as the thread
that needs most.

The average number of active threads where an iteration starts, over that where the loop is entered,
is the average number of iterations of a thread over that of its warp. If all threads of a warp need
as many, the warp executes that share of the loop, and waits as much less, also where no unit is
busy. A path that few threads take enters its loops with few threads, and counts as no such loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view


class UnevenTrips(NamedTuple):
    left: Mapping[int, float]
    """By position: the share of the executions that is left if all threads of a warp iterate
    equally often, 0 to 1. Positions outside of such loops are not listed."""
    executed: float
    """The share of all executed instructions that is left, 0 to 1."""


@cached_per_view
def uneven_trips(view: LaunchView) -> UnevenTrips:
    """Nothing is saved if the report does not show it."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or not threads:
        return UnevenTrips({}, 1.0)
    program, flow = view.code.program, view.code.program.flow
    starts = [each.start for each in flow.blocks]

    def active(blocks: list[int]) -> float:
        """Threads per execution of these blocks."""
        times = sum(program.counts[starts[each]] for each in blocks)
        lanes = sum(threads.get(program.code[starts[each]].address, 0) for each in blocks)
        return lanes / times if times else 0.0

    left: dict[int, float] = {}
    for loop in flow.loops:
        before = [e for e in flow.blocks[loop.header].predecessors if e not in loop.blocks]
        entered = active(before)
        share = min(1.0, active([loop.header]) / entered) if entered else 1.0
        for block in loop.blocks if share < 1 else ():
            for position in range(flow.blocks[block].start, flow.blocks[block].end):
                left[position] = left.get(position, 1.0) * share
    every = sum(program.counts)
    saved = sum(program.counts[at] * (1 - share) for at, share in left.items())
    return UnevenTrips(left, 1 - saved / every if every else 1.0)
