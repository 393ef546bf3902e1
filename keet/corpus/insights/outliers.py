"""Finds outliers: launches that take much longer than others of the same kernel, shape and GPU."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import starmap
from typing import NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.facts import FactBook, numbered
from keet.corpus.insights.metric_changes import moved_between
from keet.corpus.insights.points import InsightSource, Point, literals, point_at
from keet.documents.insights import InsightDocument, OutlierDocument, OutliersDocument
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
    coalesce(l.kernel, ''), coalesce(l.kernel_full, ''), l.device, l.grid, l.block
FROM {launches} l JOIN peers p ON l.report_sha256 = p.report_sha256
    AND l.kernel_full IS NOT DISTINCT FROM p.kernel_full
    AND l.device IS NOT DISTINCT FROM p.device AND l.grid IS NOT DISTINCT FROM p.grid
    AND l.block IS NOT DISTINCT FROM p.block
    AND l.cluster_size IS NOT DISTINCT FROM p.cluster_size
    AND l.shared_memory_dynamic IS NOT DISTINCT FROM p.shared_memory_dynamic
WHERE l.duration_us > 0 AND ln(l.duration_us) - p.middle > ln({worth})
ORDER BY l.duration_us DESC
"""


class _SlowLaunch(NamedTuple):
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

    @property
    def sd(self) -> float:
        """Standard deviation of the peers, from their median deviation; at least the noise of
        captures."""
        return max(1.4826 * self.deviation, noise.within_session(self.median_us))

    @property
    def is_outlier(self) -> bool:
        few = self.peers < noise.FEW_PEERS
        least = noise.WORTH_TELLING_OF_FEW if few else noise.WORTH_TELLING
        return self.duration_us > self.median_us * max(least, math.exp(noise.OUTLYING * self.sd))


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
    groups: dict[tuple[object, ...], list[_SlowLaunch]] = defaultdict(list)
    for slow in starmap(_SlowLaunch, table.rows):
        matches = kernel is None or kernel.search(slow.kernel) or kernel.search(slow.kernel_full)
        if matches and slow.is_outlier:
            groups[slow.group].append(slow)
    real = [group for group in groups.values() if len(group) <= _MOST_SHARE * group[0].peers]
    heaviest = sorted(real, key=lambda group: sum(s.median_us - s.duration_us for s in group))[:top]
    return FoundOutliers([_insight(store, group) for group in heaviest], len(real))


def _insight(store: InsightSource, group: Sequence[_SlowLaunch]) -> InsightDocument:
    first = group[0]
    usual = _median_launch(store, first)
    points = [point_at(store, slow.sha256, slow.launch) for slow in group[:_SHOWN]]
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
        spread_pct=100 * first.sd,
        launches=entries,
        found=len(group),
    )
    book = FactBook(numbered(points) | {"usual": usual})
    return _told(outliers, usual, points, book)


def _median_launch(store: InsightSource, slow: _SlowLaunch) -> Point:
    def literal(text: str | None) -> str:
        return "NULL" if text is None else literals([text])

    table = store.query(
        "SELECT launch_id FROM launches WHERE report_sha256 = "
        f"{literals([slow.sha256])} AND duration_us > 0 "
        f"AND kernel_full = {literals([slow.kernel_full])} "
        f"AND grid IS NOT DISTINCT FROM {literal(slow.grid)} "
        f"AND block IS NOT DISTINCT FROM {literal(slow.block)} "
        f"ORDER BY abs(ln(duration_us) - ln({slow.median_us!r})), launch_id LIMIT 1"
    )
    return point_at(store, slow.sha256, int(table.rows[0][0]))


# --- words


def _told(
    outliers: OutliersDocument, usual: Point, points: Sequence[Point], book: FactBook
) -> InsightDocument:
    longest = points[0]
    peers = book.computed("launches of this kernel and shape", outliers.peers, "")
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
    form = "{label} is {after:amount} instead of {before:amount}"
    why = book.changed_as_well(outliers.launches[0].moved, usual, longest, form) or Sentence(
        "No counter of work, caches or clocks in the store changed with it: profile that "
        "launch again before you draw conclusions."
    )
    title = Sentence(
        "{kernel}: {launches} much slower than peers",
        kernel=outliers.kernel,
        launches=counted(count, "launch"),
    )
    return book.insight(title, (extent, why), outliers=outliers)
