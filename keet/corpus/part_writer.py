"""Writing a part of a store: it appears whole or not at all, whoever else writes at that time."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.corpus.database import cursor, with_one_thread
from keet.corpus.layout import (
    MAKING,
    PARTS,
    SCHEMA_VERSION,
    STORE_FILE,
    TABLES,
    Column,
    new_part_id,
    storable,
)
from keet.corpus.rows import FileRows, Row
from keet.corpus.versions import check_writable
from keet.corpus.views import as_pattern, quoted
from keet.extras import require
from keet.files import replacing
from keet.records import NamedTuple
from keet.version import __version__

if TYPE_CHECKING:
    import duckdb

    from keet.corpus.pieces import Pieces

_ABANDONED = 24 * 3600
"""Seconds after which a folder that is still being written belongs to nobody."""
_GROUP_ROWS = 2_048
"""That duckdb holds in memory while it combines pieces: an explanation has some 50 kB."""
TABLES_OF_ROWS = ("launches", "findings", "account")
_INTEGERS = {"BOOLEAN": 2, "INTEGER": 2**31, "BIGINT": 2**63}


class FileRecord(NamedTuple):
    """What became of one file: a row of the manifest."""

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


def make_store(out: Path) -> None:
    """A folder that says it is a store. Raises OSError, UsageError for an older store, and
    NotAvailable where its parts could not be written."""
    require("duckdb", "batch")
    require("numpy", "batch")
    check_writable(out)
    (out / PARTS).mkdir(parents=True, exist_ok=True)
    if not (out / STORE_FILE).exists():
        text = json.dumps({"schema_version": SCHEMA_VERSION, "keet": __version__})
        with replacing(out / STORE_FILE) as file:
            file.write(f"{text}\n".encode())


def write_part(
    out: Path, records: Sequence[FileRecord], rows: Iterable[FileRows], pieces: Pieces | None = None
) -> Path:
    """Settle these files, with their rows. `pieces`: the rows before those of a large report, which
    are files already. Raises OSError where the disk does not take them."""
    make_store(out)
    making = making_folder(out)
    making.mkdir()
    try:
        _write_rows(making, list(_once(rows)), pieces)
        write_tables(making, {"files": records})
        _sync(making)
        finished = out / PARTS / new_part_id()
        making.rename(finished)
        _sync(finished.parent)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    finally:
        if pieces is not None:
            pieces.remove()
    return finished


def making_folder(out: Path) -> Path:
    """For what is being written: whoever is killed leaves it, and `remove_abandoned` finds it."""
    return out / f"{MAKING}{socket.gethostname()}-{os.getpid()}-{new_part_id()}"


def _write_rows(making: Path, files: Sequence[FileRows], pieces: Pieces | None) -> None:
    if pieces is None:
        write_tables(making, {name: _rows_of(files, name) for name in TABLES_OF_ROWS})
        return
    for rows in files:
        pieces.write(rows)
    pieces.combine(making)


def _rows_of(files: Sequence[FileRows], table: str) -> list[Row]:
    return [row for each in files for row in getattr(each, table)]


def _once(rows: Iterable[FileRows]) -> Iterable[FileRows]:
    """A part holds the rows of equal content once: the last, which may know the run."""
    return {each.sha256: each for each in rows if each.sha256 is not None}.values()


# --- tables


def write_tables(folder: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    with cursor() as connection:
        for name, rows in tables.items():
            _write_table(connection, TABLES[name], rows, folder / f"{name}.parquet")


def combine_tables(folders: Sequence[Path], into: Path) -> None:
    """The tables of rows in `folders`, one after the other."""
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
    columns: Sequence[Column],
    rows: Sequence[Row],
    path: Path,
) -> None:
    """Columns go to duckdb as arrays: a statement for each row would take minutes."""
    cells = zip(*rows) if rows else ((),) * len(columns)
    arrays = {c.name: _array(c, values) for c, values in zip(columns, cells, strict=True)}
    connection.register("arrays", arrays)
    _copy(connection, f"SELECT {', '.join(map(_typed, columns))} FROM arrays", path)


def _typed(column: Column) -> str:
    """Arrays of numbers are DOUBLE as they are, and there are a hundred of them."""
    name = f'"{column.name}"'
    return name if column.type == "DOUBLE" else f"CAST({name} AS {column.type}) AS {name}"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path, options: str = "") -> None:
    """duckdb reports a full disk as an error of its own: make it one that callers expect."""
    import duckdb

    how = f"(FORMAT parquet, COMPRESSION zstd{options})"
    try:
        connection.execute(f"COPY ({query}) TO {quoted(str(path))} {how}")
    except duckdb.IOException as problem:
        raise OSError(f"{path}: {problem}") from None


def _array(column: Column, values: Sequence[Any]) -> Any:
    """As duckdb reads it: NaN, NaT, None and what is masked become NULL."""
    import numpy as np

    if column.type == "DOUBLE":
        return _numbers(values)
    if column.type == "TIMESTAMP":
        return np.array(values, dtype="datetime64[us]")
    if column.type in _INTEGERS:
        return _integers(values, _INTEGERS[column.type])
    texts = np.empty(len(values), dtype=object)
    texts[:] = values if _is_ascii(values) else [_text(value) for value in values]
    return texts


def _is_ascii(values: Sequence[Any]) -> bool:
    """Most columns are: they go as they are, without a look at each cell in Python."""
    try:
        return all(map(str.isascii, values))
    except TypeError:  # None, or what is no text
        return False


def _text(value: Any) -> str | None:
    return None if value is None else storable(str(value))


def _numbers(values: Sequence[float | None]) -> Any:
    """NaN stands for NULL here; infinity would spoil every sum, and is no measurement either."""
    import numpy as np

    known = [math.nan if value is None else value for value in values]
    numbers = np.array(known, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = math.nan
    return numbers


def _integers(values: Sequence[int | None], beyond: int) -> Any:
    """What does not fit is not known: a damaged report may claim anything."""
    import numpy as np

    kept = [value if value is not None and -beyond <= value < beyond else None for value in values]
    numbers = np.array([value or 0 for value in kept], dtype=np.int64)
    return np.ma.masked_array(numbers, mask=[value is None for value in kept])


# --- folders


def _sync(folder: Path) -> None:
    """The folder and what is in it survive a power cut; Windows has no such call for folders."""
    for path in (*(entry for entry in folder.iterdir() if entry.is_file()), folder):
        with suppress(PermissionError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def remove_abandoned(out: Path) -> int:
    """Delete what dead runs left half-made; how many there were."""
    folders = [f for f in out.glob(f"{MAKING}*") if f.is_dir() and _is_abandoned(f)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return len(folders)


def _is_abandoned(folder: Path) -> bool:
    host, pid, *_ = [*folder.name.removeprefix(MAKING).rsplit("-", 4)[:2], "", ""]
    if host == socket.gethostname() and pid.isdecimal() and not _is_alive(int(pid)):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
