"""The biggest opportunities of a store: where the GPU's time goes, and how much of it can be had.

Launches are put together that have the same kernel, shape and GPU. In each group the finding is
taken that would save the most time over the launches that have it as their first; the forecast told
is that of those launches together, long ones counting for more.

Times of two GPUs have nothing in common: shares are of the time on the group's own GPU, and groups
are ranked by the share that would be saved. On one GPU that is the order of the time saved.

Where the whole run of a report is known, a launch counts for the time of all launches of the run
that it stands for, and shares are of the run, with the kernels that were not profiled. What a fix
saves is claimed only for launches like the profiled one; the time of others, and of launches that
differ under replay, is time for which the saving is not known. In the ranking it counts in full: it
may be worth that much. Launches of other reports count once, as profiled. Both do not compare, so
they are kept apart as GPUs are, and groups of whole runs come first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from keet.corpus.store.reader import Store
from keet.corpus.top.groups import By, GroupMember, TopGroup, find_leaders, find_members
from keet.corpus.top.launch_filter import TIME_BASE, LaunchFilter, choose
from keet.records import NamedTuple

DEFAULT_LIMIT = 10

Basis = Literal["run", "reports"]
"""What times are of: whole runs, or the profiled launches alone."""


class Selection(NamedTuple):
    """Which launches, and how to put them together."""

    by: By = "kernel"
    limit: int | None = DEFAULT_LIMIT
    device: re.Pattern[str] | None = None
    kernel: re.Pattern[str] | None = None


class Gain(NamedTuple):
    """How many times faster the launches with the finding would be, all together."""

    low: float
    likely: float
    high: float


class Opportunity(NamedTuple):
    """One group of launches. `None` is: not measured, or the same for no two of them."""

    kernel: str
    """By finding or file: that of the longest time."""
    kernels: int
    grid: str | None
    block: str | None
    device: str | None
    compute_capability: str | None
    sm_count: int | None
    launches: int
    """Profiled ones."""
    untimed: int
    """Launches without a measured duration, which no time below counts."""
    time_us: float | None
    share: float | None
    """Of the time of all launches on its GPU, or of the runs there, 0 to 1."""
    limiter: str | None
    finding: str | None
    finding_launches: int
    forecast: Gain | None
    saved_us: float | None
    """If that finding were fixed where it is the first; of `saved_of_us`."""
    saved_share: float | None
    """Of what `share` is of: what groups are ranked by, with `unknown_us`."""
    not_judged: int
    """Launches of which nothing was measured that says where the time goes."""
    path: str
    """The report that holds the launch with the most time of them."""
    launch: int
    basis: Basis = "reports"
    run_launches: float | None = None
    """Launches of the runs that they stand for."""
    replay_gaps: int = 0
    """Launches that took much longer or shorter in the run than under the profiler."""
    saved_of_us: float | None = None
    """Time of the launches with that finding, without launches with a replay gap; in a run, of
    launches like them."""
    unknown_us: float | None = None
    """Part of `time_us` for which it is not known what a fix saves; `None`: basis `reports`."""
    unlike_us: float | None = None
    """Part of `unknown_us` in launches of the run unlike the profiled ones."""


class GapExample(NamedTuple):
    """Of the launches with a replay gap, the one that stands for the most time."""

    path: str
    launch: int


class GpuTotals(NamedTuple):
    """The launches on one GPU that the selection lets through; whole runs apart."""

    device: str | None
    """Its longest name."""
    compute_capability: str | None
    sm_count: int | None
    launches: int
    """Profiled ones."""
    untimed: int
    time_us: float | None
    total_us: float | None
    """Of all kernels, profiled or not: what shares are of."""
    basis: Basis = "reports"
    runs: int = 0
    """Reports whose run is known."""
    run_launches: float | None = None
    not_profiled_us: float | None = None
    """Part of `total_us`, in kernels that were not profiled."""
    replay_gaps: int = 0
    replay_gap_us: float | None = None
    gap_example: GapExample | None = None
    summed_runs: int = 0
    """Of `runs`, those whose times are sums of durations: their tables don't tell which kernels ran
    at the same time."""


class Top(NamedTuple):
    """Opportunities, those of whole runs first, and what they are of."""

    by: By
    reports: int
    """That the launches are of; equal files are one."""
    launches: int
    untimed: int
    time_us: float | None
    """`None` too where there are several GPUs, or runs and single launches: they don't add up."""
    gpus: tuple[GpuTotals, ...]
    """Whole runs first, then those with most launches."""
    groups: int
    """Before the limit cut them."""
    opportunities: tuple[Opportunity, ...]
    runs: int = 0
    """Reports with launches whose time in the whole run is known."""
    known_runs: int = 0
    """Reports whose whole run is known: `runs`, and those whose launches have no time in it, as
    that of a range."""


def find_top(store: Store, selection: Selection) -> Top:
    chosen = choose(store, selection.device, selection.kernel)
    gpus = _gpus(store, chosen)
    if not any(gpu.basis == "run" for gpu in gpus.values()):
        chosen = chosen._replace(has_runs=False)
    groups, leaders = find_leaders(store, selection.by, selection.limit, chosen)
    members = find_members(store, selection.by, chosen, leaders)
    found = (_opportunity(each, members[each.key], gpus[each.pool]) for each in leaders)
    reports, runs, known_runs = _report_counts(store, chosen)
    return Top(
        by=selection.by,
        reports=reports,
        launches=sum(gpu.launches for gpu in gpus.values()),
        untimed=sum(gpu.untimed for gpu in gpus.values()),
        time_us=next(iter(gpus.values())).time_us if len(gpus) == 1 else None,
        gpus=tuple(gpus.values()),
        groups=groups,
        opportunities=tuple(found),
        runs=runs,
        known_runs=known_runs,
    )


_GPUS = """
SELECT {keys}, arg_max(device, length(device)), count(*) FILTER (named) AS n,
    count(*) FILTER (named AND spent_us IS NULL),
    sum(spent_us) FILTER (named), sum(spent_us), sum(run_launches) FILTER (named),
    count(*) FILTER (named AND replay_gap), sum(spent_us) FILTER (named AND replay_gap),
    arg_max(struct_pack(path := path, launch := launch_id), coalesce(spent_us, -1))
        FILTER (named AND replay_gap)
FROM {source} GROUP BY {keys} HAVING n > 0 ORDER BY in_run DESC, n DESC, {keys}
"""
_RUNS = """
SELECT {keys}, count(*), sum(run_total_us), sum(run_unprofiled_us),
    count(*) FILTER (NOT run_overlap_known)
FROM {runs} GROUP BY {keys}
"""


def _gpus(store: Store, chosen: LaunchFilter) -> dict[tuple[Any, ...], GpuTotals]:
    """By what tells them apart."""
    keys = ", ".join(TIME_BASE)
    rows = store.query(_GPUS.format(keys=keys, source=chosen.source), chosen.parameters).rows
    of_run: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    if any(row[_IN_RUN] for row in rows):
        runs = store.query(_RUNS.format(keys=keys, runs=chosen.runs), chosen.parameters).rows
        of_run = {row[: len(TIME_BASE)]: row[len(TIME_BASE) :] for row in runs}
    return {row[: len(TIME_BASE)]: _gpu(row, of_run.get(row[: len(TIME_BASE)])) for row in rows}


_IN_RUN = TIME_BASE.index("in_run")


def _gpu(row: tuple[Any, ...], of_run: tuple[Any, ...] | None) -> GpuTotals:
    (_, capability, sms, in_run), (device, launches, untimed, *times) = row[:4], row[4:]
    time, total, run_launches, gaps, gap_us, example = times
    runs, run_total, not_profiled, summed = of_run or (0, None, None, 0)
    return GpuTotals(
        device,
        capability,
        sms,
        launches,
        untimed,
        _rounded(time),
        _rounded(run_total if in_run else total),
        "run" if in_run else "reports",
        runs,
        run_launches,
        _rounded(not_profiled),
        gaps,
        _rounded(gap_us),
        GapExample(**example) if example else None,
        summed,
    )


_REPORTS = """
SELECT count(*), count(*) FILTER (placed), count(*) FILTER (placed OR sha256 IS NOT NULL)
FROM (SELECT report_sha256, bool_or(in_run) AS placed FROM {source} WHERE named GROUP BY ALL)
LEFT JOIN (
    SELECT DISTINCT sha256 FROM files WHERE status = 'done' AND run_total_us IS NOT NULL
) ON sha256 = report_sha256
"""


def _report_counts(store: Store, chosen: LaunchFilter) -> tuple[int, int, int]:
    """All, those with launches that have a time in the run, and those whose run is known."""
    sql = _REPORTS.format(source=chosen.source)
    reports, runs, known_runs = store.query(sql, chosen.parameters).rows[0]
    return int(reports), int(runs), int(known_runs)


def _opportunity(leader: TopGroup, members: Sequence[GroupMember], gpu: GpuTotals) -> Opportunity:
    affected = [member for member in members if member.finding == leader.finding]
    longest = max(affected, key=lambda member: member.longest_us or -1)
    lead = max(affected, key=lambda member: member.time_us or -1)
    grid, block = leader.shape
    saved_us = _saved(leader)
    return Opportunity(
        kernel=lead.kernel,
        kernels=len({member.kernel for member in members}),
        grid=grid,
        block=block,
        device=gpu.device,
        compute_capability=gpu.compute_capability,
        sm_count=gpu.sm_count,
        launches=leader.launches,
        untimed=leader.launches - leader.timed,
        time_us=_rounded(leader.time_us),
        share=_share(leader.time_us, gpu.total_us),
        limiter=lead.limiter,
        finding=leader.finding,
        finding_launches=leader.finding_launches if leader.finding else 0,
        forecast=_gain(leader),
        saved_us=saved_us,
        saved_share=_share(saved_us, gpu.total_us),
        not_judged=leader.not_judged,
        path=longest.path,
        launch=longest.launch,
        basis=gpu.basis,
        run_launches=leader.run_launches,
        replay_gaps=leader.replay_gaps,
        saved_of_us=_rounded(leader.told_us),
        unknown_us=_rounded(leader.unknown_us),
        unlike_us=_rounded(leader.unlike_us),
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _saved(leader: TopGroup) -> float | None:
    if leader.told_us is None or leader.likely_us is None:
        return None
    return _rounded(max(0.0, leader.told_us - leader.likely_us))


def _gain(leader: TopGroup) -> Gain | None:
    times = (leader.slowest_us, leader.likely_us, leader.fastest_us)
    if not leader.told_us or not all(times):
        return None
    return Gain(*(round(leader.told_us / each, 4) for each in times if each))


def _rounded(microseconds: float | None) -> float | None:
    """To picoseconds: the last digits of a sum depend on which thread added first."""
    return None if microseconds is None else round(microseconds, 6)
