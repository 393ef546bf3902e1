"""The function `keet.hotspots` and its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from keet.analysis.capture.report_document import report_document
from keet.analysis.code_names import parsed_line
from keet.analysis.hotspots.launch_hotspots import examined_launches, ranked_launches
from keet.analysis.hotspots.line_facts import NoSuchLine, place_of
from keet.api.inputs import (
    Kernel,
    Launches,
    Report,
    StrPath,
    as_profile,
    positive,
    selected_launches,
)
from keet.api.result import PageResult, data_frame
from keet.documents.document import live
from keet.documents.hotspots import HotspotsDocument, HotspotsLaunch
from keet.errors import UsageError
from keet.formats.csv import HOTSPOTS_HEADER, spot_cells
from keet.formatting import count_noun
from keet.pages.blocks import Page, Reader
from keet.pages.hotspots import hotspots_page
from keet.pages.hotspots_line import line_page
from keet.profile import Launch, Location, Profile

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("launch_id", *HOTSPOTS_HEADER[1:])
"""Columns of the frame, before one column per stall reason."""
_NOT_COUNTED = ("launch_id", "kernel", "file", "sass", "source", "share", "purpose", "waits_for")
_ROWS_SHOWN = 10
"""Per launch in texts, if `top` does not say."""


def hotspots(  # noqa: PLR0913 - the options of the command
    report: Report,
    *,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    by: Literal["line", "instruction"] | None = None,
    line: str | None = None,
    top: int | None = None,
    source: StrPath | None = None,
    sass: bool = True,
) -> HotspotsResult:
    """The source lines or instructions of each launch that take the most time: `keet hotspots`.

    >>> import keet
    >>> result = keet.hotspots("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> row = result.launches[0].rows[1]
    >>> row.line, row.samples, round(row.share, 2), row.stalls[0].reason
    (7, 109, 0.41, 'long_scoreboard')

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these: `0`, `[0, 2]`, `"0,2-4"`, or `Launch` objects.
        kernel: only launches whose kernel name matches this regular expression.
        by: rank source lines or instructions; by default lines if the report has them.
        line: only this source line, with everything that is known about it: `"slow.cu:7"`.
        top: at most this many rows per launch; by default all of them.
        source: folder with the sources, if the report does not embed them.
        sass: also analyse the machine code: what instructions are for, and what they wait for.
    """
    top = None if top is None else positive(top, "top")
    if by not in (None, "line", "instruction"):
        raise UsageError(f"by={by!r}: it must be 'line' or 'instruction'")
    profile = as_profile(report, source)
    selected: Sequence[Launch] = selected_launches(profile, launches, kernel)
    place = None
    if line is not None:
        if (wanted := parsed_line(line)) is None:
            raise UsageError(f"line={line!r}: it must be FILE:LINE, for example 'kernel.cu:29'")
        try:
            place, selected = place_of(selected, wanted)
        except NoSuchLine as wrong:
            raise UsageError(f"line {wrong.place}: {wrong.problem}") from None
    ranked = ranked_launches(profile, selected, by, place, has_sass=sass)
    whole = list(examined_launches(ranked, top, place, has_sass=sass))
    return HotspotsResult(
        report=report_document(profile),
        launches=[replace(each, rows=each.rows[:top]) for each in whole],
        whole=whole,
        place=place,
        top=top,
        profile=profile,
    )


class HotspotsResult(PageResult, HotspotsDocument):
    """Lines or instructions of launches. `print(result)` prints what `keet hotspots` prints; with
    `line`, the line in every launch.

    >>> import keet
    >>> result = keet.hotspots("kernels_samples/matrix_flip/slow.ncu-rep", top=2)
    >>> result
    <HotspotsResult slow.ncu-rep: 1 launch, 2 rows>
    >>> result.to_pandas()[["launch_id", "line", "samples", "sectors_global_excess"]]
       launch_id  line  samples  sectors_global_excess
    0          0     9      110                      0
    1          0     7      109               58720256
    """

    whole: list[HotspotsLaunch] = live()
    """With the rows that `top` leaves out: texts say what share they have."""
    place: Location | None = live()
    top: int | None = live()
    profile: Profile = live()

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        rows = sum(len(launch.rows) for launch in self.launches)
        counts = f"{count_noun(len(self.launches), 'launch')}, {count_noun(rows, 'row')}"
        return f"<HotspotsResult {name}: {counts}>"

    def _page(self, reader: Reader) -> Page:
        if self.place is not None:
            return line_page(self.whole, self.place)
        launches = self.profile.representatives_first(self.profile.launches)
        places = {launch.id: n for n, launch in enumerate(launches)}
        ranked = sorted(self.whole, key=lambda each: places[each.id])
        return hotspots_page(ranked, reader, self.top or _ROWS_SHOWN)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and source line (or instruction), most expensive first: the columns of
        `keet hotspots --format csv`. `share` is 0 to 1; all others are counts. `stall_REASON`:
        samples with that stall reason."""
        return lines_frame(self.launches)


def lines_frame(launches: Iterable[HotspotsLaunch]) -> pd.DataFrame:
    """What was not counted is missing (`pandas.NA`), never zero."""
    spots = [(launch, spot) for launch in launches for spot in launch.rows]
    reasons = sorted({stall.reason for _, spot in spots for stall in spot.stalls})
    rows = []
    for each, spot in spots:
        by_reason = spot.samples_by_reason
        stalls = (None if spot.samples is None else by_reason.get(name, 0) for name in reasons)
        rows.append((each.id, each.kernel, *spot_cells(spot), *stalls))
    columns = (*COLUMNS, *(f"stall_{reason}" for reason in reasons))
    counts = {name: "Int64" for name in columns if name not in _NOT_COUNTED}
    return data_frame(rows, columns).astype({**counts, "share": "float64"})
