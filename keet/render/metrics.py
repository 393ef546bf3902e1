"""`keet metrics`: a table with a column a launch, or rows for a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from keet.analysis.metric_table import Row
from keet.catalog import MetricSpec, sections
from keet.profile import Launch, Metric
from keet.units import Quantity, format_number, symbol

_LABEL_WIDTH = 34
"""Room that labels need at least: so many launches are shown as fit beside it."""
_TEXT_WIDTH = 16
_EXPLAIN_UP_TO = 12
"""So many metrics are explained at once; more would bury the numbers."""

LaunchRows = tuple[Launch, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class _Line:
    """One metric over the launches, ready to print."""

    name: str
    spec: MetricSpec | None
    cells: tuple[str, ...]
    unit: str


def metrics_view(
    tables: Sequence[LaunchRows], width: int, *, explain: bool | None, names: bool
) -> Group:
    """One table for all launches: what differs between them stands side by side."""
    launches = [launch for launch, _ in tables]
    lines = _lines(tables)
    if explain is None:
        explain = len(lines) <= _EXPLAIN_UP_TO
    shown = _launches_that_fit(lines, len(launches), width)
    parts: list[RenderableType] = [
        Text.assemble((f"#{launch.id} ", "dim"), (launch.kernel, "bold"))
        for launch in launches[:shown]
    ]
    parts.append(_table(lines, launches[:shown], explain=explain, names=names))
    if shown < len(launches):
        left = f"{len(launches) - shown} more launches do not fit: --launch N, or --format csv"
        parts.append(Text(left, style="dim"))
    return Group(*parts)


def _lines(tables: Sequence[LaunchRows]) -> list[_Line]:
    """Rows by metric over launches, whatever name a launch has it under; sections together."""
    found: dict[str, tuple[str, MetricSpec | None, dict[int, Metric]]] = {}
    for launch, table in tables:
        for metric, spec in table:
            # Two names of one metric in one launch stay two rows: nothing is hidden.
            key = spec.id if spec else metric.name
            if key in found and launch.id in found[key][2]:
                key = metric.name
            found.setdefault(key, (metric.name, spec, {}))[2][launch.id] = metric
    ids = [launch.id for launch, _ in tables]
    lines = [
        _Line(name, spec, *_aligned(spec, [values.get(number) for number in ids]))
        for name, spec, values in found.values()
    ]
    order = list(dict.fromkeys(_section(line) for line in lines))
    return sorted(lines, key=lambda line: order.index(_section(line)))


def _section(line: _Line) -> str:
    if line.spec is None:
        return "Not in keet's catalog"
    if line.spec.section is None:
        return "In no section of ncu"
    known = sections().get(line.spec.section)
    return known.title if known else line.spec.section


def _launches_that_fit(lines: Sequence[_Line], count: int, width: int) -> int:
    room = width - _LABEL_WIDTH - max((len(line.unit) for line in lines), default=0) - 4
    for column in range(count):
        room -= 2 + max((len(line.cells[column]) for line in lines), default=0)
        if room < 0:
            return max(1, column)
    return count


def _table(
    lines: Sequence[_Line], launches: Sequence[Launch], *, explain: bool, names: bool
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Metric", overflow="fold")
    for launch in launches:
        table.add_column(f"#{launch.id}", justify="right", no_wrap=True)
    table.add_column("Unit", no_wrap=True)
    section = None
    for line in lines:
        if _section(line) != section:
            section = _section(line)
            table.add_row(Text(section, style="bold cyan"))
        table.add_row(
            _label(line, explain=explain, names=names), *line.cells[: len(launches)], line.unit
        )
    return table


def _label(line: _Line, *, explain: bool, names: bool) -> Text:
    if line.spec is None:
        return Text(f"  {line.name}")
    label = Text(f"  {line.spec.label}")
    if names or explain:
        label.append(f"\n  {line.name}", style="dim")
    if explain:
        label.append(f"\n  {line.spec.meaning}", style="italic dim")
    return label


def _aligned(spec: MetricSpec | None, found: list[Metric | None]) -> tuple[tuple[str, ...], str]:
    """The values of one row in one unit, so that they can be compared by eye."""
    if spec is not None and not spec.total:
        return tuple("-" if metric is None else "see json" for metric in found), ""
    quantities = [metric.quantity if metric else None for metric in found]
    finite = [q for q in quantities if q and math.isfinite(q.value)]
    largest = max(finite, key=lambda q: abs(q.value), default=None)
    unit = largest.scaled_unit() if largest else ""
    cells = (_cell(metric, q, unit) for metric, q in zip(found, quantities))
    return tuple(cells), symbol(unit)


def _cell(metric: Metric | None, quantity: Quantity | None, unit: str) -> str:
    if metric is None or metric.value is None:
        return "-"
    if quantity is None:
        text = str(metric.value)
        return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
    return format_number(quantity.to(unit).value if unit else quantity.value)


CSV_HEADER = ("launch", "kernel", "metric", "id", "label", "value", "unit", "section")


def metrics_csv(tables: Sequence[LaunchRows]) -> str:
    """Long form, a row a metric: loads everywhere, and never has two thousand columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row in long_rows(tables):
        writer.writerow("" if cell is None else cell for cell in row)
    return out.getvalue()


def long_rows(tables: Sequence[LaunchRows]) -> list[tuple[object, ...]]:
    return [
        (
            launch.id,
            launch.kernel,
            metric.name,
            spec.id if spec else None,
            spec.label if spec else None,
            metric.value,
            metric.unit,
            spec.section if spec else None,
        )
        for launch, rows in tables
        for metric, spec in rows
    ]
