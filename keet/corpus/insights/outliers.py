"""Finds outliers: launches that take much longer than others of the same kernel, shape and GPU."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.facts import FactBook, joined, numbered
from keet.corpus.insights.metric_changes import moved_between
from keet.corpus.insights.points import InsightSource, Point, literals, point_at
from keet.documents.insights import (
    InsightDocument,
    MovedDocument,
    OutlierDocument,
    OutliersDocument,
)
from keet.evidence import Sentence, counted

_LEAST_PEERS = 5
_SHOWN = 5
_MOST_SHARE = 0.2
"""Largest share of outliers in a group: more would be a second mode, not exceptions."""

_SQL = """
WITH peers AS (
    SELECT report_sha256, kernel_full, device, grid, block, cluster_size, shared_memory_dynamic,
        count(*) AS peers, median(ln(duration_us)) AS middle, mad(ln(duration_us)) AS deviation
    FROM {launches} WHERE duration_us > 0 GROUP BY ALL HAVING count(*) >= {least}
)
SELECT l.report_sha256, l.launch_id, l.duration_us, p.peers, exp(p.middle), p.deviation,
    l.kernel, l.kernel_full, l.device, l.grid, l.block
FROM {launches} l JOIN peers p ON l.report_sha256 = p.report_sha256
    AND l.kernel_full IS NOT DISTINCT FROM p.kernel_full
    AND l.device IS NOT DISTINCT FROM p.device AND l.grid IS NOT DISTINCT FROM p.grid
    AND l.block IS NOT DISTINCT FROM p.block
    AND l.cluster_size IS NOT DISTINCT FROM p.cluster_size
    AND l.shared_memory_dynamic IS NOT DISTINCT FROM p.shared_memory_dynamic
WHERE l.duration_us > 0 AND ln(l.duration_us) - p.middle > ln({worth})
ORDER BY l.duration_us DESC
"""


class _Found(NamedTuple):
    sha256: str
    launch: int
    duration_us: float
    peers: int
    median_us: float
    deviation: float
    kernel: str
    kernel_full: str
    device: str
    grid: str | None
    block: str | None

    @property
    def group(self) -> tuple[object, ...]:
        return (self.sha256, self.kernel_full, self.device, self.grid, self.block, self.median_us)


class FoundOutliers(NamedTuple):
    told: list[InsightDocument]
    found: int


def find_outliers(
    store: InsightSource, kernel: re.Pattern[str] | None, top: int | None
) -> FoundOutliers:
    """Within a file: launches of different runs may differ for other reasons."""
    table = store.query(
        _SQL.format(launches=store.launches, least=_LEAST_PEERS, worth=noise.WORTH_TELLING)
    )
    groups: dict[tuple[object, ...], list[_Found]] = defaultdict(list)
    for found in map(_found, table.rows):
        matches = kernel is None or kernel.search(found.kernel) or kernel.search(found.kernel_full)
        if matches and _is_outlier(found):
            groups[found.group].append(found)
    real = [group for group in groups.values() if len(group) <= _MOST_SHARE * group[0].peers]
    heaviest = sorted(real, key=_excess, reverse=True)[:top]
    return FoundOutliers([_insight(store, group) for group in heaviest], len(real))


def _found(row: Sequence[Any]) -> _Found:
    sha, launch, time, peers, middle, deviation, kernel, full, device, grid, block = row
    names = (kernel or "", full or "", device)
    return _Found(sha, launch, time, peers, middle, deviation, *names, grid, block)


def _is_outlier(found: _Found) -> bool:
    few = found.peers < noise.FEW_PEERS
    least = noise.WORTH_TELLING_OF_FEW if few else noise.WORTH_TELLING
    return found.duration_us > found.median_us * max(least, math.exp(noise.OUTLYING * _sd(found)))


def _sd(found: _Found) -> float:
    """Standard deviation of the peers, from their median deviation; at least the noise of
    captures."""
    return max(1.4826 * found.deviation, noise.within_session(found.median_us))


def _excess(group: Sequence[_Found]) -> float:
    return sum(found.duration_us - found.median_us for found in group)


def _insight(store: InsightSource, group: Sequence[_Found]) -> InsightDocument:
    first = group[0]
    usual = _median_launch(store, first)
    points = [point_at(store, found.sha256, found.launch) for found in group[:_SHOWN]]
    entries = [
        OutlierDocument(
            path=point.path,
            launch=point.launch,
            time_us=point.duration_us,
            times=point.duration_us / first.median_us,
            moved=moved_between(usual, point),
        )
        for point in points
    ]
    outliers = OutliersDocument(
        kernel=first.kernel,
        device=first.device,
        grid=first.grid,
        block=first.block,
        peers=first.peers,
        median_us=first.median_us,
        spread_pct=100 * _sd(first),
        launches=entries,
        found=len(group),
    )
    book = FactBook(numbered(points) | {"usual": usual})
    return _told(outliers, usual, points, book)


def _median_launch(store: InsightSource, found: _Found) -> Point:
    table = store.query(
        "SELECT launch_id FROM launches WHERE report_sha256 = "
        f"{literals([found.sha256])} AND duration_us > 0 "
        f"AND kernel_full = {literals([found.kernel_full])} "
        f"AND grid IS NOT DISTINCT FROM {_literal(found.grid)} "
        f"AND block IS NOT DISTINCT FROM {_literal(found.block)} "
        f"ORDER BY abs(ln(duration_us) - ln({found.median_us!r})), launch_id LIMIT 1"
    )
    return point_at(store, found.sha256, int(table.rows[0][0]))


def _literal(text: str | None) -> str:
    return "NULL" if text is None else literals([text])


# --- words


def _told(
    outliers: OutliersDocument, usual: Point, points: Sequence[Point], book: FactBook
) -> InsightDocument:
    longest, peers = (
        points[0],
        book.computed("launches of this kernel and shape", outliers.peers, ""),
    )
    time = book.time(longest)
    median = book.computed("median time of the peers", outliers.median_us, "us")
    times = book.times("as long as the median", time, median)
    count = book.computed("outliers", outliers.found, "")
    extent = Sentence(
        "{count:.0f} of {peers:,.0f} launches of the same shape in `{path}` {take} much longer "
        "than the others: launch {launch} takes {time}, {times:.2f} the median of {median}.",
        count=count,
        peers=peers,
        path=longest.path,
        take="takes" if outliers.found == 1 else "take",
        launch=f"#{longest.launch}",
        time=time,
        times=times,
        median=median,
    )
    why = _why(outliers.launches[0].moved, usual, longest, book)
    title = Sentence(
        "{kernel}: {launches} much slower than peers",
        kernel=outliers.kernel,
        launches=counted(count, "launch"),
    )
    return book.insight(title, (extent, why), outliers=outliers)


def _why(moved: Sequence[MovedDocument], usual: Point, here: Point, book: FactBook) -> Sentence:
    if not moved:
        return Sentence(
            "No counter of work, caches or clocks in the store changed with it: profile that "
            "launch again before you draw conclusions."
        )
    said = []
    for entry in moved[:3]:
        before, after = (book.measured(point, entry.metric) for point in (usual, here))
        form = "{label} is {after:amount} instead of {before:amount}"
        said.append(Sentence(form, label=entry.label, after=after, before=before))
    return Sentence("What changed as well: {said}.", said=joined(said))
