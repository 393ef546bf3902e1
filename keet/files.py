"""Writing files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


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
