"""Progress of a long command, as one changing line on stderr.

Loops that may take long, in any layer, wrap their items: `counted(launches, "reading launches")`.
The line appears after a second, only on a terminal, and disappears when the loop ends. Only
commands show it: as a library, keet prints nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import TextIO, TypeVar, cast

from keet.safe_text import VisibleStream, terminal_stream, visible

_FIRST, _NEXT = 1.0, 0.2
"""Seconds until the line appears, and between two updates."""
_LONGEST = 78
_CLEAR = "\r\x1b[2K"
T = TypeVar("T")


class _ProgressLine:
    """The line on the terminal. One per process, as there is one stderr."""

    def __init__(self) -> None:
        self.is_shown = False
        """Whether a command is running that shows progress."""
        self._is_visible = False

    def write(self, text: str) -> None:
        if self.is_shown:
            self._put(f"{_CLEAR}{visible(text)[: _width()]}")
            self._is_visible = True

    def clear(self) -> None:
        if self._is_visible:
            self._is_visible = False
            self._put(_CLEAR)

    def _put(self, text: str) -> None:
        stream = terminal_stream(sys.stderr)
        with suppress(OSError):  # the terminal was closed
            stream.write(text)
            stream.flush()


def _width() -> int:
    """Most columns of the line: a line wider than the terminal could not be cleared."""
    try:
        return min(_LONGEST, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
    except (OSError, ValueError):
        return _LONGEST


_line = _ProgressLine()


class ProgressStage:
    """A part of the work with a known amount; call `advance` for what is done."""

    def __init__(self, what: str, total: int, unit: str = "", scale: int = 1) -> None:
        self._what, self._total, self._unit, self._scale = what, total, unit, scale
        self._done = 0
        self._start = time.monotonic()
        self._next = self._start + _FIRST if has_progress() else float("inf")

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _NEXT
            _line.write(self._text(now - self._start))

    def _text(self, seconds: float) -> str:
        done, total = (f"{each // self._scale:,}" for each in (self._done, self._total))
        left = seconds * (self._total - self._done) / max(self._done, 1)
        return f"keet: {self._what}: {done} of {total}{self._unit}, {_time_text(left)} left"

    def __enter__(self) -> ProgressStage:
        return self

    def __exit__(self, *_: object) -> None:
        _line.clear()


def _time_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def has_progress() -> bool:
    """Whether progress is shown: a command runs without --quiet on a terminal."""
    return _line.is_shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def counted(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, with progress on stderr. `what`: the text of the line, such as "reading launches".
    `total`: the number of items, if they have no length."""
    known = total if total is not None else len(items) if isinstance(items, Sized) else None
    return _counted(items, what, known) if has_progress() and known is not None else iter(items)


def _counted(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    with ProgressStage(what, total) as stage:
        for item in items:
            yield item
            stage.advance()


@contextmanager
def shown() -> Iterator[None]:
    """Within this context, loops show progress if stderr is a terminal. Other output clears the
    line first."""
    _line.is_shown = True
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, VisibleStream) and stream.isatty():  # type: ignore[operator]
            stream.stream = cast(TextIO, _Clearing(stream.stream))
    try:
        yield
    finally:
        _line.is_shown = False


@contextmanager
def hidden() -> Iterator[None]:
    """Within this context, another program has the terminal: a pager."""
    before, _line.is_shown = _line.is_shown, False
    try:
        yield
    finally:
        _line.is_shown = before


def hide() -> None:
    """Switch progress off for a command that runs as a server: `keet mcp`."""
    _line.is_shown = False


class _Clearing:
    """A terminal stream that clears the progress line before each write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        _line.clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
