"""Opens the files that a user names: regular files only, so that nothing hangs or fills memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, NamedTuple

from keet.errors import UnreadableFile
from keet.ingest.input.report_bytes import WholeReport

HEAD = 4096
"""Bytes that are enough to recognise every format."""
MAX_TEXT = 256 << 20
"""Largest snapshot or recorded run table in bytes: parsing takes several times that in memory."""
MAX_EXPORT = 64 << 20
"""Largest text that ncu or nsys printed, in bytes: parsing takes up to 16 times that in memory. The
largest public one seen has less than 5 MB."""

_KINDS = (
    (stat.S_ISDIR, "a directory", "name a report in it: keet show DIR/REPORT"),
    (stat.S_ISFIFO, "a pipe", "save the report to a file first"),
    (stat.S_ISCHR, "a device", "name a report file"),
    (stat.S_ISBLK, "a device", "name a report file"),
    (stat.S_ISSOCK, "a socket", "name a report file"),
)


Guard = Callable[[Path, int], None]
"""Gets the path and descriptor of an opened file; raises if it must not be read."""
_guard: ContextVar[Guard | None] = ContextVar("guard", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Within this context, the guard checks every report, table and source file after opening it: a
    path that was checked before opening may point elsewhere by then."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


class InputFile(NamedTuple):
    """A regular file that could be opened: its size and its first bytes."""

    path: Path
    size: int
    head: bytes
    content: WholeReport | None = None
    """The whole content if it came from standard input; else None."""

    def open(self) -> BinaryIO:
        return open_regular(self.path) if self.content is None else self.content.open()

    def read(self) -> bytes:
        """The whole content, plus one byte if the file has grown, so that callers notice."""
        try:
            with self.open() as file:
                return file.read(self.size + 1)
        except OSError as problem:
            raise UnreadableFile(self.path, _reason(problem), "check the disk") from None


def open_input(path: Path) -> InputFile:
    """Check a path and read its first bytes. Raises `UnreadableFile`."""
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
    """Open without blocking: the file may have become a pipe since it was checked."""
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
    """A path as text: file names are bytes and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
