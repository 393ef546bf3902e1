"""Files that appear whole or not at all, and the folders where keet keeps its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from keet.texts import visible

STDIN = Path("<stdin>")
"""In place of a report: the bytes on standard input. Only this object means it, not a file of this
name."""

_PERMISSIONS = 0o777
"""The bits of a mode that are kept: a file that keet wrote runs as nobody else."""


def cache_folder() -> Path:
    """What keet can do without: `$KEET_CACHE`, else `keet` in the user's cache folder."""
    if folder := os.environ.get("KEET_CACHE"):
        return Path(folder)
    return user_folder("XDG_CACHE_HOME", ".cache") / "keet"


def user_folder(variable: str, default: str) -> Path:
    """By the XDG rule: a path that is not absolute counts as not set."""
    folder = os.environ.get(variable, "")
    return Path(folder) if Path(folder).is_absolute() else Path("~").expanduser() / default


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when all went well.

    It has the mode of the file that it replaces, and its owner and group where the user may set
    them; a new one has the mode of the umask. Other hard links keep the old content. What is no
    regular file (`/dev/null`, a pipe) is written to as it is; a link keeps pointing to the file
    that is replaced. Raises OSError.
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
    """The same for text: pieces are given to a function, which makes control characters visible."""
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
    """Nobody may read the new file who may not read the old one, not even while it is written."""
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
    # One may be allowed without the other. A container may not even know the old owner.
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with suppress(OSError):
            os.fchown(descriptor, owner, group)
    mode = old.st_mode & _PERMISSIONS
    if os.fstat(descriptor).st_gid != old.st_gid:  # another group gets what everybody has
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with suppress(OSError):  # on some network mounts; the file stays the user's alone
        os.fchmod(descriptor, mode)


def _open_special(path: Path) -> BinaryIO:
    """Open a device or pipe for writing, without waiting for somebody to read from it."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")
