"""The progress line: on a terminal, after a second, only in commands."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from keet import progress
from keet.safe_text import visible_output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test advances, and a terminal that can clear a line."""
    monkeypatch.setenv("TERM", "xterm")
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def count_to(total: int, clock: list[float], seconds: float) -> None:
    for _ in progress.counted(range(total), "reading launches"):
        clock[0] += seconds


def shown_on(stream: io.StringIO, total: int, clock: list[float], seconds: float) -> str:
    with redirect_stderr(stream), progress.shown():
        count_to(total, clock, seconds)
    return stream.getvalue()


def test_the_line_says_what_is_done_and_how_long_the_rest_takes(clock: list[float]) -> None:
    """It appears after a second, and disappears at the end."""
    text = shown_on(Terminal(), 4, clock, 0.3)
    assert text.count("keet: reading launches: 4 of 4, 0 s left") == 1
    assert text.endswith("\r\x1b[2K")
    text = shown_on(Terminal(), 2000, clock, 1.0)
    assert "keet: reading launches: 500 of 2,000, 25 min left" in text
    with (
        redirect_stderr(Terminal()) as terminal,
        progress.shown(),
        progress.ProgressStage("reading", 5_000_000_000, " MB", 1_000_000) as stage,
    ):
        clock[0] += 3.0
        stage.advance(1_000_000_000)
    assert "keet: reading: 1,000 of 5,000 MB, 12 s left" in terminal.getvalue()


def test_when_nothing_is_printed(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """For quick work, to a file, by a library, and on a terminal that can't clear a line."""
    assert shown_on(Terminal(), 100, clock, 0.009) == ""
    assert shown_on(io.StringIO(), 100, clock, 1.0) == ""
    with redirect_stderr(Terminal()) as terminal:
        count_to(100, clock, 1.0)
    assert terminal.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    assert shown_on(Terminal(), 100, clock, 1.0) == ""


def test_the_line_fits_a_narrow_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda _: 2)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((20, 10)))
    lines = shown_on(Terminal(), 100, clock, 1.0).split("\r\x1b[2K")
    assert max(map(len, lines)) == 19


def test_the_line_is_cleared_before_other_output(clock: list[float]) -> None:
    """Both streams are one terminal: the line is cleared before a row is printed."""
    terminal = Terminal()
    with redirect_stderr(terminal), redirect_stdout(terminal), visible_output(), progress.shown():
        for number in progress.counted(range(2), "reading launches"):
            clock[0] += 2
            if number:
                sys.stdout.write("row\n")
    assert "left\r\x1b[2Krow\n" in terminal.getvalue()


class Closed(Terminal):
    def write(self, text: str) -> int:
        raise OSError(text)


def test_a_closed_terminal_is_no_error(clock: list[float]) -> None:
    shown_on(Closed(), 2, clock, 2.0)
    assert clock == [4.0]
