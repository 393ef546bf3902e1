"""The biggest opportunities of a store: where the GPU's time goes, and how much of it can be had.

Launches are put together that have the same kernel, shape and GPU. In each group the finding is
taken that would save the most time over the launches that have it as their first; the forecast told
is that of those launches together, long ones counting for more.
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
_DEVICE = ("device", "compute_capability", "sm_count")
"""Part of every group: times of two GPUs have nothing in common."""


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
    """Of the time of all launches on the chosen GPUs, 0 to 1."""
    limiter: str | None
    finding: str | None
    finding_launches: int
    forecast: Gain | None
    saved_us: float | None
    """If that finding were fixed where it is the first."""
    path: str
    """The report that holds the longest launch of them."""
    launch: int


class Top(NamedTuple):
    """Opportunities, the largest saving first, and what they are of."""

    by: By
    launches: int
    untimed: int
    time_us: float | None
    groups: int
    """Before the limit cut them."""
    opportunities: tuple[Opportunity, ...]


def find_top(store: Store, selection: Selection) -> Top:
    on_devices, parameters = _condition(store, "device", selection.device)
    launches, timed, time_us = store.query(_TOTALS.format(where=on_devices), parameters).rows[0]
    named, names = _condition(store, "kernel_full", selection.kernel)
    filtered = _Filter(f"{on_devices} AND {named}", (*parameters, *names))
    groups, leaders = _leaders(store, selection, filtered)
    members = _members(store, selection, filtered, leaders)
    found = tuple(_opportunity(each, members[each.key], time_us) for each in leaders)
    return Top(selection.by, launches, launches - timed, _rounded(time_us), groups, found)


_TOTALS = "SELECT count(*), count(duration_us), sum(duration_us) FROM launches WHERE {where}"


# --- which launches


def _condition(
    store: Store, column: str, pattern: re.Pattern[str] | None
) -> tuple[str, list[object]]:
    """Python's expressions, as everywhere in keet: duckdb's are of another kind."""
    if pattern is None:
        return "true", []
    names = "kernel, kernel_full" if column == "kernel_full" else column
    table = store.query(f"SELECT DISTINCT {names} FROM launches")
    chosen = [row[-1] for row in table.rows if any(pattern.search(str(name)) for name in row)]
    if not chosen:
        option = "--device" if column == "device" else "--kernel"
        raise UsageError(
            f"{option} {pattern.pattern!r} matches none of {_some(table.rows)}; "
            f"see: keet top {store.path}"
        )
    return f"coalesce({column}, 'None') IN (SELECT unnest(?))", [list(map(str, chosen))]


def _some(rows: Sequence[tuple[Any, ...]]) -> str:
    names = sorted({str(row[0]) for row in rows})
    left = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + left


class _Filter(NamedTuple):
    where: str
    parameters: tuple[object, ...]


# --- groups


class _Leader(NamedTuple):
    """A group, and its finding with the largest saving."""

    key: tuple[Any, ...]
    launches: int
    timed: int
    time_us: float | None
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
        sum(duration_us / top_high) FILTER (top_forecast > 0) AS fastest
    FROM launches WHERE {where} GROUP BY {keys}, top_finding
), whole AS (
    SELECT {keys}, sum(n)::BIGINT AS launches, sum(timed)::BIGINT AS timed, sum(us) AS all_us,
        arg_max(
            struct_pack(cause := cause, n := n, told := told, slowest := slowest,
                likely := likely, fastest := fastest),
            CASE WHEN told > likely THEN told - likely ELSE -1 / (1 + coalesce(us, 0)) END
        ) AS best
    FROM causes GROUP BY {keys}
)
SELECT count(*) OVER (), {keys}, launches, timed, all_us,
    best.cause, best.n, best.told, best.slowest, best.likely, best.fastest
FROM whole
ORDER BY greatest(best.told - best.likely, 0) DESC NULLS LAST, all_us DESC NULLS LAST, {keys}
{limit}
"""


def _leaders(
    store: Store, selection: Selection, filtered: _Filter
) -> tuple[int, tuple[_Leader, ...]]:
    """How many groups there are, and those that lead."""
    limit = f"LIMIT {selection.limit}" if selection.limit else ""
    keys = _keys(selection.by)
    sql = _LEADERS.format(keys=", ".join(keys), where=filtered.where, limit=limit)
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
FROM launches
WHERE {where} AND coalesce({first}, '') IN (SELECT unnest(?))
GROUP BY {keys}, top_finding, kernel, limiter
"""


def _members(
    store: Store, selection: Selection, filtered: _Filter, leaders: Sequence[_Leader]
) -> _Members:
    """Of the leading groups, by their key: who they are is asked for no others."""
    keys = _keys(selection.by)
    sql = _MEMBERS.format(keys=", ".join(keys), first=keys[0], where=filtered.where)
    firsts = list({leader.key[0] or "" for leader in leaders})
    members: _Members = defaultdict(list)
    for row in store.query(sql, [*filtered.parameters, firsts]).rows:
        members[row[: len(keys)]].append(_Member(*row[len(keys) :]))
    return members


def _opportunity(leader: _Leader, members: Sequence[_Member], all_us: float | None) -> Opportunity:
    affected = [member for member in members if member.finding == leader.finding]
    longest = max(affected, key=lambda member: member.longest_us or -1)
    lead = max(affected, key=lambda member: member.time_us or -1)
    grid, block = leader.key[1:3] if len(leader.key) > 4 else (None, None)
    device, capability, sms = leader.key[-3:]
    time_us = leader.time_us
    return Opportunity(
        kernel=lead.kernel,
        kernels=len({member.kernel for member in members}),
        grid=grid,
        block=block,
        device=device,
        compute_capability=capability,
        sm_count=sms,
        launches=leader.launches,
        untimed=leader.launches - leader.timed,
        time_us=_rounded(time_us),
        share=time_us / all_us if time_us is not None and all_us else None,
        limiter=lead.limiter,
        finding=leader.finding,
        finding_launches=leader.finding_launches if leader.finding else 0,
        forecast=_gain(leader),
        saved_us=_saved(leader),
        path=longest.path,
        launch=longest.launch,
    )


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
