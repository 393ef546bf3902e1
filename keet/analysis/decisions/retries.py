"""Retries of compare-and-swap loops: the cause of their instructions and of their inactive threads.

Threads that update one address at a time retry until the last of them succeeds. So a round beyond
the first is a matter of contention, not of divergent paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Literal, NamedTuple

from keet.analysis.instruction_removal import kept_waits_without
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.memory_work import SPREAD_PASSES, less_shared, shared_atomics_by_data
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

_MEMORY = ("load", "store", "atomic or reduction in memory")
"""Roles of the instructions that the LSU pipe executes."""
_MATH = ("ALU", "FMA", "FP64", "FP16")


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
    if code is None or not view.count("ATOMS", "ATOM", "ATOMG"):
        return []
    found, every = [], sum(code.program.counts)
    for memory in ("shared", "global"):
        loops = [each for each in code.retry_loops if each.memory == memory]
        repeated = Counter[int]()
        for each in loops:
            repeated.update(each.repeated)
        if repeated:
            updates = sum(each.entries for each in loops)
            swaps = sum(each.executions for each in loops)
            share = repeated.total() / every
            found.append(Retries(loops[0].memory, updates, swaps, repeated, share))
    return found


@cached_per_view
def retried(view: LaunchView) -> Mapping[int, float]:
    """Share of the executions that are retries, 0 to 1, by address; addresses without are left
    out."""
    if not (found := retries(view)) or view.code is None:
        return {}
    code, counts = view.code.program.code, view.code.program.counts
    every = sum((Counter(each.repeated) for each in found), Counter[int]())
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
    shown = view.ledger.derived(
        "active_threads_beside_retries",
        Quantity(max(threads / runs, float(whole.value)), whole.unit),
        "active threads per instruction without retries of compare-and-swap loops",
        whole,
    )
    return BesideRetries(shown, runs / sum(executed.values()))


def shown_retries(
    view: LaunchView, model: TimeModel, found: Retries
) -> tuple[Sentence, Effect, tuple[Evidence, ...]]:
    """Text, effect and evidence of a candidate: without them, the rest of the kernel is left."""
    executed = view.get("inst_executed")
    sources = () if executed is None else (executed,)
    rounds = view.ledger.derived(
        f"retry_rounds.{found.memory}",
        Quantity(found.swaps / found.updates, ""),
        "rounds of a compare-and-swap loop per update of a warp",
        *sources,
    )
    share = view.ledger.derived(
        f"retry_share.{found.memory}",
        Quantity(100 * found.share, "%"),
        "of the executed instructions are retries of compare-and-swap loops",
        *sources,
    )
    text = Sentence(
        "A warp runs a compare-and-swap loop on {memory} memory {rounds:.1f} times per update. "
        "Once is enough if no other thread updates the same address meanwhile. {share:.0f} of the "
        "executed instructions are such retries, and the threads that are done are inactive in "
        "them.",
        memory=found.memory,
        rounds=rounds,
        share=share,
    )
    return text, _effect(view, model, found), (rounds, share, *sources)


def _effect(view: LaunchView, model: TimeModel, found: Retries) -> Effect:
    assert view.code is not None
    code, counts = view.code.program.code, view.code.program.counts
    loads = {at for at, each in enumerate(code) if each.role.value in _MEMORY}

    def kept(positions: Set[int]) -> float:
        every = sum(counts[at] for at in positions)
        return 1 - sum(found.repeated.get(at, 0) for at in positions) / every if every else 1.0

    units = {"issue": 1 - found.share, "LSU": kept(loads)}
    units |= dict.fromkeys(_MATH, kept(set(range(len(code))) - loads))
    if found.memory == "shared":
        units |= less_shared(model, _needless_wavefronts(view, found)).units
    else:
        units["L2"] = 1 - _by_column(view, found, "src_l2_sectors_global")
        units[HOT_LINE] = found.updates / found.swaps
    of_loops = sum(counts[position] for position in found.repeated)
    part = found.repeated.values()
    waits = kept_waits_without(view, model, found.repeated, sum(part) / of_loops, found.share)
    return Effect(units, waits)


def _needless_wavefronts(view: LaunchView, found: Retries) -> float:
    """Share of the wavefronts of shared memory that go, 0 to 1; 0: not measured. Where data chooses
    the addresses, the only round takes as many as any spread addresses do."""
    assert view.code is not None
    program, column = view.code.program, view.table.column("src_shared_wavefronts") or {}
    least = SPREAD_PASSES if shared_atomics_by_data(view) else 0.0
    every, needless = sum(column.values()), 0.0
    for at, repeated in found.repeated.items():
        taken = column.get(program.code[at].address, 0)
        if taken:
            needed = max(taken / program.counts[at], least)
            needless += taken - needed * (program.counts[at] - repeated)
    return max(0.0, needless / every) if every else 0.0


def _by_column(view: LaunchView, found: Retries, metric: str) -> float:
    """Share of a counter per instruction that the retries caused, 0 to 1; 0: not measured."""
    assert view.code is not None
    program, column = view.code.program, view.table.column(metric) or {}
    every = sum(column.values())
    own = sum(
        column.get(program.code[at].address, 0) * n / program.counts[at]
        for at, n in found.repeated.items()
    )
    return own / every if every else 0.0
