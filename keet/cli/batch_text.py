"""The progress line of `keet batch`."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from keet.corpus.batch.coordinator import BatchProgress
from keet.corpus.batch.summary import duration_text, rates_text
from keet.formats.terminal import terminal_width
from keet.formatting import count_noun
from keet.safe_text import terminal_stream

_PLAIN_SECONDS = 10.0
"""Seconds between lines in a log, which must stay readable after a long batch."""
_TERMINAL_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"


class ProgressLine:
    """One line that is rewritten on a terminal; in a log, a line every few seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = terminal_stream(stream or sys.stderr)
        self._terminal = self._stream.isatty()
        self._next = time.monotonic() + (0 if self._terminal else _PLAIN_SECONDS)

    def update(self, counts: BatchProgress) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS)
        if self._terminal:
            room = terminal_width(self._stream) - 1
            self._write(f"{_CLEAR}{progress_text(counts)[:room]}")
        else:
            self._write(f"keet: {progress_text(counts)}\n")

    def clear(self) -> None:
        if self._terminal:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def progress_text(counts: BatchProgress) -> str:
    parts = [
        f"{counts.finished:,} of {counts.files:,} files",
        count_noun(counts.launches, "launch"),
        rates_text(counts),
    ]
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    if counts.seconds_left is not None:
        parts.append(f"{duration_text(counts.seconds_left)} left")
    return ", ".join(parts)
