"""One thread that works alone while the other warps of its block wait at a barrier.

Its instructions count as inactive threads, and the waiting of the others as barriers. Both have one
cause: a serial step between two barriers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import MAJORITY

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.barriers import BarrierWait


@cached_per_view
def waits_at_barriers(view: LaunchView) -> list[BarrierWait]:
    """Sorted by samples; none if the report does not show them."""
    code, block = view.code, view.launch.block
    if code is None or block is None:
        return []
    from keet.analysis.sass.analyses.barriers import barrier_waits

    warps = -(-block[0] * block[1] * block[2] // WARP)
    return barrier_waits(code.program, code.stalls, warps)


def few_work(view: LaunchView) -> bool:
    """Whether most waiting at barriers is for fewer than half of the block's warps."""
    waits = waits_at_barriers(view)
    explained = sum(wait.by_few for wait in waits)
    return bool(waits) and explained >= MAJORITY * sum(wait.samples for wait in waits)


class LoneThread(NamedTuple):
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
        each
        for each in sorted(alone)
        if threads.get(program.code[each].address, 0) <= program.counts[each]
    )
    runs = sum(program.counts[each] for each in single)
    if runs <= MAJORITY * sum(program.counts[each] for each in alone):
        return None
    every = sum(program.counts[each] for each in program.ran)
    waiting = sum(wait.by_few for wait in waits) / sum(wait.samples for wait in waits)
    return LoneThread(single, runs / every, waiting)
