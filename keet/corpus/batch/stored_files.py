"""The files that a store knows: which are done, which no longer exist, which have damaged rows.

- A batch resumes: it does not analyse files that are done.
- A file is gone if the system says that it does not exist. A file that can't be reached (no
  permission, a server that does not answer) is not gone. `--prune` records files as `gone`.
- Damaged files of the store are set aside, so that the next commands work and a batch analyses the
  reports again. Nothing is deleted: they are moved to the folder `damaged` of the store.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from keet.corpus.discovery import NO_TABLE, WHOLE, ReportFile, RunTableFile, Shard
from keet.corpus.store.damage import DamagedPart, StoreVersion, damaged_parts, read_version
from keet.corpus.store.part_writer import FileRecord, bare_record, make_store, write_part
from keet.corpus.store.reader import Store, open_manifest
from keet.corpus.store.report_rows import RunTotals
from keet.corpus.store.schema import (
    DAMAGED,
    PARTS,
    STORE_FILE,
    part_folders,
    replacement_id,
    storable,
)
from keet.errors import DamagedReport
from keet.formatting import count_noun


class Owner(NamedTuple):
    """The file whose rows are stored for its content."""

    path: str
    launches: int
    table: RunTableFile = NO_TABLE
    """Its run table, as it was when the file was analysed."""
    run: RunTotals | None = None
    """None: the rows have no run times."""
    origin_sha256: str | None = None
    """See `FileRows`."""


class StoredContent(NamedTuple):
    """Content whose rows the store has."""

    owners: dict[str, Owner]
    """By SHA-256."""
    sizes: frozenset[int]


NOTHING_STORED = StoredContent({}, frozenset())


class ResumeState(NamedTuple):
    """Which files a batch has to analyse, and what the store has already."""

    pending: tuple[ReportFile, ...]
    done: int
    failed: int
    stored: StoredContent


_HAS_ROWS = (
    "sha256 IN (SELECT sha256 FROM parts.files WHERE status = 'done' AND seconds IS NOT NULL)"
)
"""Content that was analysed in one of the parts. Moved files and duplicates have records without
rows: if the part with the rows was set aside, the store has none."""


class _LastRecord(NamedTuple):
    """The newest record of a path."""

    size: int | None
    mtime_ns: int | None
    run_table_size: int | None
    run_table_mtime_ns: int | None
    status: str
    is_right: bool
    """Its rows are in the store, or it has none."""


def resume_state(
    out: Path, files: Sequence[ReportFile], *, retry_failed: bool = False
) -> ResumeState:
    """A file whose size, time and run table are those of its record in the manifest is not read
    again."""
    if not files or not part_folders(out):
        return ResumeState(tuple(files), 0, 0, NOTHING_STORED)
    with open_manifest(out) as store:
        last = _last_records(store, files)
        statuses = [_status_if_unchanged(file, last, retry_failed=retry_failed) for file in files]
        left = tuple(file for file, status in zip(files, statuses) if status is None)
        stored = _stored_content(store, left) if left else NOTHING_STORED
    counts = Counter(statuses)
    return ResumeState(left, counts["done"] + counts["duplicate"], counts["failed"], stored)


def _status_if_unchanged(
    file: ReportFile, last: dict[str, _LastRecord], *, retry_failed: bool
) -> str | None:
    record = last.get(storable(file.path))
    if record is None or record[:4] != (file.size, file.mtime_ns, *file.table):
        return None
    is_open = not record.is_right or (retry_failed and record.status == "failed")
    return None if is_open else record.status


def _last_records(store: Store, files: Sequence[ReportFile]) -> dict[str, _LastRecord]:
    """Only of these files: a shard does not need the records of others."""
    import numpy as np

    paths = np.empty(len(files), dtype=object)
    paths[:] = [storable(file.path) for file in files]
    store.connection.register("mine", {"path": paths})
    # An older keet took a snapshot's word for its report: files of other sizes became duplicates.
    rows = store.stream(
        "SELECT f.path, f.size, f.mtime_ns, f.run_table_size, f.run_table_mtime_ns, f.status, "
        f"(f.status NOT IN ('done', 'duplicate') OR f.sha256 IS NULL OR f.{_HAS_ROWS}) "
        "AND (f.status <> 'duplicate' OR o.size IS NULL OR f.size = o.size) "
        "FROM files f LEFT JOIN files o ON o.path = f.duplicate_of "
        "WHERE f.path IN (SELECT path FROM mine)"
    )
    return {path: _LastRecord(*rest) for path, *rest in rows}


def _stored_content(store: Store, files: Sequence[ReportFile]) -> StoredContent:
    """Content that one of these files may be equal to."""
    import numpy as np

    sizes = np.array(sorted({file.size for file in files}), dtype=np.int64)
    store.connection.register("wanted", {"size": sizes})
    of_run = (
        "run_table_size, run_table_mtime_ns, run_total_us, run_unprofiled_us, run_overlap_known"
    )
    columns = f"SELECT sha256, size, path, launches, origin_sha256, {of_run}"
    chosen = f"status = 'done' AND {_HAS_ROWS}"
    rows = store.query(
        f"{columns} FROM ({columns}, 0 AS now, filename, file_row_number FROM parts.files "
        f"WHERE {chosen} UNION ALL {columns}, 1, NULL, NULL FROM files WHERE {chosen}) "
        "WHERE size IN (SELECT size FROM wanted) "
        "ORDER BY now, filename DESC, file_row_number DESC"
    ).rows
    return StoredContent(_owners(rows), frozenset(size for _, size, *_ in rows))


def _owners(rows: Iterable[Sequence[Any]]) -> dict[str, Owner]:
    """By SHA-256. `rows`: all records of a content, newest first, then its current record if there
    is one. The last row gives the path, and the first one the run."""
    owners: dict[str, Owner] = {}
    newest: dict[str, Sequence[Any]] = {}
    for sha256, _, path, launches, origin, *state in rows:
        size, mtime_ns, total, unprofiled, overlap = newest.setdefault(sha256, state)
        run = None if total is None else RunTotals(total, unprofiled or 0.0, overlap)
        owners[sha256] = Owner(path, launches, RunTableFile(size, mtime_ns), run, origin)
    return owners


class Failure(NamedTuple):
    path: str
    reason: str


def failures(out: Path) -> list[Failure]:
    """The files that failed at the last attempt, by path."""
    with open_manifest(out) as store:
        rows = store.query("SELECT path, reason FROM files WHERE status = 'failed' ORDER BY path")
        return [Failure(*row) for row in rows.rows]


def repeated_by_snapshots(out: Path) -> int:
    """Snapshots whose launches the store has twice, if it is true what they state: they were made
    from reports of the store."""
    with open_manifest(out) as store:
        rows = store.query(
            "SELECT count(DISTINCT s.path) FROM files s JOIN files r ON r.sha256 = s.origin_sha256 "
            "WHERE s.status = 'done' AND r.status = 'done'"
        ).rows
    return int(rows[0][0])


_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
"""How `storable` writes a byte of a file name that is not valid UTF-8."""


def _relative(path: str, root: str) -> str | None:
    """None if `path` is not below the file or folder `root`; both are absolute."""
    if path == root:
        return os.path.basename(path)  # noqa: PTH119 - as in `discovery`
    start = root.rstrip(os.sep) + os.sep
    return path.removeprefix(start) if path.startswith(start) else None


def is_gone(stored: str) -> bool:
    """`stored`: a path as the store has it, see `storable`."""
    return all(map(_is_absent, {stored, as_named(stored)}))


def as_named(stored: str) -> str:
    """The real path of a file whose name is not valid UTF-8."""
    return _BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), stored)


def _is_absent(path: str) -> bool:
    try:
        os.lstat(path)
    except (OSError, ValueError) as problem:
        return isinstance(problem, FileNotFoundError | NotADirectoryError)
    return False


def find_gone(
    out: Path, places: Sequence[Path], present: Sequence[ReportFile], shard: Shard = WHOLE
) -> list[str]:
    """Paths in the store below `places` that no longer exist. `present`: files known to exist."""
    if not (out / STORE_FILE).exists():
        return []
    there = {storable(file.path) for file in present}
    with open_manifest(out) as store:
        rows = store.query("SELECT path FROM files WHERE status <> 'gone' ORDER BY path").rows
    # As in `discovery`: Path.absolute keeps `..`.
    roots = [storable(os.path.abspath(place)) for place in places]  # noqa: PTH100

    def is_mine(path: str) -> bool:
        relatives = (_relative(path, root) for root in roots)
        return any(name is not None and shard.has(as_named(name)) for name in relatives)

    absent = (path for (path,) in rows if path not in there)
    return [path for path in absent if is_mine(path) and is_gone(path)]


def record_gone(out: Path, paths: Sequence[str]) -> None:
    """From then on the views hide content that only these files had."""
    if paths:
        write_part(out, [bare_record(path, "gone", _GONE) for path in paths], [])


_GONE = "the file no longer exists"
LOST = "its rows were in a part of the store that was damaged; analyse it again with keet batch"
"""Reason in the manifest, until the file is analysed again."""


def set_damaged_aside(out: Path) -> Iterator[str]:
    """Yields a line for each damaged file or part. Raises OSError if it can't be moved."""
    if not os.path.lexists(out / PARTS):
        return
    if not (out / PARTS).is_dir():
        yield f"{out / PARTS} is not a folder; it was moved to {_move(out, out / PARTS)}"
    if os.path.lexists(out / STORE_FILE):
        yield from _check_store_file(out)
    make_store(out)
    version = read_version(out)
    for damaged in damaged_parts(part_folders(out), version.number, writes=True):
        try:
            lost = _keep_records(out, damaged, version)
        except DamagedReport:
            if os.path.lexists(damaged.path):
                raise
            continue  # another process has moved it
        if target := _move(out, damaged.path):
            yield (
                f"{damaged.path}: {damaged.words}; this part of the store was moved to {target}, "
                f"and {lost} analysed again"
            )


def _check_store_file(out: Path) -> Iterator[str]:
    try:
        read_version(out)
    except PermissionError:
        raise
    except (OSError, DamagedReport):
        target = _move(out, out / STORE_FILE)
        yield f"{out / STORE_FILE} is damaged; it was moved to {target} and written again"


def _keep_records(out: Path, damaged: DamagedPart, version: StoreVersion) -> str:
    """Write the records of the part again, if they are intact. Files whose rows are lost become
    `failed` without a size, so that the next batch that finds them analyses them. Returns what to
    call these files."""
    if "files" in damaged.problems:
        return "its reports are"
    with Store(out.absolute(), [damaged.path.absolute()], version, files_only=True) as store:
        records = [_without_rows(file) for file in store.files()]
    part_id = replacement_id(damaged.path.name)
    try:
        write_part(out, records, [], part_id=part_id)
    except OSError:
        if not (out / PARTS / part_id).is_dir():  # else another process has written it
            raise
    lost = sum(record.reason == LOST for record in records)
    return count_noun(lost, "report of it is", "reports of it are")


def _without_rows(record: FileRecord) -> FileRecord:
    """Records without `seconds` were made without an analysis: their rows are in other parts."""
    if record.status != "done" or record.seconds is None:
        return record
    lost = bare_record(record.path, "failed", LOST)
    return lost._replace(keet=record.keet, recorded=record.recorded)


def _move(out: Path, path: Path) -> Path | None:
    """Its new path; None if another process was faster."""
    folder = next(each for each in _numbered(out / DAMAGED) if each.is_dir() or _is_free(each))
    folder.mkdir(exist_ok=True)
    target = next(filter(_is_free, _numbered(folder / path.name)))
    try:
        return path.rename(target)
    except FileNotFoundError:
        return None


def _numbered(path: Path) -> Iterator[Path]:
    yield path
    yield from (path.with_name(f"{path.name}.{number}") for number in count(2))


def _is_free(path: Path) -> bool:
    return not os.path.lexists(path)
