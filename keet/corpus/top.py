"""What `keet top` prints: groups of launches, ranked by the time that the best fix would save.

Launches with the same kernel, shape and GPU are one group. Each group shows the finding that would
save the most time over the launches that have it as their first finding. Its forecast is that of
those launches together, so long launches count for more.

Groups are ranked by the time that would be saved. Shares are of the time on the group's own GPU: a
large share of a GPU that was used for a moment may be little time.

A finding whose fix does more work in the same time (launches too short, too few threads) saves time
only where several launches of the report or its run can be merged: one of them remains.

If a report has a run table, a launch counts for the time of all launches of the run that it stands
for, and shares are of the whole run, including kernels that were not profiled. A saving is claimed
only for launches of similar length. For other launches, and for launches whose profiled time
differs from the run, the saving is not known; in the ranking their time counts in full, because
they may be worth that much. Launches of other reports count once, as profiled. Times of runs and of
single launches can't be compared, so groups of whole runs come first, in a list of their own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from keet.corpus.batch.stored_files import is_gone
from keet.corpus.store.launch_sql import TIME_BASE, LaunchFilter, choose, does_more_work
from keet.corpus.store.reader import Store
from keet.documents.finding import Forecast
from keet.documents.top import (
    By,
    GapExampleDocument,
    GpuDocument,
    OpportunityDocument,
    Sort,
    TopDocument,
)
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
    saved_us: float | None
    """Part of `forecast_of_us` that the likely forecast saves."""

    @property
    def pool(self) -> tuple[Any, ...]:
        return self.key[-len(TIME_BASE) :]

    @property
    def shape(self) -> tuple[str | None, str | None]:
        """Grid and block; None for groups by finding or file."""
        own = self.key[: -len(TIME_BASE)]
        return own[1:3] if len(own) == 3 else (None, None)


_LEADERS = """
WITH merged AS (
    SELECT report_sha256, launch_id, 1 - 1 / greatest(1, sum(coalesce(run_launches, 1)) OVER (
        PARTITION BY report_sha256, kernel_full, grid, block
    )) AS saved_part
    FROM {source} SEMI JOIN (SELECT * FROM findings WHERE rank = 1 AND {does_more})
        USING (report_sha256, launch_id)
), causes AS (
    SELECT {keys}, top_finding AS cause, count(*) AS n, count(spent_us) AS timed,
        sum(spent_us) AS us, sum(alike_us) FILTER (holds) AS forecast_of,
        sum(alike_us / top_low) FILTER (holds) AS slowest,
        sum(alike_us / top_forecast) FILTER (holds) AS likely,
        sum(alike_us / top_high) FILTER (holds) AS fastest,
        sum((alike_us - alike_us / top_forecast) * coalesce(saved_part, 1)) FILTER (holds) AS saved,
        count(*) FILTER (not_judged) AS unjudged,
        sum(run_launches) AS in_runs, count(*) FILTER (replay_gap) AS gaps,
        sum(CASE WHEN unclear THEN spent_us ELSE spent_us - alike_us END) FILTER (in_run)
            AS unknown,
        sum(spent_us - alike_us) FILTER (in_run AND NOT replay_gap) AS unlike
    FROM (SELECT *, {holds} AS holds, {unclear} AS unclear FROM {source})
    LEFT JOIN merged USING (report_sha256, launch_id)
    WHERE named GROUP BY {keys}, top_finding
), whole AS (
    SELECT {keys}, sum(n)::BIGINT AS launches, sum(timed)::BIGINT AS timed, sum(us) AS all_us,
        sum(unjudged)::BIGINT AS unjudged, sum(in_runs) AS in_runs, sum(gaps)::BIGINT AS gaps,
        sum(unknown) AS unknown, sum(unlike) AS unlike,
        arg_max(
            struct_pack(cause := cause, n := n, forecast_of := forecast_of, slowest := slowest,
                likely := likely, fastest := fastest, saved := saved),
            CASE WHEN saved > 0 THEN saved ELSE -1 / (1 + coalesce(us, 0)) END
        ) AS best
    FROM causes GROUP BY {keys}
), totals AS (
    SELECT {pool} AS of_pool, sum(spent_us) AS total
    FROM {source} WHERE NOT in_run GROUP BY of_pool
    {run_totals}
)
SELECT count(*) OVER (), {keys}, launches, timed, all_us, unjudged, in_runs, gaps, unknown, unlike,
    best.cause, best.n, best.forecast_of, best.slowest, best.likely, best.fastest,
    best.saved
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
    (greatest(best.saved, 0) + coalesce(unknown, 0)) / {whole} DESC NULLS LAST,
    all_us / {whole} DESC NULLS LAST, {keys}
"""
_LIMIT = "QUALIFY row_number() OVER (PARTITION BY in_run ORDER BY {order}) <= {limit}"
"""Per list: times of whole runs and of single launches can't be compared."""


_RUN_TOTALS = """
UNION ALL SELECT {pool} AS of_pool, sum(run_total_us) FROM {runs} GROUP BY of_pool
"""


def find_leaders(
    store: Store, selection: Selection, chosen: LaunchFilter
) -> tuple[int, tuple[TopGroup, ...]]:
    """The number of all groups, and the leading ones: whole runs first, then single launches."""
    keys, limit = _keys(selection.by), selection.limit
    whole = "total" if selection.sort == "share" else "1"
    order = _ORDER.format(keys=", ".join(keys), whole=whole)
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
        does_more=does_more_work(),
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
    file: str | None
    line: int | None


Members = dict[tuple[Any, ...], list[GroupMember]]

_MEMBERS = """
SELECT {keys}, top_finding, variant, count(*) FILTER (starts_with(headline, '{debug}')),
    kernel, limiter, sum(spent_us), max(spent_us),
    unnest(arg_max(
        struct_pack(path := path, launch := launch_id, file := file, line := line),
        coalesce(spent_us, -1)
    ))
FROM {source} LEFT JOIN (
    SELECT report_sha256, launch_id, variant, file, line FROM findings WHERE rank = 1
) USING (report_sha256, launch_id)
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts))
GROUP BY {keys}, top_finding, variant, kernel, limiter
"""

_REPORTS_OF_GROUPS = """
SELECT {keys}, count(DISTINCT report_sha256) FROM {source}
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts)) GROUP BY {keys}
"""


def find_members(
    store: Store, by: By, chosen: LaunchFilter, leaders: Sequence[TopGroup]
) -> tuple[Members, dict[tuple[Any, ...], int]]:
    """The launches of the leading groups, and the number of their reports, by key."""
    keys = _keys(by)
    names = {"keys": ", ".join(keys), "first": keys[0], "source": chosen.source}
    parameters = {**chosen.parameters, "firsts": list({each.key[0] or "" for each in leaders})}
    members: Members = defaultdict(list)
    sql = _MEMBERS.format(**names, debug=DEBUG_BUILD_STARTS)
    for row in store.query(sql, parameters).rows:
        members[row[: len(keys)]].append(GroupMember(*row[len(keys) :]))
    counts = store.query(_REPORTS_OF_GROUPS.format(**names), parameters).rows
    return members, {row[:-1]: row[-1] for row in counts}


DEFAULT_LIMIT = 10


class Selection(NamedTuple):
    """Which launches to rank, and how to group them."""

    by: By = "kernel"
    limit: int | None = DEFAULT_LIMIT
    device: re.Pattern[str] | None = None
    kernel: re.Pattern[str] | None = None
    sort: Sort = "saved"


def find_top(store: Store, selection: Selection) -> TopDocument:
    chosen = choose(store, selection.device, selection.kernel)
    gpus = _gpus(store, chosen)
    if not any(gpu.basis == "run" for gpu in gpus.values()):
        chosen = chosen._replace(has_runs=False)
    groups, leaders = find_leaders(store, selection, chosen)
    members, report_counts = find_members(store, selection.by, chosen, leaders)
    reports, runs, known_runs, without_code = _report_counts(store, chosen)
    failed = store.query("SELECT count(*) FROM files WHERE status = 'failed'").rows[0][0]
    return TopDocument(
        store=str(store.path),
        by=selection.by,
        device=selection.device.pattern if selection.device else None,
        kernel=selection.kernel.pattern if selection.kernel else None,
        reports=reports,
        failed=int(failed),
        launches=sum(gpu.launches for gpu in gpus.values()),
        untimed=sum(gpu.untimed for gpu in gpus.values()),
        time_us=next(iter(gpus.values())).time_us if len(gpus) == 1 else None,
        gpus=list(gpus.values()),
        groups=groups,
        opportunities=[
            _opportunity(rank, each, members[each.key], gpus[each.pool], report_counts[each.key])
            for rank, each in enumerate(leaders, 1)
        ],
        runs=runs,
        known_runs=known_runs,
        sort=selection.sort,
        without_code=without_code,
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


def _gpus(store: Store, chosen: LaunchFilter) -> dict[tuple[Any, ...], GpuDocument]:
    """By the values of `TIME_BASE`."""
    keys = ", ".join(TIME_BASE)
    rows = store.query(_GPUS.format(keys=keys, source=chosen.source), chosen.parameters).rows
    of_run: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    if any(row[_IN_RUN] for row in rows):
        runs = store.query(_RUNS.format(keys=keys, runs=chosen.runs), chosen.parameters).rows
        of_run = {row[: len(TIME_BASE)]: row[len(TIME_BASE) :] for row in runs}
    return {row[: len(TIME_BASE)]: _gpu(row, of_run.get(row[: len(TIME_BASE)])) for row in rows}


_IN_RUN = TIME_BASE.index("in_run")


def _gpu(row: tuple[Any, ...], of_run: tuple[Any, ...] | None) -> GpuDocument:
    (_, capability, sms, in_run), (device, launches, untimed, *times) = row[:4], row[4:]
    time, total, run_launches, gaps, gap_us, example = times
    runs, run_total, not_profiled, summed = of_run or (0, None, None, 0)
    return GpuDocument(
        device=device,
        compute_capability=capability,
        sm_count=sms,
        launches=launches,
        untimed=untimed,
        time_us=_rounded(time),
        total_us=_rounded(run_total if in_run else total),
        basis="run" if in_run else "reports",
        runs=runs,
        run_launches=run_launches,
        not_profiled_us=_rounded(not_profiled),
        replay_gaps=gaps,
        replay_gap_us=_rounded(gap_us),
        gap_example=GapExampleDocument(**example) if example else None,
        summed_runs=summed,
    )


_REPORTS = """
SELECT count(*), count(*) FILTER (placed), count(*) FILTER (placed OR sha256 IS NOT NULL),
    count(*) FILTER (without_code)
FROM (
    SELECT report_sha256, bool_or(in_run) AS placed, bool_and(machine_code = 'off') AS without_code
    FROM {source} WHERE named GROUP BY ALL
)
LEFT JOIN (
    SELECT DISTINCT sha256 FROM files WHERE status = 'done' AND run_total_us IS NOT NULL
) ON sha256 = report_sha256
"""


def _report_counts(store: Store, chosen: LaunchFilter) -> tuple[int, ...]:
    """All reports, those with times of launches in the run, those with a run table, and those whose
    machine code was not analysed."""
    sql = _REPORTS.format(source=chosen.source)
    return tuple(map(int, store.query(sql, chosen.parameters).rows[0]))


def _opportunity(
    rank: int,
    leader: TopGroup,
    members: Sequence[GroupMember],
    gpu: GpuDocument,
    reports: int,
) -> OpportunityDocument:
    affected = [member for member in members if member.finding == leader.finding]
    longest = max(affected, key=lambda member: member.longest_us or -1)
    lead = max(affected, key=lambda member: member.time_us or -1)
    grid, block = leader.shape
    saved_us = None if leader.saved_us is None else _rounded(max(0.0, leader.saved_us))
    return OpportunityDocument(
        rank=rank,
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
        gone=is_gone(longest.path),
        basis=gpu.basis,
        run_launches=leader.run_launches,
        replay_gaps=leader.replay_gaps,
        saved_of_us=_rounded(leader.forecast_of_us),
        unknown_us=_rounded(leader.unknown_us),
        unlike_us=_rounded(leader.unlike_us),
        variant=lead.variant if len({member.variant for member in affected}) == 1 else None,
        debug_builds=sum(member.debug_builds for member in members),
        reports=reports,
        file=longest.file,
        line=longest.line,
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _gain(leader: TopGroup) -> Forecast | None:
    times = (leader.slowest_us, leader.likely_us, leader.fastest_us)
    if not leader.forecast_of_us or not all(times):
        return None
    low, likely, high = (round(leader.forecast_of_us / each, 4) for each in times if each)
    return Forecast(low=low, likely=likely, high=high)


def _rounded(microseconds: float | None) -> float | None:
    """To picoseconds: the last digits of a sum depend on the order of threads."""
    return None if microseconds is None else round(microseconds, 6)
