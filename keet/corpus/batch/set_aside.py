"""Sets damaged files of a store aside, so that the next commands work and a batch analyses the
reports again. Nothing is deleted: they are moved to the folder `damaged` of the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from keet.corpus.store.damage import DamagedPart, damaged_parts
from keet.corpus.store.part_writer import FileRecord, make_store, write_part
from keet.corpus.store.reader import Store
from keet.corpus.store.schema import DAMAGED, PARTS, STORE_FILE, part_folders, replacement_id
from keet.corpus.store.version import StoreVersion, read_version
from keet.errors import DamagedReport
from keet.formatting import count_noun

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
        records = [_without_rows(each) for each in store.files()]
    part_id = replacement_id(damaged.path.name)
    try:
        write_part(out, records, [], part_id=part_id)
    except OSError:
        if not (out / PARTS / part_id).is_dir():  # else another process has written it
            raise
    lost = sum(each.reason == LOST for each in records)
    return count_noun(lost, "report of it is", "reports of it are")


def _without_rows(record: FileRecord) -> FileRecord:
    """Records without `seconds` were made without an analysis: their rows are in other parts."""
    if record.status != "done" or record.seconds is None:
        return record
    return FileRecord(
        path=record.path,
        size=None,
        mtime_ns=None,
        sha256=None,
        status="failed",
        reason=LOST,
        duplicate_of=None,
        launches=None,
        seconds=None,
        keet=record.keet,
        recorded=record.recorded,
    )


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
