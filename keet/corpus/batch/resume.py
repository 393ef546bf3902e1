"""Reads from a store which files are done, so that a batch resumes instead of starting again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keet.corpus.discovery import NO_TABLE, ReportFile, RunTableFile
from keet.corpus.store.reader import Store, open_manifest
from keet.corpus.store.report_rows import RunTotals
from keet.corpus.store.schema import part_folders, storable


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
    if not record.is_right:
        return None
    return None if retry_failed and record.status == "failed" else record.status


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
        f"SELECT sha256, size, path, launches, origin_sha256, {of_run} FROM ("
        f"{columns}, 0 AS now, filename, file_row_number FROM parts.files WHERE {chosen} "
        f"UNION ALL {columns}, 1, NULL, NULL FROM files WHERE {chosen}) "
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
