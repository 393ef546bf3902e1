"""`keet metrics --format parquet`: writes metrics as a Parquet file, with duckdb."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from keet.files import replacing
from keet.optional_packages import require

_AT_ONCE = 200
"""Rows per INSERT: single rows take ten times as long."""
_TYPES = {"launch": "BIGINT", "number": "DOUBLE"}


def write_parquet(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write metric rows. Text values go into a column of their own: a column has one type.

    Raises OSError if `path` can't be written, and NotAvailable without duckdb.
    """
    duckdb = require("duckdb", "batch")
    columns = [*header, "text"]
    definition = ", ".join(f'"{c}" {_TYPES.get(c, "VARCHAR")}' for c in _renamed(columns))
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


def _renamed(columns: Sequence[str]) -> list[str]:
    return ["number" if column == "value" else column for column in columns]


def _split_value(header: Sequence[str], row: Sequence[object]) -> list[object]:
    at = header.index("value")
    text = row[at] if isinstance(row[at], str) else None
    cells = list(row)
    cells[at] = None if text is not None else row[at]
    return [*cells, text]
