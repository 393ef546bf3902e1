"""Why threads of a warp are inactive: the block size, a bounds check, divergent paths, uneven trips
of a loop, or a thread that works alone.

A thread whose index is outside of the data becomes inactive before anything is loaded, so no loaded
value decides it. This distinguishes it from threads that take another path than their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import MAJORITY, Parameter
from keet.evidence import Evidence, Sentence, constant

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.blame import BarrierWait

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
        """The largest."""
        causes: tuple[Cause, ...] = ("block_size", "outside", "paths")
        return max(causes, key=lambda cause: float(getattr(self, cause)))


def filled_lanes(view: LaunchView) -> float | None:
    """Share of the lanes of a block's warps that have a thread, 0 to 1, by the launch shape."""
    block = view.value("block_size")
    return block / (WARP * math.ceil(block / WARP)) if block and block > 0 else None


def warps_of_block(view: LaunchView) -> int | None:
    block = view.value("block_size")
    return math.ceil(block / WARP) if block else None


def launched_warps(view: LaunchView) -> float | None:
    """Of the whole grid; None where the report does not have its size."""
    grid, warps = view.value("grid_size"), warps_of_block(view)
    return grid * warps if grid and warps else None


def per_warp(
    view: LaunchView, name: str, label: str, amount: float, *sources: Evidence
) -> Evidence | None:
    """An amount of the launch, of each of its warps on average."""
    grid, block, warps = view.get("grid_size"), view.get("block_size"), launched_warps(view)
    if grid is None or block is None or warps is None:
        return None
    return view.ledger.derived(name, amount / warps, label, *sources, grid, block)


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
    outside_data = _outside(view, launched)
    if outside_data is None:
        return InactiveThreads(1.0, 0.0, 0.0) if by_size > inactive / 2 else None
    outside, check = min(outside_data[0], inactive - by_size), outside_data[1]
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
    lanes = {address: threads.get(address, 0) / executed[address] for address in entry}
    # Older reports count a thread only if its predicate is on: single instructions may have none.
    last = entry[-1:] if active else entry[-int(SOME_UNPREDICATED) :]
    end, lost = entry[-1], 0.0
    most = max(lanes[address] for address in last if executed[address] == executed[end])
    # A thread outside of the data accesses none: of a short loop in front, threads come back.
    for address, kind in view.by_address("memory_type").items():
        if kind and address > end and executed.get(address, 0) >= executed[end]:
            most = max(most, threads.get(address, 0) / executed[address])
    left = launched - most
    if left <= 0:
        return 0.0, None
    # Later code has at least as many inactive threads, unless the paths join again.
    for address, count in executed.items():
        if address > end:
            off = launched - threads.get(address, 0) / count
            lost += count * (left if off > left else max(0.0, off))
    # The check is the last instruction before the code that runs with few threads.
    few = len(entry)
    while few and lanes[entry[few - 1]] <= launched - left / 2:
        few -= 1
    return lost / sum(executed.values()), entry[few - 1] if 0 < few < len(entry) else None


def _entry(view: LaunchView, executed: Mapping[int, int]) -> list[int]:
    """Addresses from the start up to the first memory access or the first loop.

    No loaded value decides what runs there. In a loop, counts include all iterations, and what one
    iteration computes may end it.
    """
    accesses = {address for address, kind in view.by_address("memory_type").items() if kind}
    if not accesses:
        accesses = {a for a, n in (view.table.column("src_l2_sectors_global") or {}).items() if n}
    addresses: list[int] = []
    for address, count in executed.items():
        if addresses and count > executed[addresses[-1]]:  # more executions: a loop
            break
        if address in accesses:
            break
        addresses.append(address)
    return addresses


@cached_per_view
def waits_at_barriers(view: LaunchView) -> list[BarrierWait]:
    """Sorted by samples; none if the report does not show them."""
    code, block = view.code, view.launch.block
    if code is None or block is None:
        return []
    from keet.analysis.machine_code.analyses.blame import barrier_waits

    return barrier_waits(code.program, code.stalls, math.ceil(math.prod(block) / WARP))


def few_work(view: LaunchView) -> bool:
    """Whether most waiting at barriers is for fewer than half of the block's warps."""
    waits = waits_at_barriers(view)
    explained = sum(wait.by_few for wait in waits)
    return bool(waits) and explained >= MAJORITY * sum(wait.samples for wait in waits)


class LoneThread(NamedTuple):
    """One thread that works alone while the other warps of its block wait at a barrier.

    Its instructions count as inactive threads, and the waiting of the others as barriers. Both have
    one cause: a serial step between two barriers.
    """

    positions: tuple[int, ...]
    """Instructions that run with one thread while the other warps wait."""
    executed: float
    """Their share of the executed instructions, 0 to 1."""
    waiting: float
    """The share of the waiting at barriers that they explain, 0 to 1."""


@cached_per_view
def lone_thread(view: LaunchView) -> LoneThread | None:
    """None if no single thread works while its block waits, or the report does not show it."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or threads is None or not few_work(view):
        return None
    program, waits = view.code.program, waits_at_barriers(view)
    alone = {position for wait in waits if wait.by_few for position in wait.alone}
    single = tuple(
        position
        for position in sorted(alone)
        if threads.get(program.code[position].address, 0) <= program.counts[position]
    )
    if view.code.share(single) <= MAJORITY * view.code.share(alone):
        return None
    waiting = sum(wait.by_few for wait in waits) / sum(wait.samples for wait in waits)
    return LoneThread(single, view.code.share(single), waiting)


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
    """The part of the inactive threads that regrouping would cost, 0 to 1; 0 if it is not known.

    To fill the warps of a path, its items have to be handed to other threads: a vote, a count, a
    store and a load for each. On a path of few instructions that costs as much as it saves, as with
    a condition around a sum. The path ends where as many threads as before are active again. Of
    several paths in a row, as in a switch, threads take one each: such items can be grouped by kind
    in advance.
    """
    blocks = _blocks(view)
    most: dict[int, float] = {}
    for block in blocks:
        most[block.loop] = max(most.get(block.loop, 0.0), block.active)
    every = sum(block.executed * (max(most.values()) - block.active) for block in blocks)
    paths = groupby(blocks, lambda block: block.active >= JOINED * most[block.loop])
    cost = sum(_cost([*path], most) for has_joined, path in paths if not has_joined)
    return min(1.0, cost / every) if every > 0 else 0.0


def _blocks(view: LaunchView) -> list[_Block]:
    """The basic blocks that ran, in the order of the code; empty if it is not known."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or not threads:
        return []
    program, flow = view.code.program, view.code.program.flow
    return [
        _Block(
            program.counts[block.start],
            sum(program.counts[block.start : block.end]),
            threads.get(program.code[block.start].address, 0) / program.counts[block.start],
            flow.loop_of.get(block.index, -1),
        )
        for block in flow.blocks
        if program.counts[block.start]
    ]


def _cost(path: list[_Block], most: Mapping[int, float]) -> float:
    """Threads times instructions that regrouping costs, of those that a path loses. Blocks that run
    at other times than its first one are other paths."""
    times = path[0].times
    length = sum(block.executed for block in path) / times
    lost = sum(x.executed * (most[x.loop] - x.active) for x in path if x.times == times)
    return lost * min(1.0, REGROUPING / length)


FOUND_OUT = Parameter(
    0.5,
    "exponent of the share of executions that equal numbers of iterations leave, if loaded values "
    "end the loop",
    "fit",
)


class UnevenTrips(NamedTuple):
    """Loops that the threads of a warp leave at different times: a warp iterates as often as the
    thread that needs most.

    The average number of active threads where an iteration starts, over that where the loop is
    entered, is the average number of iterations of a thread over that of its warp. If all threads
    of a warp need as many, the warp executes that share of the loop, and waits as much less, also
    where no unit is busy. A path that few threads take enters its loops with few threads, and
    counts as no such loop. Of an instruction whose threads are active on average, full warps would
    execute that part: no less is left, also in nested loops whose shares belong to different
    iterations.

    Items of a known length can be sorted, or given to other lanes. Where loaded values end the
    loop, an item shows its length only while a lane has it: rounds of a few iterations, or a warp
    that works on one item together, execute more than that share.
    """

    left: Mapping[int, float]
    """By position: the share of the executions that is left if all threads of a warp iterate
    equally often, 0 to 1. Positions outside of such loops are not listed."""
    loops: Mapping[int, int]
    """By position: the index of the loop that loses most of these threads."""
    executed: float
    """The share of all executed instructions that is left, 0 to 1."""
    even: float
    """The same if it cost nothing to make them equal."""


@cached_per_view
def uneven_trips(view: LaunchView) -> UnevenTrips:
    """Nothing is saved if the report does not show it."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or not threads:
        return UnevenTrips({}, {}, 1.0, 1.0)
    from keet.analysis.machine_code.analyses.source_loops import exit_loads

    program, flow = view.code.program, view.code.program.flow
    starts = [block.start for block in flow.blocks]

    def active(blocks: list[int]) -> float:
        """Threads per execution of these blocks."""
        times = sum(program.counts[starts[block]] for block in blocks)
        lanes = sum(threads.get(program.code[starts[block]].address, 0) for block in blocks)
        return lanes / times if times else 0.0

    left, loops = dict[int, float](), dict[int, int]()
    even: dict[int, float] = {}
    smallest: dict[int, float] = {}
    for loop in flow.loops:
        before = [e for e in flow.blocks[loop.header].predecessors if e not in loop.blocks]
        entered = active(before)
        share = min(1.0, active([loop.header]) / entered) if entered else 1.0
        if share < 1:
            grouped = math.pow(share, FOUND_OUT if exit_loads(program, loop) else 1.0)
            for block in loop.blocks:
                for position in range(flow.blocks[block].start, flow.blocks[block].end):
                    even[position] = even.get(position, 1.0) * share
                    left[position] = left.get(position, 1.0) * grouped
                    if share < smallest.get(position, 1.0):
                        smallest[position] = share
                        loops[position] = loop.index
    for position, share in even.items():
        if runs := program.counts[position]:
            lanes = threads.get(program.code[position].address, 0) / runs
            even[position] = min(1.0, max(share, lanes / WARP))
            left[position] = max(left[position], even[position])
    every = sum(program.counts) or 1

    def executed(shares: Mapping[int, float]) -> float:
        return 1 - sum(program.counts[at] * (1 - part) for at, part in shares.items()) / every

    return UnevenTrips(left, loops, executed(left), executed(even))
