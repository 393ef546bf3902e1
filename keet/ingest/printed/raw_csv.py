"""Reads `ncu --csv --page raw`: one row per launch, one column per metric, a second row of units.

Such files often contain a whole terminal session: log lines before and after, the program's own
output in between. The table is found by its header; a line is a row only if it has its width.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.ingest.ncu_rep.session import device_from_metrics
from keet.ingest.printed.details_page import (
    RAW_EXPORT,
    check_count,
    dim3,
    is_count,
    is_malformed_number,
    kernel_name,
    printed_value,
    whole,
)
from keet.profile import (
    Absent,
    Device,
    Launch,
    RawMetric,
    Workload,
)
from keet.safe_text import bounded_line

_HEADER = re.compile(r'^"?ID"?,', re.MULTILINE)
_LINE = re.compile(r"[^\r\n]+")
_QUOTED_NUMBER = re.compile(r'"\d+",', re.A)
_IDENTITY = {"ID", "Context", "Stream", "Device", "CC"}
"""Columns that are not metrics; all others that are not have a space in their name."""
_WORKLOAD_NAMES = {"range": Workload.RANGE, "graph": Workload.GRAPH, "cmdlist": Workload.CMDLIST}

ROUNDED = "values are as ncu printed them: rounded to two decimals, without source or rules"

_NO_CODE = Absent("a CSV export contains no code", "use the .ncu-rep that it was exported from")


class _Table(NamedTuple):
    header: list[str]
    units: list[str]
    quoted: bool


def has_table(text: str) -> bool:
    return _HEADER.search(text) is not None


def read_csv_launches(text: str, path: Path) -> tuple[Launch, ...]:
    """The launches of every table: a log may have several runs with different columns."""
    launches: list[Launch] = []
    table: _Table | None = None
    number, counted = 1, 0  # line number, and the position up to which lines are counted
    lines = _LINE.finditer(text)
    for found in lines:
        line = found[0]
        if line.startswith(('"ID",', "ID,")):
            below = next(lines, None)
            table = _read_header(line, below[0] if below else "", path)
        elif table is not None and _starts_a_row(line, table):
            number += text.count("\n", counted, found.start())
            counted = found.start()
            row = _read_row(line, number, table, path)
            launches.append(_launch(len(launches), row, table, path, number))
            check_count(launches, path)
    return tuple(launches)


def _starts_a_row(line: str, table: _Table) -> bool:
    """Whether a line is a row, and not ncu's log or the program's output.

    ncu quotes every cell: a line that starts with a quote and has the table's width is a row.
    """
    if not table.quoted:
        return line[0] in "0123456789" and line.count(",") >= len(table.header) - 1
    if line[0] != '"':
        return False
    return _QUOTED_NUMBER.match(line) is not None or line.count('","') == len(table.header) - 1


def _read_header(line: str, below: str, path: Path) -> _Table:
    header = _cells(line)
    units = _cells(below)
    # The row of units has an empty first cell.
    if len(units) != len(header) or units[0]:
        raise _edited(path, "the table has no row of units under its header")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise _edited(path, f"the table has the column {twice[0]!r} twice")
    return _Table(header, units, quoted=line.startswith('"'))


def _read_row(line: str, number: int, table: _Table, path: Path) -> list[str]:
    row = _cells(line)
    if len(row) != len(table.header):
        cells = f"{len(row)} cells where the table has {len(table.header)}"
        raise _edited(path, f"line {number} has {cells}")
    if not is_count(row[0]):
        raise _edited(path, f"line {number} does not start with a launch number")
    end = line.rstrip()
    if table.quoted and (not end.endswith('"') or end.endswith(',"')):
        raise _edited(path, f"line {number} is cut short")
    return row


def _cells(line: str) -> list[str]:
    """The cells of one line. A row never spans lines, so a stray quote affects one line only."""
    previous = csv.field_size_limit(max(len(line) + 1, 131_072))
    try:
        return [bounded_line(cell) for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []
    finally:
        csv.field_size_limit(previous)


def _edited(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(path, problem, f"it was cut short or edited; export again: {RAW_EXPORT}")


def _launch(number: int, row: list[str], table: _Table, path: Path, line: int) -> Launch:
    cells = dict(zip(table.header, row))
    metrics: dict[str, RawMetric] = {}
    for name, unit, cell in zip(table.header, table.units, row):
        if name in _IDENTITY or " " in name:
            continue
        value = printed_value(cell)
        if unit and is_malformed_number(value):
            # A decimal comma, most likely: 1,5 must not become 15.
            raise _edited(path, f"line {line}: {cell[:40]!r} under {name} is not a valid number")
        metrics[name] = RawMetric(value, unit)
    name = cells.get("Kernel Name", "")
    data = InMemoryLaunch(_device(cells, metrics), metrics, stored_disassembly=_NO_CODE)
    return Launch(
        number=number,
        name=kernel_name(name),
        workload=_WORKLOAD_NAMES.get(name, Workload.KERNEL),
        grid=dim3(cells.get("Grid Size", "")),
        block=dim3(cells.get("Block Size", "")),
        data=data,
        process=cells.get("Process Name"),
        stream=whole(cells.get("Stream")),
        context=whole(cells.get("Context")),
    )


def _device(cells: dict[str, str], metrics: dict[str, RawMetric]) -> Device:
    found = device_from_metrics(metrics.get, index=whole(cells.get("Device")))
    if found.compute_capability is None and cells.get("CC"):
        return Device(found.name, cells["CC"], found.sm_count, found.index)
    return found
