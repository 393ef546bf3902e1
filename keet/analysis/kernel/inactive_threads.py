"""Why threads of a warp are inactive: the block size, a bounds check, or divergent paths.

A thread whose index is outside of the data becomes inactive before anything is loaded, so no loaded
value decides it. This distinguishes it from threads that take another path than their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence, Sentence, constant

Cause = Literal["block_size", "outside", "paths"]
WARP = 32
SOME_UNPREDICATED = Parameter(4, "instructions of which one has no predicate", "judgement")


class InactiveThreads(NamedTuple):
    """Shares of the inactive threads by cause, over executed warp instructions; they sum to 1."""

    block_size: float
    """Lanes without a thread: the block does not fill the warp."""
    outside: float
    """Threads that exit or skip the rest at a check before the first memory access."""
    paths: float
    check: int | None = None
    """Address of the instruction at which most of those threads exit."""

    @property
    def cause(self) -> Cause:
        shares: dict[Cause, float] = {
            "block_size": self.block_size,
            "outside": self.outside,
            "paths": self.paths,
        }
        return max(shares, key=lambda each: shares[each])


def filled_lanes(view: LaunchView) -> float | None:
    """Share of the lanes of a block's warps that have a thread, 0 to 1, by the launch shape."""
    block = view.value("block_size")
    return block / (WARP * math.ceil(block / WARP)) if block and block > 0 else None


class EmptyLanes(NamedTuple):
    """A block that does not fill its warps."""

    block: Evidence
    filled: float
    """Share of the lanes that have a thread, 0 to 1."""
    text: Sentence


def empty_lanes(view: LaunchView) -> EmptyLanes | None:
    """`None` if blocks fill their warps, or the report does not have their size."""
    block, filled = view.get("block_size"), filled_lanes(view)
    if block is None or filled is None or filled >= 1:
        return None
    words = "A block has {block:.0f}s, which is not a multiple of the {warp} of a warp."
    if block.value < WARP:
        words = "A block has {block:.0f}s, fewer than the {warp} of a warp."
    if block.value == 1:
        words = "A block has {block:.0f}: the other lanes of its warp are empty."
    warp = constant(WARP, "", "threads of a warp")
    return EmptyLanes(block, filled, Sentence(words, block=block, warp=warp))


@cached_per_view
def inactive_threads(view: LaunchView) -> InactiveThreads | None:
    """`None` if no thread is inactive, or the report does not say why."""
    threads, filled = view.value("active_threads_per_warp"), filled_lanes(view)
    if filled is None:
        return None
    launched = filled * WARP
    if threads is None:
        return InactiveThreads(1.0, 0.0, 0.0) if launched < WARP else None
    inactive = WARP - threads
    if not 0 < inactive < WARP:
        return None
    by_size = min(inactive, WARP - launched)
    found = _outside(view, launched)
    if found is None:
        return InactiveThreads(1.0, 0.0, 0.0) if by_size > inactive / 2 else None
    outside, check = min(found[0], inactive - by_size), found[1]
    rest = inactive - by_size - outside
    return InactiveThreads(by_size / inactive, outside / inactive, rest / inactive, check)


def _outside(view: LaunchView, launched: float) -> tuple[float, int | None] | None:
    """Threads outside of the data per executed warp instruction, and the address at which they
    exit."""
    executed = {a: n for a, n in sorted((view.table.executed or {}).items()) if n}
    active = view.table.column("thread_inst_executed")
    threads = active or view.table.threads
    if not executed or not threads:
        return None
    entry = _entry(view, executed)
    if not entry:
        return 0.0, None
    lanes = {each: threads.get(each, 0) / executed[each] for each in entry}
    # Older reports count a thread only if its predicate is on: single instructions may have none.
    last = entry[-1:] if active else entry[-int(SOME_UNPREDICATED) :]
    left = launched - max(lanes[each] for each in last if executed[each] == executed[entry[-1]])
    if left <= 0:
        return 0.0, None
    end, lost = entry[-1], 0.0
    # Later code has at least as many inactive threads, unless the paths join again.
    for address, count in executed.items():
        if address > end:
            off = launched - threads.get(address, 0) / count
            lost += count * (left if off > left else max(0.0, off))
    return lost / sum(executed.values()), _check(entry, lanes, launched - left / 2)


def _entry(view: LaunchView, executed: Mapping[int, int]) -> list[int]:
    """Addresses from the start up to the first memory access or the first loop.

    No loaded value decides what runs there. In a loop, counts include all iterations, and what one
    iteration computes may end it.
    """
    accesses = {address for address, kind in view.by_address("memory_type").items() if kind}
    if not accesses:
        accesses = {a for a, n in (view.table.column("src_l2_sectors_global") or {}).items() if n}
    found: list[int] = []
    for address, count in executed.items():
        if found and count > executed[found[-1]]:  # more executions: a loop
            break
        if address in accesses:
            break
        found.append(address)
    return found


def _check(entry: list[int], lanes: Mapping[int, float], least: float) -> int | None:
    """The last instruction before the code that runs with few threads."""
    few = len(entry)
    while few and lanes[entry[few - 1]] <= least:
        few -= 1
    return entry[few - 1] if 0 < few < len(entry) else None
