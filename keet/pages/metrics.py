"""The page of `keet metrics`: a table per section of ncu, with one column per launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from keet.catalog import sections
from keet.documents.show import MetricDocument, MetricsLaunch
from keet.evidence import Sentence, constant, counted
from keet.pages.blocks import (
    Block,
    Column,
    Gap,
    Heading,
    Item,
    Items,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
)
from keet.units import Quantity, format_number, symbol

INTERNAL = ("group:", "breakdown:", "regex:", "derived_tempMetric")
"""Lists and temporary values of ncu's section files: printed in CSV and JSON only."""
_LABEL_WIDTH = 32
"""Characters of labels that decide how many launches fit beside them."""
_SHORTEST_LABEL = 12
_TEXT_LENGTH = 16
"""Characters of a value that is a text."""
_EXPLAIN_UP_TO = 12
"""Up to this number of metrics are printed with an explanation; for more it would hide the numbers.
"""
_SPREAD = 1e4
"""Above this ratio of values, the smallest one decides the unit, so that 5.95 us is not printed as
0.00000595 s."""
_INDENT = 2
_GAP = 2


class _Line(NamedTuple):
    """One metric over all launches, as text."""

    metric: MetricDocument
    """Of the first launch that has it."""
    section: str
    cells: Sequence[str]
    unit: str

    @property
    def name(self) -> str:
        return self.metric.label or self.metric.name


class _Widths(NamedTuple):
    """The tables of all sections have the same, so that numbers are below each other."""

    label: int
    values: Sequence[int]
    unit: int


def metrics_page(
    launches: Sequence[MetricsLaunch],
    reader: Reader,
    *,
    explain: bool | None,
    names: bool,
    more: int = 0,
) -> Page:
    """All launches side by side, so that differences are visible. `explain`: None for a few metrics
    only. `more`: number of launches that are not given."""
    every = _lines(launches)
    lines = every[: reader.rows]
    if explain is None:
        explain = len(lines) <= _EXPLAIN_UP_TO
    widths = _widths(lines, launches, reader.width)
    shown = launches[: len(widths.values)]
    blocks: list[Block] = [
        Heading((Span(f"#{each.id} ", "muted"), Span(each.kernel, "name")), 2, "") for each in shown
    ]
    blocks.append(Gap())
    for section, own in groupby(lines, key=lambda line: line.section):
        own_lines = [*own]
        blocks.append(Heading(section, 3, "strong label"))
        blocks += _tables(section, own_lines, shown, widths)
        if names or explain:
            blocks += _notes(own_lines, explain=explain)
    if rest := len(every) - len(lines):
        metrics = counted(rest, "more metric")
        words = Sentence("{rest}: name a PATTERN, or --format csv", rest=metrics)
        blocks.append(Text(words, "muted"))
    if left := len(launches) - len(shown) + more:
        words = Sentence(
            "{left:d} more {noun} not fit: --launch N, --format csv",
            left=constant(left, "", "launches left out"),
            noun="launch does" if left == 1 else "launches do",
        )
        blocks.append(Text(words, "muted"))
    return Page(blocks, "Metrics")


def _tables(
    section: str, lines: Sequence[_Line], launches: Sequence[MetricsLaunch], widths: _Widths
) -> Iterator[Block]:
    """A name that is wider than its column has a line of its own, so that it can be copied."""
    values = zip(launches, widths.values)
    columns = [
        Column("Metric", least=widths.label, most=widths.label),
        *(Column(f"#{each.id}", is_number=True, least=width) for each, width in values),
        Column("Unit", is_unbroken=True, least=widths.unit),
    ]
    rows: list[Sequence[Words]] = []
    has_heading = len(launches) > 1

    def table() -> Table:
        return Table(columns, rows, "", section, False, has_heading, _GAP, indent=_INDENT)

    for line in lines:
        name = line.name
        if max(map(len, name.split()), default=0) > widths.label:
            if rows or has_heading:
                yield table()
                rows, has_heading = [], False
            yield Text(name, is_unbroken=True, indent=_INDENT)
            name = ""
        rows.append([name, *islice(line.cells, len(launches)), line.unit])
    yield table()


def _notes(lines: Sequence[_Line], *, explain: bool) -> Iterator[Block]:
    """ncu's names of metrics that keet has a label for, and what they mean."""
    notes = []
    for line in lines:
        if line.metric.id is not None:
            meaning = f": {line.metric.meaning}" if explain and line.metric.meaning else ""
            name = Span(line.metric.name, "code")
            notes.append(Item((Span(line.name, "strong"), ": ", name, meaning)))
    if notes:
        yield Items(notes, indent=_INDENT)


def _lines(launches: Sequence[MetricsLaunch]) -> list[_Line]:
    """One row per metric, even if launches have it under different names; sorted by section."""
    by_key: dict[str, dict[int, MetricDocument]] = {}
    for launch in launches:
        for metric in launch.metrics:
            # Two names of one metric in the same launch stay two rows, so that nothing is hidden.
            key = metric.id or metric.name
            if launch.id in by_key.get(key, ()):
                key = metric.name
            by_key.setdefault(key, {})[launch.id] = metric
    lines = []
    for own in by_key.values():
        first = next(iter(own.values()))
        if not first.name.startswith(INTERNAL):
            cells, unit = _aligned([own.get(launch.id) for launch in launches])
            lines.append(_Line(first, _section_title(first), cells, unit))
    order = list(dict.fromkeys(line.section for line in lines))
    return sorted(lines, key=lambda line: order.index(line.section))


def _section_title(metric: MetricDocument) -> str:
    if metric.id is None:
        return "Not in keet's catalog"
    if metric.section is None:
        return "In no section of ncu"
    known = sections().get(metric.section)
    return known.title if known else metric.section


def _widths(lines: Sequence[_Line], launches: Sequence[MetricsLaunch], width: int) -> _Widths:
    """For as many launches as fit, at least one."""
    unit = max((len(line.unit) for line in lines), default=0)
    room = width - _INDENT - unit - _GAP
    values: list[int] = []
    for at, launch in enumerate(launches):
        value = max([len(f"#{launch.id}"), *(len(line.cells[at]) for line in lines)])
        if values and room - value - _GAP < _LABEL_WIDTH:
            break
        room -= value + _GAP
        values.append(value)
    longest = max((len(line.name) for line in lines), default=0)
    return _Widths(max(_SHORTEST_LABEL, min(room, longest)), values, unit)


def _aligned(metrics: Sequence[MetricDocument | None]) -> tuple[list[str], str]:
    """The values of one row in one unit, so that they are easy to compare."""
    quantities = [metric.quantity if metric else None for metric in metrics]
    finite = [q for q in quantities if q and math.isfinite(q.value)]
    ranked = sorted(finite, key=lambda q: abs(q.value))
    nonzero = [q for q in ranked if q.value]
    is_spread = bool(nonzero) and abs(nonzero[-1].value) > _SPREAD * abs(nonzero[0].value)
    deciding = nonzero[0] if is_spread else ranked[-1] if ranked else None
    unit = deciding.scaled_unit() if deciding else ""
    cells = [_cell(metric, q, unit) for metric, q in zip(metrics, quantities)]
    return cells, symbol(unit)


def _cell(metric: MetricDocument | None, quantity: Quantity | None, unit: str) -> str:
    """The value; for a metric that has only parts, how many."""
    if quantity is not None:
        return format_number(quantity.to(unit).value if unit else quantity.value)
    if metric is None or metric.value is None:
        return f"{metric.instances} points" if metric and metric.instances else "-"
    text = str(metric.value)
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"
