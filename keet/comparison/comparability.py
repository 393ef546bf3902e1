"""Checks whether two sides are comparable: how they were captured, and the work of one launch. What
besides the program makes them differ is a `Caveat`.

Edits of a kernel keep the work of a launch: about the same number of instructions, and the same
output. A launch that took over the work of many others executes more instructions, takes longer,
and either writes more (a batch of small grids became one large grid) or does more per thread (a
loop of launches moved into the kernel). Measured on the samples and on the casebook's work
families: docs/diff_times.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from keet.analysis.coverage import find_coverage
from keet.analysis.recapture import setting_of
from keet.comparison.numbers import Numbers, launch_count
from keet.comparison.pairs import Pairing
from keet.comparison.same_kernel import (
    KernelGroup,
    Side,
    all_captured,
    groups_of,
    same_code,
    threads_of,
    time_in,
    uses_tensor_cores,
)
from keet.documents.diff import ReasonDocument, Severity
from keet.documents.document import live
from keet.evidence import Sentence, constant
from keet.profile import Device, Launch, Profile
from keet.profile.launch import file_name
from keet.profile.run_link import longest
from keet.units import Quantity


class DiffOption(str):
    """An option of `keet diff` in a text. The text of another command names both."""

    __slots__ = ()


COUNTS = DiffOption("--times N:M")
BEFORE_TABLE = DiffOption("--run-table-before")


def naming_keet_diff(text: Sentence) -> Sentence:
    """The text with `keet diff` before its options."""
    return text.with_parts(f"keet diff {x}" if isinstance(x, DiffOption) else x for x in text.parts)


class CaveatAdvice(NamedTuple):
    """The option of `keet diff` that resolves a caveat."""

    what: str
    """The caveat without the advice."""
    how: str
    """What to do; the option follows."""
    option: DiffOption


class Caveat(ReasonDocument):
    """Something besides the program that makes two sides differ.

    `forbids`: `keet diff` refuses to compare (exit 6) without --force. `weakens`: a difference must
    exceed the noise plus `doubt`. `note`: is only printed.
    """

    doubt: float = live(default=0.0)
    """By how much it may change the logarithm of the ratio of times."""
    no_verdict: bool = live(default=False)
    """The text itself says that there is no verdict: it is printed without its severity."""
    advice: CaveatAdvice | None = live(default=None)
    """Set if the text names an option."""

    def text_with(self, options: Mapping[str, str]) -> str:
        """The text with other option names, by those of `keet diff`. Advice without a counterpart
        is left out."""
        if self.advice is None:
            return self.text
        what, how, option = self.advice
        return f"{what}; {how} {options[option]}" if option in options else what

    @property
    def as_note(self) -> Caveat:
        """The same caveat as a note, for times that it does not affect."""
        weight: Severity = "note" if self.severity == "weakens" else self.severity
        return replace(self, severity=weight, doubt=0.0)


def note(id_: str, text: str) -> Caveat:
    return Caveat(id=id_, severity="note", text=text)


def weakens(id_: str, text: str, doubt: float) -> Caveat:
    return Caveat(id=id_, severity="weakens", text=text, doubt=doubt)


def no_verdict(id_: str, of: str, why: str) -> Caveat:
    """`of`: a kernel, or `the total`."""
    text = Sentence("No verdict on {of}: {why}", of=of, why=why)
    return Caveat(id=id_, severity="weakens", text=text, no_verdict=True)


def forbids(id_: str, text: str) -> Caveat:
    return Caveat(id=id_, severity="forbids", text=text)


def advised(id_: str, what: str, how: str, option: DiffOption, doubt: float = 0.0) -> Caveat:
    """A caveat that forbids the comparison, and the option that allows it."""
    text = Sentence("{what}; {how} {option}", what=what, how=how, option=option)
    advice = CaveatAdvice(what, how, option)
    return Caveat(id=id_, severity="forbids", text=text, doubt=doubt, advice=advice)


def doubt_of(caveats: Sequence[Caveat]) -> float:
    return sum(caveat.doubt for caveat in caveats)


_LISTED = 3


def listed(names: Sequence[str], noun: str = "") -> Sentence:
    """The first three: `a, b, c and 2 more`. `noun`: of what there are more."""
    shown = ", ".join(names[:_LISTED])
    if len(names) <= _LISTED:
        return Sentence("{shown}", shown=shown)
    more = constant(len(names) - _LISTED, "", "names that are not listed")
    behind = f" {noun}" if noun else ""
    return Sentence("{shown} and {more} more{noun}", shown=shown, more=more, noun=behind)


_CLOCKS = 0.03
"""Two captures on one H200 differ by 1 % in SM clock; 8 % is what power limits take."""
_FREE_CLOCKS = 0.15
"""Assumed, not measured: the effect of locked clocks on one side if the reports lack the clocks."""
WARM_CACHES = 0.5
"""Measured on an H200 (docs/diff.md): with warm caches, kernels took 0.63 to 1.07 times as long."""
NO_TIMES = forbids(
    "no_times",
    "a launch has no duration: profile it with: ncu --section SpeedOfLight, or "
    "--metrics gpu__time_duration.sum",
)


def compare_captures(before: Side, after: Side) -> tuple[Caveat, ...]:
    """Caveats of the captures as a whole: where and how they were made."""
    one, other = before.first.profile, after.first.profile
    return (
        *_same_file(one, other),
        *_devices(before, after),
        *_cache_control(one, other),
        *_versions(one, other),
        *_coverage(one, other),
        *_runs(before, after),
    )


def _same_file(one: Profile, other: Profile) -> Iterator[Caveat]:
    sides = (one.provenance, other.provenance)
    stated = {side.origin.sha256 if side.origin else side.sha256 for side in sides}
    if one.provenance.sha256 == other.provenance.sha256:
        yield note("same_file", "both sides are the same report")
    elif len(stated) == 1:
        text = "both sides are made from the same report, as a snapshot states"
        yield note("same_origin", text)


def _devices(before: Side, after: Side) -> Iterator[Caveat]:
    sides = [
        {launch.device for run in side.captures for launch in run.launches}
        for side in (before, after)
    ]
    if not all(sides):
        return
    for text, kind in _DEVICE_KINDS:
        one, other = (sorted({x for d in side if (x := kind(d))}) for side in sides)
        if one and other and one != other:
            values = {"before": Sentence(", ").join(one), "after": Sentence(", ").join(other)}
            yield forbids("device", Sentence(text, **values))
            return
    if any(device.name is None for side in sides for device in side):
        text = "a report does not name its GPU, so the two sides may have run on different GPUs"
        yield note("device_unknown", text)


def _sm_count(device: Device) -> Sentence | None:
    sms = device.sm_count
    return Sentence("{sms}", sms=constant(sms, "", "SMs")) if sms else None


_DEVICE_KINDS: tuple[tuple[str, Callable[[Device], str | None]], ...] = (
    (
        "different GPUs: {before} before, {after} after",
        lambda device: (device.name or "").removeprefix("NVIDIA "),  # older ncu leaves it out
    ),
    (
        "different GPUs: compute capability {before} before, {after} after",
        lambda device: device.compute_capability,
    ),
    ("{before} SMs before, {after} after: one side used a part of the GPU", _sm_count),
)


def _different(one: Profile, other: Profile, option: str) -> str:
    """The two values of an ncu option if they differ; empty if they are equal or not known."""
    before, after = (setting_of(each, option) for each in (one, other))
    if before is None or after is None or before.value == after.value:
        return ""
    values = [f"{x.value}{' (default)' * x.is_default}" for x in (before, after)]
    return f"--{option} {values[0]} before, {values[1]} after"


def _cache_control(one: Profile, other: Profile) -> Iterator[Caveat]:
    settings = _different(one, other, "cache-control")
    if not settings:
        return
    text = f"{settings}: kernels start with different cache contents"
    yield weakens("cache_control", text, WARM_CACHES)


def _versions(one: Profile, other: Profile) -> Iterator[Caveat]:
    labels = {"ncu_version": "ncu", "cuda_version": "CUDA", "driver_version": "the driver"}
    for kind, label in labels.items():
        before, after = (getattr(each.provenance, kind) for each in (one, other))
        if before and after and before != after:
            text = f"{label} {before} before, {after} after"
            yield note(kind, text)
    if text := _different(one, other, "clock-control"):
        if _knows_clocks(one) and _knows_clocks(other):
            yield note("clock_control", text)  # `_clocks` compares the measured clocks
        else:
            yield weakens("clock_control", text, _FREE_CLOCKS)


def _knows_clocks(profile: Profile) -> bool:
    return all(launch.get("sm_frequency") for launch in profile.launches)


def _coverage(one: Profile, other: Profile) -> Iterator[Caveat]:
    """Metrics that only one side has."""
    before, after = ({g.label for g in find_coverage(each).gaps} for each in (one, other))
    for here, there, side in ((before, after, "before"), (after, before, "after")):
        if only := sorted(here - there):
            text = f"the report {side} has no {', no '.join(only)}: this is not compared"
            yield note("metric_sets", text)


def _runs(before: Side, after: Side) -> Iterator[Caveat]:
    if before.scale != after.scale:
        one, other = (_times(side.scale) for side in (before, after))
        yield note(
            "times",
            Sentence("each launch counts {one} before and {other} after", one=one, other=other),
        )
    for side, word in ((before, "before"), (after, "after")):
        known = groups_of(side.first.launches)
        odd = [run for run in side.captures[1:] if any(time_in(run, [g]) is None for g in known)]
        if odd:
            names = ", ".join(file_name(run.profile.provenance.path) for run in odd)
            text = (
                f"{word}: {names} has other launches than the first run; only launches that both "
                "have are counted"
            )
            yield note("other_launches", text)
        yield from _odd_runs(side, word)


def _times(scale: int) -> Sentence:
    """`1 time`, `300 times`: what the user gave with --times."""
    given = constant(scale, "", "launches of the program per launch in the report")
    return Sentence("{given} time" if scale == 1 else "{given} times", given=given)


def _odd_runs(side: Side, word: str) -> Iterator[Caveat]:
    """Captures of one side are averaged, so each must have done the same work."""
    first = {group.key: group for group in groups_of(side.first.launches)}
    for run in side.captures[1:]:
        for group in groups_of(run.launches):
            known = first.get(group.key)
            same = Pairing((known,), (group,), "same") if known else None
            change = log_growth(same, "inst_executed_total") if same else None
            if change is not None and abs(change) > SAME_WORK:
                name = file_name(run.profile.provenance.path)
                text = f"{word}: {name} did other work in {group.kernel} than the first run"
                yield forbids("other_runs", text)
                break


# --- one pair


def compare_launches(pairing: Pairing, *profiles: Profile, numbers: Numbers) -> tuple[Caveat, ...]:
    """Caveats of one pair of kernels. `profiles`: of both sides, to check whether they contain all
    launches."""
    if not pairing.before or not pairing.after:
        return ()
    one, other = (longest(side) for side in pairing.typical)
    clocks = _clocks(one, other, numbers)
    if pairing.has_parts:
        return tuple(clocks)  # their launches do different work by design
    one_program = len({profile.provenance.sha256 for profile in profiles}) == 1
    named_alike = one.name.full == other.name.full
    same = (one_program and named_alike) or same_code(one, other)
    return (
        *_counts(pairing, profiles, numbers),
        *clocks,
        *compare_work(pairing, one, other, numbers, same=same),
    )


def _counts(pairing: Pairing, profiles: Sequence[Profile], numbers: Numbers) -> Iterator[Caveat]:
    one, other = pairing.counts
    if one == other:
        return
    whole = all(map(all_captured, profiles))
    text = Sentence(
        "{kernel}: {before} before, {after:count} after; {hence}",
        kernel=pairing.kernel,
        before=launch_count(numbers("launches in the report before", one, "launch")),
        after=numbers("launches in the report after", other, "launch"),
        hence="the total counts every launch in the reports"
        if whole
        else Sentence(
            "some may not have been captured: give the launch counts with {option}", option=COUNTS
        ),
    )
    if whole:
        yield note("launch_counts", text)
    else:
        yield weakens("launch_counts", text, abs(math.log(other / one)))


def _clocks(one: Launch, other: Launch, numbers: Numbers) -> Iterator[Caveat]:
    for metric, label in (("sm_frequency", "SM"), ("dram_frequency", "DRAM")):
        before, after = one.get(metric), other.get(metric)
        change = log_change(before, after)
        if before and after and change is not None and abs(change) > _CLOCKS:
            text = Sentence(
                "the {label} clock of {kernel} was {before} before and {after} after",
                label=label,
                kernel=one.kernel,
                before=numbers(f"{label} clock before", before.value, before.unit),
                after=numbers(f"{label} clock after", after.value, after.unit),
            )
            yield weakens("clocks", text, abs(change))


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
    measured = [launch.get(metric_id) for group in groups for launch in group.launches]
    known = [float(each.value) for each in measured if each]
    return known if len(known) == len(measured) else []


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
    yield advised("work_per_launch", what, how, COUNTS, abs(instructions))


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
    if pairing.has_parts:
        many = abs(work) >= _LOOPS_RENAMED
    else:
        many = _took_over_loop(pairing, one, other, work) or _is_batch(one, other, work)
    return _many(pairing, work, numbers) if many and not _other_instructions(one, other) else None


_WRITTEN = ("global_store_sectors", "dram_bytes_written")


def _writes_as_much(pairing: Pairing) -> bool:
    """Whether as many launches write as many bytes on both sides: then a launch that executes fewer
    instructions needs fewer for the same work. One that executes more may have taken over a loop of
    launches, which writes its result once, too."""
    one, other = pairing.counts
    changes = [_growth_of_one(pairing, metric) for metric in _WRITTEN]
    return one == other and any(
        change is not None and abs(change) <= SAME_WORK for change in changes
    )


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
    if pairing.has_parts:
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
    requests, sectors = (
        log_change(one.get(metric), other.get(metric))
        for metric in ("global_store_requests", "global_store_sectors")
    )
    if requests is None or sectors is None:
        threads = _threads(other) - _threads(one)
        return abs(threads) >= _BATCH and abs(work - threads) <= _CLOSE_PER_THREAD
    output = min(abs(requests), abs(sectors)) if requests * sectors > 0 else 0.0
    follows = abs(work) >= _FOLLOWS * output and requests * work > 0
    return follows and min(output, abs(work)) >= _BATCH
