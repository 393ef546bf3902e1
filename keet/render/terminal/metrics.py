"""The view of `keet metrics` for a terminal: one row per metric, one column per launch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from keet.catalog import sections
from keet.documents.show import MetricDocument, MetricsLaunch
from keet.evidence import Sentence, constant
from keet.render.terminal.layout import Group, Renderable, Text
from keet.units import Quantity, format_number, symbol

_LABEL_WIDTH = 34
"""Minimum width of labels; it decides how many launches fit beside them."""
_SHORTEST_LABEL = 12
_TEXT_WIDTH = 16
_EXPLAIN_UP_TO = 12
"""Up to this number of metrics are printed with an explanation; for more it would hide the numbers.
"""


@dataclass(frozen=True, slots=True)
class _Line:
    """One metric over all launches, as text."""

    metric: MetricDocument
    """Of the first launch that has it."""
    cells: tuple[str, ...]
    unit: str


def metrics_view(
    launches: Sequence[MetricsLaunch],
    width: int,
    *,
    explain: bool | None,
    names: bool,
    more: int = 0,
) -> Group:
    """One table for all launches, so that differences are side by side. `more`: number of launches
    that are not given."""
    lines = _lines(launches)
    if explain is None:
        explain = len(lines) <= _EXPLAIN_UP_TO
    shown = _launches_that_fit(lines, len(launches), width)
    parts: list[Renderable] = [
        Text.assemble((f"#{launch.id} ", "dim"), (launch.kernel, "bold"))
        for launch in launches[:shown]
    ]
    parts += _table(lines, launches[:shown], width, explain=explain, names=names)
    left = len(launches) - shown + more
    if left:
        noun = "launch does" if left == 1 else "launches do"
        text = Sentence(
            "{left:d} more {noun} not fit: --launch N, --format csv",
            left=constant(left, "", "launches left out"),
            noun=noun,
        )
        parts.append(Text(text, style="dim"))
    return Group(*parts)


def _lines(launches: Sequence[MetricsLaunch]) -> list[_Line]:
    """One row per metric, even if launches have it under different names; sorted by section."""
    found: dict[str, dict[int, MetricDocument]] = {}
    for launch in launches:
        for metric in launch.metrics:
            # Two names of one metric in the same launch stay two rows, so that nothing is hidden.
            key = metric.id or metric.name
            if launch.id in found.get(key, ()):
                key = metric.name
            found.setdefault(key, {})[launch.id] = metric
    rows = [(next(iter(own.values())), own) for own in found.values()]
    lines = [
        _Line(first, *_aligned([own.get(launch.id) for launch in launches]))
        for first, own in rows
        if not first.name.startswith(INTERNAL)
    ]
    order = list(dict.fromkeys(_section(line) for line in lines))
    return sorted(lines, key=lambda line: order.index(_section(line)))


INTERNAL = ("group:", "breakdown:", "regex:", "derived_tempMetric")
"""Lists and temporary values of ncu's section files: printed in CSV and JSON only."""


def _section(line: _Line) -> str:
    if line.metric.id is None:
        return "Not in keet's catalog"
    if line.metric.section is None:
        return "In no section of ncu"
    known = sections().get(line.metric.section)
    return known.title if known else line.metric.section


def _launches_that_fit(lines: Sequence[_Line], count: int, width: int) -> int:
    room = width - _LABEL_WIDTH - 2 - max((len(line.unit) for line in lines), default=0)
    for column in range(count):
        room -= _column_width(lines, column) + 2
        if room < 0:
            return max(1, column)
    return count


def _column_width(lines: Sequence[_Line], column: int) -> int:
    return max((len(line.cells[column]) for line in lines), default=0)


def _table(
    lines: Sequence[_Line],
    launches: Sequence[MetricsLaunch],
    width: int,
    *,
    explain: bool,
    names: bool,
) -> list[Text]:
    """Rows of a label and its values; names and meanings below a row use the whole width."""
    cells = [max(_column_width(lines, c), len(f"#{x.id}")) for c, x in enumerate(launches)]
    units = max((len(line.unit) for line in lines), default=0)
    room = width - sum(cells) - 2 * len(cells) - 2 - units
    longest = max((len(_name(line)) for line in lines), default=0) + 2
    label = max(_SHORTEST_LABEL, min(room, longest))
    heading = "".join(f"  {f'#{x.id}':>{size}}" for x, size in zip(launches, cells))
    rows = [Text(""), Text(f"{'':{label}}{heading}", style="dim")]
    section = None
    for line in lines:
        if _section(line) != section:
            section = _section(line)
            rows.append(Text(section, style="bold cyan"))
        values = "".join(f"  {cell:>{size}}" for cell, size in zip(line.cells, cells))
        first, *rest = textwrap.wrap(_name(line), label - 2, break_long_words=False) or [""]
        if len(first) > label - 2:  # a name is never wrapped, so that it can be copied
            rows.append(Text(f"  {first}", no_wrap=True, overflow="ignore"))
            first = ""
        rows.append(Text(f"  {first:{label - 2}}{values}  {line.unit}".rstrip()))
        rows += [Text(f"    {part}") for part in rest]
        rows += _notes(line, width, explain=explain, names=names)
    return rows


def _name(line: _Line) -> str:
    return line.metric.label or line.metric.name


def _notes(line: _Line, width: int, *, explain: bool, names: bool) -> list[Text]:
    """ncu's name and the meaning of the metric, below its row."""
    if line.metric.id is None:
        return []
    notes = [Text(f"    {line.metric.name}", style="dim")] if names or explain else []
    if explain:
        wrapped = textwrap.wrap(line.metric.meaning or "", max(20, width - 4))
        notes += [Text(f"    {part}", style="italic dim") for part in wrapped]
    return notes


_SPREAD = 1e4
"""Above this ratio of values, the smallest one decides the unit, so that 5.95 us is not printed as
0.00000595 s."""


def _aligned(found: list[MetricDocument | None]) -> tuple[tuple[str, ...], str]:
    """The values of one row in one unit, so that they are easy to compare."""
    quantities = [metric.quantity if metric else None for metric in found]
    finite = [q for q in quantities if q and math.isfinite(q.value)]
    ranked = sorted(finite, key=lambda q: abs(q.value))
    nonzero = [q for q in ranked if q.value]
    is_spread = bool(nonzero) and abs(nonzero[-1].value) > _SPREAD * abs(nonzero[0].value)
    deciding = nonzero[0] if is_spread else ranked[-1] if ranked else None
    unit = deciding.scaled_unit() if deciding else ""
    cells = (_cell(metric, q, unit) for metric, q in zip(found, quantities))
    return tuple(cells), symbol(unit)


def _cell(metric: MetricDocument | None, quantity: Quantity | None, unit: str) -> str:
    """The value; for a metric that has only parts, how many."""
    if quantity is not None:
        return format_number(quantity.to(unit).value if unit else quantity.value)
    if metric is None or metric.value is None:
        return f"{metric.instances} points" if metric and metric.instances else "-"
    text = str(metric.value)
    return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
