"""Finds changes over time: from some file on, a kernel takes longer or shorter than before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.facts import FactBook, joined, numbered, spoken
from keet.corpus.insights.metric_changes import moved_between
from keet.corpus.insights.points import InsightSource, Point, with_metrics
from keet.corpus.insights.series import Capture
from keet.corpus.insights.sweeps import alike, limiters
from keet.documents.insights import ChangeDocument, DatedDocument, InsightDocument
from keet.evidence import Sentence

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
    found = []
    for points in alike(captures, across_devices=False):
        history = _history(points)
        cut = change_point([point.duration_us for point in history])
        if cut is not None:
            found.append(ChangedHistory(tuple(history), cut))
    return found


def _history(points: Sequence[Point]) -> list[Point]:
    """Sorted by date; empty if there are too few dates. Files without a date are left out."""
    dated = [(point.created, point.path, point) for point in points if point.created]
    history = [point for _, _, point in sorted(dated, key=lambda entry: entry[:2])]
    return history if len({point.created for point in history}) >= _LEAST_FILES else []


def change_point(times: Sequence[float]) -> TimeStep | None:
    """The cut with the least spread on both sides, if the sides differ by more than noise.

    The noise is the spread of the history itself, but at least that between two captures. If one
    side is a single file, the difference must be twice as large.
    """
    if len(times) < _LEAST_FILES:
        return None
    cut = min(range(1, len(times)), key=lambda i: _spread(times[:i]) + _spread(times[i:]))
    before, after = median(times[:cut]), median(times[cut:])
    sd = max(_deviation(times[:cut], times[cut:]), noise.between_sessions(min(before, after)))
    least = min(cut, len(times) - cut)
    needed = noise.BEYOND * sd * (2 if least == 1 else 1)
    step = abs(math.log(after / before))
    if step <= max(needed, math.log(_LEAST_CHANGE)):
        return None
    return TimeStep(cut - 1, before, after)


def _spread(times: Sequence[float]) -> float:
    middle = math.log(median(times))
    return sum(abs(math.log(time) - middle) for time in times)


def _deviation(*sides: Sequence[float]) -> float:
    """Robust standard deviation of the captures around the median of their side."""
    away = [abs(math.log(time / median(side))) for side in sides if len(side) > 1 for time in side]
    return 1.4826 * median(away) if away else 0.0


# --- words


def change_insight(store: InsightSource, changed: ChangedHistory) -> InsightDocument:
    history, found = changed
    book = FactBook(numbered(history))
    last, first = with_metrics(store, [history[found.after], history[found.after + 1]])
    before, after = _typical(store, history[: found.after + 1], history[found.after + 1 :])
    change = ChangeDocument(
        kernel=first.kernel,
        device=first.device,
        grid=first.texts["grid"],
        block=first.texts["block"],
        history=[_dated(point) for point in history],
        last_before=found.after,
        before_us=found.before_us,
        after_us=found.after_us,
        change_pct=100 * (found.after_us / found.before_us - 1),
        slower=found.after_us > found.before_us,
        limiter_before=before.texts["limiter"],
        limiter_after=after.texts["limiter"],
        moved=moved_between(before, after),
        versions=list(_versions(last, first)),
    )
    return _told(change, (last, first), (before, after), book)


def _typical(store: InsightSource, *sides: Sequence[Point]) -> list[Point]:
    """The median file of each side, for comparing metrics."""
    chosen = [sorted(s, key=lambda p: p.duration_us)[(len(s) - 1) // 2] for s in sides]
    return with_metrics(store, chosen)


def _dated(point: Point) -> DatedDocument:
    created = point.created.isoformat(sep=" ") if point.created else ""
    return DatedDocument(
        path=point.path, launch=point.launch, created=created, time_us=point.duration_us
    )


def _versions(last: Point, first: Point) -> Iterable[str]:
    for name, column in _VERSIONS:
        was, now = last.texts[column], first.texts[column]
        if was != now and was and now:
            yield f"{name} {was} to {name} {now}"


def _told(
    change: ChangeDocument, edge: tuple[Point, Point], typical: tuple[Point, Point], book: FactBook
) -> InsightDocument:
    before = book.computed("median before", change.before_us, "us")
    after = book.computed("median after", change.after_us, "us")
    percent = book.computed("change", abs(change.change_pct), "%", before, after)
    files = book.computed("files", len(change.history), "")
    longer, was = ("longer", "faster") if change.slower else ("shorter", "slower")
    last, first = edge
    extent = Sentence(
        "Since {day} it takes {after} instead of {before}: {percent:.0f} {longer}, more than "
        "noise, in a history of {files:.0f} files. The last file before the change is `{last}`, "
        "the first one after it is `{first}`.",
        day=_day(first),
        after=after,
        before=before,
        percent=percent,
        longer=longer,
        files=files,
        last=last.path,
        first=first.path,
    )
    text = (
        extent,
        _limiter(change),
        _moved(change, typical, book),
        *_also(change),
        *_alone(change),
    )
    title = Sentence(
        "{kernel}: {percent:.0f} {longer} since {day}",
        kernel=change.kernel,
        percent=percent,
        longer=longer,
        day=_day(first),
    )
    adds = Sentence(
        "The newest profile alone explains how the kernel runs now; the set shows that it was "
        "{was} before, and between which two files that changed.",
        was=was,
    )
    return book.insight(title, text, adds, change=change)


def _day(point: Point) -> str:
    return f"{point.created:%Y-%m-%d %H:%M}" if point.created else "an unknown day"


def _limiter(change: ChangeDocument) -> Sentence:
    was, now = limiters(change.limiter_before)[:1], limiters(change.limiter_after)[:1]
    if not was or not now:
        return Sentence("The limiter is not known on both sides.")
    if was == now:
        return Sentence("The limiter is {now} before and after.", now=spoken(now[0]))
    return Sentence(
        "The limiter was {was} and is {now} now.", was=spoken(was[0]), now=spoken(now[0])
    )


def _moved(change: ChangeDocument, typical: tuple[Point, Point], book: FactBook) -> Sentence:
    said = []
    for entry in change.moved[:3]:
        before, after = (book.measured(point, entry.metric) for point in typical)
        form = "{label} from {before:amount} to {after:amount}"
        said.append(Sentence(form, label=entry.label, before=before, after=after))
    if not said:
        return Sentence("No counter of work, caches or clocks in the store changed with it.")
    return Sentence("What changed as well: {said}.", said=joined(said))


def _also(change: ChangeDocument) -> Iterable[Sentence]:
    if change.versions:
        versions = joined(change.versions)
        yield Sentence("Also changed between these two files: {versions}.", versions=versions)


def _alone(change: ChangeDocument) -> Iterable[Sentence]:
    if min(change.last_before + 1, len(change.history) - change.last_before - 1) == 1:
        yield Sentence(
            "One side of the change is a single file: profile again before you act on it."
        )
