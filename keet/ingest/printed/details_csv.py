"""Reads `ncu --csv`, the details page: one row per metric and launch, and one per rule result.

Columns differ between versions of ncu, so they are taken from the header. Log lines and the
program's own output may surround the table. With `--print-summary`, a row has the average of
several launches.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport
from keet.ingest.printed.details_page import (
    PrintedLaunch,
    PrintedPage,
    PrintedRow,
    check_count,
    dim3,
    estimated_gain,
    is_count,
    page_of,
    rule_result,
    whole,
)
from keet.safe_text import bounded_line

DETAILS_EXPORT = "ncu --import REPORT --csv > FILE"
_HEADER = re.compile(r'^"?(?:ID|Process ID)"?,.*$', re.MULTILINE)
_MOST_LINES = 50
"""Per row: a rule's text may have line breaks, but a stray quote must not consume the file."""


class _Table(NamedTuple):
    columns: dict[str, int]
    quoted: bool
    value: str
    """The column of the number: `Metric Value`, or `Average` in a summary."""
    least: int
    """Cells of a row up to that column: rows of metrics may lack the columns of rules."""

    def cell(self, row: list[str], column: str) -> str:
        at = self.columns.get(column)
        return row[at] if at is not None and at < len(row) else ""


def has_details(text: str) -> bool:
    return any(_is_header(found[0]) for found in _HEADER.finditer(text))


def _is_header(line: str) -> bool:
    return (
        line.startswith(("ID,", '"ID",', "Process ID,", '"Process ID",'))
        and "Kernel Name" in line
        and "Metric Name" in line
    )


def read_details(text: str, path: Path) -> PrintedPage:
    """The launches of every table: a log may have several runs with different columns."""
    printed: list[PrintedLaunch] = []
    table: _Table | None = None
    launches: dict[tuple[str, ...], PrintedLaunch] = {}
    lines = _numbered_lines(text)
    for number, line in lines:
        if _is_header(line):
            table, launches = _read_header(line, path), {}
        elif table is not None and _starts_a_row(line, table):
            row = _read_row(line, number, lines, table, path)
            key = _launch_key(row, table)
            if key not in launches:
                launches[key] = _printed_launch(row, table)
                printed.append(launches[key])
                check_count(printed, path)
            _add(launches[key], row, table, number)
    return page_of(printed, path)


def _numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not empty. Only a line feed ends a line, as in `csv`: other Unicode line
    breaks may be part of a name."""
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.rstrip("\r"):
            yield number, stripped


def _read_header(line: str, path: Path) -> _Table:
    header = _cells(line)
    value = "Metric Value" if "Metric Value" in header else "Average"
    missing = next(
        (name for name in ("Metric Name", "Metric Unit", value) if name not in header), ""
    )
    if missing:
        raise _edited(path, f"the table has no column {missing!r}")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise _edited(path, f"the table has the column {twice[0]!r} twice")
    columns = {name: at for at, name in enumerate(header)}
    return _Table(columns, line.startswith('"'), value, columns[value] + 1)


def _starts_a_row(line: str, table: _Table) -> bool:
    """Whether a line belongs to the table, and not to ncu's log or the program's output."""
    if not table.quoted:
        return line[0] in "0123456789" and line.count(",") >= table.least - 1
    if line[0] != '"':
        return False
    return line.count('","') >= table.least - 1 or re.match(r'"\d+","', line) is not None


def _read_row(
    line: str, number: int, lines: Iterator[tuple[int, str]], table: _Table, path: Path
) -> list[str]:
    for _ in range(_MOST_LINES):
        if line.count('"') % 2 == 0:
            break
        line += "\n" + next(lines, (0, ""))[1]
    row = _cells(line)
    is_whole = not table.quoted or line.endswith(('"', '",'))
    if line.count('"') % 2 or not is_whole or len(row) < table.least:
        raise _edited(path, f"line {number} ends inside a row")
    if len(row) > len(table.columns) + 1:
        raise _edited(path, f"line {number} has more cells than the table has columns")
    if not is_count(row[0]):
        raise _edited(path, f"line {number} does not start with a launch number")
    if not table.cell(row, "Metric Name") and not table.cell(row, "Rule Name"):
        raise _edited(path, f"line {number} has neither a metric nor a rule")
    return row


def _cells(line: str) -> list[str]:
    previous = csv.field_size_limit(max(len(line) + 1, 131_072))
    try:
        rows = list(csv.reader([part + "\n" for part in line.split("\n")]))
    except csv.Error:
        return []
    finally:
        csv.field_size_limit(previous)
    return [bounded_line(cell.rstrip("\n")) for cell in rows[0]] if len(rows) == 1 else []


def _edited(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(
        path, problem, f"the table was cut short or edited; export again: {DETAILS_EXPORT}"
    )


_SAME_LAUNCH = ("ID", "Process ID", "Kernel Name", "Grid Size", "Block Size", "Device")


def _launch_key(row: list[str], table: _Table) -> tuple[str, ...]:
    return tuple(table.cell(row, column) for column in _SAME_LAUNCH)


def _printed_launch(row: list[str], table: _Table) -> PrintedLaunch:
    def cell(column: str) -> str:
        return table.cell(row, column)

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


def _add(launch: PrintedLaunch, row: list[str], table: _Table, number: int) -> None:
    def cell(column: str) -> str:
        return table.cell(row, column)

    if label := cell("Metric Name"):
        unit, value = cell("Metric Unit"), cell(table.value)
        launch.rows.append(PrintedRow(cell("Section Name"), label, unit, value, number))
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
