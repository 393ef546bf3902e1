"""Atomic file writing, and keet's cache and user folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from keet.safe_text import visible

STDIN = Path("<stdin>")
"""Stands for standard input as a report. Compare with `is`: a file may have this name."""

BINARY_SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report", ".keet.json.zst")
"""The third is the suffix of Nsight Compute in 2019, the last one a packed snapshot."""
REPORT_SUFFIXES = (*BINARY_SUFFIXES, ".keet.json")
"""Names that only reports and snapshots have."""

_PERMISSIONS = 0o777
"""The mode bits that are copied: not setuid and setgid."""


def cache_folder() -> Path:
    """The folder of caches: `$KEET_CACHE`, else `keet` in the user's cache folder."""
    if folder := os.environ.get("KEET_CACHE"):
        return Path(folder)
    return user_folder("XDG_CACHE_HOME", ".cache") / "keet"


def user_folder(variable: str, default: str) -> Path:
    """A folder by the XDG rules: a path that is not absolute counts as not set."""
    folder = os.environ.get(variable, "")
    return Path(folder) if Path(folder).is_absolute() else Path("~").expanduser() / default


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file for writing, which replaces `path` at the end if nothing was raised.

    It gets the mode of the file that it replaces, and its owner and group if the user may set them;
    a new file gets the mode of the umask. Other hard links keep the old content. A path that is not
    a regular file (`/dev/null`, a pipe) is written directly; a symbolic link is kept, and its
    target replaced. Raises OSError.
    """
    if path.exists() and not path.is_file():
        with _open_special(path) as file:
            yield file
        return

    target = Path(os.path.realpath(path))
    partial = target.parent / f".{os.urandom(8).hex()}.partial"
    try:
        with _create_like(target, partial) as file:
            yield file
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def replacing_text(path: Path) -> Iterator[Callable[[str], object]]:
    """The same for text: yields a write function, which makes control characters visible."""
    with replacing(path) as file:
        yield lambda text: file.write(visible(text).encode("utf-8", errors="backslashreplace"))


def put_in_place(made: Path, path: Path) -> None:
    """Move a finished file over `path`, with the mode and owner that `replacing` would give it.

    For files that another program wrote, on the same file system. Raises OSError.
    """
    with suppress(FileNotFoundError), made.open("rb") as file:
        _take_over(file.fileno(), path.stat())
    made.replace(path)


def _create_like(target: Path, partial: Path) -> BinaryIO:
    """The new file is never readable by users who may not read the old one."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return partial.open("xb")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(partial, flags, 0o600)
    try:
        _take_over(descriptor, old)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "wb")


def _take_over(descriptor: int, old: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):  # Windows: files inherit what the folder allows
        return
    # Setting one may be allowed without the other. In a container, the old owner may not exist.
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with suppress(OSError):
            os.fchown(descriptor, owner, group)
    mode = old.st_mode & _PERMISSIONS
    if os.fstat(descriptor).st_gid != old.st_gid:  # a different group gets the rights of others
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with suppress(OSError):  # fails on some network mounts; then the file is private
        os.fchmod(descriptor, mode)


def _open_special(path: Path) -> BinaryIO:
    """Open a device or pipe for writing, without waiting for a reader."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")
