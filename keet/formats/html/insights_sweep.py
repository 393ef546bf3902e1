"""Tables of one sweep on a page of insights: its points, and the files that are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.insights import CurvePointDocument, SweepDocument
from keet.formats.html.data_table import Cell, Column, data_table, meter
from keet.formats.html.insights_figure import mark_of
from keet.formats.html.insights_reports import CitedReports
from keet.formats.html.markup import Html, element, fragment
from keet.formatting import percent_text
from keet.render.common.insights import compared, time_text, unit_names
from keet.safe_text import one_line


def points_table(sweep: SweepDocument, reports: CitedReports) -> Html:
    """One row per point of the chart."""
    units = unit_names(sweep)
    columns = [
        Column(sweep.knob, is_number=_is_number(sweep), first="ascending"),
        Column("time", is_number=True, first="ascending"),
        *_cost_column(sweep),
        *(Column(unit, is_number=True) for unit in units),
        Column("limiter"),
        Column("report"),
    ]
    longest = max(compared(each) for each in sweep.points)
    rows = [list(_row(sweep, i, units, longest, reports)) for i in range(len(sweep.points))]
    return data_table(f"Points of {sweep.kernel} over {sweep.knob}", columns, rows)


def _is_number(sweep: SweepDocument) -> bool:
    return not any(isinstance(point.value, str) for point in sweep.points)


def _cost_column(sweep: SweepDocument) -> list[Column]:
    if not sweep.work_unit:
        return []
    return [Column(f"per {sweep.work_unit}", is_number=True, first="ascending")]


def _row(
    sweep: SweepDocument, i: int, units: Sequence[str], longest: float, reports: CitedReports
) -> Iterator[Cell]:
    point = sweep.points[i]
    yield Cell(_shown(sweep, i), point.value)
    times = [(point.time_us, sweep.work_unit is None)]
    if sweep.work_unit:
        times.append((point.cost if point.cost is not None else point.time_us, True))
    for time_us, is_compared in times:
        bar = meter(100 * time_us / longest) if is_compared else None
        yield Cell(fragment(time_text(time_us), bar), time_us)
    for unit in units:
        share = point.units.get(unit)
        yield Cell("–" if share is None else percent_text(share), "" if share is None else share)
    yield Cell(one_line(point.limiter or "not known"))
    yield Cell(fragment(reports.link(point.path, point.launch), _captures(point)))


def _shown(sweep: SweepDocument, i: int) -> Html:
    mark = mark_of(sweep, i)
    looks = {"best": "badge good", "as good": "badge"}
    badge = element("span", mark, class_=looks[mark]) if mark else None
    return fragment(badge, " " if badge else None, one_line(sweep.points[i].shown))


def _captures(point: CurvePointDocument) -> Html | None:
    if point.files < 2:
        return None
    return element("span", f" (median of {point.files:,} files)", class_="muted")


def left_out_table(sweep: SweepDocument, reports: CitedReports) -> Html | None:
    """Files with the knob in their name that are not points."""
    if not sweep.left_out:
        return None
    rows = [
        [
            Cell(one_line(each.shown), each.value),
            Cell(one_line(each.why)),
            _link(reports, each.path),
        ]
        for each in sweep.left_out
    ]
    columns = [Column(sweep.knob, first="ascending"), Column("what else differs"), Column("report")]
    table = data_table(f"Left out of {sweep.kernel} over {sweep.knob}", columns, rows)
    count = f"{len(rows):,} {'file' if len(rows) == 1 else 'files'}"
    return element(
        "details",
        element("summary", f"Left out of the sweep: {count}"),
        table,
        class_="fold",
        data_print=True,
    )


def _link(reports: CitedReports, path: str) -> Cell:
    return Cell(reports.link(path))
