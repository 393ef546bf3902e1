"""How much of the inactive threads' time is on paths that are too short to regroup the work.

To fill the warps of a path, its items have to be handed to other threads: a vote, a count, a store
and a load for each. On a path of few instructions that costs as much as it saves, as with a
condition around a sum. The path ends where as many threads as before are active again. Of several
paths in a row, as in a switch, threads take one each: such items can be grouped by kind in advance.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter

REGROUPING = Parameter(
    20.0, "instructions to hand an item of a path to another thread, and back", "judgement"
)
JOINED = Parameter(
    0.9, "active threads over the most of the loop: the paths have joined", "judgement"
)


class _Block(NamedTuple):
    times: int
    """How often warps ran it."""
    executed: int
    """Warp instructions."""
    active: float
    """Threads per instruction."""
    loop: int
    """The innermost loop around it; -1: none."""


@cached_per_view
def short_path_part(view: LaunchView) -> float:
    """The part of the inactive threads that regrouping would cost, 0 to 1; 0 if it is not known."""
    blocks = _blocks(view)
    most: dict[int, float] = {}
    for block in blocks:
        most[block.loop] = max(most.get(block.loop, 0.0), block.active)
    every = sum(block.executed * (max(most.values()) - block.active) for block in blocks)
    cost = 0.0
    for has_joined, path in groupby(blocks, lambda each: each.active >= JOINED * most[each.loop]):
        if not has_joined:
            cost += _cost(list(path), most)
    return min(1.0, cost / every) if every > 0 else 0.0


def _blocks(view: LaunchView) -> list[_Block]:
    """The basic blocks that ran, in the order of the code; empty if it is not known."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or not threads:
        return []
    program, flow = view.code.program, view.code.program.flow
    return [
        _Block(
            program.counts[each.start],
            sum(program.counts[each.start : each.end]),
            threads.get(program.code[each.start].address, 0) / program.counts[each.start],
            flow.loop_of.get(each.index, -1),
        )
        for each in flow.blocks
        if program.counts[each.start]
    ]


def _cost(path: list[_Block], most: Mapping[int, float]) -> float:
    """Threads times instructions that regrouping costs, of those that a path loses. Blocks that run
    at other times than its first one are other paths."""
    times = path[0].times
    length = sum(each.executed for each in path) / times
    lost = sum(
        each.executed * (most[each.loop] - each.active) for each in path if each.times == times
    )
    return lost * min(1.0, REGROUPING / length)
