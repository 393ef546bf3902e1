"""Results on a terminal: what is longer than the screen goes through a pager."""

import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from keet.corpus.discovery import reports_in
from tests.conftest import REPORTS, TESTS
from tests.rows import each_row

ROOT = TESTS.parent
KEET = f"{sys.executable} -m keet"
REPORT = str(REPORTS / "tour_full.ncu-repz")
SHOWS = """\
import pathlib, sys
pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())
"""
"""A pager that keeps what it gets."""
LEAVES = "import sys; sys.stdin.readline(); print('LEFT')"
"""A pager that is quit on its first line."""
WAITS = """\
import signal, sys
signal.signal(signal.SIGINT, lambda *_: print('INTERRUPTED', flush=True))
sys.stdin.read()
print('READY', flush=True)
with open('/dev/tty') as keys: keys.readline()
"""
"""A pager that Ctrl-C does not end; a key does."""


PROMPT = ":\x1b[K"
"""Of less."""


class Screen:
    """A terminal of 80x24, or of another size, in which a program runs."""

    def __init__(
        self, words: list[str], rows: int, environment: dict[str, str], folder: Path = ROOT
    ) -> None:
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.chdir(folder)
            size = struct.pack("HHHH", rows, 80, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            left_out = ("COLUMNS", "LINES", "PAGER", "KEET_PAGER", "LESS", "NO_COLOR")
            kept = {name: value for name, value in os.environ.items() if name not in left_out}
            paths = f"{ROOT}:{ROOT / 'tools'}"
            others = {"TERM": "xterm-256color", "PYTHONPATH": paths, **environment}
            os.execvpe(words[0], words, {**kept, **others})
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def read_until(self, text: str) -> None:
        while text not in self.seen:
            assert self._reads(), f"{text!r} does not come: {self.seen!r}"

    def exit_code(self) -> int:
        while self._reads():
            pass
        os.close(self.file)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _reads(self) -> bool:
        ready, _, _ = select.select([self.file], [], [], 60)
        assert ready, f"nothing comes after {self.seen!r}"
        with suppress(OSError):  # the program has ended
            if more := os.read(self.file, 65536).decode(errors="replace"):
                self.seen += more
                return True
        return False


Keet = Callable[..., Screen]


@pytest.fixture
def terminal() -> Keet:
    """Runs keet at a terminal."""

    def run(*words: str, rows: int = 24, **environment: str) -> Screen:
        return Screen([sys.executable, "-m", "keet", *words], rows, environment)

    return run


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """The text that a pager got, and by its name with `.py` the pager."""
    (tmp_path / "shown.py").write_text(SHOWS)
    return tmp_path / "shown"


def command(pager: Path) -> str:
    return f"{sys.executable} {pager}.py {pager}"


def script(tmp_path: Path, text: str) -> str:
    (tmp_path / "pager.py").write_text(text)
    return f"{sys.executable} {tmp_path / 'pager.py'}"


PAGES = [
    ("explain", REPORT),
    ("roofline", REPORT, "--format", "json"),
    ("amounts", REPORT, "--format", "markdown"),
    ("--help",),
    ("schema", "explain"),
    ("skill",),
]


@each_row("words", PAGES, few=1)
def test_what_is_longer_than_the_screen_goes_through_the_pager(
    words: tuple[str, ...], terminal: Keet, pager: Path
) -> None:
    pager.unlink(missing_ok=True)
    screen = terminal("-q", *words, rows=8, KEET_PAGER=command(pager), PAGER="false")
    assert screen.exit_code() == 0
    assert screen.seen == ""
    assert pager.read_text().count("\n") >= 8


NOT_PAGED = [
    {"KEET_PAGER": ""},
    {"KEET_PAGER": "cat"},
    {"KEET_PAGER": "", "PAGER": "{pager}"},
    {"KEET_PAGER": "there-is-no-such-pager"},
    {"KEET_PAGER": "not 'closed"},
    {"KEET_PAGER": "{broken}"},
    {"KEET_PAGER": "{pager}", "TERM": "dumb"},
]


@each_row("environment", NOT_PAGED, few=1)
def test_without_a_pager_everything_is_printed(
    environment: dict[str, str], terminal: Keet, pager: Path
) -> None:
    broken = pager.with_suffix(".broken")
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    programs = {"pager": command(pager), "broken": broken}
    named = {name: value.format(**programs) for name, value in environment.items()}
    screen = terminal("finding", "tail_effect", **named)
    assert screen.exit_code() == 0
    assert screen.seen.count("\n") >= 24
    assert not pager.exists()


@pytest.mark.slow
def test_a_command_to_copy_is_broken_where_a_shell_continues_it(terminal: Keet) -> None:
    """On one line for a pipe."""
    words = ("profile", "-q", "--dry-run", "--", "./app")
    screen = terminal(*words)
    assert screen.exit_code() == 0
    copied = screen.seen.replace("\r\n", "\n")
    assert max(map(len, copied.splitlines())) <= 80
    piped = typed(f"{KEET} {' '.join(words)} | cat")
    assert shlex.split(copied.replace("\\\n", "")) == shlex.split(piped)
    assert copied.count("\n") > 5
    assert piped.count("\n") == 1


@pytest.mark.slow
def test_an_error_and_what_fits_on_the_screen_are_printed(terminal: Keet, pager: Path) -> None:
    screen = terminal("explain", "there-is-none.ncu-rep", rows=1, KEET_PAGER=command(pager))
    assert screen.exit_code() == 4
    assert "keet: there-is-none.ncu-rep" in screen.seen
    screen = terminal("finding", "tail_effect", rows=200, KEET_PAGER=command(pager))
    assert screen.exit_code() == 0
    assert "tail_effect" in screen.seen
    assert not pager.exists()


def typed(line: str, **environment: str) -> str:
    """What is on the screen after a shell has run the line."""
    screen = Screen(["sh", "-c", line], 24, environment)
    assert screen.exit_code() == 0
    return screen.seen


WIDTHS = [
    ("| cat", 80),
    ("</dev/null", 80),
    ("</dev/null 2>/dev/null | cat", 120),
    ("-o {file}; cat {file}", 120),
]


@each_row(("rest", "width"), WIDTHS, few=1)
def test_a_pipe_is_as_wide_as_the_terminal(rest: str, width: int, tmp_path, pager: Path) -> None:
    """Where one side is no terminal nothing is paged."""
    line = f"{KEET} -q finding tail_effect {rest.format(file=tmp_path / 'page.txt')}"
    told = re.sub(r"\x1b\[[0-9;]*m", "", typed(line, KEET_PAGER=command(pager)))
    shown = told.splitlines()
    assert len(shown) >= 24
    assert width - 15 < max(map(len, shown)) <= width
    assert not pager.exists()


@pytest.mark.slow
def test_colours_and_no_links_unless_the_pager_knows_them(terminal: Keet, pager: Path) -> None:
    screen = terminal("explain", REPORT, PAGER=command(pager))
    assert screen.exit_code() == 0
    assert "\x1b[1m" in pager.read_text()
    assert "\x1b]8;" not in pager.read_text()


@pytest.mark.slow
def test_a_gate_keeps_its_exit_code_when_the_reader_leaves(terminal: Keet, tmp_path: Path) -> None:
    before, after = (str(REPORTS / f"pipeline_{name}.ncu-repz") for name in ("after", "before"))
    words = ("diff", before, after, "--gate", "5", "--format", "json")
    screen = terminal(*words, KEET_PAGER=script(tmp_path, LEAVES))
    assert screen.exit_code() == 1
    assert "LEFT" in screen.seen
    assert "keet:" not in screen.seen.partition("LEFT")[2]  # no message


@pytest.mark.slow
def test_ctrl_c_is_for_the_pager(terminal: Keet, tmp_path: Path) -> None:
    screen = terminal("explain", REPORT, KEET_PAGER=script(tmp_path, WAITS))
    screen.read_until("READY")
    screen.type("\x03")
    screen.read_until("INTERRUPTED")
    screen.type("q\n")
    assert screen.exit_code() == 0
    assert "Traceback" not in screen.seen


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_less_shows_the_beginning_in_colours(terminal: Keet) -> None:
    screen = terminal("explain", REPORT, "--launch", "0", LESS="-i")
    screen.read_until(PROMPT)
    first = screen.seen
    assert "#0" in first
    assert "no model" not in first
    assert "ESC[" not in first
    assert "\x1b[1m" in first
    screen.type("q")
    assert screen.exit_code() == 0


@pytest.mark.slow
def test_mcp_says_that_it_waits(terminal: Keet) -> None:
    pytest.importorskip("mcp")
    screen = terminal("mcp", str(REPORTS))
    screen.read_until("Ctrl-C ends it")
    assert f"an MCP server for {len(reports_in(REPORTS))} reports" in screen.seen
    assert f"claude mcp add keet -- keet mcp {REPORTS}" in screen.seen.replace("\r\n", "")
    screen.type("\x03")
    assert screen.exit_code() == -2
