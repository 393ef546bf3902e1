"""The functions `keet.amounts`, `keet.hotspots`, `keet.roofline`, `keet.verify`; their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from keet.analysis.code_names import parsed_line
from keet.analysis.coverage import report_document
from keet.analysis.hotspots.line_facts import (
    NoSuchLine,
    examined_launches,
    place_of,
    ranked_launches,
)
from keet.analysis.roofline.launch_roofline import LaunchRoofline, find_roofline
from keet.api.result import (
    Kernel,
    Launches,
    PageResult,
    Report,
    StrPath,
    as_profile,
    data_frame,
    positive,
    selected_launches,
)
from keet.documents.amounts import AmountsDocument
from keet.documents.charts import RooflineDocument
from keet.documents.document import live
from keet.documents.hotspots import HotspotsDocument, HotspotsLaunch
from keet.errors import UsageError
from keet.explanation.launch_amounts import amount_rows, amounts_document
from keet.formats.csv import HOTSPOTS_HEADER, spot_cells
from keet.formatting import count_noun
from keet.pages.amounts import amounts_page
from keet.pages.blocks import Page, Reader
from keet.pages.hotspots import hotspots_page
from keet.pages.hotspots_line import line_page
from keet.pages.roofline import roofline_page
from keet.pages.verify import verify_page
from keet.profile import Launch, Location, Profile
from keet.verification.verify import VerifiedText, verify_against

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ("launch_id", "kernel", "part", "label", "text")


def amounts(  # noqa: PLR0913 - options
    report: Report,
    *,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    per: tuple[str, float] | None = None,
    source: StrPath | None = None,
    run_table: StrPath | None = None,
    sass: bool = True,
) -> AmountsResult:
    """How much work each launch does, and how much of it is needed: `keet amounts`.

    >>> import keet
    >>> result = keet.amounts("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> found = result.launches[0].amounts
    >>> found.item.name, found.item.count
    ('element of out', 67108864.0)
    >>> [(array.name, array.access, array.distinct_bytes) for array in found.arrays]
    [('in', 'read', 268435456.0), ('out', 'written', 268435456.0)]

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
        per: what to count per, and how many of it a launch has: `("voxel", 4096)`.
        source: folder with the sources, if the report does not embed them.
        run_table: times of all kernels in the whole run.
        sass: also analyse the machine code, which most amounts need.
    """
    profile = as_profile(report, source, run_table)
    chosen = selected_launches(profile, launches, kernel)
    document = amounts_document(profile, chosen, per, sass=sass).document()
    return AmountsResult(**vars(document), profile=profile)


class AmountsResult(PageResult, AmountsDocument):
    """Amounts of launches. `print(result)` prints what `keet amounts` prints.

    >>> import keet
    >>> result = keet.amounts("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> result
    <AmountsResult slow.ncu-rep: 1 launch>
    >>> result.to_pandas().columns.tolist()
    ['launch_id', 'kernel', 'part', 'label', 'text']
    """

    profile: Profile = live()

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        return f"<AmountsResult {name}: {count_noun(len(self.launches), 'launch')}>"

    def _page(self, reader: Reader) -> Page:
        return amounts_page(self, reader)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and amount, in words; numbers are in `launches`."""
        rows = (
            (launch.id, launch.kernel, row.part, row.label, str(row.text))
            for launch in self.launches
            for row in amount_rows(launch.amounts)
        )
        return data_frame(rows, COLUMNS)


HOTSPOT_COLUMNS = ("launch_id", *HOTSPOTS_HEADER[1:])
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
    columns = (*HOTSPOT_COLUMNS, *(f"stall_{reason}" for reason in reasons))
    counts = {name: "Int64" for name in columns if name not in _NOT_COUNTED}
    return data_frame(rows, columns).astype({**counts, "share": "float64"})


ROOFLINE_COLUMNS = (
    "launch_id", "kernel", "ceiling", "label", "kind", "nearest", "reached_pct", "achieved", "peak",
    "unit", "source",
)  # fmt: skip


def roofline(
    report: Report, *, launches: Launches | None = None, kernel: Kernel | None = None
) -> RooflineResult:
    """How close each launch came to each ceiling, arithmetic by type and bytes by memory level:
    `keet roofline`.

    >>> import keet
    >>> result = keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> launch = result.launches[0]
    >>> launch.nearest
    ('l2',)
    >>> {each.id: round(each.reached_pct) for each in launch.ceilings if each.kind == "memory"}
    {'dram': 12, 'l2': 23, 'l1': 2, 'shared': 0}

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
    """
    profile = as_profile(report)
    selected = selected_launches(profile, launches, kernel)
    return RooflineResult(
        report=report_document(profile),
        launches=tuple(map(find_roofline, selected)),
        profile=profile,
    )


class RooflineResult(PageResult, RooflineDocument):
    """Launches against their ceilings. `print(result)` prints what `keet roofline` prints.

    >>> import keet
    >>> result = keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> result
    <RooflineResult slow.ncu-rep: 1 launch>
    >>> result.launches[0]
    <LaunchRoofline #0 flip: l2 at 23% of its peak>
    >>> frame = result.to_pandas()
    >>> frame[frame.nearest][["kernel", "ceiling", "unit"]]
      kernel ceiling    unit
    4   flip      l2  byte/s
    """

    launches: tuple[LaunchRoofline, ...]
    profile: Profile = live()

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        return f"<RooflineResult {name}: {count_noun(len(self.launches), 'launch')}>"

    def _page(self, reader: Reader) -> Page:
        return roofline_page(self.launches, reader)

    def to_svg(self) -> str:
        """The chart of `keet roofline --format svg`."""
        from keet.formats.svg.roofline import roofline_svg

        return roofline_svg(self.launches)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and ceiling."""
        rows = []
        for launch in self.launches:
            for ceiling in launch.ceilings:
                rates = (ceiling.achieved, ceiling.peak)
                values = (rate.value if rate else None for rate in rates)
                unit = next((rate.unit for rate in rates if rate), None)
                known = (launch.id, launch.kernel, ceiling.id, ceiling.label, ceiling.kind)
                share = (ceiling.id in launch.nearest, ceiling.reached_pct)
                rows.append((*known, *share, *values, unit, ceiling.source))
        return data_frame(rows, ROOFLINE_COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import roofline_html

        return roofline_html(self.launches)


def verify(  # noqa: PLR0913 - options
    text: str,
    report: Report,
    *,
    before: Report | None = None,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    run_table: StrPath | None = None,
) -> VerifyResult:
    """Check the numbers and comparisons of a text against a report: `keet verify`.

    >>> import keet
    >>> report = "kernels_samples/matrix_flip/slow.ncu-rep"
    >>> result = keet.verify("flip takes 1.02 ms. L2 is at 38% of its peak.", report)
    >>> result.is_wrong
    True
    >>> [(check.text, check.verdict) for check in result.checks]
    [('1.02 ms', 'confirmed'), ('38%', 'contradicted')]

    Args:
        text: the text itself, not the name of its file.
        report: a path, or a profile of `keet.read_profile`.
        before: the report before, for a text that compares two reports.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
        run_table: times of all kernels in the whole run of `report`.
    """
    profiles = [as_profile(report, None, run_table)]
    if before is not None:
        profiles.insert(0, as_profile(before))
    chosen = [
        launch for profile in profiles for launch in selected_launches(profile, launches, kernel)
    ]
    return VerifyResult(**vars(verify_against(profiles, text, chosen)))


class VerifyResult(PageResult, VerifiedText):
    """The checks of a text. `print(result)` prints what `keet verify` prints.

    >>> import keet
    >>> keet.verify("It takes 1.02 ms.", "kernels_samples/matrix_flip/slow.ncu-rep")
    <VerifyResult slow.ncu-rep: 1 number, 0 contradicted>
    """

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        numbers = count_noun(self.summary.numbers, "number")
        return f"<VerifyResult {name}: {numbers}, {self.summary.contradicted} contradicted>"

    def _page(self, _: Reader) -> Page:
        return verify_page(self)
