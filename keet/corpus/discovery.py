"""Finds reports in folders: in the same order on every machine, and each file once.

Links are followed, but never twice to the same target: a folder is identified by device and inode,
a file by its real path. Real files come before links, so that a report is listed under its own name
if that is below one of the folders.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keet.errors import UsageError, reason_of
from keet.files import BINARY_SUFFIXES, REPORT_SUFFIXES
from keet.report.input.files import nearest_paths
from keet.report.run_table import MARK, SUFFIX, table_path

_MOST_SHARDS = 1_000_000


class Shard(NamedTuple):
    """Part `number` of `total`, from 0 as in Slurm and Kubernetes."""

    number: int
    total: int

    def has(self, relative: str) -> bool:
        """`relative`: path below the folder on the command line, which may be mounted elsewhere."""
        return self.total == 1 or shard_of(relative, self.total) == self.number


WHOLE = Shard(0, 1)


def shard_of(relative: str, count: int) -> int:
    """The same on every machine and in every process, unlike Python's `hash`."""
    name = relative.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % count


def parse_shard(text: str) -> Shard:
    """`3/16`. Raises `UsageError`."""
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
    if not match or not 0 < int(match[2]) <= _MOST_SHARDS:
        raise UsageError(f"--shard {text!r}: give part and number of parts: --shard 0/16")
    number, total = int(match[1]), int(match[2])
    if number >= total:
        raise UsageError(
            f"--shard {text}: shards are counted from 0; use 0/{total} to {total - 1}/{total}"
        )
    return Shard(number, total)


_AMBIGUOUS_SUFFIXES = (".csv", ".json")
"""Suffixes that other programs use too: the content decides."""
_LOG_SUFFIXES = (".txt", ".log")
"""Suffixes of anything that a program prints: exports in a folder are counted, but not read."""
_HEAD = 64 << 10
"""Bytes to read: a program may print a lot before ncu prints its table."""
_TABLE_HEADER = re.compile(rb'^"?(?:ID|Process ID)"?,[^\r\n]*Kernel Name', re.MULTILINE)
_PRINTED_LAUNCH = re.compile(rb", (?:Context|Device) \w+, (?:Stream|CC) [\w.]+")
_SNAPSHOT = re.compile(rb'^\s*\{\s*"keet_snapshot"')
_RUN_TABLE = re.compile(rb'^\s*\{\s*"' + MARK.encode() + b'"')


class RunTableFile(NamedTuple):
    """Size and time of the run table beside a report, to notice when it changes."""

    size: int | None = None
    """None: there is no such file."""
    mtime_ns: int | None = None


NO_TABLE = RunTableFile()


class ReportFile(NamedTuple):
    """A file that is a report by its name or content; it may be damaged."""

    path: str
    """Absolute; links are not resolved."""
    relative: str
    """To the folder on the command line."""
    size: int
    mtime_ns: int
    table: RunTableFile = NO_TABLE


class SearchResult(NamedTuple):
    """What a search found."""

    reports: tuple[ReportFile, ...]
    other_files: int
    """CSV and JSON files that are not from ncu or keet."""
    skipped_exports: int
    """Files that begin like an export of ncu, but are named like a log."""
    unreadable_folders: tuple[str, ...]
    """Folders that can't be listed, with the reason: `PATH: permission denied`."""
    in_other_shards: int
    """Number of reports that belong to other shards."""


def find_reports(places: Sequence[Path], out: Path, shard: Shard = WHOLE) -> SearchResult:
    """All reports in `places`, without those in the store `out`. Raises UsageError if a place does
    not exist."""
    search = _Search(out, shard)
    for place in places:
        if not os.path.lexists(place):
            raise UsageError(f"{place}: there is no such file or folder; {nearest_paths(place)}")
        search.look_at(place)
    search.follow_links()
    return SearchResult(
        tuple(search.reports),
        search.other_files,
        search.skipped_exports,
        tuple(search.unreadable_folders),
        search.in_other_shards,
    )


class _Entry(NamedTuple):
    path: str
    relative: str
    has_table: bool = True
    """False if its folder has no run table: saves a look for each file."""


class _Search:
    def __init__(self, out: Path, shard: Shard) -> None:
        self._shard = shard
        self._entered = {_identity(str(out))}
        self._files: set[str] = set()
        self._links: deque[_Entry] = deque()
        self.reports: list[ReportFile] = []
        self.other_files = self.skipped_exports = self.in_other_shards = 0
        self.unreadable_folders: list[str] = []

    def look_at(self, place: Path) -> None:
        """A file on the command line counts as a report whatever its name is."""
        path = os.path.abspath(place)  # noqa: PTH100 - Path.absolute keeps `..`
        if place.is_dir():
            self._walk(_Entry(path, ""))
        else:
            self._add(_Entry(path, os.path.basename(path)), named=True)  # noqa: PTH119

    def follow_links(self) -> None:
        """After all real files. A linked folder may contain more links."""
        while self._links:
            entry = self._links.popleft()
            if os.path.isdir(entry.path):  # noqa: PTH112
                self._walk(entry)
            else:
                self._add(entry)

    def _walk(self, start: _Entry) -> None:
        """Not recursive: a tree may be deeper than Python's stack."""
        pending = [start]
        while pending:
            folder = pending.pop()
            identity = _identity(folder.path)
            if identity is not None and identity not in self._entered:
                self._entered.add(identity)
                pending.extend(reversed(self._list(folder)))

    def _list(self, folder: _Entry) -> list[_Entry]:
        """Add the files of a folder; returns the folders in it."""
        try:
            entries = sorted(os.scandir(folder.path), key=lambda entry: entry.name)
        except OSError as problem:
            self.unreadable_folders.append(f"{folder.path}: {reason_of(problem)}")
            return []
        has_table = any(entry.name.endswith(SUFFIX) for entry in entries)
        folders: list[_Entry] = []
        for entry in entries:
            relative = f"{folder.relative}/{entry.name}" if folder.relative else entry.name
            item = _Entry(entry.path, relative, has_table)
            if entry.is_symlink():
                self._links.append(item)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(item)
                # A folder named like a report is reported as a failed file, and searched as well.
                if item.path.lower().endswith(BINARY_SUFFIXES):
                    self._add(item)
            else:
                self._add(item)
        return folders

    def _add(self, entry: _Entry, *, named: bool = False) -> None:
        name = entry.path.lower()
        sure = named or name.endswith(REPORT_SUFFIXES)
        is_log = not sure and name.endswith(_LOG_SUFFIXES)
        if not sure and not is_log and not name.endswith(_AMBIGUOUS_SUFFIXES):
            return
        real = os.path.realpath(entry.path)
        if real in self._files:
            return
        self._files.add(real)
        if not self._shard.has(entry.relative):
            self.in_other_shards += 1
            return
        head = b"" if name.endswith(BINARY_SUFFIXES) else _head(entry.path)
        if _RUN_TABLE.match(head):  # not a report, also if `*` of a shell named it
            return
        if is_log:
            self.skipped_exports += _is_text_report(head)
        elif sure or _is_text_report(head):
            self.reports.append(_found(entry))
        else:
            self.other_files += 1


def reports_in(folder: Path) -> list[Path]:
    """The reports in a folder and below, sorted; paths below the current folder are relative.
    Raises UsageError if there are none."""
    paths = [Path(report.path) for report in find_reports([folder], Path(os.devnull)).reports]
    if not paths:
        raise UsageError(
            f"{folder}: this folder contains no report; name a report or another folder"
        )
    here = Path.cwd()
    return [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]


def reports_named(name: str | os.PathLike[str]) -> list[Path]:
    """The reports of `baseline:NAME` or of a folder; else the file that is named."""
    if isinstance(name, str) and name.startswith("baseline:"):
        from keet.report.baselines import find_baseline

        return [*find_baseline(name.removeprefix("baseline:")).runs]
    path = name if isinstance(name, Path) else Path(name)  # STDIN stays what it is
    return reports_in(path) if path.is_dir() else [path]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _found(entry: _Entry) -> ReportFile:
    status = status_of(entry.path)
    size, mtime_ns = (status.st_size, status.st_mtime_ns) if status else (0, 0)
    table = table_file(entry.path) if entry.has_table else NO_TABLE
    return ReportFile(entry.path, entry.relative, size, mtime_ns, table)


def table_file(report: str) -> RunTableFile:
    try:
        status = table_path(Path(report)).stat()
    except (OSError, ValueError):
        return NO_TABLE
    return RunTableFile(status.st_size, status.st_mtime_ns)


def status_of(path: str) -> os.stat_result | None:
    """Of the file; for a broken link, of the link itself."""
    for look in (os.stat, os.lstat):
        try:
            return look(path)
        except (OSError, ValueError):
            continue
    return None


def _head(path: str) -> bytes:
    """The first bytes of a regular file; nothing of folders, and of pipes and devices, which could
    block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return b""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_HEAD)


def is_report_name(name: str) -> bool:
    return name.lower().endswith(REPORT_SUFFIXES)


def looks_like_report(path: Path) -> bool:
    """By its name or its first bytes."""
    return is_report_name(path.name) or _is_text_report(_head(str(path)))


def _is_text_report(head: bytes) -> bool:
    head = head.removeprefix(b"\xef\xbb\xbf")
    has_printed = b"\n    ------" in head and _PRINTED_LAUNCH.search(head)
    return bool(_SNAPSHOT.match(head) or _TABLE_HEADER.search(head) or has_printed)
