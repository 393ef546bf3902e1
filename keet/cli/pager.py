"""Where a command prints: results through a pager, and all else on stderr.

A result that is longer than the screen goes through a pager, as in git: the beginning stays in
sight. Only on a terminal. `KEET_PAGER`, `PAGER` or `less` is the pager; an empty value or `cat`
switches it off, and where it is not installed, the result is printed.

stderr gets progress, problems that do not stop the command, and hints. `--quiet` drops notes and
progress, but not errors: `sys.stderr` is then a stream that drops everything, so that no command
has to check the option. Errors that are not raised as exceptions are written to `loud_stderr`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, cast

from keet import progress
from keet.errors import one_line
from keet.files import cache_folder
from keet.safe_text import VisibleStream, terminal_stream

if TYPE_CHECKING:
    from subprocess import Popen


_LESS = "FRX"
"""Options of less: quit if the text fits on the screen, show colours, leave the text there."""
_LINKS_SINCE = 581
"""The version of less that knows links (OSC 8): before, it shows them as text."""
_LINK = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")
_ESCAPE = re.compile(rf"{_LINK.pattern}|\x1b\[[0-9;]*m")


@contextmanager
def paged(stdout: TextIO) -> Iterator[TextIO]:
    """The stream for one result. When the reader leaves the pager, the rest is not made."""
    command = _pager_command(stdout)
    if not command:
        yield stdout
        return
    with _Screen(terminal_stream(stdout), command) as screen, suppress(_ReaderLeft):
        yield cast(TextIO, VisibleStream(cast(TextIO, screen)))


def show_text(text: str) -> None:
    """Print a result that is complete."""
    with paged(sys.stdout) as out:
        out.write(text)


def _pager_command(stdout: TextIO) -> list[str]:
    """Empty: there is none, or nobody to read it."""
    if not stdout.isatty() or sys.stdin is None or not sys.stdin.isatty():
        return []
    if os.environ.get("TERM", "dumb").lower() in ("", "dumb", "unknown"):
        return []
    import shlex
    import shutil

    chosen = os.environ.get("KEET_PAGER", os.environ.get("PAGER", "less"))
    try:
        words = shlex.split(chosen)
    except ValueError:  # quotes that are not closed
        return []
    return words if words and words != ["cat"] and shutil.which(words[0]) else []


class _ReaderLeft(Exception):
    """The pager was quit before the end of the text."""


class _Screen:
    """Keeps what is written until it is more than the screen shows, then starts the pager. What
    fits is printed at the end."""

    def __init__(self, terminal: TextIO, command: list[str]) -> None:
        import shutil

        self._terminal, self._command = terminal, command
        self._size = shutil.get_terminal_size()
        self._kept = ""
        self._is_kept = True
        self._pager: Popen[str] | None = None
        self._has_links = True
        self._while_paging = ExitStack()

    def write(self, text: str) -> int:
        if self._is_kept:
            self._kept += text
            if self._rows() < self._size.lines:
                return len(text)
            self._start()
        else:
            self._put(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing, so that what fits on the screen can still be told from what does not."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._terminal, name)

    def __enter__(self) -> _Screen:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._pager is None:
                self._put("")
                self._terminal.flush()
            else:
                self._pager.communicate()
        finally:
            self._while_paging.close()

    def _rows(self) -> int:
        """Rows of the screen that the kept text takes."""
        *lines, last = _ESCAPE.sub("", self._kept).split("\n")
        columns = max(1, self._size.columns)
        return sum(max(1, -(-len(line) // columns)) for line in lines) + len(last) // columns

    def _start(self) -> None:
        from subprocess import PIPE, Popen

        self._terminal.write("")  # clears the line of progress
        self._terminal.flush()
        self._has_links = _shows_links(self._command[0])
        with suppress(OSError):  # the pager does not run
            self._pager = Popen(
                self._command,
                stdin=PIPE,
                encoding=self._terminal.encoding,
                errors="replace",
                env={**os.environ, **_options()},
            )
            self._while_paging.enter_context(progress.hidden())
            self._while_paging.enter_context(_without_ctrl_c())
        self._put("")

    def _put(self, text: str) -> None:
        """The kept text, if there is any, and this one."""
        text, self._kept, self._is_kept = self._kept + text, "", False
        if self._pager is None or self._pager.stdin is None:
            self._terminal.write(text)
            return
        try:
            self._pager.stdin.write(text if self._has_links else _LINK.sub("", text))
        except BrokenPipeError:
            raise _ReaderLeft from None


def _options() -> Mapping[str, str]:
    """For less: those of the user, but colours are shown."""
    chosen = os.environ.get("LESS")
    return {"LESS": _LESS if chosen is None else f"-R {chosen}"}


def _shows_links(program: str) -> bool:
    """Other pagers than less are not known to."""
    from pathlib import Path
    from subprocess import PIPE, STDOUT, SubprocessError, run

    if Path(program).stem != "less":
        return False
    try:
        command = [program, "--version"]
        said = run(command, stdout=PIPE, stderr=STDOUT, timeout=2, check=False).stdout
    except (OSError, SubprocessError):
        return False
    version = re.match(rb"less (\d+)", said)
    return version is not None and int(version[1]) >= _LINKS_SINCE


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ctrl-C is for the pager, which stops a search at it."""
    import signal

    try:
        before = signal.signal(signal.SIGINT, lambda *_: None)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
