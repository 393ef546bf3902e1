"""A table as a Parquet file, written by duckdb."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from keet.errors import UsageError

_TYPES = {"launch": "BIGINT", "number": "DOUBLE"}


def write_parquet(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write metric rows. A column has one type: texts get one of their own beside the numbers."""
    import duckdb

    columns = [*header, "text"]
    definition = ", ".join(f'"{c}" {_TYPES.get(c, "VARCHAR")}' for c in _renamed(columns))
    partial = path.with_name(path.name + ".partial")
    try:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE metrics ({definition})")
            marks = ", ".join("?" * len(columns))
            values = [_split_value(header, row) for row in rows]
            if values:
                connection.executemany(f"INSERT INTO metrics VALUES ({marks})", values)
            connection.execute(f"COPY metrics TO '{_quoted(partial)}' (FORMAT parquet)")
        partial.replace(path)
    except (OSError, duckdb.IOException) as problem:
        reason = str(problem).splitlines()[0]
        raise UsageError(f"{path}: it can't be written ({reason}); name another file") from None
    finally:
        partial.unlink(missing_ok=True)


def _renamed(columns: Sequence[str]) -> list[str]:
    return ["number" if column == "value" else column for column in columns]


def _split_value(header: Sequence[str], row: Sequence[object]) -> list[object]:
    at = header.index("value")
    text = row[at] if isinstance(row[at], str) else None
    cells = list(row)
    cells[at] = None if text is not None else row[at]
    return [*cells, text]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
