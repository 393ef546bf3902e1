"""Writes parts of a store. A part appears complete or not at all, also with several writers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from keet.corpus.store.checksums import write_checksums
from keet.corpus.store.large_report import LargeReport
from keet.corpus.store.parquet_tables import TABLES_OF_ROWS, write_tables
from keet.corpus.store.report_rows import FileRows, Row
from keet.corpus.store.schema import PARTS, SCHEMA_VERSION, STORE_FILE, TABLES, new_part_id
from keet.corpus.store.unfinished import unfinished_folder
from keet.corpus.store.version import check_writable
from keet.files import replacing
from keet.optional_packages import require
from keet.version import __version__


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
        _write_rows(unfinished, _without_repeats(rows), large_report)
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
        write_tables(folder, {name: _rows_of(files, name) for name in TABLES_OF_ROWS})
        return
    for rows in files:
        large_report.write(rows)
    large_report.combine(folder)


def _rows_of(files: Sequence[FileRows], table: str) -> list[Row]:
    return [row for each in files for row in getattr(each, table)]


def _without_repeats(rows: Iterable[FileRows]) -> list[FileRows]:
    """The last rows of each content, which may have run times that earlier ones lack."""
    return list({each.sha256: each for each in rows if each.sha256 is not None}.values())


def _sync(folder: Path) -> None:
    """Make the folder and its files survive a power cut; Windows can't do that for folders."""
    for path in (*(entry for entry in folder.iterdir() if entry.is_file()), folder):
        with suppress(PermissionError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
