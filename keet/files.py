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
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    partial = target.parent / f".{secrets.token_hex(8)}.partial"
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()
