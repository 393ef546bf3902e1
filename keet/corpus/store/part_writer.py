"""Writes parts of a store. A part appears complete or not at all, also with several writers.

`PartQueue` collects finished files and writes them as a part every few seconds, in the background.
A part contains all rows of its reports. While a report has few slices, they are kept in memory.
Many slices are written into a temporary folder, and combined when the last one has arrived.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from keet.corpus.store.damage import write_checksums
from keet.corpus.store.parquet_tables import TABLES_OF_ROWS, combine_tables, write_tables
from keet.corpus.store.report_rows import FileRows
from keet.corpus.store.schema import (
    PARTS,
    SCHEMA_VERSION,
    STORE_FILE,
    TABLES,
    UNFINISHED,
    new_part_id,
    utc_now,
)
from keet.corpus.store.version import check_writable
from keet.errors import KeetError
from keet.files import replacing
from keet.optional_packages import require
from keet.version import __version__

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
        write_tables(folder, {name: getattr(rows, name) for name in TABLES_OF_ROWS})
        self._written += 1

    def combine(self, folder: Path) -> None:
        """Combine all written slices into the tables of a part."""
        combine_tables([self._folder / f"{n:06}" for n in range(self._written)], folder)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def joined(slices: Sequence[FileRows]) -> FileRows:
    """Slices of one report as one. Other fields are those of the last slice."""
    tables: dict[str, Any] = {
        name: tuple(row for rows in slices for row in getattr(rows, name))
        for name in TABLES_OF_ROWS
    }
    return slices[-1]._replace(**tables)


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
        tables = {
            name: [row for rows in files for row in getattr(rows, name)] for name in TABLES_OF_ROWS
        }
        write_tables(folder, tables)
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
