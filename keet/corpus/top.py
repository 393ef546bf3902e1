"""The biggest opportunities of a store: where the GPU's time goes, and how much of it can be had.

Launches are put together that have the same kernel, shape and GPU. In each group the finding is
taken that would save the most time over the launches that have it as their first; the forecast told
is that of those launches together, long ones counting for more.

Times of two GPUs have nothing in common: shares are of the time on the group's own GPU, and groups
are ranked by the share that would be saved. On one GPU that is the order of the time saved.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from keet.corpus.store import Store
from keet.errors import UsageError

By = Literal["kernel", "finding", "file"]
DEFAULT_LIMIT = 10

_KEYS: dict[By, tuple[str, ...]] = {
    "kernel": ("kernel", "grid", "block"),
    "finding": ("top_finding",),
    "file": ("path",),
}
_PREFIX = "NVIDIA "
_BARE = (
    f"CASE WHEN starts_with(device, '{_PREFIX}') THEN substr(device, {len(_PREFIX) + 1}) "
    "ELSE device END"
)
"""Older versions of ncu leave the maker out of a GPU's name, newer ones do not."""
_DEVICE = ("gpu", "compute_capability", "sm_count")
"""Part of every group."""


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
    untimed: int
    """Launches without a measured duration, which no time below counts."""
    time_us: float | None
    share: float | None
    """Of the time of all launches on its GPU, 0 to 1."""
    limiter: str | None
    finding: str | None
    finding_launches: int
    forecast: Gain | None
    saved_us: float | None
    """If that finding were fixed where it is the first."""
    saved_share: float | None
    """Of the time of all launches on its GPU: what groups are ranked by."""
    not_judged: int
    """Launches without a finding whose report lacks what would show one."""
    path: str
    """The report that holds the longest launch of them."""
    launch: int


class Gpu(NamedTuple):
    """The launches on one GPU that the selection lets through."""

    device: str | None
    """Its longest name."""
    compute_capability: str | None
    sm_count: int | None
    launches: int
    untimed: int
    time_us: float | None
    total_us: float | None
    """Of all kernels: what shares are of."""


class Top(NamedTuple):
    """Opportunities, the largest saving first, and what they are of."""

    by: By
    reports: int
    """That the launches are of; equal files are one."""
    launches: int
    untimed: int
    time_us: float | None
    """`None` too where there are several GPUs: their times don't add up."""
    gpus: tuple[Gpu, ...]
    """Those with most launches first."""
    groups: int
    """Before the limit cut them."""
    opportunities: tuple[Opportunity, ...]


def find_top(store: Store, selection: Selection) -> Top:
    on_devices, devices = _on_devices(store, selection.device)
    named, names = _named(store, selection.kernel)
    filtered = _Filter(on_devices, named, {**devices, **names})
    gpus = _gpus(store, filtered)
    groups, leaders = _leaders(store, selection, filtered)
    members = _members(store, selection, filtered, leaders)
    found = (_opportunity(each, members[each.key], gpus[each.key[-3:]]) for each in leaders)
    return Top(
        by=selection.by,
        reports=_report_count(store, filtered),
        launches=sum(gpu.launches for gpu in gpus.values()),
        untimed=sum(gpu.untimed for gpu in gpus.values()),
        time_us=next(iter(gpus.values())).time_us if len(gpus) == 1 else None,
        gpus=tuple(gpus.values()),
        groups=groups,
        opportunities=tuple(found),
    )


_GPUS = """
SELECT {keys}, arg_max(device, length(device)), count(*) FILTER (named) AS n,
    count(*) FILTER (named AND duration_us IS NULL),
    sum(duration_us) FILTER (named), sum(duration_us)
FROM {source} GROUP BY {keys} HAVING n > 0 ORDER BY n DESC, {keys}
"""


def _gpus(store: Store, filtered: _Filter) -> dict[tuple[Any, ...], Gpu]:
    """By what tells them apart."""
    sql = _GPUS.format(keys=", ".join(_DEVICE), source=filtered.source)
    return dict(map(_gpu, store.query(sql, filtered.parameters).rows))


def _gpu(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], Gpu]:
    (_, capability, sms), (device, launches, untimed, *times) = row[:3], row[3:]
    return row[:3], Gpu(device, capability, sms, launches, untimed, *map(_rounded, times))


def _report_count(store: Store, filtered: _Filter) -> int:
    sql = f"SELECT count(DISTINCT report_sha256) FROM {filtered.source} WHERE named"
    return int(store.query(sql, filtered.parameters).rows[0][0])


# --- which launches

_Parameters = dict[str, list[str]]
"""Of SQL, by name."""


def _on_devices(store: Store, pattern: re.Pattern[str] | None) -> tuple[str, _Parameters]:
    """A GPU is meant by any of its names."""
    if pattern is None:
        return "true", {}
    rows = store.query(f"SELECT DISTINCT {_BARE}, device FROM launches").rows
    chosen = {str(gpu) for gpu, device in rows if _matches(pattern, gpu, device)}
    if not chosen:
        raise _no_match(store, "--device", pattern, [device for _, device in rows])
    return "coalesce(gpu, 'None') IN (SELECT unnest($devices))", {"devices": sorted(chosen)}


def _named(store: Store, pattern: re.Pattern[str] | None) -> tuple[str, _Parameters]:
    if pattern is None:
        return "true", {}
    rows = store.query("SELECT DISTINCT kernel, kernel_full FROM launches").rows
    chosen = {str(full) for kernel, full in rows if _matches(pattern, kernel, full)}
    if not chosen:
        raise _no_match(store, "--kernel", pattern, [kernel for kernel, _ in rows])
    return "coalesce(kernel_full, 'None') IN (SELECT unnest($kernels))", {"kernels": sorted(chosen)}


def _matches(pattern: re.Pattern[str], *names: object) -> bool:
    """Python's expressions, as everywhere in keet: duckdb's are of another kind."""
    return any(pattern.search(str(name)) for name in names)


def _no_match(
    store: Store, option: str, pattern: re.Pattern[str], names: Sequence[object]
) -> UsageError:
    known = sorted({str(name) for name in names})
    left = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return UsageError(
        f"{option} {pattern.pattern!r} matches none of {', '.join(known[:3])}{left}; "
        f"see: keet top {store.path}"
    )


class _Filter(NamedTuple):
    on_devices: str
    named: str
    parameters: _Parameters

    @property
    def source(self) -> str:
        """All kernels on the chosen GPUs; the chosen ones are `named`."""
        launches = f"SELECT *, {_BARE} AS gpu, {self.named} AS named FROM launches"
        return f"(SELECT * FROM ({launches}) WHERE {self.on_devices})"


# --- groups


class _Leader(NamedTuple):
    """A group, and its finding with the largest saving."""

    key: tuple[Any, ...]
    launches: int
    timed: int
    time_us: float | None
    not_judged: int
    finding: str | None
    finding_launches: int
    told_us: float | None
    """Time of the launches that have the finding and a forecast; then what it would become."""
    slowest_us: float | None
    likely_us: float | None
    fastest_us: float | None


_LEADERS = """
WITH causes AS (
    SELECT {keys}, top_finding AS cause, count(*) AS n, count(duration_us) AS timed,
        sum(duration_us) AS us, sum(duration_us) FILTER (top_forecast > 0) AS told,
        sum(duration_us / top_low) FILTER (top_forecast > 0) AS slowest,
        sum(duration_us / top_forecast) FILTER (top_forecast > 0) AS likely,
        sum(duration_us / top_high) FILTER (top_forecast > 0) AS fastest,
        count(*) FILTER (not_judged) AS unjudged
    FROM {source} WHERE named GROUP BY {keys}, top_finding
), whole AS (
    SELECT {keys}, sum(n)::BIGINT AS launches, sum(timed)::BIGINT AS timed, sum(us) AS all_us,
        sum(unjudged)::BIGINT AS unjudged,
        arg_max(
            struct_pack(cause := cause, n := n, told := told, slowest := slowest,
                likely := likely, fastest := fastest),
            CASE WHEN told > likely THEN told - likely ELSE -1 / (1 + coalesce(us, 0)) END
        ) AS best
    FROM causes GROUP BY {keys}
), totals AS (
    SELECT {gpu} AS on_gpu, sum(duration_us) AS total FROM {source} GROUP BY on_gpu
)
SELECT count(*) OVER (), {keys}, launches, timed, all_us, unjudged,
    best.cause, best.n, best.told, best.slowest, best.likely, best.fastest
FROM whole JOIN totals ON on_gpu = {gpu}
ORDER BY greatest(best.told - best.likely, 0) / total DESC NULLS LAST,
    all_us / total DESC NULLS LAST, {keys}
{limit}
"""


def _leaders(
    store: Store, selection: Selection, filtered: _Filter
) -> tuple[int, tuple[_Leader, ...]]:
    """How many groups there are, and those that lead."""
    limit = f"LIMIT {selection.limit}" if selection.limit else ""
    keys = _keys(selection.by)
    gpu = f"hash({', '.join(_DEVICE)})"  # which NULL is equal to itself in
    sql = _LEADERS.format(keys=", ".join(keys), gpu=gpu, source=filtered.source, limit=limit)
    rows = store.query(sql, filtered.parameters).rows
    end = 1 + len(keys)
    return rows[0][0] if rows else 0, tuple(_Leader(row[1:end], *row[end:]) for row in rows)


def _keys(by: By) -> tuple[str, ...]:
    return (*_KEYS[by], *_DEVICE)


class _Member(NamedTuple):
    """Launches of one kernel with one finding and limiter, and the longest of them."""

    finding: str | None
    kernel: str
    limiter: str | None
    time_us: float | None
    longest_us: float | None
    path: str
    launch: int


_Members = dict[tuple[Any, ...], list[_Member]]

_MEMBERS = """
SELECT {keys}, top_finding, kernel, limiter, sum(duration_us), max(duration_us),
    unnest(arg_max(struct_pack(path := path, launch := launch_id), coalesce(duration_us, -1)))
FROM {source}
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts))
GROUP BY {keys}, top_finding, kernel, limiter
"""


def _members(
    store: Store, selection: Selection, filtered: _Filter, leaders: Sequence[_Leader]
) -> _Members:
    """Of the leading groups, by their key: who they are is asked for no others."""
    keys = _keys(selection.by)
    sql = _MEMBERS.format(keys=", ".join(keys), first=keys[0], source=filtered.source)
    firsts = list({leader.key[0] or "" for leader in leaders})
    members: _Members = defaultdict(list)
    for row in store.query(sql, {**filtered.parameters, "firsts": firsts}).rows:
        members[row[: len(keys)]].append(_Member(*row[len(keys) :]))
    return members


def _opportunity(leader: _Leader, members: Sequence[_Member], gpu: Gpu) -> Opportunity:
    affected = [member for member in members if member.finding == leader.finding]
    longest = max(affected, key=lambda member: member.longest_us or -1)
    lead = max(affected, key=lambda member: member.time_us or -1)
    grid, block = leader.key[1:3] if len(leader.key) > 4 else (None, None)
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
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _saved(leader: _Leader) -> float | None:
    if leader.told_us is None or leader.likely_us is None:
        return None
    return _rounded(max(0.0, leader.told_us - leader.likely_us))


def _gain(leader: _Leader) -> Gain | None:
    times = (leader.slowest_us, leader.likely_us, leader.fastest_us)
    if not leader.told_us or not all(times):
        return None
    return Gain(*(round(leader.told_us / each, 4) for each in times if each))


def _rounded(microseconds: float | None) -> float | None:
    """To picoseconds: the last digits of a sum depend on which thread added first."""
    return None if microseconds is None else round(microseconds, 6)
