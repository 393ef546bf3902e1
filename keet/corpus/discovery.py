"""Finding reports in folders: in the same order on every machine, and each file once.

Links are followed, but never twice to the same place: a folder is known by its device and number, a
file by where its links lead. What is real comes before what is linked, so that a report goes by its
own name where it has one in the folders.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from keet.corpus.sharding import WHOLE, Shard
from keet.errors import UsageError
from keet.ingest.run_tables.run_table import MARK, SUFFIX, table_path
from keet.patterns import regex
from keet.records import NamedTuple

_BINARY = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report", ".keet.json.zst")
"""The third is what Nsight Compute called them in 2019, the last a packed snapshot."""
_NAMES = (*_BINARY, ".keet.json")
_PERHAPS = (".csv", ".json")
"""Anybody's: what is in them decides."""
_HEAD = 64 << 10
"""Bytes to look at: a program may print a good deal before ncu prints its table."""
_TABLE_HEADER = regex(rb'^"?(?:ID|Process ID)"?,[^\r\n]*Kernel Name', re.MULTILINE)
_PRINTED_LAUNCH = regex(rb", (?:Context|Device) \w+, (?:Stream|CC) [\w.]+")
_SNAPSHOT = regex(rb'^\s*\{\s*"keet_snapshot"')
_RUN_TABLE = regex(rb'^\s*\{\s*"' + MARK.encode() + b'"')
_BEHIND = regex(rb'"size": (\d{1,19}),\s*"sha256": "([0-9a-f]{64})"')


class Content(NamedTuple):
    """A report by its bytes."""

    size: int
    sha256: str


class RunTableFile(NamedTuple):
    """The table of the run that lies beside a report, as a file: what changes it shows here."""

    size: int | None = None
    """None: there is no such file."""
    mtime_ns: int | None = None


NO_TABLE = RunTableFile()


class ReportFile(NamedTuple):
    """A file that is, or claims to be, a report."""

    path: str
    """Absolute, with the links by which it was reached."""
    relative: str
    """To the folder that was named."""
    size: int
    mtime_ns: int
    behind: Content | None = None
    """The report that a snapshot was made from: both hold the same launches."""
    table: RunTableFile = NO_TABLE

    @property
    def content_size(self) -> int:
        return self.behind.size if self.behind else self.size


class SearchResult(NamedTuple):
    """What there is to do."""

    reports: tuple[ReportFile, ...]
    strangers: int
    """CSV and JSON files that are nothing of ncu's or keet's."""
    closed: tuple[str, ...]
    """Folders that can't be listed, each with the reason."""
    elsewhere: int
    """Reports of other shards."""


def find_reports(places: Sequence[Path], out: Path, shard: Shard = WHOLE) -> SearchResult:
    """Everything under `places` but the store itself. Raises `UsageError` for what is not there."""
    search = _Search(out, shard)
    for place in places:
        if not os.path.lexists(place):
            raise UsageError(f"{place}: there is no such file or folder; check the path")
        search.look_at(place)
    search.follow_links()
    return search.survey()


class _Entry(NamedTuple):
    path: str
    relative: str
    has_table: bool = True
    """Whether its folder has a table of a run, as far as is known: most have none."""


class _Search:
    def __init__(self, out: Path, shard: Shard) -> None:
        self._shard = shard
        self._entered = {_identity(str(out))}
        self._files: set[str] = set()
        self._links: deque[_Entry] = deque()
        self._reports: list[ReportFile] = []
        self._strangers = self._elsewhere = 0
        self._closed: list[str] = []

    def survey(self) -> SearchResult:
        return SearchResult(
            tuple(self._reports), self._strangers, tuple(self._closed), self._elsewhere
        )

    def look_at(self, place: Path) -> None:
        """What the user named is meant, whatever its name is and wherever it links to."""
        path = os.path.abspath(place)  # noqa: PTH100 - Path's own leaves `..` in, and follows
        if place.is_dir():
            self._walk(_Entry(path, ""))
        else:
            self._add(_Entry(path, os.path.basename(path)), named=True)  # noqa: PTH119

    def follow_links(self) -> None:
        """After all that is real; a link may lead to more links."""
        while self._links:
            entry = self._links.popleft()
            if os.path.isdir(entry.path):  # noqa: PTH112
                self._walk(entry)
            else:
                self._add(entry)

    def _walk(self, start: _Entry) -> None:
        """Without recursion: a tree may be deeper than Python's stack."""
        pending = [start]
        while pending:
            folder = pending.pop()
            if self._enter(folder.path):
                pending.extend(reversed(self._list(folder)))

    def _enter(self, path: str) -> bool:
        identity = _identity(path)
        if identity is None or identity in self._entered:
            return False
        self._entered.add(identity)
        return True

    def _list(self, folder: _Entry) -> list[_Entry]:
        """Take the files of a folder; the folders in it are returned."""
        try:
            entries = sorted(os.scandir(folder.path), key=lambda entry: entry.name)
        except OSError as problem:
            self._closed.append(f"{folder.path}: {(problem.strerror or str(problem)).lower()}")
            return []
        has_table = any(entry.name.endswith(SUFFIX) for entry in entries)
        folders: list[_Entry] = []
        for entry in entries:
            found = _Entry(entry.path, _joined(folder.relative, entry.name), has_table)
            if entry.is_symlink():
                self._links.append(found)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(found)
                self._note_odd_folder(found)
            else:
                self._add(found)
        return folders

    def _note_odd_folder(self, entry: _Entry) -> None:
        """A folder that is named like a report is a mistake worth telling; it is entered too."""
        if entry.path.lower().endswith(_BINARY):
            self._add(entry)

    def _add(self, entry: _Entry, *, named: bool = False) -> None:
        name = entry.path.lower()
        sure = named or name.endswith(_NAMES)
        if not sure and not name.endswith(_PERHAPS):
            return
        if not self._is_new(entry.path):
            return
        if not self._shard.has(entry.relative):
            self._elsewhere += 1
            return
        head = b"" if name.endswith(_BINARY) else _head(entry.path)
        if _RUN_TABLE.match(head):  # it belongs to a report, also where a shell's `*` named it
            return
        if sure or _is_text_report(head):
            self._reports.append(_found(entry, head))
        else:
            self._strangers += 1

    def _is_new(self, path: str) -> bool:
        real = os.path.realpath(path)
        if real in self._files:
            return False
        self._files.add(real)
        return True


def reports_in(folder: Path) -> list[Path]:
    """The reports in a folder and below, by path, relative to the current folder where they are in
    it. Raises if there are none."""
    found = [Path(each.path) for each in find_reports([folder], Path(os.devnull)).reports]
    if not found:
        raise UsageError(f"{folder}: no report lies in this folder; name one, or another folder")
    here = Path.cwd()
    return [path.relative_to(here) if path.is_relative_to(here) else path for path in found]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _joined(relative: str, name: str) -> str:
    return f"{relative}/{name}" if relative else name


def _found(entry: _Entry, head: bytes) -> ReportFile:
    status = status_of(entry.path)
    size, mtime_ns = (status.st_size, status.st_mtime_ns) if status else (0, 0)
    table = table_file(entry.path) if entry.has_table else NO_TABLE
    return ReportFile(entry.path, entry.relative, size, mtime_ns, _report_behind(head), table)


def table_file(report: str) -> RunTableFile:
    try:
        status = table_path(Path(report)).stat()
    except (OSError, ValueError):
        return NO_TABLE
    return RunTableFile(status.st_size, status.st_mtime_ns)


def status_of(path: str) -> os.stat_result | None:
    """Of the file; of the link where that leads nowhere."""
    for look in (os.stat, os.lstat):
        try:
            return look(path)
        except (OSError, ValueError):
            continue
    return None


def _head(path: str) -> bytes:
    """How a regular file starts; nothing of what could hang."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return file.read(_HEAD) if is_file else b""


def is_report_name(name: str) -> bool:
    return name.lower().endswith(_NAMES)


def looks_like_report(path: Path) -> bool:
    """By its name, or by how it starts."""
    return is_report_name(path.name) or _is_text_report(_head(str(path)))


def _is_text_report(head: bytes) -> bool:
    head = head.removeprefix(b"\xef\xbb\xbf")
    if _SNAPSHOT.match(head):
        return True
    if _TABLE_HEADER.search(head) is not None:
        return True
    return b"\n    ------" in head and _PRINTED_LAUNCH.search(head) is not None


def _report_behind(head: bytes) -> Content | None:
    match = _BEHIND.search(head) if _SNAPSHOT.match(head) else None
    return Content(int(match[1]), match[2].decode()) if match else None
