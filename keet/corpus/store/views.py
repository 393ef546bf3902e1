"""The SQL views of a store, which hide superseded and repeated rows, and keet's own database.

Parts never change, so a report that was analysed again has rows in two parts, and so has a report
that two machines analysed at the same time. The views show the newest content of each path once.
Usually the manifest shows that no rows repeat, and then the views are plain scans. The schema
`parts` has all rows of all parts.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.corpus.store.schema import (
    LAUNCHES,
    METRICS,
    SCHEMA_VERSION,
    TABLES,
    StoreColumn,
    columns_mark,
    mark_of,
    tables_of,
)
from keet.lazy import require
from keet.masking import masked

if TYPE_CHECKING:
    import duckdb

# --- the database for keet's own SQL: writing parts and reading the manifest. Creating a database
# takes as long as writing a small part, so it is kept, one per process. SQL of users runs in a
# separate database, which can read only the store (`reader`).

_scratch_numbers = count()


def cursor() -> duckdb.DuckDBPyConnection:
    """A new connection to the database of this process, for one thread."""
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - one per process, also after a fork
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect()
    spill = Path(tempfile.gettempdir()).absolute() / f"keet-{secrets.token_hex(8)}"
    made.execute("SET temp_directory = $1", [str(spill)])
    return made


def with_one_thread() -> duckdb.DuckDBPyConnection:
    """A separate database for data larger than memory: duckdb buffers row groups per thread, so one
    thread needs the least memory."""
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect(config={"threads": 1})
    return made


class Scratch:
    """A cursor with its own tables and views, which are removed with it."""

    def __init__(self) -> None:
        self.connection = cursor()
        self._name = f"scratch_{next(_scratch_numbers)}"
        self.connection.execute(f"ATTACH ':memory:' AS {self._name}")
        self.connection.execute(f"USE {self._name}")

    def close(self) -> None:
        """May be called while a result is being read; the cursor can't be used afterwards."""
        self.connection.close()
        with cursor() as other:
            other.execute(f"DETACH {self._name}")


# --- secrets in parts that an older keet wrote: parts never change, so this is done when reading.
# Newer parts contain only masked texts; their names show it (`columns_mark`).

_MASKED_CELLS = """
REPLACE (
    keet_masked(command_line) AS command_line,
    keet_masked(nvtx) AS nvtx,
    CASE WHEN command_line IS NULL THEN explanation
        ELSE keet_masked_document(command_line, explanation) END AS explanation
)
"""


def _create_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """The SQL functions of `_MASKED_CELLS`; they run only for columns that a query uses."""
    connection.create_function("keet_masked", masked, ["VARCHAR"], "VARCHAR")
    connection.create_function(
        "keet_masked_document", _masked_document, ["VARCHAR", "VARCHAR"], "VARCHAR"
    )


def _masked_document(command_line: str, document: str) -> str:
    """An explanation repeats the command line of its report in hints."""
    if masked(command_line) == command_line:
        return document
    try:
        return json.dumps(_masked_texts(json.loads(document)), ensure_ascii=False)
    except ValueError:
        return masked(document)


def _masked_texts(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {name: _masked_texts(part) for name, part in value.items()}
    return [_masked_texts(part) for part in value] if isinstance(value, list) else value


# --- the views

_WHENCE = ", filename = true, file_row_number = true"

_LONG = """
SELECT report_sha256, launch_id, kernel, device, '{id}' AS metric, {id} AS value, {unit} AS unit
FROM wide WHERE {id} IS NOT NULL
"""

_CLEAN = """
SELECT count(*) = count(DISTINCT hash(path))
    AND count(*) FILTER (status = 'done')
        = count(DISTINCT hash(sha256)) FILTER (status = 'done')
FROM parts.files
"""
"""True: each path is recorded once, and each content was analysed once."""

_NEWEST = """
CREATE TABLE parts.newest AS SELECT * EXCLUDE (turn) FROM (
    SELECT *,
        row_number() OVER (PARTITION BY path ORDER BY filename DESC, file_row_number DESC) AS turn
    FROM parts.files
) WHERE turn = 1
"""

_LIVE = """
CREATE TABLE parts.live AS
SELECT sha256, path FROM parts.newest
WHERE status IN ('done', 'duplicate') AND sha256 IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY sha256
    ORDER BY status = 'done' DESC, CASE WHEN status = 'done' THEN filename END DESC,
        CASE WHEN status = 'done' THEN file_row_number END DESC, filename, file_row_number
) = 1
"""
"""Content that a path has now, with the path that was recorded as done last."""

_DEAD = """
CREATE TABLE parts.dead AS
SELECT DISTINCT sha256 FROM parts.files WHERE status = 'done'
    AND sha256 NOT IN (SELECT sha256 FROM parts.live)
"""

_MOVED = """
CREATE TABLE parts.moved AS
SELECT live.sha256, live.path, max(was.launches) AS launches,
    last(
        struct_pack(
            total := was.run_total_us, unprofiled := was.run_unprofiled_us,
            overlap_known := was.run_overlap_known
        )
        ORDER BY was.filename, was.file_row_number
    ) AS run
FROM parts.live JOIN parts.files was USING (sha256) WHERE was.status = 'done'
GROUP BY ALL HAVING bool_or(was.path <> live.path)
"""
"""Content whose rows may have an old path."""

_LOSERS = """
CREATE TABLE parts.losers AS
WITH held AS (
    SELECT DISTINCT report_sha256, filename FROM parts.launches WHERE report_sha256 IN (
        SELECT sha256 FROM parts.files WHERE status = 'done' GROUP BY sha256 HAVING count(*) > 1
    )
)
SELECT report_sha256, filename,
    replace(filename, 'launches.parquet', 'findings.parquet') AS findings_filename,
    replace(filename, 'launches.parquet', 'account.parquet') AS account_filename
FROM held QUALIFY row_number() OVER (PARTITION BY report_sha256 ORDER BY filename DESC) > 1
"""
"""Parts with rows of a content that a newer part has too. The newer rows were made with the current
run table."""

_IS_OWN = "(n.status = 'done' AND m.path = n.path)"
"""The record belongs to the path that its content has now."""

_OF_RUN = ",\n".join(
    f"CASE WHEN m.path IS NULL OR {_IS_OWN} THEN n.run_{name} "
    f"WHEN m.path = n.path THEN m.run.{field} END AS run_{name}"
    for name, field in (
        ("total_us", "total"),
        ("unprofiled_us", "unprofiled"),
        ("overlap_known", "overlap_known"),
    )
)

_SHOWN = {
    "launches": """
        SELECT l.* EXCLUDE (filename, file_row_number) REPLACE (coalesce(m.path, l.path) AS path)
        FROM parts.launches l
        ANTI JOIN parts.dead d ON d.sha256 = l.report_sha256
        ANTI JOIN parts.losers o ON o.report_sha256 = l.report_sha256 AND o.filename = l.filename
        LEFT JOIN parts.moved m ON m.sha256 = l.report_sha256
    """,
    **{
        table: f"""
        SELECT t.* EXCLUDE (filename, file_row_number)
        FROM parts.{table} t
        ANTI JOIN parts.dead d ON d.sha256 = t.report_sha256
        ANTI JOIN parts.losers o
            ON o.report_sha256 = t.report_sha256 AND o.{table}_filename = t.filename
        """
        for table in ("findings", "account")
    },
    # A record is about other files as they were when it was written: they may have changed.
    "files": f"""
        SELECT n.* EXCLUDE (filename, file_row_number) REPLACE (
            CASE WHEN m.path IS NULL THEN n.status
                WHEN m.path = n.path THEN 'done' ELSE 'duplicate' END AS status,
            CASE WHEN m.path IS NULL OR {_IS_OWN} THEN n.reason
                WHEN m.path <> n.path THEN 'it is equal to ' || m.path END AS reason,
            CASE WHEN m.path IS NULL THEN n.duplicate_of
                WHEN m.path <> n.path THEN m.path END AS duplicate_of,
            CASE WHEN m.path IS NULL THEN n.launches
                WHEN m.path = n.path THEN coalesce(n.launches, m.launches) END AS launches,
            {_OF_RUN}
        )
        FROM parts.newest n
        LEFT JOIN parts.moved m ON m.sha256 = n.sha256 AND n.status IN ('done', 'duplicate')
    """,
}

_LAUNCH = {column.name: column for column in LAUNCHES}
_METRICS_COLUMNS = (
    *(_LAUNCH[name] for name in ("report_sha256", "launch_id", "kernel", "device")),
    StoreColumn("metric", "VARCHAR", "id in keet's catalog: one of the metric columns of launches"),
    StoreColumn("value", "DOUBLE", "as measured: what was not has no row"),
    StoreColumn("unit", "VARCHAR", "of the value"),
)

_VIEWS = ("launches", "findings", "account", "metrics", "files")


def views_of(version: int = SCHEMA_VERSION) -> tuple[str, ...]:
    """The views of a store of this version."""
    return tuple(name for name in _VIEWS if name in (*tables_of(version), "metrics"))


def create_views(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[Path],
    version: int,
    *,
    files_only: bool = False,
) -> None:
    """The views are created with one part per set of columns, which is enough to find the columns.

    `files_only`: only the view of the manifest; the others take most of the time.
    """
    tables = ("files",) if files_only else tables_of(version)
    by_mark = {mark: list(some) for mark, some in groupby(sorted(parts, key=mark_of), mark_of)}
    _set_files(connection, tables, {mark: some[:1] for mark, some in by_mark.items()})
    if "launches" in tables and set(by_mark) - {columns_mark()}:
        _create_functions(connection)
    connection.execute("CREATE SCHEMA parts")
    for name in tables:
        connection.execute(f"CREATE VIEW parts.{name} AS {_scan(name, list(by_mark), _WHENCE)}")
        connection.execute(f"CREATE VIEW {name} AS {_scan(name, list(by_mark))}")
    if "launches" in tables:
        connection.execute(f"CREATE VIEW metrics AS {_long()}")
    _set_files(connection, tables, by_mark)
    if connection.execute(_CLEAN).fetchall() == [(False,)]:
        _hide_superseded(connection, tables)


def _hide_superseded(connection: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> None:
    of_launches = (_DEAD, _LOSERS) if "launches" in tables else ()
    for table in (_NEWEST, _LIVE, _MOVED, *of_launches):
        connection.execute(table)
    for name in tables:
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {_SHOWN[name]}")


def _long() -> str:
    """Reads the launches once, and only the columns of the selected metrics.

    (duckdb skips the other columns from 2.0 on; before, it is a second slower per million rows.)
    """
    ids = ", ".join(metric.id for metric in METRICS)
    wide = f"SELECT report_sha256, launch_id, kernel, device, {ids} FROM launches"
    long = " UNION ALL ".join(_LONG.format(id=m.id, unit=quoted(m.unit)) for m in METRICS)
    return f"WITH wide AS MATERIALIZED ({wide}) {long}"


def _set_files(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[str],
    by_mark: Mapping[str, Sequence[Path]],
) -> None:
    """Scans refer to variables: a view with a thousand paths in its text is slow to parse."""
    for mark, parts in by_mark.items():
        for name in tables:
            files = ", ".join(quoted(as_pattern(part / f"{name}.parquet")) for part in parts)
            connection.execute(f"SET VARIABLE {name}_{mark} = [{files}]")


def _scan(name: str, marks: Sequence[str], options: str = "") -> str:
    """Parts with the same columns: duckdb reads the schema of the first file only."""
    scans = []
    for mark in marks:
        cells = f"* {_MASKED_CELLS}" if name == "launches" and mark != columns_mark() else "*"
        files = f"read_parquet(getvariable('{name}_{mark}'){options})"
        scans.append(f"SELECT {cells} FROM {files}")
    if list(marks) == [columns_mark()]:
        return scans[0]
    # All columns of this version of keet, in order, whatever the parts have.
    columns = [f"NULL::{column.type} AS {column.name}" for column in TABLES[name]]
    if options:
        columns += ["NULL::VARCHAR AS filename", "NULL::BIGINT AS file_row_number"]
    no_rows = f"SELECT {', '.join(columns)} WHERE false"
    return " UNION ALL BY NAME ".join([no_rows, *scans])


def as_pattern(path: Path) -> str:
    """duckdb reads every path as a glob pattern: escaped, so that it matches only itself."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(path))


def quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def described_views(version: int = SCHEMA_VERSION) -> dict[str, list[tuple[str, str, str, str]]]:
    """Name, type, unit and meaning of each column, by view."""
    columns = {**TABLES, "metrics": _METRICS_COLUMNS}
    return {
        name: [(c.name, c.type, c.unit, c.meaning) for c in columns[name]]
        for name in views_of(version)
    }
