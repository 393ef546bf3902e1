"""The view of `keet insights` for a terminal: bars, tables and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.insights import (
    ChangeDocument,
    ClusterDocument,
    InsightDocument,
    InsightsDocument,
    OutliersDocument,
    SweepDocument,
)
from keet.formatting import percent_cell, percent_text, speedup_text
from keet.render.common.insights import (
    ADDS,
    FILES,
    HEADINGS,
    LEGEND,
    NOTHING,
    OVERLAP,
    compared,
    shown_file,
    shown_history,
    summary_line,
    time_text,
    unit_names,
)
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.units import format_number

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"
_MOST_BAR = 40
_WIDE_ENOUGH = 110
_LEGENDS = {"sweep": LEGEND, "cluster": f"{OVERLAP} {FILES}"}


def insights_view(document: InsightsDocument, width: int) -> Group:
    parts: list[Renderable] = [Text(summary_line(document), style="dim")]
    if not document.insights:
        parts += ["", Text(NOTHING)]
    for kind, heading in HEADINGS.items():
        found = [each for each in document.insights if each.kind == kind]
        if found:
            parts += ["", Text(heading, style="bold underline")]
            parts += [Text(_LEGENDS[kind], style="dim")] if kind in _LEGENDS else []
            parts += [part for each in found for part in ("", *_insight(each, width))]
    parts += [Text(f"note: {note}", style="dim") for note in document.notes]
    return Group(*parts)


def _insight(insight: InsightDocument, width: int) -> list[Renderable]:
    parts: list[Renderable] = [Text(f"{insight.id}  {insight.title}", style="bold")]
    parts += [Indented(part, 2, is_filled=True) for part in _figure(insight, width - 2)]
    parts += [Indented(Text(text), 2, is_filled=True) for text in insight.text]
    if insight.adds:
        parts.append(
            Indented(Text.assemble((f"{ADDS}: ", "bold"), insight.adds), 2, is_filled=True)
        )
    parts += [Indented(part, 2, is_filled=True) for part in _written(insight)]
    return parts


def _written(insight: InsightDocument) -> list[Renderable]:
    if insight.written is None:
        return []
    parts: list[Renderable] = []
    if insight.written.text:
        parts.append(Text.assemble(("Model: ", "bold"), insight.written.text))
    for entry in insight.written.unchecked:
        parts.append(Text(f"unchecked: “{entry.text}” ({entry.reason})", style="dim"))
    return parts


def _figure(insight: InsightDocument, width: int) -> list[Renderable]:
    if insight.sweep:
        return [_curve(insight.sweep, width)]
    if insight.cluster:
        return [_kernels(insight.cluster, width)]
    if insight.change:
        return [_history(insight.change)]
    if insight.outliers:
        return [_outliers(insight.outliers)]
    return []


# --- the curve of a sweep


def _curve(sweep: SweepDocument, width: int) -> Table:
    units = unit_names(sweep)
    rows = [_curve_row(sweep, i, units) for i in range(len(sweep.points))]
    header = ["", sweep.knob, "time", *_cost_header(sweep), "", *units, "limiter"]
    taken = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    room = width - sum(taken) - 2 * len(taken)
    bar = max(6, min(_MOST_BAR, room))
    table = Table(padding=(0, 2), heading_style="dim", pads_edge=True)
    bar_at = header.index("", 1)
    for i, name in enumerate(header):
        left = i in (0, bar_at, len(header) - 1)
        table.add_column(name, justify="left" if left else "right", no_wrap=i != len(header) - 1)
    most = max(compared(point) for point in sweep.points)
    for point, row in zip(sweep.points, rows):
        drawn = Text(_bar(compared(point) / most, bar), style="cyan")
        table.add_row(*row[:bar_at], drawn, *row[bar_at + 1 :])
    return table


def _cost_header(sweep: SweepDocument) -> list[str]:
    return [f"per {sweep.work_unit}"] if sweep.work_unit else []


def _curve_row(sweep: SweepDocument, i: int, units: Sequence[str]) -> list[str]:
    point = sweep.points[i]
    mark = "●" if i == sweep.best else "○" if point.tied else " "
    cost = [] if point.cost is None else [time_text(point.cost)]
    shares = [percent_text(point.units[unit]) if unit in point.units else "–" for unit in units]
    return [
        mark,
        point.shown,
        time_text(point.time_us),
        *cost,
        "",
        *shares,
        point.limiter or "not known",
    ]


def _bar(share: float, width: int) -> str:
    whole, rest = divmod(round(min(max(share, 0.0), 1.0) * width * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


# --- tables


def _kernels(cluster: ClusterDocument, width: int) -> Table:
    """A narrow table has fewer columns; the text below it has the ranges."""
    wide = width >= _WIDE_ENOUGH
    names = ("file", "launches", "time", "of GPU time") if wide else ("file", "time")
    table = _table("kernel", *names, "could save")
    for each in cluster.kernels:
        time, saved = time_text(each.time_us), time_text(each.saved_likely_us)
        saved_range = f"{saved} ({time_text(each.saved_low_us)} to {time_text(each.saved_high_us)})"
        cells = [f"{each.launches:,}", time, percent_cell(each.share_pct), saved_range]
        table.add_row(each.kernel, shown_file(each), *(cells if wide else [time, saved]))
    if cluster.row_count > len(cluster.kernels):
        table.add_row(f"… {cluster.row_count - len(cluster.kernels)} more")
    return table


def _outliers(outliers: OutliersDocument) -> Table:
    table = _table("launch", "time", "of median", "also changed")
    for each in outliers.launches:
        moved = ", ".join(
            f"{m.label} {format_number(m.usual)} → {format_number(m.here)}" for m in each.moved[:2]
        )
        table.add_row(
            f"#{each.launch}",
            time_text(each.time_us),
            speedup_text(each.times),
            moved or "nothing",
        )
    return table


_WIDE = ("also changed", "file")


def _table(first: str, *others: str) -> Table:
    table = Table(padding=(0, 2), heading_style="dim", pads_edge=True)
    table.add_column(first, overflow="fold")
    for name in others:
        wide = name in _WIDE
        justify: Literal["left", "right"] = "left" if wide else "right"
        table.add_column(name, justify=justify, no_wrap=not wide, overflow="fold")
    return table


def _history(change: ChangeDocument) -> Text:
    """A sparkline with one character per file, and a bar where the time changed."""
    times = [dated.time_us for dated in change.history]
    cut, shown = change.last_before + 1, shown_history(change)
    first, last = shown.start, shown.stop
    low, high = min(times), max(times)
    sparks = [_LEVELS[round(7 * (time - low) / (high - low or 1))] for time in times]
    drawn = "".join(sparks[first:cut]) + "│" + "".join(sparks[cut:last])
    return Text(f"{time_text(times[first])} {drawn} {time_text(times[last - 1])}", style="cyan")
