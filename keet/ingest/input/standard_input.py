"""Reads standard input, with the same limits as files. Large input goes to an unnamed temporary
file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from typing import BinaryIO

from keet.errors import UnreadableFile
from keet.files import STDIN
from keet.ingest.input.files import HEAD
from keet.ingest.input.report_bytes import WholeReport, spooled

_CHUNK = 1 << 20
_FEWER = "profile fewer launches: ncu --launch-skip N --launch-count N"
_PIPE = "pipe one in: cat report.ncu-rep | keet explain -"


_already_read: dict[int, tuple[object, WholeReport]] = {}
"""Content by stream id: `keet diff - --launch 0:3` reads the same report for both sides."""


def read_once(limit_for: Callable[[bytes], int | None]) -> WholeReport:
    """All of standard input. `limit_for` gets the first bytes and returns the allowed size in
    bytes, or raises if keet does not read such a file. Raises `UnreadableFile`."""
    stream = _stream()
    if id(stream) not in _already_read:
        _already_read[id(stream)] = stream, _read_all(stream, limit_for)
    return _already_read[id(stream)][1]


def _read_all(stream: BinaryIO, limit_for: Callable[[bytes], int | None]) -> WholeReport:
    head = _read(stream, HEAD)
    if not head:
        raise UnreadableFile(STDIN, "standard input is empty", _PIPE)
    limit = limit_for(head)

    def check(total: int) -> None:
        if limit is not None and total > limit:
            raise UnreadableFile(
                STDIN, f"it has more than the {limit / 1e6:.0f} MB that keet reads", _FEWER
            )

    return spooled(chain([head], iter(lambda: _read(stream, _CHUNK), b"")), STDIN, check)


def _stream() -> BinaryIO:
    """Refuses a terminal: keet would wait forever for a report."""
    stream = sys.stdin
    if stream is None or stream.closed:
        raise UnreadableFile(STDIN, "standard input is closed", _PIPE)
    if stream.isatty():
        raise UnreadableFile(STDIN, "standard input is a terminal, not a report", _PIPE)
    return stream.buffer


def _read(stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableFile(STDIN, f"standard input can't be read ({reason})", _PIPE) from None
