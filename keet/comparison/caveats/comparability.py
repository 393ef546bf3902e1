"""Checks whether two sides are comparable: GPUs, clocks, cache control, versions, launch counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from keet.analysis.capture.coverage import find_coverage
from keet.analysis.capture.ncu_options import setting_of
from keet.comparison.caveats.caveat import Caveat, forbids, note, weakens
from keet.comparison.caveats.work_per_launch import SAME_WORK, compare_work, log_change, log_growth
from keet.comparison.number_change import launch_count
from keet.comparison.pairing.code_similarity import same_code
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.pairing.sides import Side, all_captured, groups_of, time_in
from keet.comparison.timing.time_ledger import Numbers
from keet.evidence import Sentence, constant
from keet.profile import Device, Launch, Profile
from keet.profile.launch_sequences import longest
from keet.profile.names import file_name

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
    kinds: tuple[tuple[str, Callable[[Device], str | None]], ...] = (
        # Older versions of ncu leave out "NVIDIA".
        ("different GPUs: {before} before, {after} after", lambda device: _model(device.name)),
        (
            "different GPUs: compute capability {before} before, {after} after",
            lambda device: device.compute_capability,
        ),
        (
            "{before} SMs before, {after} after: one side used a part of the GPU",
            lambda device: _count(device.sm_count),
        ),
    )
    for text, kind in kinds:
        one, other = (sorted({x for d in side if (x := kind(d))}) for side in sides)
        if one and other and one != other:
            values = {"before": Sentence(", ").join(one), "after": Sentence(", ").join(other)}
            yield forbids("device", Sentence(text, **values))
            return
    if any(device.name is None for side in sides for device in side):
        text = "a report does not name its GPU, so the two sides may have run on different GPUs"
        yield note("device_unknown", text)


def _count(sms: int | None) -> Sentence | None:
    return Sentence("{sms}", sms=constant(sms, "", "SMs")) if sms else None


def _model(name: str | None) -> str | None:
    return name.removeprefix("NVIDIA ") if name else None


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
    kinds = {
        "ncu": ("ncu", one.provenance.ncu_version, other.provenance.ncu_version),
        "cuda": ("CUDA", one.provenance.cuda_version, other.provenance.cuda_version),
        "driver": ("the driver", one.provenance.driver_version, other.provenance.driver_version),
    }
    for kind, (label, before, after) in kinds.items():
        if before and after and before != after:
            text = f"{label} {before} before, {after} after"
            yield note(f"{kind}_version", text)
    if text := _different(one, other, "clock-control"):
        if _knows_clocks(one) and _knows_clocks(other):
            yield note("clock_control", text)  # `_clocks` compares the measured clocks
        else:
            yield weakens("clock_control", text, _FREE_CLOCKS)


def _knows_clocks(profile: Profile) -> bool:
    return all(launch.get("sm_frequency") for launch in profile.launches)


def _coverage(one: Profile, other: Profile) -> Iterator[Caveat]:
    """Metrics that only one side has."""
    lacking = [{g.label for g in find_coverage(each).gaps} for each in (one, other)]
    before, after = lacking
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
    if pairing.how in ("fused", "split"):
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
    one, other = (
        sum(len(group.launches) for group in side) for side in (pairing.before, pairing.after)
    )
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
        else "some may not have been captured: give the launch counts with --times N:M",
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
