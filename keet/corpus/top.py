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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keet.analysis.parameters import NOTABLE_PART
from keet.corpus.batch.stored_files import is_gone
from keet.corpus.store.reader import TIME_BASE, LaunchFilter, Store, choose, does_more_work
from keet.documents.finding import CauseCertainty, Forecast
from keet.documents.top import (
    By,
    GapExampleDocument,
    GpuDocument,
    OpportunityDocument,
    Sort,
    TopDocument,
)
from keet.explanation.headline import DEBUG_BUILD_STARTS
from keet.profile.run_link import representative

_KEYS: dict[By, tuple[str, ...]] = {
    "kernel": ("kernel", "grid", "block"),
    "finding": ("top_finding",),
    "file": ("path",),
}


class TopGroup(NamedTuple):
    """A group of launches, with the finding that would save most."""

    key: tuple[Any, ...]
    rank: int
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
    is_listed: bool
    """False: the limit leaves it out, but it has no finding and takes much time."""

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
SELECT count(*) OVER (), {keys}, row_number() OVER (ORDER BY in_run DESC, {order}),
    launches, timed, all_us, unjudged, in_runs, gaps, unknown, unlike,
    best.cause, best.n, best.forecast_of, best.slowest, best.likely, best.fastest,
    best.saved, {listed}
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
_LISTED = "row_number() OVER (PARTITION BY in_run ORDER BY {order}) <= {limit}"
"""Per list: times of whole runs and of single launches can't be compared."""
_WITHOUT_FINDING = 3
"""Groups without a finding that the limit leaves out, but that are named: at most."""
_LIMIT = """
QUALIFY {listed} OR (
    best.cause IS NULL AND all_us >= {notable} * total AND row_number() OVER (
        PARTITION BY in_run, best.cause IS NULL ORDER BY all_us / {whole} DESC NULLS LAST, {keys}
    ) <= {most}
)
"""


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
    listed = _LISTED.format(order=order, limit=limit) if limit else "true"
    pool = f"hash({', '.join(TIME_BASE)})"  # NULL is equal to NULL in a hash
    sql = _LEADERS.format(
        keys=", ".join(keys),
        pool=pool,
        source=chosen.source,
        run_totals=_RUN_TOTALS.format(pool=pool, runs=chosen.runs) if chosen.has_runs else "",
        order=order,
        listed=listed,
        limit=_LIMIT.format(
            listed=listed,
            notable=float(NOTABLE_PART),
            whole=whole,
            keys=", ".join(keys),
            most=_WITHOUT_FINDING,
        ),
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
    """Launches of a group with one kernel, finding and limiter. `path`, `longest`: the longest."""

    finding: str | None
    variant: str | None
    debug_builds: int
    without_code: int
    kernel: str
    limiter: str | None
    time_us: float | None
    longest_us: float | None
    path: str
    longest: str
    """Its report and id: see `_KEY`."""


Members = dict[tuple[Any, ...], list[GroupMember]]

_KEY = "concat(report_sha256, ' ', launch_id)"
_MEMBERS = """
SELECT {keys}, top_finding, variant, count(*) FILTER (starts_with(headline, '{debug}')),
    count(*) FILTER (machine_code = 'off'), kernel, limiter, sum(spent_us), max(spent_us),
    unnest(first(
        struct_pack(path := path, longest := {key})
        ORDER BY coalesce(spent_us, -1) DESC, path, launch_id
    ))
FROM {source} LEFT JOIN (
    SELECT report_sha256, launch_id, variant FROM findings WHERE rank = 1
) USING (report_sha256, launch_id)
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts))
GROUP BY {keys}, top_finding, variant, kernel, limiter
"""

_REPORTS_OF_GROUPS = """
SELECT {keys}, count(DISTINCT report_sha256) FROM {source}
WHERE named AND coalesce({first}, '') IN (SELECT unnest($firsts)) GROUP BY {keys}
"""
"""A number over all launches of a group, whatever their findings, belongs here."""


def find_members(
    store: Store, by: By, chosen: LaunchFilter, leaders: Sequence[TopGroup]
) -> tuple[Members, dict[tuple[Any, ...], int]]:
    """The launches of the leading groups, and the number of their reports, by key."""
    keys = _keys(by)
    names = {"keys": ", ".join(keys), "first": keys[0], "source": chosen.source}
    parameters = {**chosen.parameters, "firsts": list({leader.key[0] or "" for leader in leaders})}
    members: Members = defaultdict(list)
    sql = _MEMBERS.format(**names, debug=DEBUG_BUILD_STARTS, key=_KEY)
    for row in store.query(sql, parameters).rows:
        members[row[: len(keys)]].append(GroupMember(*row[len(keys) :]))
    counts = store.query(_REPORTS_OF_GROUPS.format(**names), parameters).rows
    return members, {row[:-1]: row[-1] for row in counts}


class StoredLaunch(NamedTuple):
    """A launch of the kernel and shape that a group names, in one report."""

    id: int
    rank_time: float
    rank_cycles: float
    finding: str | None
    certainty: CauseCertainty | None
    file: str | None
    line: int | None


_SAME_KERNEL = """
SELECT longest, each.launch_id, coalesce(each.duration_us, 0), 0, each.top_finding,
    cause_certainty, file, line
FROM (
    SELECT {key} AS longest, report_sha256, hash({shape}) AS shape FROM launches
    WHERE {key} IN (SELECT unnest($longest))
) AS named JOIN (SELECT *, hash({shape}) AS shape FROM launches) AS each
    USING (report_sha256, shape)
LEFT JOIN (
    SELECT report_sha256, launch_id, cause_certainty, file, line FROM findings WHERE rank = 1
) AS causes ON causes.report_sha256 = each.report_sha256 AND causes.launch_id = each.launch_id
"""
_SHAPE = "kernel_full, grid, block, device"


def find_representatives(
    store: Store, named: Mapping[str, str | None]
) -> Mapping[str, StoredLaunch]:
    """The launch of the same report, kernel and shape that `keet explain` prints, if it has the
    finding, else of those that have it. `named`: the finding of the group, by its longest launch.
    """
    launches: dict[str, list[StoredLaunch]] = defaultdict(list)
    sql = _SAME_KERNEL.format(key=_KEY, shape=_SHAPE)
    for longest, *cells in store.query(sql, {"longest": list(named)}).rows:
        launches[longest].append(StoredLaunch(*cells))
    standing = {}
    for longest, finding in named.items():
        launch = representative(launches[longest])
        if launch.finding != finding:
            launch = representative([own for own in launches[longest] if own.finding == finding])
        standing[longest] = launch
    return standing


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
    named = {each.key: _Named(each, members[each.key]) for each in leaders}
    standing = find_representatives(
        store, {each.longest.longest: each.longest.finding for each in named.values()}
    )
    opportunities = [
        _opportunity(group, standing, gpus[group.leader.pool], report_counts[key])
        for key, group in named.items()
    ]
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
        opportunities=[o for o, leader in zip(opportunities, leaders) if leader.is_listed],
        without_finding=[o for o, leader in zip(opportunities, leaders) if not leader.is_listed],
        runs=runs,
        known_runs=known_runs,
        sort=selection.sort,
        without_code=without_code,
    )


_GPUS = """
SELECT {keys}, arg_max(device, length(device)) AS device, count(*) FILTER (named) AS launches,
    count(*) FILTER (named AND spent_us IS NULL) AS untimed,
    sum(spent_us) FILTER (named) AS time_us, sum(spent_us) AS total_us,
    sum(run_launches) FILTER (named) AS run_launches,
    count(*) FILTER (named AND replay_gap) AS replay_gaps,
    sum(spent_us) FILTER (named AND replay_gap) AS replay_gap_us,
    arg_max(struct_pack(path := path, launch := launch_id), coalesce(spent_us, -1))
        FILTER (named AND replay_gap) AS gap_example
FROM {source} GROUP BY {keys} HAVING launches > 0 ORDER BY in_run DESC, launches DESC, {keys}
"""
_RUNS = """
SELECT {keys}, count(*) AS runs, sum(run_total_us) AS total_us,
    sum(run_unprofiled_us) AS not_profiled_us,
    count(*) FILTER (NOT run_overlap_known) AS summed_runs
FROM {source} GROUP BY {keys}
"""
_NO_RUNS = {"runs": 0, "not_profiled_us": None, "summed_runs": 0}


def _gpus(store: Store, chosen: LaunchFilter) -> dict[tuple[Any, ...], GpuDocument]:
    """By the values of `TIME_BASE`."""
    keys, size = ", ".join(TIME_BASE), len(TIME_BASE)

    def cells(sql: str, source: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        table = store.query(sql.format(keys=keys, source=source), chosen.parameters)
        return {row[:size]: dict(zip(table.columns, row)) for row in table.rows}

    gpus = cells(_GPUS, chosen.source)
    runs = cells(_RUNS, chosen.runs) if any(gpu["in_run"] for gpu in gpus.values()) else {}
    return {key: _gpu({**_NO_RUNS, **gpu, **runs.get(key, {})}) for key, gpu in gpus.items()}


def _gpu(cells: Mapping[str, Any]) -> GpuDocument:
    """`cells`: of `_GPUS` and, if its times are of runs, of `_RUNS`."""
    named = {**cells, "basis": "run" if cells["in_run"] else "reports"}
    named |= {name: _rounded(cell) for name, cell in cells.items() if name.endswith("_us")}
    example = cells["gap_example"]
    named["gap_example"] = GapExampleDocument(**example) if example else None
    return GpuDocument(**{name: named[name] for name in GpuDocument.names()})


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


class _Named(NamedTuple):
    leader: TopGroup
    members: Sequence[GroupMember]

    @property
    def affected(self) -> list[GroupMember]:
        """Those with the finding."""
        return [member for member in self.members if member.finding == self.leader.finding]

    @property
    def longest(self) -> GroupMember:
        """Of several, always the same one, whichever comes first."""
        return min(self.affected, key=lambda m: (-(m.longest_us or -1), m.path, m.longest))


def _opportunity(
    named: _Named, standing: Mapping[str, StoredLaunch], gpu: GpuDocument, reports: int
) -> OpportunityDocument:
    leader, members, affected = named.leader, named.members, named.affected
    path, shown = named.longest.path, standing[named.longest.longest]
    lead = min(affected, key=lambda m: (-(m.time_us or -1), m.kernel, m.limiter or ""))
    grid, block = leader.shape
    saved_us = None if leader.saved_us is None else _rounded(max(0.0, leader.saved_us))
    return OpportunityDocument.taken_from(
        leader,
        kernel=lead.kernel,
        kernels=len({member.kernel for member in members}),
        grid=grid,
        block=block,
        device=gpu.device,
        compute_capability=gpu.compute_capability,
        sm_count=gpu.sm_count,
        untimed=leader.launches - leader.timed,
        time_us=_rounded(leader.time_us),
        share=_share(_rounded(leader.time_us), gpu.total_us),
        limiter=lead.limiter,
        finding_launches=leader.finding_launches if leader.finding else 0,
        forecast=_gain(leader),
        saved_us=saved_us,
        saved_share=_share(saved_us, gpu.total_us),
        path=path,
        launch=shown.id,
        gone=is_gone(path),
        basis=gpu.basis,
        saved_of_us=_rounded(leader.forecast_of_us),
        unknown_us=_rounded(leader.unknown_us),
        unlike_us=_rounded(leader.unlike_us),
        variant=lead.variant if len({member.variant for member in affected}) == 1 else None,
        debug_builds=sum(member.debug_builds for member in members),
        reports=reports,
        file=shown.file,
        line=shown.line,
        cause_certainty=shown.certainty,
        without_code=sum(member.without_code for member in members),
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
