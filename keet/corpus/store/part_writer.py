"""Writes Parquet files with duckdb: parts of a store, and the metrics of one report.

A part appears complete or not at all, also with several writers. `PartQueue` collects finished
files and writes them as a part every few seconds, in the background. A part contains all rows of
its reports. While a report has few slices, they are kept in memory. Many slices are written into a
temporary folder, and combined when the last one has arrived.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from keet.corpus.store.damage import check_writable, write_checksums
from keet.corpus.store.report_rows import FileRows, Row
from keet.corpus.store.schema import (
    PARTS,
    SCHEMA_VERSION,
    STORE_FILE,
    TABLES,
    UNFINISHED,
    StoreColumn,
    new_part_id,
    storable,
    utc_now,
)
from keet.corpus.store.views import as_pattern, cursor, quoted, with_one_thread
from keet.errors import KeetError
from keet.files import replacing
from keet.lazy import require
from keet.version import __version__

if TYPE_CHECKING:
    import duckdb


TABLES_OF_ROWS = ("launches", "findings", "account")
_GROUP_ROWS = 2_048
"""Rows that duckdb holds in memory while it combines files: an explanation has about 50 kB."""
_INTEGERS = {"BOOLEAN": 2, "INTEGER": 2**31, "BIGINT": 2**63}


def write_tables(folder: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    with cursor() as connection:
        for name, rows in tables.items():
            _write_table(connection, TABLES[name], rows, folder / f"{name}.parquet")


def combine_tables(folders: Sequence[Path], into: Path) -> None:
    """Concatenate the tables of rows in `folders`."""
    with with_one_thread() as connection:
        for name in TABLES_OF_ROWS:
            files = ", ".join(quoted(as_pattern(folder / f"{name}.parquet")) for folder in folders)
            _copy(
                connection,
                f"FROM read_parquet([{files}])",
                into / f"{name}.parquet",
                f", ROW_GROUP_SIZE {_GROUP_ROWS}",
            )


def _write_table(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[StoreColumn],
    rows: Sequence[Row],
    path: Path,
) -> None:
    """Columns are passed to duckdb as arrays: one INSERT per row would take minutes."""
    cells = zip(*rows) if rows else ((),) * len(columns)
    arrays = {c.name: _array(c, values) for c, values in zip(columns, cells, strict=True)}
    connection.register("arrays", arrays)
    _copy(connection, f"SELECT {', '.join(map(_typed, columns))} FROM arrays", path)


def _typed(column: StoreColumn) -> str:
    """Arrays of numbers are DOUBLE already, and need no cast."""
    name = f'"{column.name}"'
    return name if column.type == "DOUBLE" else f"CAST({name} AS {column.type}) AS {name}"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path, options: str = "") -> None:
    """Turns duckdb's error for a full disk into an OSError."""
    import duckdb

    how = f"(FORMAT parquet, COMPRESSION zstd{options})"
    try:
        connection.execute(f"COPY ({query}) TO {quoted(str(path))} {how}")
    except duckdb.IOException as problem:
        raise OSError(f"{path}: {problem}") from None


def _array(column: StoreColumn, values: Sequence[Any]) -> Any:
    """As duckdb reads it: NaN, NaT, None and masked values become NULL."""
    import numpy as np

    if column.type == "DOUBLE":
        return _numbers(values)
    if column.type == "TIMESTAMP":
        return np.array(values, dtype="datetime64[us]")
    if column.type in _INTEGERS:
        return _integers(values, _INTEGERS[column.type])
    texts = np.empty(len(values), dtype=object)
    if _is_ascii(values):
        texts[:] = values
    else:
        texts[:] = [None if value is None else storable(str(value)) for value in values]
    return texts


def _is_ascii(values: Sequence[Any]) -> bool:
    """Most columns are, and need no conversion of each cell in Python."""
    try:
        return all(map(str.isascii, values))
    except TypeError:  # None, or not a text
        return False


def _numbers(values: Sequence[float | None]) -> Any:
    """NaN becomes NULL. Infinity too: it is not a measurement, and would spoil sums."""
    import numpy as np

    known = [math.nan if value is None else value for value in values]
    numbers = np.array(known, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = math.nan
    return numbers


def _integers(values: Sequence[int | None], beyond: int) -> Any:
    """Values that do not fit become NULL: a damaged report may contain anything."""
    import numpy as np

    kept = [value if value is not None and -beyond <= value < beyond else None for value in values]
    numbers = np.array([value or 0 for value in kept], dtype=np.int64)
    return np.ma.masked_array(numbers, mask=[value is None for value in kept])


_AT_ONCE = 200
"""Rows per INSERT: single rows take ten times as long."""
_METRIC_TYPES = {"launch": "BIGINT", "number": "DOUBLE"}


def write_parquet(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write metric rows. Text values go into a column of their own: a column has one type.

    Raises OSError if `path` can't be written, and NotAvailable without duckdb.
    """
    duckdb = require("duckdb", "batch")
    columns = [*("number" if column == "value" else column for column in header), "text"]
    definition = ", ".join(f'"{c}" {_METRIC_TYPES.get(c, "VARCHAR")}' for c in columns)
    marks = f"({', '.join('?' * len(columns))})"
    values = (_split_value(header, row) for row in rows)
    with tempfile.TemporaryDirectory(prefix="keet-") as folder:
        made = Path(folder) / "metrics.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE metrics ({definition})")
            while some := list(islice(values, _AT_ONCE)):
                given = [cell for row in some for cell in row]
                connection.execute(
                    f"INSERT INTO metrics VALUES {', '.join([marks] * len(some))}", given
                )
            connection.execute(f"COPY metrics TO '{made}' (FORMAT parquet)")
        with replacing(path) as file:
            file.write(made.read_bytes())


def _split_value(header: Sequence[str], row: Sequence[object]) -> list[object]:
    at = header.index("value")
    text = row[at] if isinstance(row[at], str) else None
    cells = list(row)
    cells[at] = None if text is not None else row[at]
    return [*cells, text]


_ABANDONED_SECONDS = 24 * 3600
"""A folder of another host that has not changed for so long is abandoned."""


def unfinished_folder(out: Path) -> Path:
    """A new name for a part that is being written. The name holds host and process, so that
    `remove_abandoned` can tell whether the writer is still alive."""
    return out / f"{UNFINISHED}{socket.gethostname()}-{os.getpid()}-{new_part_id()}"


def remove_abandoned(out: Path) -> int:
    """Delete unfinished parts of processes that died; returns how many there were."""
    folders = [f for f in out.glob(f"{UNFINISHED}*") if f.is_dir() and _is_abandoned(f)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return len(folders)


def _is_abandoned(folder: Path) -> bool:
    host, pid, *_ = [*folder.name.removeprefix(UNFINISHED).rsplit("-", 4)[:2], "", ""]
    if host == socket.gethostname() and pid.isdecimal() and not _is_alive(int(pid)):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


MOST_HELD = 1_024
"""Launches in memory per unfinished report."""


class LargeReport:
    """The slices of one report, in order."""

    def __init__(self, out: Path) -> None:
        self._folder = unfinished_folder(out)
        self._written = 0
        self._held: list[FileRows] = []
        self.is_on_disk = False
        """Whether some slices are on disk."""
        self.launches = 0
        self.gpu_us = 0.0

    def add(self, rows: FileRows) -> None:
        self._held.append(rows)
        self.launches += len(rows.launches)
        self.gpu_us += rows.gpu_us

    def overflow(self) -> FileRows | None:
        """Slices to write to disk now, which are dropped from memory; None: there is still room."""
        if sum(len(rows.launches) for rows in self._held) < MOST_HELD:
            return None
        self.is_on_disk = True
        held, self._held = self._held, []
        return joined(held)

    def rest(self, last: FileRows) -> FileRows:
        """The slices that are not on disk, joined with the last one."""
        return joined([*self._held, last])

    # --- on disk

    def write(self, rows: FileRows) -> None:
        """Raises OSError if the disk is full or can't be written."""
        folder = self._folder / f"{self._written:06}"
        folder.mkdir(parents=True)
        write_tables(folder, _rows_by_table([rows]))
        self._written += 1

    def combine(self, folder: Path) -> None:
        """Combine all written slices into the tables of a part."""
        combine_tables([self._folder / f"{n:06}" for n in range(self._written)], folder)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def joined(slices: Sequence[FileRows]) -> FileRows:
    """Slices of one report as one. Other fields are those of the last slice."""
    return slices[-1]._replace(**_rows_by_table(slices))


def _rows_by_table(files: Iterable[FileRows]) -> dict[str, Any]:
    return {
        name: tuple(row for rows in files for row in getattr(rows, name)) for name in TABLES_OF_ROWS
    }


class FileRecord(NamedTuple):
    """The outcome of one file: a row of the manifest (the table `files`)."""

    path: str
    size: int | None
    mtime_ns: int | None
    sha256: str | None
    status: str
    reason: str | None
    duplicate_of: str | None
    launches: int | None
    seconds: float | None
    keet: str
    recorded: datetime
    run_table_size: int | None = None
    run_table_mtime_ns: int | None = None
    run_total_us: float | None = None
    run_unprofiled_us: float | None = None
    run_overlap_known: bool | None = None
    origin_sha256: str | None = None


def bare_record(path: str, status: str, reason: str | None = None) -> FileRecord:
    """Of a file of which nothing else is known."""
    return FileRecord(
        path, None, None, None, status, reason, None, None, None, __version__, utc_now()
    )


def make_store(out: Path) -> None:
    """Make `out` a store if it is not one yet. Raises OSError, UsageError for an older store, and
    NotAvailable if a package that writes parts is missing."""
    require("duckdb", "batch")
    require("numpy", "batch")
    check_writable(out)
    (out / PARTS).mkdir(parents=True, exist_ok=True)
    if not (out / STORE_FILE).exists():
        text = json.dumps({"schema_version": SCHEMA_VERSION, "keet": __version__})
        with replacing(out / STORE_FILE) as file:
            file.write(f"{text}\n".encode())


def write_part(
    out: Path,
    records: Sequence[FileRecord],
    rows: Iterable[FileRows],
    large_report: LargeReport | None = None,
    part_id: str | None = None,
) -> Path:
    """Add these files and their rows to the store. `large_report`: its earlier rows are on disk
    already. `part_id`: None for a new one. Raises OSError if the disk is full or can't be written.
    """
    make_store(out)
    unfinished = unfinished_folder(out)
    unfinished.mkdir()
    try:
        # The last rows of each content may have run times that earlier ones lack.
        distinct = {row.sha256: row for row in rows if row.sha256 is not None}
        _write_rows(unfinished, [*distinct.values()], large_report)
        write_tables(unfinished, {"files": records})
        write_checksums(unfinished, tuple(TABLES))
        _sync(unfinished)
        finished = out / PARTS / (part_id or new_part_id())
        unfinished.rename(finished)
        _sync(finished.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    finally:
        if large_report is not None:
            large_report.remove()
    return finished


def _write_rows(folder: Path, files: Sequence[FileRows], large_report: LargeReport | None) -> None:
    if large_report is None:
        write_tables(folder, _rows_by_table(files))
        return
    for rows in files:
        large_report.write(rows)
    large_report.combine(folder)


def _sync(folder: Path) -> None:
    """Make the folder and its files survive a power cut; Windows can't do that for folders."""
    for path in (*(entry for entry in folder.iterdir() if entry.is_file()), folder):
        with suppress(PermissionError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


FIRST_PART_SECONDS, PART_SECONDS = 0.5, 8.0
PART_LAUNCHES = 4_000
"""A part is written after so many seconds or launches, whichever comes first. The interval doubles
from part to part: a short batch that is killed has results, and a long one has few parts."""


class PartQueue:
    """Collects finished files and writes them as parts, one at a time, in a thread."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._records: list[FileRecord] = []
        self._rows: list[FileRows] = []
        self._launches = 0
        self._since = time.monotonic()
        self._interval = FIRST_PART_SECONDS
        self._thread = ThreadPoolExecutor(1, "part-writer")
        self._pending_writes: deque[Future[object]] = deque()
        self._reports: set[LargeReport] = set()

    def add(self, record: FileRecord, rows: FileRows | None = None) -> None:
        if not self._records:
            self._since = time.monotonic()
        self._records.append(record)
        if rows is not None:
            self._rows.append(rows)
            self._launches += len(rows.launches)

    # --- large reports

    def new_large_report(self) -> LargeReport:
        report = LargeReport(self._out)
        self._reports.add(report)
        return report

    def add_slice(self, report: LargeReport, rows: FileRows) -> None:
        report.add(rows)
        overflow = report.overflow()
        if overflow is not None:
            self._submit(report.write, overflow)

    def add_last_slice(self, record: FileRecord, rows: FileRows, report: LargeReport) -> None:
        """A report with slices on disk becomes a part of its own."""
        self._reports.remove(report)
        rest = report.rest(rows)
        if not report.is_on_disk:
            self.add(record, rest)
            return
        self._start()  # keeps the order in which files were finished
        self._submit(write_part, self._out, [record], [rest], report)

    def discard(self, report: LargeReport) -> None:
        self._reports.remove(report)
        self._submit(report.remove)

    # --- parts

    def write_when_due(self) -> None:
        """Raises the error of an earlier part: a full disk ends the batch."""
        while self._pending_writes and self._pending_writes[0].done():
            self._pending_writes.popleft().result()
        waited = time.monotonic() - self._since
        due = waited >= self._interval or self._launches >= PART_LAUNCHES
        if due and not self._pending_writes:
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write finished files also if the batch failed, unless writing itself failed."""
        try:
            if kind is None or issubclass(kind, KeetError):
                self.close()
        finally:
            self._thread.shutdown()
            for report in self._reports:
                report.remove()

    def close(self) -> None:
        """Write everything and wait until it is in the store."""
        self._start()
        while self._pending_writes:
            self._pending_writes.popleft().result()

    def _start(self) -> None:
        if not self._records:
            return
        records, rows = self._records, self._rows
        self._records, self._rows, self._launches = [], [], 0
        self._interval = min(2 * self._interval, PART_SECONDS)
        self._submit(write_part, self._out, records, rows)

    def _submit(self, work: Callable[..., object], *arguments: object) -> None:
        self._pending_writes.append(self._thread.submit(work, *arguments))
