"""`--quiet`: drops notes and progress, but not errors.

Commands write both to `sys.stderr`. With `--quiet` that is a stream that drops everything, so that
no command has to check the option. Errors that are not raised as exceptions are written to
`loud_stderr`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast


class QuietStream:
    """Drops what is written to it. The file descriptor is still the real one, for the output of a
    profiled program."""

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
    """For errors: stderr even with --quiet."""
    return sys.stderr.stream if isinstance(sys.stderr, QuietStream) else sys.stderr


@contextmanager
def quiet_stderr() -> Iterator[None]:
    before = sys.stderr
    sys.stderr = cast(TextIO, QuietStream(loud_stderr()))
    try:
        yield
    finally:
        sys.stderr = before
