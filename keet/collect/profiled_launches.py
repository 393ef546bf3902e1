"""Finds which launch of the plain run each launch of the report corresponds to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from keet.collect.plain_run import PlainRun
from keet.collect.profile_plan import ProfilePlan
from keet.profile import Launch
from keet.profile.run_table import ProfiledLaunch


def profiled_launches(
    launches: Sequence[Launch], plan: ProfilePlan, plain: PlainRun
) -> Iterator[ProfiledLaunch]:
    """Only for kernels whose launches are all in the report with the same shapes: a program may
    behave differently in its second run, and ncu may have profiled several processes."""
    expected: dict[str, list[int]] = defaultdict(list)
    for number in _expected(launches, plan, plain):
        expected[plain.records[number].name].append(number)
    found: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        found[launch.name.mangled or launch.name.full].append(launch)
    for name, numbers in expected.items():
        if len(numbers) == len(found[name]):
            yield from _pairs(found[name], numbers, plain)


def _pairs(
    launches: Sequence[Launch], numbers: Sequence[int], plain: PlainRun
) -> Iterator[ProfiledLaunch]:
    for launch, number in zip(launches, numbers, strict=True):
        record = plain.records[number]
        if (record.grid, record.block) == (launch.grid, launch.block):
            yield ProfiledLaunch(launch.id, number, float(record.end - record.start))


def _expected(launches: Sequence[Launch], plan: ProfilePlan, plain: PlainRun) -> list[int]:
    """Numbers of the launches that ncu was told to profile, as far as keet can know."""
    request = plan.request
    if plan.choice:
        return [each.number for each in plan.choice.launches]
    if request.as_range:
        return []
    if request.launch_skip is None and request.launch_count is None:
        return _first_of_each(plain)
    if request.kernel is None:
        skipped = request.launch_skip or 0
        return list(range(skipped, min(skipped + len(launches), len(plain.records))))
    return []


def _first_of_each(plain: PlainRun) -> list[int]:
    first: dict[str, int] = {}
    processes = Counter(record.process for record in plain.records)
    for number, record in enumerate(plain.records):
        if len(processes) == 1:
            first.setdefault(record.name, number)
    return sorted(first.values())
