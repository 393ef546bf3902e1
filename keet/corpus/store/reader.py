"""Opens a store and answers SQL queries: `keet.open_store(path)`."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from keet.corpus.store.damage import DamagedPart, damaged_parts, visibly_damaged
from keet.corpus.store.part_writer import FileRecord
from keet.corpus.store.schema import FILE_COLUMNS, PARTS, STORE_FILE, part_folders
from keet.corpus.store.version import StoreVersion, read_version
from keet.corpus.store.views import Scratch, as_pattern, create_views, quoted, views_of
from keet.errors import DamagedReport, KeetError, NotAvailable, UsageError
from keet.formatting import count_noun
from keet.optional_packages import require
from keet.safe_text import visible

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_CHUNK = 2048

T = TypeVar("T")
Parameters = Sequence[object] | Mapping[str, object]
"""Of a query, by position or by name."""


class QueryResult(NamedTuple):
    """The result of a query."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def to_pandas(self) -> pd.DataFrame:
        """One row per row of the result."""
        pandas = require("pandas", "batch")
        frame: pd.DataFrame = pandas.DataFrame(self.rows, columns=list(self.columns))
        return frame


class QueryStream:
    """The result of a query, read row by row: it may not fit into memory."""

    def __init__(self, columns: tuple[str, ...], types: tuple[str, ...], store: Store) -> None:
        self.columns = columns
        self.types = types
        self._store = store

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        connection = self._store.connection
        while rows := self._store.guarded(lambda: connection.fetchmany(_CHUNK)):
            yield from rows


class Store:
    """A store as it was when it was opened. Its connection can read only this store."""

    def __init__(
        self,
        path: Path,
        parts: Sequence[Path],
        version: StoreVersion,
        *,
        files_only: bool = False,
    ) -> None:
        self.path = path
        self.version = version
        self.views = ("files",) if files_only else views_of(version.number)
        self.part_count = len(parts)
        self._part_folders = parts
        self._is_closed = False
        self._own = Scratch() if files_only else None
        """For keet's own queries of the manifest, which need no restrictions."""
        self._parts = path / PARTS
        self._scratch = Path(tempfile.gettempdir()).absolute() / f"keet-{secrets.token_hex(8)}"
        """Created if a result does not fit into memory, or becomes a file."""
        self._clean_up = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self.connection = self._connect(parts)
        """The duckdb connection, with the views."""

    def __repr__(self) -> str:
        """Runs no query: that would end a result that is being read."""
        return f"<Store {self.path.name}: {self._state}, views {', '.join(self.views)}>"

    def _repr_html_(self) -> str:
        """For notebooks. Runs no query, for the same reason."""
        from html import escape

        head = f"<p>Store <b>{escape(visible(self.path.name))}</b>: {escape(self._state)}</p>"
        rows = "".join(
            f'<tr><td>{view}</td><td><code>store.to_pandas("{view}")</code></td></tr>'
            for view in self.views
        )
        table = f"<table><tr><th>view</th><th>as a frame</th></tr>{rows}</table>"
        sql = '<p>SQL over them: <code>store.query("SELECT …").to_pandas()</code></p>'
        return f"<div>{head}{table}{sql}</div>"

    @property
    def _state(self) -> str:
        parts = count_noun(self.part_count, "part")
        return f"{parts}, {self.version.words}{', closed' * self._is_closed}"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_closed:
            (self._own or self.connection).close()
        self._is_closed = True
        self._clean_up()

    def query(self, sql: str, parameters: Parameters = ()) -> QueryResult:
        """The whole result of one SELECT."""
        stream = self.stream(sql, parameters)
        return QueryResult(stream.columns, list(stream))

    def stream(self, sql: str, parameters: Parameters = ()) -> QueryStream:
        """A result that may be larger than memory; the next query ends it."""
        statement = self._checked(sql)
        result = self.guarded(lambda: self.connection.execute(statement, parameters or None))
        described = result.description or []
        names = tuple(str(column[0]) for column in described)
        return QueryStream(names, tuple(str(column[1]) for column in described), self)

    def to_pandas(self, view: str = "launches") -> pd.DataFrame:
        """A whole view."""
        if view not in self.views:
            raise UsageError(self._no_view(view))
        require("pandas", "batch")
        frame: pd.DataFrame = self.guarded(lambda: self.connection.execute(f"FROM {view}").df())
        return frame

    def write_parquet(self, sql: str, file: BinaryIO, limit: int | None = None) -> None:
        """Write a result as a Parquet file. Raises OSError if it can't be written."""
        self._scratch.mkdir(mode=0o700, exist_ok=True)
        made = self._scratch / "answer.parquet"
        select = str(self._checked(sql).query).rstrip().rstrip(";")
        at_most = f" LIMIT {limit}" if limit else ""
        copy = f"COPY (FROM ({select}\n){at_most}) TO {quoted(str(made))} (FORMAT parquet)"
        self.guarded(lambda: self.connection.execute(copy))
        with made.open("rb") as answer:
            shutil.copyfileobj(answer, file)
        made.unlink()

    def files(self) -> list[FileRecord]:
        """All records of the manifest, oldest first, also superseded ones."""
        columns = ", ".join(FILE_COLUMNS)
        table = self.query(f"SELECT {columns} FROM parts.files ORDER BY filename, file_row_number")
        return [FileRecord(*row) for row in table.rows]

    # --- the connection

    def _connect(self, parts: Sequence[Path]) -> duckdb.DuckDBPyConnection:
        connection = self._own.connection if self._own else self._confined()
        self.connection = connection
        files_only = self._own is not None
        number = self.version.number
        self.guarded(lambda: create_views(connection, parts, number, files_only=files_only))
        if not files_only:
            connection.execute("SET lock_configuration = true")
        return connection

    def _confined(self) -> duckdb.DuckDBPyConnection:
        """Users' SQL can read this store only: no other file, no network, no Python variable."""
        connection: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect()
        import duckdb

        allowed = {str(self._parts), as_pattern(self._parts), str(self._scratch)}
        folders = ", ".join(quoted(f"{folder}/") for folder in sorted(allowed))
        try:
            connection.execute(f"SET allowed_directories = [{folders}]")
        except duckdb.CatalogException:
            raise NotAvailable(
                f"duckdb {duckdb.__version__} is too old to read a store safely; "
                "upgrade it with: pip install -U duckdb"
            ) from None
        connection.execute(f"SET temp_directory = {quoted(str(self._scratch))}")
        connection.execute("SET parquet_metadata_cache = true")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        return connection

    def _checked(self, sql: str) -> Any:
        """Refuses everything but one SELECT."""
        statements = self.guarded(lambda: self.connection.extract_statements(sql))
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise UsageError(
                "a store is read-only: give one SELECT (or FROM, WITH, DESCRIBE, SUMMARIZE); "
                f"{self.hint}"
            )
        return statements[0]

    @property
    def hint(self) -> str:
        return f"the views are {', '.join(self.views)}; list their columns: keet query {self.path}"

    def guarded(self, action: Callable[[], T]) -> T:
        """Run `action`; errors of duckdb become one-line errors of keet."""
        import duckdb

        if self._is_closed:
            again = f"keet.open_store({str(self.path)!r})"
            raise UsageError(f"the store is closed; open it again: {again}")
        try:
            return action()
        except duckdb.ParserException as problem:
            raise UsageError(f"{_first_line(problem)}; {self.hint}") from None
        except (duckdb.Error, RuntimeError, ValueError, OverflowError) as problem:
            raise self._damage() or UsageError(self._query_problem(problem)) from None

    @contextmanager
    def explaining_damage(self) -> Iterator[None]:
        """For code that uses results: of a damaged page, duckdb may read values that keet never
        writes, and the code fails on them."""
        try:
            yield
        except (KeetError, OSError):
            raise
        except Exception:
            if damage := self._damage():
                raise damage from None
            raise

    def _query_problem(self, problem: Exception) -> str:
        """Of a store that is not damaged."""
        import duckdb

        later = (name for name in views_of() if name not in self.views)
        asked = next((name for name in later if f"name {name} " in str(problem)), None)
        if asked and isinstance(problem, duckdb.CatalogException):
            return self._no_view(asked)
        first = _first_line(problem)
        known = duckdb.CatalogException | duckdb.BinderException | duckdb.ConversionException
        if not isinstance(problem, known):
            first = f"duckdb can't answer this query ({first})"
        return f"{first}; {self.hint}"

    def _no_view(self, name: str) -> str:
        """Older stores lack the views that were added later."""
        why = self.version.note if name in views_of() else self.hint
        return f"there is no view {name!r}; {why}"

    def _damage(self) -> DamagedReport | None:
        """Reads the whole store: errors are rare, and a damaged name of a column looks like a
        mistake in the query."""
        damaged = next(iter(damaged_parts(self._part_folders, self.version.number)), None)
        return None if damaged is None else _damaged(self.path, damaged)


def _damaged(store: Path, damaged: DamagedPart) -> DamagedReport:
    again = f"keet batch DIR -o {shlex.quote(str(store))}"
    remedy = f"to set this part of the store aside and analyse its reports again: {again}"
    return DamagedReport(damaged.path, damaged.words, remedy)


def _first_line(problem: Exception) -> str:
    """The first line of the message, and similar names."""
    first, *rest = str(problem).strip().removeprefix("INTERNAL Error: ").split("\n")
    near = [line for line in rest if line.startswith(("Candidate", "Did you mean"))]
    return " ".join([first, *near]).rstrip(".")


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open what `keet batch DIR -o PATH` made. An empty store has views without rows.

    >>> import keet
    >>> with keet.open_store("store") as store:
    ...     table = store.query("SELECT kernel, limiter FROM launches WHERE top_forecast > 2")
    ...     frame = store.to_pandas("findings")
    >>> table.columns
    ('kernel', 'limiter')
    >>> table.rows
    [('flip', 'L2')]
    >>> frame["id"].tolist()
    ['uncoalesced_global']

    Needs the extra `batch`. Raises a `UsageError` if there is no store, a `NotAvailable` if a
    package is missing, and closes with the `with` statement or with `store.close()`.
    """
    return _open(Path(path))


def open_manifest(path: Path) -> Store:
    """The same with only the view `files`, for keet's own queries: it opens faster."""
    return _open(path, files_only=True)


def _open(path: Path, *, files_only: bool = False) -> Store:
    folder = path.absolute()
    try:
        version = read_version(folder)
    except OSError:
        raise UsageError(_not_a_store(path)) from None
    parts = part_folders(folder)
    try:
        if not files_only:
            _check_visible(folder, parts, version)
        return Store(folder, parts, version, files_only=files_only)
    except DamagedReport:
        if part_folders(folder) == parts:
            raise
        return _open(path, files_only=files_only)  # a batch has set a part aside in the meantime


def _check_visible(folder: Path, parts: Sequence[Path], version: StoreVersion) -> None:
    damaged = visibly_damaged(parts, version.number)
    if damaged is not None:
        raise _damaged(folder, damaged)


def _not_a_store(path: Path) -> str:
    """What the path is, and which command may be meant."""
    from keet.corpus.discovery import is_report_name, looks_like_report

    quoted_path = shlex.quote(str(path))
    if path.is_file():
        if looks_like_report(path):
            return f"{path}: this is a report, not a store; see: keet explain {quoted_path}"
        return f"{path}: this is a file, not a store; make a store with: keet batch DIR -o store"
    names = _names_in(path)
    if not names or PARTS in names:
        make = f"make one with: keet batch DIR -o {quoted_path}"
        return f"{path}: this is not a store (it has no {STORE_FILE}); {make}"
    what = "folder of reports" if any(map(is_report_name, names)) else "folder"
    out = "new_store" if path.name == "store" else "store"
    make = f"keet batch {quoted_path} -o {out}, then keet top {out}"
    return f"{path} is a {what}, not a store; make one: {make}"


def _names_in(folder: Path) -> list[str]:
    """Empty if the folder can't be listed."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
