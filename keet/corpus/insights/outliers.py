"""Finds single launches and single moments: launches that take much longer than others of the same
kernel, shape and GPU, and files from which on a kernel takes longer or shorter than before.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import starmap
from statistics import median
from typing import NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.metric_changes import moved_between
from keet.corpus.insights.points import (
    FactBook,
    InsightSource,
    Point,
    joined,
    numbered,
    point_at,
    spoken,
    with_metrics,
)
from keet.corpus.insights.series import Capture, alike
from keet.corpus.insights.sweeps import limiters
from keet.corpus.store.reader import literal
from keet.documents.insights import (
    ChangeDocument,
    DatedDocument,
    InsightDocument,
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
        OutlierDocument.taken_from(
            point,
            time_us=point.duration_us,
            times=point.duration_us / first.median_us,
            moved=moved_between(usual, point),
        )
        for point in points
    ]
    outliers = OutliersDocument.taken_from(
        first, spread_pct=100 * first.sd, launches=entries, found=len(group)
    )
    return _told(outliers, usual, points)


def _median_launch(store: InsightSource, slow: _SlowLaunch) -> Point:
    table = store.query(
        "SELECT launch_id FROM launches WHERE report_sha256 = "
        f"{literal(slow.sha256)} AND duration_us > 0 "
        f"AND kernel_full = {literal(slow.kernel_full)} "
        f"AND grid IS NOT DISTINCT FROM {literal(slow.grid)} "
        f"AND block IS NOT DISTINCT FROM {literal(slow.block)} "
        f"ORDER BY abs(ln(duration_us) - ln({slow.median_us!r})), launch_id LIMIT 1"
    )
    return point_at(store, slow.sha256, int(table.rows[0][0]))


# --- words


def _told(outliers: OutliersDocument, usual: Point, points: Sequence[Point]) -> InsightDocument:
    book, longest = FactBook(numbered(points) | {"usual": usual}), points[0]
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
    heading = "{kernel}: {launches} much slower than peers"
    title = Sentence(heading, kernel=outliers.kernel, launches=counted(count, "launch"))
    return book.insight(title, (extent, why), outliers=outliers)


_LEAST_FILES = 5
"""Files in a history: with fewer, a change can't be distinguished from an odd capture."""
_LEAST_CHANGE = 1.05
_VERSIONS = (("driver", "driver_version"), ("CUDA", "cuda_version"), ("ncu", "ncu_version"))


class TimeStep(NamedTuple):
    """The position of a change in a history."""

    after: int
    """Position of the last file before the change."""
    before_us: float
    after_us: float


class ChangedHistory(NamedTuple):
    """A history of a kernel, and where its time changes."""

    history: tuple[Point, ...]
    cut: TimeStep

    @property
    def slowdown(self) -> float:
        return self.cut.after_us / self.cut.before_us


def find_changes(captures: Iterable[Capture]) -> list[ChangedHistory]:
    changes = []
    for points in alike(captures, across_devices=False):
        # Files without a date are left out.
        dated = [(point.created, point.path, point) for point in points if point.created]
        history = [point for _, _, point in sorted(dated, key=lambda entry: entry[:2])]
        cut = change_point([point.duration_us for point in history])
        if cut is not None and len({point.created for point in history}) >= _LEAST_FILES:
            changes.append(ChangedHistory(tuple(history), cut))
    return changes


def change_point(times: Sequence[float]) -> TimeStep | None:
    """The cut with the least spread on both sides, if the sides differ by more than noise.

    The noise is the spread of the history itself, but at least that between two captures. If one
    side is a single file, the difference must be twice as large.
    """
    if len(times) < _LEAST_FILES:
        return None
    cut = min(range(1, len(times)), key=lambda i: _spread(times[:i]) + _spread(times[i:]))
    before, after = median(times[:cut]), median(times[cut:])
    sides = [side for side in (times[:cut], times[cut:]) if len(side) > 1]
    away = [abs(math.log(time / median(side))) for side in sides for time in side]
    own_sd = 1.4826 * median(away)  # robust: around the median of each side
    sd = max(own_sd, noise.between_sessions(min(before, after)))
    needed = noise.BEYOND * sd * (1 if len(sides) == 2 else 2)
    step = abs(math.log(after / before))
    if step <= max(needed, math.log(_LEAST_CHANGE)):
        return None
    return TimeStep(cut - 1, before, after)


def _spread(times: Sequence[float]) -> float:
    middle = math.log(median(times))
    return sum(abs(math.log(time) - middle) for time in times)


# --- words


def change_insight(store: InsightSource, changed: ChangedHistory) -> InsightDocument:
    history, cut = changed
    book = FactBook(numbered(history))
    last, first = with_metrics(store, [history[cut.after], history[cut.after + 1]])
    # The median file of each side, for comparing metrics.
    sides = history[: cut.after + 1], history[cut.after + 1 :]
    ranked = (sorted(side, key=lambda point: point.duration_us) for side in sides)
    usual, new = with_metrics(store, [side[(len(side) - 1) // 2] for side in ranked])
    moved = moved_between(usual, new)
    change = ChangeDocument(
        kernel=first.kernel,
        device=first.device,
        grid=first.texts["grid"],
        block=first.texts["block"],
        history=[_dated(point) for point in history],
        last_before=cut.after,
        before_us=cut.before_us,
        after_us=cut.after_us,
        change_pct=100 * (cut.after_us / cut.before_us - 1),
        slower=cut.after_us > cut.before_us,
        limiter_before=usual.texts["limiter"],
        limiter_after=new.texts["limiter"],
        moved=moved,
        versions=[
            f"{name} {was} to {name} {now}"
            for name, column in _VERSIONS
            if (was := last.texts[column]) and (now := first.texts[column]) and was != now
        ],
    )
    before = book.computed("median before", change.before_us, "us")
    after = book.computed("median after", change.after_us, "us")
    percent = book.computed("change", abs(change.change_pct), "%", before, after)
    longer, was = ("longer", "faster") if change.slower else ("shorter", "slower")
    day = f"{first.created:%Y-%m-%d %H:%M}" if first.created else "an unknown day"
    text = [
        Sentence(
            "Since {day} it takes {after} instead of {before}: {percent:.0f} {longer}, more than "
            "noise, in a history of {files:.0f} files. The last file before the change is "
            "`{last}`, the first one after it is `{first}`.",
            day=day,
            after=after,
            before=before,
            percent=percent,
            longer=longer,
            files=book.computed("files", len(history), ""),
            last=last.path,
            first=first.path,
        ),
        _limiter(change),
        book.changed_as_well(moved, usual, new, "{label} from {before:amount} to {after:amount}")
        or Sentence("No counter of work, caches or clocks in the store changed with it."),
    ]
    if change.versions:
        versions = joined(change.versions)
        text.append(
            Sentence("Also changed between these two files: {versions}.", versions=versions)
        )
    if 1 in map(len, sides):
        text.append(
            Sentence("One side of the change is a single file: profile again before you act on it.")
        )
    form = "{kernel}: {percent:.0f} {longer} since {day}"
    title = Sentence(form, kernel=change.kernel, percent=percent, longer=longer, day=day)
    adds = Sentence(
        "The newest profile alone explains how the kernel runs now; the set shows that it was "
        "{was} before, and between which two files that changed.",
        was=was,
    )
    return book.insight(title, text, adds, change=change)


def _dated(point: Point) -> DatedDocument:
    created = point.created.isoformat(sep=" ") if point.created else ""
    return DatedDocument.taken_from(point, created=created, time_us=point.duration_us)


def _limiter(change: ChangeDocument) -> Sentence:
    was, now = limiters(change.limiter_before)[:1], limiters(change.limiter_after)[:1]
    if not was or not now:
        return Sentence("The limiter is not known on both sides.")
    if was == now:
        return Sentence("The limiter is {now} before and after.", now=spoken(now[0]))
    return Sentence(
        "The limiter was {was} and is {now} now.", was=spoken(was[0]), now=spoken(now[0])
    )
