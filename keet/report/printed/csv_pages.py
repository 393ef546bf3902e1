"""Reads the two pages that `ncu --csv` prints: details and raw.

The details page has one row per metric and launch, and one per rule result; with `--print-summary`,
a row has the average of several launches. The raw page has one row per launch, one column per
metric, and a second row of units.

Columns differ between versions of ncu, so they are taken from the header. Such files often contain
a whole terminal session: log lines before and after, the program's own output in between. A table
is found by its header; a line is a row only if it has its width.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport
from keet.profile import Absent, Launch, RawMetric
from keet.report.printed.details_page import (
    PrintedLaunch,
    PrintedPage,
    PrintedRow,
    check_count,
    dim3,
    edited,
    estimated_gain,
    is_count,
    is_malformed_number,
    launch_of,
    page_of,
    printed_value,
    rule_result,
    whole,
)
from keet.safe_text import bounded_line


def _cells(line: str) -> list[str]:
    """Of one row, which may have line breaks; empty if it is not one row."""
    previous = csv.field_size_limit(max(len(line) + 1, 131_072))
    try:
        rows = list(csv.reader([part + "\n" for part in line.split("\n")]))
    except csv.Error:
        return []
    finally:
        csv.field_size_limit(previous)
    return [bounded_line(cell.rstrip("\n")) for cell in rows[0]] if len(rows) == 1 else []


class _Table(NamedTuple):
    header: list[str]
    quoted: bool
    least: int
    """Cells of a row. On the details page, rows of metrics may lack the columns of rules."""
    units: list[str]
    """Of the raw page, whose rows have no more cells than that."""

    def starts(self, line: str, number: re.Pattern[str]) -> bool:
        """Whether a line is a row, and not ncu's log or the program's output: ncu quotes every
        cell, or none. `number`: how a quoted row begins."""
        if not self.quoted:
            return line[0] in "0123456789" and line.count(",") >= self.least - 1
        cells = line.count('","') + 1
        has_width = cells == self.least if self.units else cells >= self.least
        return number.match(line) is not None or (line[0] == '"' and has_width)

    def cells(self, row: list[str]) -> Mapping[str, str]:
        """By column; empty where the row ends before."""
        return dict.fromkeys(self.header, "") | dict(zip(self.header, row))


def _repeated(header: list[str]) -> str:
    """What is wrong with a header that has a column twice; else empty."""
    twice = [name for name, count in Counter(header).items() if count > 1]
    return f"the table has the column {twice[0]!r} twice" if twice else ""


def _printed_launch(cells: Mapping[str, str]) -> PrintedLaunch:
    def cell(column: str) -> str:
        return cells.get(column, "")

    return PrintedLaunch(
        name=cell("Kernel Name"),
        grid=dim3(cell("Grid Size")),
        block=dim3(cell("Block Size")),
        process=cell("Process Name") or None,
        stream=whole(cell("Stream")),
        context=whole(cell("Context")),
        device=whole(cell("Device")),
        compute_capability=cell("CC") or None,
        invocations=whole(cell("Invocations")),
    )


# --- the details page

DETAILS_EXPORT = "ncu --import REPORT --csv > FILE"
_DETAILS_HEADER = re.compile(r'^"?(?:ID|Process ID)"?,.*$', re.MULTILINE)
_SAME_LAUNCH = ("ID", "Process ID", "Kernel Name", "Grid Size", "Block Size", "Device")
_NUMBER_AND_TEXT = re.compile(r'"\d+","')
_MOST_LINES = 50
"""Per row: a rule's text may have line breaks, but a stray quote must not consume the file."""


def has_details(text: str) -> bool:
    return any(_is_details_header(header[0]) for header in _DETAILS_HEADER.finditer(text))


def _is_details_header(line: str) -> bool:
    is_header = line.startswith(("ID,", '"ID",', "Process ID,", '"Process ID",'))
    return is_header and "Kernel Name" in line and "Metric Name" in line


def read_details(text: str, path: Path) -> PrintedPage:
    """The launches of every table: a log may have several runs with different columns."""
    printed: list[PrintedLaunch] = []
    table: _Table | None = None
    launches: dict[tuple[str, ...], PrintedLaunch] = {}
    lines = _numbered_lines(text)
    for number, line in lines:
        if _is_details_header(line):
            table, launches = _details_header(line, path), {}
        elif table is not None and table.starts(line, _NUMBER_AND_TEXT):
            cells = _details_row(line, number, lines, table, path)
            key = tuple(cells.get(column, "") for column in _SAME_LAUNCH)
            if key not in launches:
                launches[key] = _printed_launch(cells)
                printed.append(launches[key])
                check_count(printed, path)
            _add(launches[key], cells, number)
    return page_of(printed, path)


def _numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not empty. Only a line feed ends a line, as in `csv`: other Unicode line
    breaks may be part of a name."""
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.rstrip("\r"):
            yield number, stripped


def _details_header(line: str, path: Path) -> _Table:
    header = _cells(line)
    value = "Metric Value" if "Metric Value" in header else "Average"
    missing = [name for name in ("Metric Name", "Metric Unit", value) if name not in header]
    if missing:
        raise _edited(path, f"the table has no column {missing[0]!r}")
    if problem := _repeated(header):
        raise _edited(path, problem)
    return _Table(header, line.startswith('"'), header.index(value) + 1, [])


def _details_row(
    line: str, number: int, lines: Iterator[tuple[int, str]], table: _Table, path: Path
) -> Mapping[str, str]:
    for _ in range(_MOST_LINES):
        if line.count('"') % 2 == 0:
            break
        line += "\n" + next(lines, (0, ""))[1]
    row = _cells(line)
    is_whole = not table.quoted or line.endswith(('"', '",'))
    if line.count('"') % 2 or not is_whole or len(row) < table.least:
        raise _edited(path, f"line {number} ends inside a row")
    if len(row) > len(table.header) + 1:
        raise _edited(path, f"line {number} has more cells than the table has columns")
    if not is_count(row[0]):
        raise _edited(path, f"line {number} does not start with a launch number")
    cells = table.cells(row)
    if not cells["Metric Name"] and not cells.get("Rule Name"):
        raise _edited(path, f"line {number} has neither a metric nor a rule")
    return cells


def _edited(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(
        path, problem, f"the table was cut short or edited; export again: {DETAILS_EXPORT}"
    )


def _add(launch: PrintedLaunch, cells: Mapping[str, str], number: int) -> None:
    def cell(column: str) -> str:
        return cells.get(column, "")

    if label := cell("Metric Name"):
        value = cells["Metric Value" if "Metric Value" in cells else "Average"]
        row = PrintedRow(cell("Section Name"), label, cell("Metric Unit"), value, number)
        launch.rows.append(row)
    if rule := cell("Rule Name"):
        launch.rules.append(
            rule_result(
                cell("Section Name"),
                cell("Rule Type"),
                cell("Rule Description"),
                rule=rule,
                gain=estimated_gain(cell("Estimated Speedup Type"), cell("Estimated Speedup")),
            )
        )


# --- the raw page

_RAW_HEADER = re.compile(r'^"?ID"?,', re.MULTILINE)
_LINE = re.compile(r"[^\r\n]+")
_QUOTED_NUMBER = re.compile(r'"\d+",', re.A)
_IDENTITY = {"ID", "Context", "Stream", "Device", "CC"}
"""Columns that are not metrics; all others that are not have a space in their name."""
_NO_CODE = Absent("a CSV export contains no code", "use the .ncu-rep that it was exported from")
ROUNDED = "values are as ncu printed them: rounded to two decimals, without source or rules"


def has_table(text: str) -> bool:
    return _RAW_HEADER.search(text) is not None


def read_csv_launches(text: str, path: Path) -> tuple[Launch, ...]:
    """The launches of every table: a log may have several runs with different columns."""
    launches: list[Launch] = []
    table: _Table | None = None
    number, counted = 1, 0  # line number, and the position up to which lines are counted
    lines = _LINE.finditer(text)
    for match in lines:
        line = match[0]
        if line.startswith(('"ID",', "ID,")):
            below = next(lines, None)
            table = _raw_header(line, below[0] if below else "", path)
        elif table is not None and table.starts(line, _QUOTED_NUMBER):
            number += text.count("\n", counted, match.start())
            counted = match.start()
            row = _raw_row(line, number, table, path)
            launches.append(_launch(len(launches), row, table, path, number))
            check_count(launches, path)
    return tuple(launches)


def _raw_header(line: str, below: str, path: Path) -> _Table:
    header = _cells(line)
    units = _cells(below)
    # The row of units has an empty first cell.
    if len(units) != len(header) or units[0]:
        raise edited(path, "the table has no row of units under its header")
    if problem := _repeated(header):
        raise edited(path, problem)
    return _Table(header, line.startswith('"'), len(header), units)


def _raw_row(line: str, number: int, table: _Table, path: Path) -> list[str]:
    row = _cells(line)
    if len(row) != len(table.header):
        cells = f"{len(row)} cells where the table has {len(table.header)}"
        raise edited(path, f"line {number} has {cells}")
    if not is_count(row[0]):
        raise edited(path, f"line {number} does not start with a launch number")
    end = line.rstrip()
    if table.quoted and (not end.endswith('"') or end.endswith(',"')):
        raise edited(path, f"line {number} is cut short")
    return row


def _launch(number: int, row: list[str], table: _Table, path: Path, line: int) -> Launch:
    metrics: dict[str, RawMetric] = {}
    for name, unit, cell in zip(table.header, table.units, row):
        if name in _IDENTITY or " " in name:
            continue
        value = printed_value(cell)
        if unit and is_malformed_number(value):
            # A decimal comma, most likely: 1,5 must not become 15.
            raise edited(path, f"line {line}: {cell[:40]!r} under {name} is not a valid number")
        metrics[name] = RawMetric(value, unit)
    return launch_of(number, _printed_launch(table.cells(row)), metrics, _NO_CODE)
