"""`--quiet`: notes and progress are dropped, errors are not.

Commands write both to `sys.stderr`. With `--quiet` that is a stream that drops what it gets, so
that no command has to ask. A problem that ends in an exit code other than 0, but not in an
exception, is written to `loud_stderr`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast


class QuietStream:
    """Drops what is written to it. The file descriptor stays the real one: what a profiled program
    prints is not a note of keet."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        del lines

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def loud_stderr() -> TextIO:
    """For errors: stderr, also where notes are dropped."""
    return sys.stderr.stream if isinstance(sys.stderr, QuietStream) else sys.stderr


@contextmanager
def quiet_stderr() -> Iterator[None]:
    before = sys.stderr
    sys.stderr = cast(TextIO, QuietStream(loud_stderr()))
    try:
        yield
    finally:
        sys.stderr = before
