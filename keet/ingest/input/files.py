"""Opening what a user names: regular files only, and nothing that could hang or flood memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from keet.errors import UnreadableFile
from keet.ingest.input.report_bytes import WholeReport
from keet.records import NamedTuple

HEAD = 4096
"""Bytes that are enough to tell every format from every other."""
MAX_TEXT = 256 << 20
"""Bytes of an export or a snapshot, which take several times their size when they are parsed."""

_KINDS = (
    (stat.S_ISDIR, "a directory", "name a report in it: keet show DIR/REPORT"),
    (stat.S_ISFIFO, "a pipe", "save the report to a file first"),
    (stat.S_ISCHR, "a device", "name a report file"),
    (stat.S_ISBLK, "a device", "name a report file"),
    (stat.S_ISSOCK, "a socket", "name a report file"),
)


Guard = Callable[[Path, int], None]
"""Looks at a file that was opened, by its path and descriptor; raises if it must not be read."""
_guard: ContextVar[Guard | None] = ContextVar("guard", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Every report, table and source file that is opened meanwhile passes the guard: a path that
    was checked before may lead elsewhere by the time it is opened."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


class InputFile(NamedTuple):
    """A regular file that could be opened: its size and how it starts."""

    path: Path
    size: int
    head: bytes
    content: WholeReport | None = None
    """All of it, where it came through standard input."""

    def open(self) -> BinaryIO:
        return open_regular(self.path) if self.content is None else self.content.open()

    def read(self) -> bytes:
        """All of it; one byte more than there should be shows that it has grown."""
        try:
            with self.open() as file:
                return file.read(self.size + 1)
        except OSError as problem:
            raise UnreadableFile(self.path, _reason(problem), "check the disk") from None


def open_input(path: Path) -> InputFile:
    """Check a path and look at its first bytes. Raises `UnreadableFile`."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise UnreadableFile(path, "there is no such file", "check the path") from None
    except (OSError, ValueError) as problem:
        raise UnreadableFile(path, _reason(problem), "check the path") from None
    _refuse_special(path, status.st_mode)
    try:
        with open_regular(path) as file:
            return InputFile(path, status.st_size, file.read(HEAD))
    except OSError as problem:
        raise UnreadableFile(path, _reason(problem), "name a report file") from None


def _refuse_special(path: Path, mode: int) -> None:
    for is_kind, what, remedy in _KINDS:
        if is_kind(mode):
            raise UnreadableFile(path, f"this is {what}, not a report", remedy)


def open_regular(path: Path) -> BinaryIO:
    return os.fdopen(open_descriptor(path), "rb")


def open_descriptor(path: Path) -> int:
    """Open without ever waiting: the file may have become a pipe since it was looked at."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _binary())
    except OSError as problem:
        raise UnreadableFile(path, _reason(problem), "check the file's permissions") from None
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode)
        if guard := _guard.get():
            guard(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _binary() -> int:
    return int(getattr(os, "O_BINARY", 0))


def _reason(problem: OSError | ValueError) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"it can't be opened ({problem.strerror.lower()})"
    return f"it can't be opened ({problem})"


def printable_path(path: Path) -> str:
    """A path as text: names on disk are bytes, and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
