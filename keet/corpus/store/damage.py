"""Which stores this keet can read, and which of their parts are damaged.

The size and CRC-32 of each table of a part are kept beside the tables. They show damage for
certain: a damaged page may decode to other values without an error. A CRC-32 is seven times as fast
as a SHA-256 here, and who forges a table can forge its checksum too. Parts without checksums are
read.

Stores of older versions can be read, without the newer tables. keet adds nothing to them: findings
and forecasts of two versions can't be compared, and one view would show both.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keet.corpus.store.schema import (
    SCHEMA_VERSION,
    STORE_FILE,
    TABLES,
    columns_mark,
    mark_of,
    part_folders,
    tables_of,
)
from keet.corpus.store.views import as_pattern, quoted, with_one_thread
from keet.errors import DamagedReport, UnreadableFile, UnsupportedVersion, UsageError
from keet.files import replacing
from keet.formatting import count_noun

if TYPE_CHECKING:
    import duckdb


CHECKSUMS = "checksums.json"
_MOST_BYTES = 10_000
_CHUNK = 1 << 20


class TableChecksum(NamedTuple):
    size: int
    crc32: int


def table_file(part: Path, table: str) -> Path:
    return part / f"{table}.parquet"


def write_checksums(part: Path, tables: Sequence[str]) -> None:
    """Raises OSError."""
    sums = {name: _checksum(table_file(part, name))._asdict() for name in tables}
    with replacing(part / CHECKSUMS) as file:
        file.write(f"{json.dumps(sums)}\n".encode())


def read_checksums(part: Path) -> dict[str, TableChecksum]:
    """By table. Empty if an older keet wrote the part, or if the file is damaged."""
    try:
        sums = json.loads(read_regular(part / CHECKSUMS, _MOST_BYTES))
        return {n: TableChecksum(int(one["size"]), int(one["crc32"])) for n, one in sums.items()}
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
    ):
        return {}


def read_regular(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, and ValueError for a pipe or device, which may
    have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is not a regular file")
    with path.open("rb") as file:
        return file.read(most)


def file_problem(path: Path, known: TableChecksum | None) -> str | None:
    """What can be seen without reading the file; None: nothing. Raises PermissionError: a file that
    this user may not read is not damaged."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "is missing"
    except PermissionError:
        raise
    except OSError as problem:
        return f"can't be read ({problem.strerror})"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"  # duckdb reads no link that leaves the store
    if known is not None and status.st_size != known.size:
        return f"has {count_noun(status.st_size, 'byte')} instead of {known.size:,}"
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return None


def content_problem(path: Path, known: TableChecksum) -> str | None:
    try:
        return None if _checksum(path) == known else "was changed after it was written"
    except OSError as problem:
        return f"can't be read ({problem.strerror})"


def _checksum(path: Path) -> TableChecksum:
    size = crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return TableChecksum(size, crc)


_NEEDED = {
    "files": ("path", "size", "mtime_ns", "sha256", "status", "launches", "seconds"),
    "launches": ("report_sha256", "launch_id", "finding_count", "top_part"),
    "findings": ("report_sha256", "launch_id"),
    "account": ("report_sha256", "launch_id"),
}
"""Columns of every part, also of those that an older or a newer keet wrote."""

_MISMATCHES = {
    "launches": """
        (SELECT sha256, launches FROM files
        WHERE status = 'done' AND seconds IS NOT NULL AND launches > 0
        EXCEPT SELECT report_sha256, count(*) FROM launches GROUP BY ALL)
        UNION ALL (SELECT report_sha256, 0 FROM launches
        EXCEPT SELECT sha256, 0 FROM files WHERE status = 'done')
    """,
    "findings": """
        (SELECT report_sha256, launch_id, finding_count FROM launches WHERE finding_count > 0
        EXCEPT SELECT report_sha256, launch_id, count(*) FROM findings GROUP BY ALL)
        UNION ALL (SELECT report_sha256, launch_id, 0 FROM findings
        EXCEPT SELECT report_sha256, launch_id, 0 FROM launches)
    """,
    "account": """
        (SELECT report_sha256, launch_id FROM launches WHERE top_part IS NOT NULL
        EXCEPT SELECT report_sha256, launch_id FROM account)
        UNION ALL (SELECT report_sha256, launch_id FROM account
        EXCEPT SELECT report_sha256, launch_id FROM launches)
    """,
}
"""Queries that have rows if the table belongs to another part."""


class DamagedPart(NamedTuple):
    path: Path
    problems: dict[str, str]
    """By table."""

    @property
    def words(self) -> str:
        """The first problem, in one line."""
        table, problem = next(iter(self.problems.items()))
        return f"{table}.parquet {problem}"


def visibly_damaged(parts: Sequence[Path], version: int) -> DamagedPart | None:
    """The first part whose damage shows without reading its tables: cheap enough for readers."""
    damaged = (DamagedPart(part, visible_problems(part, version)) for part in parts)
    return next((each for each in damaged if each.problems), None)


def visible_problems(part: Path, version: int) -> dict[str, str]:
    """Raises UnreadableFile if this user may not read the part."""
    known = read_checksums(part)
    if part.is_symlink():  # duckdb does not follow it out of the store
        return {"files": "is in a folder that is a symbolic link"}
    try:
        return _by_table(
            version, lambda name: file_problem(table_file(part, name), known.get(name))
        )
    except PermissionError as problem:
        remedy = f"change the permissions of {problem.filename}"
        raise UnreadableFile(part, "you may not read this part of the store", remedy) from None


def damaged_parts(
    parts: Sequence[Path], version: int, *, writes: bool = False
) -> list[DamagedPart]:
    """Reads all bytes. `writes`: parts of an older keet that are whole get checksums. Raises
    UnreadableFile as `visible_problems`."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        by_checksum = threads.map(lambda part: _part_problems(part, version), parts)
        problems_of = dict(zip(parts, by_checksum))
    unknown = [part for part, problems in problems_of.items() if problems is None]
    problems_of.update(_problems_by_reading(unknown, version, writes=writes))
    return [DamagedPart(part, problems) for part, problems in problems_of.items() if problems]


def _part_problems(part: Path, version: int) -> dict[str, str] | None:
    """None: the part must be read, because it has no checksums."""
    known = read_checksums(part)
    if visible := visible_problems(part, version):
        return visible
    if not set(tables_of(version)) <= set(known):
        return None
    return _by_table(version, lambda name: content_problem(table_file(part, name), known[name]))


def _by_table(version: int, problem: Callable[[str], str | None]) -> dict[str, str]:
    problems = {name: problem(name) for name in tables_of(version)}
    return {name: text for name, text in problems.items() if text is not None}


# --- parts without checksums


def _problems_by_reading(
    parts: Sequence[Path], version: int, *, writes: bool
) -> Iterator[tuple[Path, dict[str, str]]]:
    """With checksums, parts are not read again."""
    connection = with_one_thread()
    for part in parts:
        problems = _unreadable(connection, part, version)
        if problems:
            connection = with_one_thread()  # an internal error of duckdb ends a database
        elif writes:
            with suppress(OSError):
                write_checksums(part, tables_of(version))
        yield part, problems


def _unreadable(connection: duckdb.DuckDBPyConnection, part: Path, version: int) -> dict[str, str]:
    problems = _by_table(version, lambda name: _read_problem(connection, part, name, version))
    if problems or version < SCHEMA_VERSION:  # no batch sets parts of an older version aside
        return problems
    for table, query in _MISMATCHES.items():
        if connection.execute(query).fetchone():  # either may be of another part
            return dict.fromkeys([table, "files"], "does not fit the other tables")
    return {}


def _read_problem(
    connection: duckdb.DuckDBPyConnection, part: Path, name: str, version: int
) -> str | None:
    """Decodes every value, and leaves the table in the database."""
    path = quoted(as_pattern(table_file(part, name)))
    try:
        described = connection.execute(f"DESCRIBE FROM read_parquet({path})").fetchall()
        columns_in_file = {str(row[0]): str(row[1]) for row in described}
        # `top_part` came with the table `account`.
        has_account = "account" in tables_of(version)
        needed = [column for column in _NEEDED[name] if has_account or column != "top_part"]
        if not _has_columns(name, columns_in_file, needed, mark_of(part)):
            return "does not have the columns of its table"
        connection.execute(f"SELECT bit_xor(hash(t)) FROM read_parquet({path}) t").fetchall()
        columns = ", ".join(needed)
        connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM read_parquet({path})"
        )
    except Exception:  # noqa: BLE001 - duckdb raises many kinds, not all of them its own
        return "can't be read as Parquet"
    return None


def _has_columns(name: str, columns: Mapping[str, str], needed: Sequence[str], mark: str) -> bool:
    known = {column.name: column.type for column in TABLES[name]}
    if mark == columns_mark():
        return columns == known
    return set(needed) <= set(columns) and all(
        columns[column] == known[column] for column in set(columns) & set(known)
    )


class StoreVersion(NamedTuple):
    number: int
    keet: str
    """The version of keet that made the store; empty if not known."""

    @property
    def is_old(self) -> bool:
        return self.number < SCHEMA_VERSION

    @property
    def words(self) -> str:
        return f"version {self.number}" + (f" (keet {self.keet})" if self.keet else "")

    @property
    def note(self) -> str:
        """For users of an older store, in one line."""
        return (
            f"this store has {self.words}: its findings and forecasts come from an older analysis, "
            "and it has no account of the time; to analyse the reports again: "
            "keet batch DIR -o NEW"
        )


def read_version(folder: Path) -> StoreVersion:
    """Raises OSError if the folder is not a store, and IngestError if keet can't read it."""
    try:
        about = json.loads(read_regular(folder / STORE_FILE, _MOST_BYTES))
        number = about["schema_version"]
        if type(number) is not int or number < 1:
            raise ValueError(number)
        version = StoreVersion(number, str(about.get("keet", "")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        remedy = f"to write it again: {_again(folder)}"
        raise DamagedReport(folder, f"its {STORE_FILE} is damaged", remedy) from None
    if version.number > SCHEMA_VERSION:
        problem = f"the store has {version.words}, this keet reads up to version {SCHEMA_VERSION}"
        raise UnsupportedVersion(folder, problem, "upgrade keet")
    return version


def _again(out: Path) -> str:
    return f"keet batch DIR -o {shlex.quote(str(out))}"


def check_writable(out: Path, again: Callable[[Path], str] = _again) -> None:
    """Raises UsageError for an older store. `again`: the command that makes a new store."""
    try:
        version = read_version(out)
    except (OSError, DamagedReport):
        version = _version_of_parts(out)
    if version.is_old:
        new = out.with_name(f"{out.name}_v{SCHEMA_VERSION}")
        raise UsageError(
            f"{out}: this store has {version.words}, and this keet writes version "
            f"{SCHEMA_VERSION}; a store can't contain both. Make a new store with: "
            f"{again(new)}"
        )


def _version_of_parts(out: Path) -> StoreVersion:
    """Of a store without its file: parts of older stores have fewer tables."""
    added = set(tables_of(SCHEMA_VERSION)) - set(tables_of(SCHEMA_VERSION - 1))
    parts = part_folders(out)
    is_old = bool(parts) and not any(
        os.path.lexists(table_file(part, name)) for part in parts for name in added
    )
    return StoreVersion(SCHEMA_VERSION - 1 if is_old else SCHEMA_VERSION, "")
