"""Checks whether one launch does the same amount of work on both sides.

Edits of a kernel keep the work of a launch: about the same number of instructions, and the same
output. A launch that took over the work of many others executes more instructions, takes longer,
and either writes more (a batch of small grids became one large grid) or does more per thread (a
loop of launches moved into the kernel). Measured on the samples and on the casebook's work
families: docs/diff.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keet.comparison.caveats.caveat import Caveat, advised, forbids, weakens
from keet.comparison.pairing.code_similarity import uses_tensor_cores
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.pairing.sides import KernelGroup, threads_of
from keet.comparison.timing.time_ledger import Numbers
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.profile.launch_sequences import longest
from keet.units import Quantity

SAME_WORK = math.log(1.1)
OTHER_WORK = math.log(2)
"""Growth of instructions and requests of the same code that another launch shape does not cause."""
_FOLLOWS = 0.5
"""Growth of instructions over growth of threads, at least: a matrix product has 1.5."""
_CLOSE = 0.02
_OTHER_LAUNCHES = (math.log(4), math.log(30))
"""Growth of threads and instructions from which one launch does the work of many: no edit seen so
far executes 30 times the instructions on four times the threads."""
_LOOPS = math.log(10)
_LOOPS_RENAMED = math.log(4)
"""Growth of instructions, in total and per thread, from which a launch may have taken over a loop
of launches. Edits of the samples and of the casebook's 195 work pairs stay below a factor of 10,
except those to tensor cores. For renamed kernels less is enough: `smooth_step` and `smooth_all`."""
_BATCH = math.log(1.5)
"""Growth of instructions and output from which a launch may be a batch of others."""
_CLOSE_PER_THREAD = 0.25
"""Difference of the logarithms of instructions per thread that still counts as the same."""


def compare_work(
    pairing: Pairing, one: Launch, other: Launch, numbers: Numbers, *, same: bool | None
) -> Iterator[Caveat]:
    if same is False or pairing.how in ("template", "renamed"):
        yield from _other_launches(one, other, numbers)
    elif same or log_growth(pairing, "inst_executed_total") is not None:
        yield from _other_problem(pairing, numbers, certain=bool(same))
    else:
        yield from _other_grid(pairing)


def _other_problem(pairing: Pairing, numbers: Numbers, *, certain: bool) -> Iterator[Caveat]:
    """The same code that executes more and moves more data has a larger problem.

    With another shape there are other reasons too (a table that each block loads, a loop that each
    block runs): then the work must have grown along with the threads. If it is not certain that the
    code is the same, each thread must have done the same amount of work."""
    work = log_growth(pairing, "inst_executed_total")
    asked = log_growth(pairing, "global_load_requests", "global_store_requests")
    if work is None or abs(work) <= SAME_WORK or (asked is not None and abs(asked) <= SAME_WORK):
        return
    threads = _more_threads(pairing)
    follows = abs(threads) > SAME_WORK and work / threads >= _FOLLOWS
    plainly = min(abs(work), abs(asked or 0.0)) > OTHER_WORK
    if pairing.how != "same" and not (follows or plainly):
        return
    if not certain and (pairing.how == "same" or abs(work - threads) > _CLOSE):
        return
    unit = one.unit if (one := pairing.before[0].typical.get("inst_executed_total")) else ""
    before, after = (
        numbers(
            f"instructions of the launches {word}", sum(_values(side, "inst_executed_total")), unit
        )
        for word, side in zip(("before", "after"), pairing.sides, strict=True)
    )
    text = Sentence(
        "{kernel}: different problem size or input: the same code executed {before} before and "
        "{after} after",
        kernel=pairing.kernel,
        before=before,
        after=after,
    )
    yield forbids("problem_size", text)


def _other_grid(pairing: Pairing) -> Iterator[Caveat]:
    """Only the shape is known: if the time grew along with the threads, the problem may differ."""
    threads = _more_threads(pairing)
    times = log_growth(pairing, "duration")
    if abs(threads) <= SAME_WORK or times is None or times * threads <= 0:
        return
    before, after = (_sizes(side) for side in pairing.sides)
    text = Sentence(
        "{kernel}: {before} threads per launch before, {after} after; the reports do not "
        "show whether the problem is the same (collect ncu --section InstructionStats)",
        kernel=pairing.kernel,
        before=before,
        after=after,
    )
    yield weakens("launch_size", text, abs(threads))


def _sizes(groups: Sequence[KernelGroup]) -> Sentence:
    """Of the launches' shapes."""
    sizes = (constant(threads_of(group), "", "threads per launch") for group in groups)
    return Sentence(", ").join(Sentence("{size:count}", size=size) for size in sizes)


def _more_threads(pairing: Pairing) -> float:
    """Logarithm of after over before."""
    one, other = ([float(threads_of(group)) for group in side] for side in pairing[:2])
    return _growth(one, other)


def log_growth(pairing: Pairing, *metric_ids: str) -> float | None:
    """Logarithm of after over before; `None` if a launch has no value."""
    one, other = ([_values(side, metric) for metric in metric_ids] for side in pairing[:2])
    if not all((*one, *other)):
        return None
    return _growth(*([sum(parts) for parts in zip(*side, strict=True)] for side in (one, other)))


def _growth(one: Sequence[float], other: Sequence[float]) -> float:
    """Per launch. 0 if the numbers of launches differ and the ranges of both sides overlap."""
    if min(sum(one), sum(other)) <= 0:
        return 0.0
    if len(one) != len(other) and min(one) <= max(other) and min(other) <= max(one):
        return 0.0
    return math.log(sum(other) / len(other) * len(one) / sum(one))


def _values(groups: Sequence[KernelGroup], metric_id: str) -> list[float]:
    """One value per launch; empty if a launch has none."""
    found = [launch.get(metric_id) for group in groups for launch in group.launches]
    known = [float(each.value) for each in found if each]
    return known if len(known) == len(found) else []


def _other_launches(one: Launch, other: Launch, numbers: Numbers) -> Iterator[Caveat]:
    threads = _threads(other) - _threads(one)
    instructions = log_change(one.get("inst_executed_total"), other.get("inst_executed_total"))
    least = _OTHER_LAUNCHES
    if instructions is None or abs(threads) < least[0] or abs(instructions) < least[1]:
        return
    if threads * instructions < 0:
        return
    side = "after" if instructions > 0 else "before"
    what = Sentence(
        "{kernel}: a launch {side} executes {times:,.0f} times as many instructions as a launch of "
        "the other side, on more threads: it seems to do the work of many launches",
        kernel=one.kernel,
        side=side,
        times=numbers("ratio of the instructions of a launch", math.exp(abs(instructions)), ""),
    )
    how = "give the launch counts with"
    yield advised("work_per_launch", what, how, "--times N:M", abs(instructions))


def _threads(launch: Launch) -> float:
    """The logarithm of the number of threads."""
    sizes = [math.prod(size) for size in (launch.grid, launch.block) if size]
    return math.log(max(1, math.prod(sizes)))


def log_change(before: Quantity | None, after: Quantity | None) -> float | None:
    if before is None or after is None or not (before.value > 0 and after.value > 0):
        return None
    return math.log(after.value / before.value)


def work_of_many_caveat(pairing: Pairing, numbers: Numbers) -> Caveat | None:
    """Caveat if one launch may do the work of many launches of the other side.

    Only for launches that take longer and execute more: if a launch does more work in less time,
    the total has the right sign in any case."""
    one, other = (longest(side) for side in pairing.typical)
    work = _growth_of_one(pairing, "inst_executed_total")
    time = _growth_of_one(pairing, "duration")
    if work is None:
        return _unknown_work(pairing)
    if time is None or work * time <= 0 or (work < 0 and _writes_as_much(pairing)):
        return None
    if pairing.how in ("fused", "split"):
        many = abs(work) >= _LOOPS_RENAMED
    else:
        many = _took_over_loop(pairing, one, other, work) or _is_batch(one, other, work)
    return _many(pairing, work, numbers) if many and not _other_instructions(one, other) else None


_WRITTEN = ("global_store_sectors", "dram_bytes_written")


def _writes_as_much(pairing: Pairing) -> bool:
    """Whether as many launches write as many bytes on both sides: then a launch that executes fewer
    instructions needs fewer for the same work. One that executes more may have taken over a loop of
    launches, which writes its result once, too."""
    one, other = (sum(len(group.launches) for group in side) for side in pairing[:2])
    changes = [_growth_of_one(pairing, metric) for metric in _WRITTEN]
    return one == other and any(each is not None and abs(each) <= SAME_WORK for each in changes)


def _growth_of_one(pairing: Pairing, metric_id: str) -> float | None:
    """Logarithm of after over before for one launch; for fused kernels, one launch of each."""
    sides = [[launch.get(metric_id) for launch in side] for side in pairing.typical]
    if pairing.how not in ("fused", "split"):
        sides = [[longest(side).get(metric_id)] for side in pairing.typical]
    one, other = ([float(each.value) for each in side if each] for side in sides)
    if len(one) < len(sides[0]) or len(other) < len(sides[1]):
        return None
    return log_change(Quantity(sum(one), ""), Quantity(sum(other), ""))


def _many(pairing: Pairing, work: float, numbers: Numbers) -> Caveat:
    times = numbers("ratio of the instructions of a launch", math.exp(abs(work)), "")
    text = Sentence(
        "{kernel}: a launch {side} executes {times} times as many instructions as a launch of the "
        "other side, and takes longer: it may do the work of several launches",
        kernel=pairing.kernel,
        side="after" if work > 0 else "before",
        times=Sentence("{n:,.0f}" if times.value >= 10 else "{n:.1f}", n=times),
    )
    return weakens("launch_work", text, abs(work))


def _unknown_work(pairing: Pairing) -> Caveat | None:
    """Instructions were not counted. For a renamed kernel, the work per launch is unknown; for
    another shape, a time that grew along with the threads suggests other work."""
    if pairing.how in ("fused", "split"):
        return None
    if pairing.how != "renamed":
        return next(_other_grid(pairing), None)
    text = (
        f"{pairing.kernel}: the reports do not show whether a launch does the same work on both "
        "sides (collect ncu --section InstructionStats)"
    )
    return weakens("launch_work", text, abs(log_growth(pairing, "duration") or 0.0))


def _other_instructions(one: Launch, other: Launch) -> bool:
    """Tensor cores on one side only: one of their instructions does the work of many."""
    used = [uses_tensor_cores(each) for each in (one, other)]
    return None not in used and used[0] != used[1]


def _took_over_loop(pairing: Pairing, one: Launch, other: Launch, work: float) -> bool:
    """More instructions in total, and more per thread."""
    least = _LOOPS_RENAMED if pairing.how == "renamed" else _LOOPS
    per_thread = work - (_threads(other) - _threads(one))
    return per_thread * work > 0 and min(abs(work), abs(per_thread)) >= least


def _is_batch(one: Launch, other: Launch, work: float) -> bool:
    """More instructions, and more output along with them. Both requests and sectors of stores must
    grow: wider stores change requests, coalesced stores change sectors."""
    stored = [
        log_change(one.get(metric), other.get(metric))
        for metric in ("global_store_requests", "global_store_sectors")
    ]
    requests, sectors = stored
    if requests is None or sectors is None:
        threads = _threads(other) - _threads(one)
        return abs(threads) >= _BATCH and abs(work - threads) <= _CLOSE_PER_THREAD
    output = min(abs(requests), abs(sectors)) if requests * sectors > 0 else 0.0
    follows = abs(work) >= _FOLLOWS * output and requests * work > 0
    return follows and min(output, abs(work)) >= _BATCH
