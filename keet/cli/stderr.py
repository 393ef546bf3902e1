"""What commands write to stderr: progress, problems that do not stop them, hints, and `--quiet`.

`--quiet` drops notes and progress, but not errors: `sys.stderr` is then a stream that drops
everything, so that no command has to check the option. Errors that are not raised as exceptions are
written to `loud_stderr`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from keet.errors import one_line
from keet.files import cache_folder


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


def print_progress(line: str) -> None:
    """On stderr: stdout has only the result. Not printed with --quiet."""
    _write(line, sys.stderr)


def print_note(line: str) -> None:
    """The same for a line about files and programs that the user named: there is no secret to look
    for."""
    sys.stderr.write(f"keet: {one_line(line)}\n")
    sys.stderr.flush()


def print_problem(line: str) -> None:
    """Something failed and the command continues. Printed with --quiet, too."""
    _write(line, loud_stderr())


def _write(line: str, stream: TextIO) -> None:
    from keet.masking.keys import scrub

    stream.write(f"keet: {one_line(scrub(line))}\n")
    stream.flush()


def tell_once(name: str, line: str) -> None:
    """Print a hint on a terminal, unless this user has seen it.

    Logs and pipes get no hint. If it can't be recorded that the hint was seen (a read-only home),
    it is not printed; `keet doctor` prints the same information.
    """
    if sys.stderr.isatty() and _mark_as_seen(name):
        sys.stderr.write(f"keet: {line}\n")


def _mark_as_seen(name: str) -> bool:
    """Whether this call marked it; True in only one of several concurrent processes."""
    try:
        marker = cache_folder() / "hints" / name
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch(exist_ok=False)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return False
    return True
