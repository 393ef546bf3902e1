"""Files that appear whole or not at all, and the folders where keet keeps its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


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

    What is no regular file (`/dev/null`, a pipe) is written to as it is; a link keeps pointing to
    the file that is replaced. Raises OSError.
    """
    if path.exists() and not path.is_file():
        with _open_special(path) as file:
            yield file
        return
    import secrets  # with what it loads, 7 ms, which commands that write no file need not pay

    target = Path(os.path.realpath(path))
    partial = target.parent / f".{secrets.token_hex(8)}.partial"
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()


def _open_special(path: Path) -> BinaryIO:
    """Open a device or pipe for writing, without waiting for somebody to read from it."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")
