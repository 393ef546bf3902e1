"""`keet batch` on a terminal: its progress, and a summary at the end."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

from keet.formatting import count_noun
from keet.render.common.store import known_runs_text
from keet.texts import terminal_stream

_PLAIN_SECONDS = 10.0
"""Between lines where no terminal is: a log of a night must stay readable."""
_TERMINAL_SECONDS = 0.2


class Tally(Protocol):
    """How far a run is; made by `keet.corpus.batch.coordinator`."""

    @property
    def files(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def launches(self) -> int: ...
    @property
    def gpu_seconds(self) -> float: ...
    @property
    def runs(self) -> int: ...
    @property
    def placed(self) -> int: ...
    @property
    def unused_tables(self) -> int: ...
    @property
    def noted(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def through(self) -> int: ...
    @property
    def seconds_left(self) -> float | None: ...


class ProgressLine:
    """One line that changes on a terminal; a line now and then in a log."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = terminal_stream(stream or sys.stderr)
        self._terminal = self._stream.isatty()
        self._next = time.monotonic() + (0 if self._terminal else _PLAIN_SECONDS)

    def update(self, tally: Tally) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS)
        if self._terminal:
            self._write(f"\r{_fitted(progress_text(tally), self._stream)}")
        else:
            self._write(f"keet: {progress_text(tally)}\n")

    def clear(self) -> None:
        if self._terminal:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _fitted(text: str, terminal: TextIO) -> str:
    """As wide as the terminal, so that nothing of the line before is left."""
    from keet.render.terminal.console import console_width
    from keet.render.terminal.layout.cells import set_cell_len

    return set_cell_len(text, console_width(terminal) - 1)


def progress_text(tally: Tally) -> str:
    parts = [
        f"{tally.through:,} of {tally.files:,} files",
        f"{tally.launches:,} launches",
        rates_text(tally),
    ]
    if tally.failed:
        parts.append(f"{tally.failed:,} failed")
    if tally.seconds_left is not None:
        parts.append(f"{duration_text(tally.seconds_left)} left")
    return ", ".join(parts)


def rates_text(tally: Tally) -> str:
    seconds = max(tally.seconds, 1e-3)
    return f"{_rate(tally.launches / seconds)} launches/s, {_rate(tally.through / seconds)} files/s"


def _rate(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.1f}"


def duration_text(seconds: float) -> str:
    """As exact as is of use: `12 s`, `3 min`, `2 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"


def summary_text(tally: Tally, settled: int, strangers: int) -> str:
    """What a run did; `settled`: files that the store knew."""
    counts = [f"{tally.done:,} done"]
    counts += [count_noun(tally.duplicates, "duplicate")] if tally.duplicates else []
    counts += [f"{tally.failed:,} failed"] if tally.failed else []
    counts += [f"{settled:,} settled before"] if settled else []
    lines = [f"{count_noun(tally.through + settled, 'file')}: {', '.join(counts)}"]
    if tally.through:
        lines.append(
            f"{count_noun(tally.launches, 'launch')}, {gpu_time_text(tally.gpu_seconds)} of GPU "
            "time; "
            f"{duration_text(tally.seconds)} ({rates_text(tally)})"
        )
    if tally.runs:
        lines.append(known_runs_text(tally.runs, tally.placed, count_noun(tally.done, "file")))
    if tally.unused_tables:
        tables = count_noun(tally.unused_tables, "table")
        lines.append(f"{tables} of a run not used; why is in the column reason of files")
    if tally.noted:
        files = count_noun(tally.noted, "file")
        lines.append(f"{files} with a note, which is in the column reason of files")
    if strangers:
        what = "CSV or JSON file is" if strangers == 1 else "CSV and JSON files are"
        lines.append(f"{strangers:,} {what} no report{'' if strangers == 1 else 's'}")
    return "\n".join(lines) + "\n"


def gpu_time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"
    return "0 s" if not seconds else f"{seconds * 1e9:.3g} ns"
