"""`ncu --csv --page raw`: one row a launch, one column a metric, a second header row of units.

What people keep under that name is a whole terminal: log lines before and after, the program's own
output in between. The table is found by its header; rows are trusted only at its width.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport, UnknownFormat
from keet.ingest.session import ATTRIBUTE_PREFIX, DEVICE_ATTRIBUTES, device_from_attributes
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

_HEADER = re.compile(r'^"?ID"?,')
_IDENTITY = {"ID", "Context", "Stream", "Device", "CC"}
"""Columns that are no metrics; the others of that kind have a space in their name."""
_DETAILS_COLUMN = "Metric Name"
_NUMBER = re.compile(r"^-?[\d,]*\.?\d+(e[+-]?\d+)?$", re.IGNORECASE)
_DIM3 = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")
_WORKLOAD_NAMES = {"range": Workload.RANGE, "graph": Workload.GRAPH, "cmdlist": Workload.CMDLIST}

RAW_EXPORT = "ncu --import REPORT --page raw --csv > FILE"
ROUNDED = "values are as ncu printed them: rounded to two decimals, without source or rules"

_NO_CODE = Absent("a CSV export holds no code", "use the .ncu-rep that it was exported from")


class _Table(NamedTuple):
    header: list[str]
    units: list[str]
    rows: list[list[str]]


def has_table(text: str) -> bool:
    return any(_HEADER.match(line) for line in text.splitlines())


def read_csv_launches(text: str, path: Path) -> tuple[Launch, ...]:
    table = _find_table(text, path)
    return tuple(_launch(number, row, table) for number, row in enumerate(table.rows))


def _find_table(text: str, path: Path) -> _Table:
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise UnknownFormat(path, "there is no table in it", f"export one with: {RAW_EXPORT}")
    reader = csv.reader(io.StringIO("".join(lines[start:])))
    header = next(reader)
    if _DETAILS_COLUMN in header:
        raise UnknownFormat(
            path,
            "this is the details page, which names metrics by label and rounds them",
            f"export the raw page instead: {RAW_EXPORT}",
        )
    units = next(reader, None)
    # The second row names no launch: its first cell is empty.
    if units is None or len(units) != len(header) or units[0]:
        raise DamagedReport(
            path, "the table has no row of units under its header", f"export it again: {RAW_EXPORT}"
        )
    return _Table(header, units, list(_rows(reader, len(header), start + 1, path)))


def _rows(reader: Iterator[list[str]], width: int, offset: int, path: Path) -> Iterator[list[str]]:
    for row in reader:
        if not row or not row[0].isdigit():
            continue  # ncu's log and the program's output after the table
        if len(row) != width:
            line = offset + getattr(reader, "line_num", 0)
            raise DamagedReport(
                path,
                f"line {line} has {len(row)} cells where the table has {width}",
                f"the export was cut short or edited; export it again: {RAW_EXPORT}",
            )
        yield row


def _launch(number: int, row: list[str], table: _Table) -> Launch:
    cells = dict(zip(table.header, row))
    metrics = {
        name: RawMetric(_value(cell), unit)
        for name, unit, cell in zip(table.header, table.units, row)
        if name not in _IDENTITY and " " not in name
    }
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
    attributes = {
        name: metrics[ATTRIBUTE_PREFIX + name].value
        for name in DEVICE_ATTRIBUTES
        if ATTRIBUTE_PREFIX + name in metrics
    }
    found = device_from_attributes(attributes, index=_whole(cells.get("Device")))
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
    if not _NUMBER.match(text):
        return cell
    plain = text.replace(",", "")
    return int(plain) if plain.lstrip("-").isdigit() else float(plain)


def _dim3(text: str) -> Dim3 | None:
    match = _DIM3.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
