"""`ncu --csv --page raw`: one row a launch, one column a metric, a second header row of units.

What people keep under that name is a whole terminal: log lines before and after, the program's own
output in between. The table is found by its header; rows are trusted only at its width.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport, UnknownFormat
from keet.ingest.session import device_from_metrics
from keet.ingest.stored import StoredLaunch
from keet.profile import (
    Absent,
    Device,
    Dim3,
    KernelName,
    Launch,
    RawMetric,
    Value,
    Workload,
)
from keet.texts import bounded_line

_HEADER = re.compile(r'^"?ID"?,', re.MULTILINE)
_LINE = re.compile(r"[^\r\n]+")
_QUOTED_NUMBER = re.compile(r'"\d+",', re.A)
_IDENTITY = {"ID", "Context", "Stream", "Device", "CC"}
"""Columns that are no metrics; the others of that kind have a space in their name."""
_DETAILS_COLUMN = "Metric Name"
_NUMBER = re.compile(r"-?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(e[+-]?\d+)?", re.I | re.A)
_LIKE_A_NUMBER = re.compile(r"-?[\d.,]+", re.A)
_LONGEST_NUMBER = 40
"""Characters: ncu prints 64-bit numbers with separators in less."""
_DIM3 = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?", re.A)
_WORKLOAD_NAMES = {"range": Workload.RANGE, "graph": Workload.GRAPH, "cmdlist": Workload.CMDLIST}

RAW_EXPORT = "ncu --import REPORT --page raw --csv > FILE"
ROUNDED = "values are as ncu printed them: rounded to two decimals, without source or rules"

_NO_CODE = Absent("a CSV export holds no code", "use the .ncu-rep that it was exported from")


class _Table(NamedTuple):
    header: list[str]
    units: list[str]
    quoted: bool


def has_table(text: str) -> bool:
    return _HEADER.search(text) is not None


def read_csv_launches(text: str, path: Path) -> tuple[Launch, ...]:
    """The launches of every table: a log may hold several runs, each with columns of its own."""
    launches: list[Launch] = []
    table: _Table | None = None
    number, counted = 1, 0  # of a line, and up to where: counting anew for each row is quadratic
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
    return tuple(launches)


def _starts_a_row(line: str, table: _Table) -> bool:
    """Whether a line is a launch's, and not of ncu's log or the program's own output.

    ncu quotes every cell, so a line that starts with a quote and has as many as a row is one.
    """
    if not table.quoted:
        return line[0] in "0123456789" and line.count(",") >= len(table.header) - 1
    if line[0] != '"':
        return False
    return _QUOTED_NUMBER.match(line) is not None or line.count('","') == len(table.header) - 1


def _read_header(line: str, below: str, path: Path) -> _Table:
    header = _cells(line)
    if _DETAILS_COLUMN in header:
        raise UnknownFormat(
            path,
            "this is the details page, which names metrics by label and rounds them",
            f"export the raw page instead: {RAW_EXPORT}",
        )
    units = _cells(below)
    # The second row names no launch: its first cell is empty.
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
    if not _is_count(row[0]):
        raise _edited(path, f"line {number} has no number of a launch")
    end = line.rstrip()
    if table.quoted and (not end.endswith('"') or end.endswith(',"')):
        raise _edited(path, f"line {number} is cut short")
    return row


def _cells(line: str) -> list[str]:
    """One line as cells: a row never spans lines, and a stray quote must not swallow the next."""
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
        value = _value(cell)
        if unit and isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(value.strip()):
            # A decimal comma, most likely: 1,5 must not become 15.
            raise _edited(path, f"line {line}: {value[:40]!r} under {name} is no number of ncu's")
        metrics[name] = RawMetric(value, unit)
    name = cells.get("Kernel Name", "")
    function = re.split(r"[<(]", name, maxsplit=1)[0].split("::")[-1].split(" ")[-1]
    data = StoredLaunch(_device(cells, metrics), metrics, stored_disassembly=_NO_CODE)
    return Launch(
        number=number,
        name=KernelName(function=function or name, demangled=name, mangled=""),
        workload=_WORKLOAD_NAMES.get(name, Workload.KERNEL),
        grid=_dim3(cells.get("Grid Size", "")),
        block=_dim3(cells.get("Block Size", "")),
        data=data,
        process=cells.get("Process Name"),
        stream=_whole(cells.get("Stream")),
        context=_whole(cells.get("Context")),
    )


def _device(cells: dict[str, str], metrics: dict[str, RawMetric]) -> Device:
    found = device_from_metrics(metrics.get, index=_whole(cells.get("Device")))
    if found.compute_capability is None and cells.get("CC"):
        return Device(found.name, cells["CC"], found.sm_count, found.index)
    return found


def _value(cell: str) -> Value:
    """A cell as what it is: `1,234.50` is a number, `NVIDIA H200` a text, nothing is nothing."""
    text = cell.strip()
    if text in ("", "n/a", "N/A", "no data"):
        return None
    if text.lower() in ("nan", "-nan"):
        return float("nan")
    if text.lower() in ("inf", "-inf"):
        return float(text)
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return cell
    plain = text.replace(",", "")
    return int(plain) if _is_count(plain.removeprefix("-")) else float(plain)


def _dim3(text: str) -> Dim3 | None:
    match = _DIM3.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and len(text) < _LONGEST_NUMBER and _is_count(text) else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()
