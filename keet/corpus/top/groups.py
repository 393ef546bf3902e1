"""SQL of `keet top`: finds the leading groups and the launches in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from keet.corpus.store.reader import Store
from keet.corpus.top.launch_filter import TIME_BASE, LaunchFilter
from keet.documents.top import By
from keet.explanation.headline import DEBUG_BUILD_STARTS

_KEYS: dict[By, tuple[str, ...]] = {
    "kernel": ("kernel", "grid", "block"),
    "finding": ("top_finding",),
    "file": ("path",),
}


class TopGroup(NamedTuple):
    """A group of launches, with the finding that would save most."""

    key: tuple[Any, ...]
    launches: int
    timed: int
    time_us: float | None
    not_judged: int
    run_launches: float | None
    replay_gaps: int
    unknown_us: float | None
    unlike_us: float | None
    finding: str | None
    finding_launches: int
    forecast_of_us: float | None
    """Time that the forecast applies to. The next three are that time after the fix, for the low,
    likely and high forecast."""
    slowest_us: float | None
    likely_us: float | None
    fastest_us: float | None

    @property
    def pool(self) -> tuple[Any, ...]:
        return self.key[-len(TIME_BASE) :]

    @property
    def shape(self) -> tuple[str | None, str | None]:
        """Grid and block; None for groups by finding or file."""
        own = self.key[: -len(TIME_BASE)]
        return own[1:3] if len(own) == 3 else (None, None)


_LEADERS = """
WITH causes AS (
    SELECT {keys}, top_finding AS cause, count(*) AS n, count(spent_us) AS timed,
        sum(spent_us) AS us, sum(alike_us) FILTER (holds) AS forecast_of,
        sum(alike_us / top_low) FILTER (holds) AS slowest,
        sum(alike_us / top_forecast) FILTER (holds) AS likely,
        sum(alike_us / top_high) FILTER (holds) AS fastest,
        count(*) FILTER (not_judged) AS unjudged,
        sum(run_launches) AS in_runs, count(*) FILTER (replay_gap) AS gaps,
        sum(CASE WHEN unclear THEN spent_us ELSE spent_us - alike_us END) FILTER (in_run)
            AS unknown,
        sum(spent_us - alike_us) FILTER (in_run AND NOT replay_gap) AS unlike
    FROM (SELECT *, {holds} AS holds, {unclear} AS unclear FROM {source})
    WHERE named GROUP BY {keys}, top_finding
), whole AS (
    SELECT {keys}, sum(n)::BIGINT AS launches, sum(timed)::BIGINT AS timed, sum(us) AS all_us,
        sum(unjudged)::BIGINT AS unjudged, sum(in_runs) AS in_runs, sum(gaps)::BIGINT AS gaps,
        sum(unknown) AS unknown, sum(unlike) AS unlike,
        arg_max(
            struct_pack(cause := cause, n := n, forecast_of := forecast_of, slowest := slowest,
                likely := likely, fastest := fastest),
            CASE WHEN forecast_of > likely THEN forecast_of - likely
                ELSE -1 / (1 + coalesce(us, 0)) END
        ) AS best
    FROM causes GROUP BY {keys}
), totals AS (
    SELECT {pool} AS of_pool, sum(spent_us) AS total
    FROM {source} WHERE NOT in_run GROUP BY of_pool
    {run_totals}
)
SELECT count(*) OVER (), {keys}, launches, timed, all_us, unjudged, in_runs, gaps, unknown, unlike,
    best.cause, best.n, best.forecast_of, best.slowest, best.likely, best.fastest
FROM whole LEFT JOIN totals ON of_pool = {pool}
{limit}
ORDER BY in_run DESC, {order}
"""
_HOLDS = """
    top_forecast > 0 AND NOT replay_gap AND NOT (in_run AND alike_us = 0 AND spent_us > 0)
"""
"""Whether the forecast of a launch applies to the time that it stands for."""
_UNCLEAR = """
    replay_gap OR coalesce(not_judged, false)
        OR (top_finding IS NOT NULL AND NOT coalesce(top_forecast > 0, false))
"""
"""Whether the saving in the run is not known."""
_ORDER = """
    (greatest(best.forecast_of - best.likely, 0) + coalesce(unknown, 0)) / total DESC NULLS LAST,
    all_us / total DESC NULLS LAST, {keys}
"""
_LIMIT = "QUALIFY row_number() OVER (PARTITION BY in_run ORDER BY {order}) <= {limit}"
"""Per list: times of whole runs and of single launches can't be compared."""


_RUN_TOTALS = """
UNION ALL SELECT {pool} AS of_pool, sum(run_total_us) FROM {runs} GROUP BY of_pool
"""


def find_leaders(
    store: Store, by: By, limit: int | None, chosen: LaunchFilter
) -> tuple[int, tuple[TopGroup, ...]]:
    """The number of all groups, and the leading ones: whole runs first, then single launches."""
    keys = _keys(by)
    order = _ORDER.format(keys=", ".join(keys))
    pool = f"hash({', '.join(TIME_BASE)})"  # NULL is equal to NULL in a hash
    sql = _LEADERS.format(
        keys=", ".join(keys),
        pool=pool,
        source=chosen.source,
        run_totals=_RUN_TOTALS.format(pool=pool, runs=chosen.runs) if chosen.has_runs else "",
        order=order,
        limit=_LIMIT.format(order=order, limit=limit) if limit else "",
        holds=_HOLDS,
        unclear=_UNCLEAR,
    )
    rows = store.query(sql, chosen.parameters).rows
    end = 1 + len(keys)
    return rows[0][0] if rows else 0, tuple(TopGroup(row[1:end], *row[end:]) for row in rows)


def _keys(by: By) -> tuple[str, ...]:
    return (*_KEYS[by], *TIME_BASE)


class GroupMember(NamedTuple):
    """Launches of a group with one kernel, finding and limiter. `path`, `launch`: the longest."""

    finding: str | None
    variant: str | None
    debug_builds: int
    kernel: str
    limiter: str | None
    time_us: float | None
    longest_us: float | None
    path: str
    launch: int


Members = dict[tuple[Any, ...], list[GroupMember]]

_MEMBERS = """
SELECT {keys}, top_finding, variant, count(*) FILTER (starts_with(headline, '{debug}')),
    kernel, limiter, sum(spent_us), max(spent_us),
    unnest(arg_max(struct_pack(path := path, launch := launch_id), coalesce(spent_us, -1)))
FROM {source} LEFT JOIN (
    SELECT report_sha256, launch_id, variant FROM findings WHERE rank = 1
) USING (report_sha256, launch_id)
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts))
GROUP BY {keys}, top_finding, variant, kernel, limiter
"""


def find_members(
    store: Store, by: By, chosen: LaunchFilter, leaders: Sequence[TopGroup]
) -> Members:
    """The launches of the leading groups, by key."""
    keys = _keys(by)
    sql = _MEMBERS.format(
        keys=", ".join(keys), first=keys[0], source=chosen.source, debug=DEBUG_BUILD_STARTS
    )
    firsts = list({leader.key[0] or "" for leader in leaders})
    members: Members = defaultdict(list)
    for row in store.query(sql, {**chosen.parameters, "firsts": firsts}).rows:
        members[row[: len(keys)]].append(GroupMember(*row[len(keys) :]))
    return members
