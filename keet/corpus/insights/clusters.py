"""Finds clusters: kernels with the same finding, and their times."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keet.corpus.insights.points import FactBook, InsightSource, joined, literals
from keet.corpus.store.reader import ALIKE, REPLAY_GAP, does_more_work
from keet.documents.insights import Basis, ClusterDocument, ClusterKernelDocument, InsightDocument
from keet.evidence import Evidence, Sentence, constant, counted
from keet.findings import findings

_LEAST_KERNELS = 2
_SHOWN = 8
_LEAST_SHARE = 1.0
"""Smallest saving of a cluster, in per cent of the GPU's time."""
_LEAST_SAVED_US = 5.0
"""Smallest saving of a kernel: captures of such short launches differ by as much."""


class _Row(NamedTuple):
    """A finding in one kernel on one GPU, in the files of one folder.

    Those files have versions of the kernel (before and after an edit, points of a sweep). Only one
    version will be used, so the times are those of the file in which it takes longest.
    """

    finding: str
    device: str
    kernel: str
    kernel_full: str
    path: str
    launches: int
    """In that file."""
    in_all: int
    files: Sequence[str]
    time_us: float
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


def find_clusters(
    store: InsightSource, kernel: re.Pattern[str] | None, runs: RunTimeSql
) -> list[InsightDocument]:
    totals = _totals(store, kernel, runs)
    groups: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in _rows(store, runs):
        asked = kernel is None or kernel.search(row.kernel) or kernel.search(row.kernel_full)
        if asked and row.saved_likely_us >= _LEAST_SAVED_US:
            groups[row.finding, row.device].append(row)
    clusters = []
    for (_, device), rows in groups.items():
        basis: Basis = "run" if device in runs.not_profiled_us else "reports"
        cluster = _cluster(rows, totals[device], basis)
        # Two kernels of one file are not enough: the explanation of that file shows both.
        least = _LEAST_KERNELS if cluster.files > 1 else _LEAST_KERNELS + 1
        saved_pct = 100 * cluster.saved_likely_us / cluster.total_us
        if cluster.kernel_count >= least and saved_pct >= _LEAST_SHARE:
            launches = sum(row.launches for row in rows)
            clusters.append(_CountedCluster(cluster, launches, kernel is not None))
    return [_insight(each) for each in sorted(clusters, key=lambda c: -c.cluster.saved_likely_us)]


class _CountedCluster(NamedTuple):
    cluster: ClusterDocument
    counted: int
    """Number of launches in the times: those of the slowest version of each kernel."""
    is_selection: bool
    """Only kernels that match --kernel were considered."""

    @property
    def whole(self) -> str:
        """What shares are of."""
        if self.is_selection:
            return "the time of kernels that match"
        return "the time of the whole runs" if self.cluster.basis == "run" else "the time"


def _totals(
    store: InsightSource, kernel: re.Pattern[str] | None, runs: RunTimeSql
) -> dict[str, float]:
    """Time per GPU. Kernels that were not profiled are included if no `kernel` is given: their
    names are not known."""
    table = store.query(
        f"SELECT device, kernel, kernel_full, sum({runs.spent}) "
        f"FROM {store.launches} WHERE duration_us > 0 GROUP BY ALL"
    )
    totals: dict[str, float] = defaultdict(float)
    if kernel is None:
        totals.update(runs.not_profiled_us)
    for device, short, full, time in table.rows:
        if kernel is None or kernel.search(short or "") or kernel.search(full or ""):
            totals[device] += time
    return totals


def _rows(store: InsightSource, runs: RunTimeSql) -> list[_Row]:
    """The saving is computed from the launch's own time, so it is never more than that. A gain of
    more work in the same time saves time only if the run has several launches."""
    holds = f"{runs.holds} AND (l.run_launches > 1 OR NOT {does_more_work()})"
    saved = ", ".join(
        f"coalesce(sum(({runs.forecast_for}) * (1 - 1 / greatest(1, f.forecast_{bound}))) "
        f"FILTER ({holds}), 0) AS {bound}"
        for bound in ("low", "likely", "high")
    )
    table = store.query(
        "WITH in_file AS (SELECT f.id, l.device, l.kernel, "
        "any_value(l.kernel_full) AS full_name, l.report_sha256 AS sha256, min(l.path) AS path, "
        f"count(*) AS launches, sum({runs.spent}) AS time, {saved} "
        f"FROM findings f JOIN {store.launches} l USING (report_sha256, launch_id) "
        "WHERE l.duration_us > 0 AND f.forecast_likely IS NOT NULL "
        "GROUP BY f.id, l.device, l.kernel, l.report_sha256) "
        "SELECT id, device, coalesce(kernel, ''), coalesce(arg_max(full_name, (time, path)), ''), "
        "coalesce(arg_max(path, (time, path)), ''), "
        "arg_max(launches, (time, path)), sum(launches), list(sha256), max(time), "
        "arg_max(low, (time, path)), arg_max(likely, (time, path)), arg_max(high, (time, path)) "
        "FROM in_file "
        r"GROUP BY id, device, kernel, regexp_replace(path, '[^/\\]*$', '') "
        "ORDER BY id, device, kernel, arg_max(path, (time, path))"  # of equal savings
    )
    return [_Row(*row) for row in table.rows]


def _cluster(rows: Sequence[_Row], total_us: float, basis: Basis) -> ClusterDocument:
    kernels = sorted(_kernels(rows, total_us), key=lambda k: -k.saved_likely_us)
    spec = findings().get(rows[0].finding)
    time = sum(row.time_us for row in rows)
    return ClusterDocument(
        finding=rows[0].finding,
        label=spec.label if spec else rows[0].finding,
        device=rows[0].device,
        kernels=kernels[:_SHOWN],
        kernel_count=len({row.kernel_full for row in rows}),
        row_count=len(rows),
        launches=sum(row.in_all for row in rows),
        files=len(set().union(*(row.files for row in rows))),
        versions=sum(len(row.files) - 1 for row in rows),
        time_us=time,
        total_us=total_us,
        share_pct=100 * time / total_us,
        saved_low_us=sum(row.saved_low_us for row in rows),
        saved_likely_us=sum(row.saved_likely_us for row in rows),
        saved_high_us=sum(row.saved_high_us for row in rows),
        remedy=Sentence(spec.remedy if spec else "", here=""),
        basis=basis,
    )


def _kernels(rows: Sequence[_Row], total_us: float) -> Iterable[ClusterKernelDocument]:
    """By name and folder: different kernels may have the same short name."""
    shown = shortest_paths([row.path for row in rows])
    for row in rows:
        yield ClusterKernelDocument.taken_from(
            row,
            shown_path=shown[row.path],
            versions=len(row.files),
            files=len(row.files),
            share_pct=100 * row.time_us / total_us,
        )


def shortest_paths(paths: Iterable[str]) -> dict[str, str]:
    """The last parts of each path, as many as make all different; at least file and folder."""
    parts = {path: path.replace("\\", "/").split("/") for path in paths}
    depth, most = 2, max(map(len, parts.values()), default=0)
    while depth < most and len({tuple(part[-depth:]) for part in parts.values()}) < len(parts):
        depth += 1
    return {path: "/".join(each[-depth:]) for path, each in parts.items()}


# --- words


def _insight(counted: _CountedCluster) -> InsightDocument:
    book, cluster = FactBook(), counted.cluster
    kernels = book.computed("kernels", cluster.kernel_count, "")
    share = book.computed("share of the GPU's time", cluster.share_pct, "%")
    title = Sentence(
        "{kernels:.0f} kernels, {share:.0f} of {whole} on {device}: {label}",
        kernels=kernels,
        share=share,
        whole=counted.whole,
        label=cluster.label,
        device=cluster.device,
    )
    remedy = Sentence("{remedy}", remedy=cluster.remedy).capitalized()
    text = (_extent(counted, book, share), _saving(cluster, book), remedy)
    return book.insight(title, filter(None, text), _adds(cluster, book), cluster=cluster)


def _extent(seen: _CountedCluster, book: FactBook, share: Evidence) -> Sentence:
    cluster, who = seen.cluster, Sentence("They take")
    launches = book.computed("launches", cluster.launches, "")
    files = book.computed("files", cluster.files, "")
    time = book.computed("their time", cluster.time_us, "us")
    total = book.computed("all time", cluster.total_us, "us")
    if cluster.versions:
        rest = cluster.launches - seen.counted
        who = Sentence(
            "If a kernel is in several files of one folder, only the file in which it takes "
            "longest counts: {counted:,.0f} launches count, {others:,.0f} {do} not. Those that "
            "count take",
            counted=book.computed("launches that count", seen.counted, ""),
            others=book.computed("launches that do not count", rest, ""),
            do="does" if rest == 1 else "do",
        )
    return Sentence(
        "{launches:,.0f} {profiled} in {files} on {device} have this finding. {who} {time}, "
        "{share:.0f} of {whole} on this GPU ({total}).",
        launches=launches,
        profiled="profiled launches" if cluster.basis == "run" else "launches",
        files=counted(files, "file"),
        device=cluster.device,
        who=who,
        time=time,
        share=share,
        whole=seen.whole,
        total=total,
    )


def _saving(cluster: ClusterDocument, book: FactBook) -> Sentence:
    return Sentence(
        "Fixing {which} could save {likely} ({low} to {high}), the sum of their forecasts.",
        which="the slowest version of each" if cluster.versions else "all of them",
        low=book.computed("saved, at least", cluster.saved_low_us, "us"),
        likely=book.computed("saved, likely", cluster.saved_likely_us, "us"),
        high=book.computed("saved, at most", cluster.saved_high_us, "us"),
    )


def _adds(cluster: ClusterDocument, book: FactBook) -> Sentence:
    """Compared with the kernel that saves most; empty if all kernels are in one file."""
    if cluster.files < 2:
        return Sentence()
    first, saved = cluster.kernels[0], cluster.saved_likely_us
    share = book.computed(
        "share of the first kernel in the saving",
        100 * first.saved_likely_us / saved if saved else 0.0,
        "%",
    )
    names = dict.fromkeys(kernel.kernel for kernel in cluster.kernels[1:])
    names.pop(first.kernel, None)
    others = [f"`{name}`" for name in names][:2] or [f"`{cluster.kernels[1].shown_path}`"]
    others += ["others"] * (len(names) > len(others))
    return Sentence(
        "The kernel with the largest saving (`{kernel}`) has {share:.0f} of it; {others} {have} "
        "the same finding.",
        kernel=first.kernel,
        share=share,
        others=joined(others),
        have="has" if len(others) == 1 else "have",
    )


class RunTimeSql(NamedTuple):
    """SQL expressions over `launches` for the time that a launch counts for."""

    not_profiled_us: Mapping[str, float]
    """By GPU on which every report has a run table: time of the kernels that were not profiled."""
    notes: tuple[Sentence, ...]

    @property
    def spent(self) -> str:
        """Microseconds that a launch counts for."""
        return f"CASE WHEN {self._known} THEN run_time_us ELSE duration_us END"

    @property
    def forecast_for(self) -> str:
        """The part of `spent` that the forecast is for: launches of similar length."""
        return f"CASE WHEN {self._known} THEN {ALIKE} ELSE duration_us END"

    @property
    def holds(self) -> str:
        """Whether the forecast of a launch applies to that time."""
        return f"NOT ({self._known} AND {REPLAY_GAP})"

    @property
    def _known(self) -> str:
        gpus = literals(sorted(self.not_profiled_us))
        return f"device IN ({gpus})" if gpus else "false"


def run_times(store: InsightSource) -> RunTimeSql:
    counts = store.query(
        "SELECT device, bool_and(run_time_us IS NOT NULL), count(DISTINCT report_sha256), "
        "count(DISTINCT report_sha256) FILTER (run_time_us IS NOT NULL) "
        f"FROM {store.launches} WHERE duration_us > 0 GROUP BY 1 ORDER BY 1"
    ).rows
    notes = [
        Sentence(
            "times in the run are known for only {runs:,.0f} of {files:,.0f} files on {gpu}: "
            "clusters there count each launch once, as profiled",
            runs=constant(runs, "", "files with a run table"),
            files=constant(files, "", "files"),
            gpu=gpu,
        )
        for gpu, is_whole, files, runs in counts
        if runs and not is_whole
    ]
    not_profiled_us = {gpu: 0.0 for gpu, is_whole, *_ in counts if is_whole}
    if not not_profiled_us:
        return RunTimeSql({}, tuple(notes))
    tables = store.query(
        "SELECT device, sum(run_unprofiled_us), count(*) FILTER (NOT run_overlap_known) FROM "
        f"(SELECT DISTINCT device, report_sha256 FROM {store.launches} "
        "WHERE run_time_us IS NOT NULL) "
        "JOIN files ON sha256 = report_sha256 WHERE status = 'done' GROUP BY device ORDER BY device"
    ).rows
    for gpu, time_us, summed in tables:
        if gpu not in not_profiled_us:
            continue
        not_profiled_us[gpu] = time_us or 0.0
        if summed:
            notes.append(
                Sentence(
                    "{tables} on {gpu} {do} not record which kernels ran at the same time: the "
                    "times are sums of durations",
                    tables=counted(summed, "run table"),
                    gpu=gpu,
                    do="does" if summed == 1 else "do",
                )
            )
    return RunTimeSql(not_profiled_us, tuple(notes))
