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
from keet.corpus.insights.series import Capture, alike
from keet.corpus.insights.sweeps import limiters
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
    title = Sentence(
        "{kernel}: {percent:.0f} {longer} since {day}",
        kernel=change.kernel,
        percent=percent,
        longer=longer,
        day=day,
    )
    adds = Sentence(
        "The newest profile alone explains how the kernel runs now; the set shows that it was "
        "{was} before, and between which two files that changed.",
        was=was,
    )
    return book.insight(title, text, adds, change=change)


def _dated(point: Point) -> DatedDocument:
    return DatedDocument(
        path=point.path,
        launch=point.launch,
        created=point.created.isoformat(sep=" ") if point.created else "",
        time_us=point.duration_us,
    )


def _limiter(change: ChangeDocument) -> Sentence:
    was, now = limiters(change.limiter_before)[:1], limiters(change.limiter_after)[:1]
    if not was or not now:
        return Sentence("The limiter is not known on both sides.")
    if was == now:
        return Sentence("The limiter is {now} before and after.", now=spoken(now[0]))
    return Sentence(
        "The limiter was {was} and is {now} now.", was=spoken(was[0]), now=spoken(now[0])
    )
