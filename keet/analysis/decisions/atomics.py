"""Atomics that cost time: one slice of L2 that serves most requests, and retries of
compare-and-swap loops.

Threads that update one address at a time retry until the last of them succeeds. So a round beyond
the first is a matter of contention, not of divergent paths.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, RETURNING_ATOMICS
from keet.analysis.memory_work import (
    ATOMIC_SECTORS,
    global_atomics,
    less_shared,
    without_atomic_requests,
)
from keet.analysis.time_model import (
    BLOCK_STARTS,
    HOT_LINE,
    MOST_REMOVED,
    SHARPNESS,
    Effect,
    TimeModel,
)
from keet.evidence import Evidence, Sentence


def hot_slice(model: TimeModel) -> Candidate | None:
    """Many requests for few addresses, which one slice serves one after the other; at the sampled
    lines."""
    hot = model.hot_line
    if hot is None:
        return None
    # What combines within a block first sends each sector once per block: at least those that a
    # warp updates at a time. A loop over the data needs no more blocks than fit on the GPU. The
    # words of a table that is spread over all slices do not fit into a block: only the lanes of a
    # warp combine.
    blocks, kept = model.view.value("grid_size") or 0.0, 1 - MOST_REMOVED
    lanes = lane_requests(model.view) if hot.is_atomic else None
    rounds = max(1.0, model.view.value("waves_per_sm") or 1.0)
    if hot.requests and blocks:
        requests = lanes.warps / lanes.needed * lanes.made if lanes else hot.requests
        kept = min(1.0, blocks / rounds / requests)
    kept = max(kept, hot.left, hot.of_table / _WARP_LANES)
    how = "atomics" if hot.is_atomic else "plain loads or stores"
    text = (
        "The busiest slice of L2 looks up {skew:.1f} times the sectors of an average one: "
        "{how} of many threads access the same few addresses."
    )
    if hot.is_in_host:
        text = (
            "One slice of L2 is active {skew:.1f} times as long as an average one: {how} access "
            "the same line of host memory repeatedly, one access after the other."
        )
    if hot.is_counted:
        text = (
            "In each cycle of L2, warps execute {skew:.2f} {how} on one address. One slice of L2 "
            "serves them one after the other."
        )
    # While the line is at its limit, every access queues behind it, up to the LSU pipe; less so if
    # another unit is busier.
    lead = math.pow(hot.load / model.pressure, SHARPNESS)
    blamed = (1 - kept) * hot.load * min(1.0, lead)
    waits = kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), blamed)
    units = {HOT_LINE: kept, "L2": 1 - (1 - kept) * (1 - hot.spread)}
    if hot.is_atomic:
        again = (1 - x.updates / x.swaps for x in retries(model.view) if x.memory == "global")
        units["L1"] = without_atomic_requests(model.view, next(again, 0.0))
        units |= _summed_first(model, units["L1"], rounds)
    effect = Effect(units, waits)
    sentence = Sentence(text, skew=hot.skew, how=how)
    evidence = (hot.skew, hot.most, *(() if hot.is_counted else (hot.usual,)))
    return Candidate(sentence, effect, evidence, model.view.sampled_places)


def _summed_first(model: TimeModel, l1: float, rounds: float) -> dict[str, float]:
    """What is left of units if a thread first sums what `rounds` threads had, and then its warp
    sums by shuffles. Only where a sum at one address is all that the kernel stores. `l1`: what else
    is left of L1's work."""
    view, shuffles = model.view, model.view.executed("SHFL")
    ours = view.atomics("global")
    is_sum = ours and all(
        atomic.spread == "one address" and not atomic.has_result for atomic in ours
    )
    if not shuffles or not is_sum or view.executed("STG"):
        return {}
    fewer, fronts = shuffles * (1 - 1 / rounds), view.value("shared_wavefronts") or math.inf
    by_shuffles = less_shared(model, min(1.0, fewer / fronts)).units["L1"]
    accesses = shuffles + view.count(*BY_PIPE["LSU"])
    # An addition follows each shuffle.
    issued = 1 - min(1.0, 2 * fewer / (view.all_executed or math.inf))
    return {
        "L1": max(0.0, l1 + by_shuffles - 1),
        "LSU": 1 - fewer / accesses,
        "issue": issued,
        BLOCK_STARTS: 1 / rounds,
    }


class Retries(NamedTuple):
    """All rounds beyond the first of the compare-and-swap loops on one memory."""

    memory: Literal["global", "shared"]
    updates: int
    """How often warps entered the loops."""
    swaps: int
    """Executions of the compare-and-swap, in warps."""
    repeated: Mapping[int, int]
    """Executions that are retries, by position."""
    share: float
    """Their share of all executed warp instructions, 0 to 1."""


@cached_per_view
def retries(view: LaunchView) -> list[Retries]:
    """By memory, if any were seen. Empty without the machine code and its execution counts."""
    code = view.code
    if code is None or not view.count(*RETURNING_ATOMICS, "ATOMS"):
        return []
    by_memory, every = [], sum(code.program.counts)
    for memory in ("shared", "global"):
        loops = [loop for loop in code.retry_loops if loop.memory == memory]
        repeated = Counter[int]()
        for loop in loops:
            repeated.update(loop.repeated)
        if repeated:
            updates = sum(loop.entries for loop in loops)
            swaps = sum(loop.executions for loop in loops)
            share = repeated.total() / every
            by_memory.append(Retries(loops[0].memory, updates, swaps, repeated, share))
    return by_memory


@cached_per_view
def retried(view: LaunchView) -> Mapping[int, float]:
    """Share of the executions that are retries, 0 to 1, by address; addresses without are left
    out."""
    if not (of_memories := retries(view)) or view.code is None:
        return {}
    code, counts = view.code.program.code, view.code.program.counts
    every = sum((Counter(of_memory.repeated) for of_memory in of_memories), Counter[int]())
    return {code[at].address: min(1.0, n / counts[at]) for at, n in every.items()}


class BesideRetries(NamedTuple):
    """The executed instructions that are no retries."""

    threads: Evidence
    """Active threads per instruction, on average."""
    share: float
    """Their share of all executed warp instructions, 0 to 1."""


def beside_retries(view: LaunchView) -> BesideRetries | None:
    """`None` if there are no retries, or the report does not have the threads per instruction."""
    again, executed = retried(view), view.table.executed
    active = view.table.column("thread_inst_executed") or view.table.threads
    whole = view.get("active_threads_per_warp")
    if not again or not executed or not active or whole is None:
        return None
    left = {at: n * (1 - again.get(at, 0.0)) for at, n in executed.items()}
    runs = sum(left.values())
    threads = sum(active.get(at, 0) * (1 - again.get(at, 0.0)) for at in left)
    if not runs:
        return None
    shown = view.derived(
        "active_threads_beside_retries",
        max(threads / runs, float(whole.value)),
        "active threads per instruction without retries of compare-and-swap loops",
        whole,
        unit=whole.unit,
    )
    return BesideRetries(shown, runs / sum(executed.values()))


_WARP_LANES = 32


class LaneRequests(NamedTuple):
    """Requests of the atomics on global memory. L1 sends the updates that a warp makes in one
    sector together, but an address only once: further lanes with it make requests of their own."""

    made: float
    needed: float
    """Sectors that the addresses of each warp are in: requests if lanes with the same address
    combine their updates first."""
    warps: float
    """How often warps executed these atomics."""

    @property
    def repeated(self) -> float:
        return max(0.0, self.made - self.needed)


@cached_per_view
def lane_requests(view: LaunchView) -> LaneRequests | None:
    """None if there are none, or their sectors were not counted for each instruction."""
    column, addresses = view.table.column("src_l2_sectors_global") or {}, global_atomics(view)
    made = view.sum_of(*ATOMIC_SECTORS)
    needed = sum(float(column.get(address, 0)) for address in addresses)
    warps = sum((view.table.executed or {}).get(address, 0) for address in addresses)
    return LaneRequests(made, needed, warps) if made and needed and warps else None
