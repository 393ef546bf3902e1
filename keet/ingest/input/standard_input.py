"""Bytes from standard input, held to the same limits as files. Large ones go through a temporary
file without a name."""

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


_kept: dict[int, tuple[object, WholeReport]] = {}
"""What was read, by the stream. `keet diff - --launch 0:3` reads the same report for both sides."""


def read_once(limit_for: Callable[[bytes], int | None]) -> WholeReport:
    """All that comes. `limit_for` gets the first bytes, and says how many there may be, or raises
    for what keet does not read. Raises `UnreadableFile`."""
    stream = _stream()
    if id(stream) not in _kept:
        _kept[id(stream)] = stream, _read_all(stream, limit_for)
    return _kept[id(stream)][1]


def _read_all(stream: BinaryIO, limit_for: Callable[[bytes], int | None]) -> WholeReport:
    head = _read(stream, HEAD)
    if not head:
        raise UnreadableFile(STDIN, "nothing came through standard input", _PIPE)
    limit = limit_for(head)

    def check(total: int) -> None:
        if limit is not None and total > limit:
            raise UnreadableFile(
                STDIN, f"this is more than the {limit / 1e6:.0f} MB that keet reads", _FEWER
            )

    return spooled(chain([head], iter(lambda: _read(stream, _CHUNK), b"")), STDIN, check)


def _stream() -> BinaryIO:
    """Refuses a terminal: keet would wait for a report that nobody types."""
    stream = sys.stdin
    if stream is None or stream.closed:
        raise UnreadableFile(STDIN, "standard input is closed", _PIPE)
    if stream.isatty():
        raise UnreadableFile(STDIN, "standard input is a terminal, and - reads a report", _PIPE)
    return stream.buffer


def _read(stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableFile(STDIN, f"standard input can't be read ({reason})", _PIPE) from None
