"""Whether two sides may be compared at all, and what weakens the comparison.

A reason that forbids it stops `keet diff` (exit 6) unless the user goes on with --force. One that
weakens it is weighed: it adds to what a difference must exceed before it counts as one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from keet.analysis.coverage import find_coverage
from keet.comparison.code import same_code
from keet.comparison.pairing import Pairing
from keet.comparison.sides import Group, Side, groups_of, threads_of, time_in
from keet.profile import Device, Launch, Profile
from keet.profile.names import file_name
from keet.units import Quantity

Severity = Literal["forbids", "weakens", "note"]

_CLOCKS = 0.03
"""Two captures on one H200 differ by 1 % in SM clock; 8 % is what power limits take."""
_FREE_CLOCKS = 0.15
"""Assumed, not measured: what free against fixed clocks may do where neither report has them."""
_WARM_CACHES = 0.5
"""Seen on an H200 (docs/diff.md): with warm caches, kernels took 0.63 to 1.07 times as long."""
_SAME_WORK = math.log(1.1)
_OTHER_WORK = math.log(2)
"""Instructions and requests of the same code: what another launch shape may cost is less."""
_FOLLOWS = 0.5
"""Of the growth of threads that of instructions must reach: a product of matrices has 1.5."""
_CLOSE = 0.02
_SELECTING = re.compile(
    r"(?<!\S)(-k|-s|--kernel-name|--kernel-id|--launch-skip|--nvtx-include|--nvtx-exclude"
    r"|--launch-skip-before-match|--graph-profiling|--range-filter)[\s=]"
)
"""Options of ncu that choose launches."""
_OTHER_LAUNCHES = (math.log(4), math.log(30))
"""Threads and instructions by which one launch exceeds the other where it does the work of many:
no edit of a kernel seen so far made it run 30 times the instructions on four times the threads."""


class Reason(NamedTuple):
    """Something that makes the two sides differ besides the program."""

    id: str
    severity: Severity
    text: str
    doubt: float = 0.0
    """By how much it may change the ratio of times."""


def compare_captures(before: Side, after: Side) -> tuple[Reason, ...]:
    """What the reports as such say: where and how they were taken."""
    one, other = before.first.profile, after.first.profile
    return (
        *_same_file(one, other),
        *_devices(before, after),
        *_cache_control(one, other),
        *_versions(one, other),
        *_coverage(one, other),
        *_runs(before, after),
    )


def _same_file(one: Profile, other: Profile) -> Iterator[Reason]:
    if one.provenance.sha256 == other.provenance.sha256:
        yield Reason("same_file", "note", "both sides are the same report")


def _devices(before: Side, after: Side) -> Iterator[Reason]:
    sides = [
        {launch.device for run in side.runs for launch in run.launches} for side in (before, after)
    ]
    if not all(sides):
        return
    kinds: tuple[tuple[str, Callable[[Device], object]], ...] = (
        # Older versions of ncu leave the maker's name out.
        ("different GPUs: {} before, {} after", lambda device: _model(device.name)),
        (
            "different GPUs: compute capability {} before, {} after",
            lambda device: device.compute_capability,
        ),
        ("{} SMs before, {} after: a part of the GPU", lambda device: device.sm_count),
    )
    for text, kind in kinds:
        one, other = (sorted({str(kind(d)) for d in side if kind(d)}) for side in sides)
        if one and other and one != other:
            yield Reason("device", "forbids", text.format(", ".join(one), ", ".join(other)))
            return
    if any(device.name is None for side in sides for device in side):
        text = "a report does not name its GPU: whether both have the same one is not known"
        yield Reason("device_unknown", "note", text)


def _model(name: str | None) -> str | None:
    return name.removeprefix("NVIDIA ") if name else None


def _option(profile: Profile, name: str, default: str) -> str | None:
    """What ncu was told, or does by itself; `None` where its command line is not known."""
    line = profile.provenance.command_line
    if line is None:
        return None
    found = re.search(rf"(?<!\S)--{name}(?:\s+|=)(\S+)", line)
    return found[1] if found else default


def _cache_control(one: Profile, other: Profile) -> Iterator[Reason]:
    told = [_option(each, "cache-control", "all") for each in (one, other)]
    if None in told or told[0] == told[1]:
        return
    text = (
        f"--cache-control {told[0]} before, {told[1]} after: kernels start with other contents of "
        "the caches"
    )
    yield Reason("cache_control", "weakens", text, _WARM_CACHES)


def _versions(one: Profile, other: Profile) -> Iterator[Reason]:
    kinds = {
        "ncu": ("ncu", one.provenance.ncu_version, other.provenance.ncu_version),
        "cuda": ("CUDA", one.provenance.cuda_version, other.provenance.cuda_version),
        "driver": ("the driver", one.provenance.driver_version, other.provenance.driver_version),
    }
    for kind, (label, before, after) in kinds.items():
        if before and after and before != after:
            text = f"{label} {before} before, {after} after"
            yield Reason(f"{kind}_version", "note", text)
    told = [_option(each, "clock-control", "base") for each in (one, other)]
    if None not in told and told[0] != told[1]:
        text = f"--clock-control {told[0]} before, {told[1]} after"
        if _knows_clocks(one) and _knows_clocks(other):
            yield Reason("clock_control", "note", text)  # the clocks themselves are weighed
        else:
            yield Reason("clock_control", "weakens", text, _FREE_CLOCKS)


def _knows_clocks(profile: Profile) -> bool:
    return all(launch.get("sm_frequency") for launch in profile.launches)


def _coverage(one: Profile, other: Profile) -> Iterator[Reason]:
    """What one side has and the other lacks, by name: nothing is said of it."""
    lacking = [{g.label for g in find_coverage(each).gaps} for each in (one, other)]
    before, after = lacking
    for here, there, side in ((before, after, "before"), (after, before, "after")):
        if only := sorted(here - there):
            text = f"{side} has no {', no '.join(only)}: that is not compared"
            yield Reason("metric_sets", "note", text)


def _runs(before: Side, after: Side) -> Iterator[Reason]:
    if before.times != after.times:
        text = f"each launch counts {before.times} times before and {after.times} times after"
        yield Reason("times", "note", text)
    for side, word in ((before, "before"), (after, "after")):
        known = groups_of(side.first.launches)
        odd = [run for run in side.runs[1:] if any(time_in(run, [g]) is None for g in known)]
        if odd:
            names = ", ".join(file_name(run.profile.provenance.path) for run in odd)
            text = (
                f"{word}, {names} has other launches than the first run: only what both have counts"
            )
            yield Reason("other_launches", "note", text)
        yield from _odd_runs(side, word)


def _odd_runs(side: Side, word: str) -> Iterator[Reason]:
    """Runs of one side are averaged: each must have done the same."""
    first = {group.key: group for group in groups_of(side.first.launches)}
    for run in side.runs[1:]:
        for group in groups_of(run.launches):
            known = first.get(group.key)
            same = Pairing((known,), (group,), "same") if known else None
            change = _grown(same, "inst_executed_total") if same else None
            if change is not None and abs(change) > _SAME_WORK:
                name = file_name(run.profile.provenance.path)
                text = f"{word}, {name} did other work in {group.kernel} than the first run"
                yield Reason("other_runs", "forbids", text)
                break


# --- one pair


def compare_launches(pairing: Pairing, *profiles: Profile) -> tuple[Reason, ...]:
    """What weakens or forbids the comparison of one pair of kernels. `profiles`: of both sides, to
    tell whether they hold all launches."""
    if not pairing.before or not pairing.after:
        return ()
    one, other = (max(side, key=lambda launch: launch.rank_time) for side in pairing.typical)
    clocks = _clocks(one, other)
    if pairing.how in ("fused", "split"):
        return tuple(clocks)  # they do the work of several, in another shape: that is the point
    one_program = len({profile.provenance.sha256 for profile in profiles}) == 1
    named_alike = one.name.full == other.name.full
    same = (one_program and named_alike) or same_code(one, other)
    return (*_counts(pairing, profiles), *clocks, *_work(pairing, one, other, same=same))


def _counts(pairing: Pairing, profiles: Sequence[Profile]) -> Iterator[Reason]:
    one, other = (
        sum(len(group.launches) for group in side) for side in (pairing.before, pairing.after)
    )
    if one == other:
        return
    text = f"{pairing.kernel}: {one} launches before, {other} after"
    if all(map(all_captured, profiles)):
        text += "; the total counts each one that is in the reports"
        yield Reason("launch_counts", "note", text)
    else:
        text += ", and not all launches may have been captured: --times N:M says how many there are"
        yield Reason("launch_counts", "weakens", text, abs(math.log(other / one)))


def all_captured(profile: Profile) -> bool:
    """ncu was told to profile every launch, or fewer came than it was told to."""
    line = profile.provenance.command_line
    if line is None or _SELECTING.search(line):
        return False
    limit = re.search(r"(?<!\S)(?:--launch-count|-c)(?:\s+|=)(\d+)", line)
    return limit is None or len(profile.launches) < int(limit[1])


def _clocks(one: Launch, other: Launch) -> Iterator[Reason]:
    for metric, label in (("sm_frequency", "SM"), ("dram_frequency", "DRAM")):
        before, after = one.get(metric), other.get(metric)
        change = _change(before, after)
        if before and after and change is not None and abs(change) > _CLOCKS:
            text = f"{one.kernel}: the {label} clock was {before} before and {after} after"
            yield Reason("clocks", "weakens", text, abs(change))


def _work(pairing: Pairing, one: Launch, other: Launch, *, same: bool | None) -> Iterator[Reason]:
    if same is False or pairing.how in ("template", "renamed"):
        yield from _other_launches(one, other)
    elif same or _grown(pairing, "inst_executed_total") is not None:
        yield from _other_problem(pairing, certain=bool(same))
    else:
        yield from _other_grid(pairing)


def _other_problem(pairing: Pairing, *, certain: bool) -> Iterator[Reason]:
    """The same code that executes more, and moves more, has got another problem.

    In another shape it may do so for other reasons (a table that each block loads, a loop that
    each block runs): then the work must have grown along with the threads. Where it is not certain
    that the code is the same, each thread must have done the same."""
    work = _grown(pairing, "inst_executed_total")
    asked = _grown(pairing, "global_load_requests", "global_store_requests")
    if work is None or abs(work) <= _SAME_WORK or (asked is not None and abs(asked) <= _SAME_WORK):
        return
    threads = _more_threads(pairing)
    follows = abs(threads) > _SAME_WORK and work / threads >= _FOLLOWS
    plainly = min(abs(work), abs(asked or 0.0)) > _OTHER_WORK
    if pairing.how != "same" and not (follows or plainly):
        return
    if not certain and (pairing.how == "same" or abs(work - threads) > _CLOSE):
        return
    before, after = (_sum_of(side, "inst_executed_total") for side in pairing[:2])
    text = (
        f"{pairing.kernel}: another problem size or other input: the same code executed {before} "
        f"before and {after} after"
    )
    yield Reason("problem_size", "forbids", text)


def _other_grid(pairing: Pairing) -> Iterator[Reason]:
    """Nothing but the shape is known: a time that moved along with the threads may be that of
    another problem."""
    threads = _more_threads(pairing)
    times = _grown(pairing, "duration")
    if abs(threads) <= _SAME_WORK or times is None or times * threads <= 0:
        return
    before, after = (_sizes(side) for side in pairing[:2])
    text = (
        f"{pairing.kernel}: {before} threads a launch before, {after} after; whether the problem "
        "is the same, the reports do not tell (ncu --section InstructionStats)"
    )
    yield Reason("launch_size", "weakens", text, abs(threads))


def _sizes(groups: Sequence[Group]) -> str:
    return ", ".join(f"{threads_of(group):,}" for group in groups)


def _more_threads(pairing: Pairing) -> float:
    """The logarithm of after over before."""
    one, other = ([float(threads_of(group)) for group in side] for side in pairing[:2])
    return _growth(one, other)


def _grown(pairing: Pairing, *metric_ids: str) -> float | None:
    """The logarithm of after over before; `None` where a launch has no value."""
    one, other = ([_values(side, metric) for metric in metric_ids] for side in pairing[:2])
    if not all((*one, *other)):
        return None
    return _growth(*([sum(parts) for parts in zip(*side, strict=True)] for side in (one, other)))


def _growth(one: Sequence[float], other: Sequence[float]) -> float:
    """Of all launches where there are as many; else of one launch, and none where the launches of
    a side differ by as much."""
    if min(sum(one), sum(other)) <= 0:
        return 0.0
    if len(one) != len(other) and min(one) <= max(other) and min(other) <= max(one):
        return 0.0
    return math.log(sum(other) / len(other) * len(one) / sum(one))


def _values(groups: Sequence[Group], metric_id: str) -> list[float]:
    """Launch by launch; nothing where one has no value."""
    found = [launch.get(metric_id) for group in groups for launch in group.launches]
    known = [float(each.value) for each in found if each and math.isfinite(each.value)]
    return known if len(known) == len(found) else []


def _sum_of(groups: Sequence[Group], metric_id: str) -> Quantity:
    unit = groups[0].typical.get(metric_id)
    return Quantity(sum(_values(groups, metric_id)), unit.unit if unit else "")


def _other_launches(one: Launch, other: Launch) -> Iterator[Reason]:
    threads = _threads(other) - _threads(one)
    instructions = _change(one.get("inst_executed_total"), other.get("inst_executed_total"))
    least = _OTHER_LAUNCHES
    if instructions is None or abs(threads) < least[0] or abs(instructions) < least[1]:
        return
    if threads * instructions < 0:
        return
    side = "after" if instructions > 0 else "before"
    text = (
        f"{one.kernel}: a launch {side} executes {math.exp(abs(instructions)):,.0f} times the "
        "instructions of one on the other side, on more threads: it seems to do the work of many "
        "launches; say how often each is launched: --times N:M"
    )
    yield Reason("work_per_launch", "forbids", text)


def _threads(launch: Launch) -> float:
    """The logarithm of the number of threads."""
    sizes = [math.prod(size) for size in (launch.grid, launch.block) if size]
    return math.log(max(1, math.prod(sizes)))


def _change(before: Quantity | None, after: Quantity | None) -> float | None:
    if before is None or after is None or not (before.value > 0 and after.value > 0):
        return None
    if not (math.isfinite(before.value) and math.isfinite(after.value)):
        return None
    return math.log(after.value / before.value)


def doubt_of(reasons: Sequence[Reason]) -> float:
    return sum(reason.doubt for reason in reasons)
