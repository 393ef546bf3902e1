"""Opens a store and answers SQL queries: `keet.open_store(path)`.

At the end is the SQL over `launches` that all commands on a store share: the GPU, the selection by
--device and --kernel, the time that counts. A GPU is its name without the maker, its compute
capability and its number of SMs: older versions of ncu write `TITAN V` and newer ones `NVIDIA TITAN
V`, and a MIG slice has the name of the whole GPU.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from keet.analysis.parameters import LEAST_KERNEL_NS
from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.corpus.store.damage import (
    DamagedPart,
    StoreVersion,
    damaged_parts,
    read_version,
    visibly_damaged,
)
from keet.corpus.store.part_writer import FileRecord
from keet.corpus.store.schema import FILE_COLUMNS, PARTS, STORE_FILE, part_folders
from keet.corpus.store.views import Scratch, as_pattern, create_views, quoted, views_of
from keet.errors import DamagedReport, KeetError, NotAvailable, UsageError
from keet.findings import findings
from keet.formatting import count_noun
from keet.lazy import require
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
        self, path: Path, parts: Sequence[Path], version: StoreVersion, *, files_only: bool = False
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
        if not files_only and (damaged := visibly_damaged(parts, version.number)):
            raise _damaged(folder, damaged)
        return Store(folder, parts, version, files_only=files_only)
    except DamagedReport:
        if part_folders(folder) == parts:
            raise
        return _open(path, files_only=files_only)  # a batch has set a part aside in the meantime


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


_MAKER = "NVIDIA "
GPU_NAME = (
    f"CASE WHEN starts_with(device, '{_MAKER}') THEN substr(device, {len(_MAKER) + 1}) "
    "ELSE device END"
)
GPU_KEYS = ("gpu", "compute_capability", "sm_count")
"""Columns that tell GPUs apart, where `GPU_NAME` is selected as `gpu`."""
UNKNOWN_GPU = "unknown GPU"


class StoredGpu(NamedTuple):
    """A GPU as launches of the store have it."""

    device: str | None
    compute_capability: str | None
    sm_count: int | None

    @property
    def name(self) -> str:
        return (self.device or UNKNOWN_GPU).removeprefix(_MAKER)


def launches_by_gpu(store: Store) -> str:
    """`launches` as SQL, with one text per GPU in the column `device`."""
    columns = ", ".join(StoredGpu._fields)
    rows = store.query(f"SELECT DISTINCT {columns} FROM launches ORDER BY ALL").rows
    labels = gpu_labels([StoredGpu(*row) for row in rows])
    if all(gpu.device == label for gpu, label in labels.items()):
        return "launches"
    cases = []
    for gpu, label in labels.items():
        pairs = zip(StoredGpu._fields, map(literal, gpu))
        is_gpu = " AND ".join(f"{column} IS NOT DISTINCT FROM {cell}" for column, cell in pairs)
        cases.append(f"WHEN {is_gpu} THEN {quoted(label)}")
    return f"(SELECT * REPLACE (CASE {' '.join(cases)} END AS device) FROM launches)"


def gpu_labels(gpus: Sequence[StoredGpu]) -> dict[StoredGpu, str]:
    """The longest name that the store has for each GPU, with what tells it from others."""
    alike: dict[str, list[StoredGpu]] = defaultdict(list)
    for gpu in gpus:
        alike[gpu.name].append(gpu)
    labels = {}
    for gpu in gpus:
        _, capabilities, sms = map(set, zip(*alike[gpu.name]))
        name = max((each.device or UNKNOWN_GPU for each in alike[gpu.name]), key=len)
        differs = [f"{gpu.sm_count or '?'} SMs"] if len(sms) > 1 else []
        if len(capabilities) > 1:
            differs.append(f"compute capability {gpu.compute_capability or '?'}")
        labels[gpu] = f"{name} ({', '.join(differs)})" if differs else name
    return labels


def literal(cell: str | int | None) -> str:
    """As SQL, escaped: names in a store may contain any character."""
    return "NULL" if cell is None else quoted(cell) if isinstance(cell, str) else str(cell)


TIME_BASE = (*GPU_KEYS, "in_run")
"""Part of the key of every group: times of two GPUs do not compare, nor do times of whole runs and
of single launches."""
REPLAY_GAP = (
    f"coalesce(plain_us > {REPLAY_DIFFERS} * duration_us "
    f"OR (duration_us > {REPLAY_DIFFERS} * plain_us "
    f"AND duration_us - plain_us > {LEAST_KERNEL_NS / 1e3}), false)"
)
"""Whether profiled time and time in the run differ: see `keet.analysis.replay_gap`."""
ALIKE = "least(run_time_us, run_alike_us)"
"""The part of `run_time_us` in launches of similar length; all of it if the run table does not have
that (`least` ignores NULL)."""
_COUNTED = (
    "run_time_us IS NOT NULL AS in_run, coalesce(run_time_us, duration_us) AS spent_us, "
    f"CASE WHEN run_time_us IS NULL THEN duration_us ELSE {ALIKE} END AS alike_us, "
    f"run_time_us IS NOT NULL AND {REPLAY_GAP} AS replay_gap"
)


def does_more_work() -> str:
    """Whether a row of `findings` gains more work in the same time: a launch alone saves none."""
    whole = [spec.id for spec in findings().values() if spec.of_launches]
    variants = [f"{spec.id} {each}" for spec in findings().values() for each in spec.more_work]
    variant = "id || ' ' || coalesce(variant, '')"
    return f"(list_contains({whole}, id) OR list_contains({variants}, {variant}))"


ListParameters = dict[str, list[str]]
"""ListParameters of a query, by name."""


class LaunchFilter(NamedTuple):
    """The launches that --device and --kernel select, as SQL."""

    on_devices: str
    named: str
    parameters: ListParameters
    has_runs: bool = True
    """False: no report has a run table, so queries about runs are skipped."""

    @property
    def source(self) -> str:
        """All launches on the selected GPUs; the column `named` is true for selected kernels."""
        launches = f"SELECT *, {GPU_NAME} AS gpu, {self.named} AS named, {_COUNTED} FROM launches"
        return f"(SELECT * FROM ({launches}) WHERE {self.on_devices})"

    @property
    def runs(self) -> str:
        """Reports with a run table, and the time of the run; once per value of `TIME_BASE`."""
        pool = ", ".join(TIME_BASE)
        reports = f"SELECT DISTINCT {pool}, report_sha256 FROM {self.source} WHERE in_run"
        of_run = "run_total_us, run_unprofiled_us, run_overlap_known"
        files = f"SELECT sha256, {of_run} FROM files WHERE status = 'done'"
        return f"(FROM ({reports}) JOIN ({files}) ON sha256 = report_sha256)"


def choose(
    store: Store, device: re.Pattern[str] | None, kernel: re.Pattern[str] | None
) -> LaunchFilter:
    """Raises UsageError if nothing matches. A GPU matches by any of its names."""
    conditions, parameters = [], {}
    for option, pattern, column, columns in (
        ("device", device, "gpu", f"device, {GPU_NAME}"),
        ("kernel", kernel, "kernel_full", "kernel, kernel_full"),
    ):
        if pattern is None:
            conditions.append("true")
            continue
        rows = store.query(f"SELECT DISTINCT {columns} FROM launches").rows
        # Python's regular expressions, as everywhere in keet; duckdb's differ.
        chosen = {str(row[1]) for row in rows if any(pattern.search(str(name)) for name in row)}
        if not chosen:
            known = sorted({str(row[0]) for row in rows})
            others = f" and {len(known) - 3} more" if len(known) > 3 else ""
            raise UsageError(
                f"--{option} {pattern.pattern!r} matches no launch; the store has "
                f"{', '.join(known[:3])}{others}; see: keet top {store.path}"
            )
        conditions.append(f"coalesce({column}, 'None') IN (SELECT unnest(${option}s))")
        parameters[f"{option}s"] = sorted(chosen)
    on_devices, named = conditions
    return LaunchFilter(on_devices, named, parameters)
