"""Writes rows as Parquet files with duckdb: the tables of a store, and metrics of one report."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.corpus.store.report_rows import Row
from keet.corpus.store.schema import TABLES, StoreColumn, storable
from keet.corpus.store.views import as_pattern, cursor, quoted, with_one_thread
from keet.files import replacing
from keet.optional_packages import require

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
