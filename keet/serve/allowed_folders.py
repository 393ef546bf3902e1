"""Which files may be read: those inside the folders that the server was given.

Paths are checked after links and `..` are resolved, and again when the file is open: a folder may
have become a link in between. A refusal is the same line for a file outside the folders, a file
that does not exist and a file that is not a regular one, so that nobody can find out by asking what
else is on the machine. What lies in the folders is no secret, nor is where they are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from keet.errors import UsageError, one_line
from keet.ingest.input.files import guarded, printable_path
from keet.ingest.run_tables.run_table import table_path
from keet.texts import shortened

_LONGEST_NAME = 200
"""Characters of a path that a message repeats."""
_LONGEST_LISTED = 400
"""Characters of the name of a report."""
_FORBIDDEN = ("/proc", "/sys", "/dev")
"""Files there are windows into the kernel, not reports."""


class AllowedFolders:
    """The folders that the server was given."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises `UsageError` for what is not a folder, or too much."""
        self.folders = tuple(dict.fromkeys(_root(folder) for folder in folders))
        self._listed: dict[str, Path] = {}
        """Reports under names that are not their own: see `name_of`."""

    def report(self, name: str) -> Path:
        """The real path of a report. Raises `UsageError`."""
        path = self._find(name, stat.S_ISREG)
        if path is None:
            raise _no_such_report(name)
        self._check_table(name, path)
        return path

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """What is opened for a report meanwhile must lie in the folders. Raises `UsageError`."""

        def guard(path: Path, descriptor: int) -> None:
            if not self.has(_opened(path, descriptor)):
                raise _no_such_report(name)

        with guarded(guard):
            yield

    def source(self, name: str) -> Path:
        """The real path of a folder with sources. Raises `UsageError`."""
        path = self._find(name, stat.S_ISDIR)
        if path is None:
            raise UsageError(
                f"source {quoted(name)}: no such folder in the folders of this server; name one "
                "that is, relative to them"
            )
        return path

    def has(self, path: str) -> bool:
        """Whether a path leads into one of the folders, wherever its links go."""
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return any(_is_inside(real, str(root)) for root in self.folders)

    def name_of(self, path: Path) -> str:
        """The short name that tools print for a real path, and understand: one line of text, also
        where the file's own name is none."""
        own = path
        for root in self.folders:
            if path.is_relative_to(root):
                relative = path.relative_to(root)
                own = relative if self._find(str(relative), stat.S_ISREG) == path else path
                break
        name = shortened(one_line(printable_path(own)), _LONGEST_LISTED)
        if name == str(own):
            return name
        while self._find(name, stat.S_ISREG) not in (None, path):  # another file has this name
            name += "'"
        self._listed[name] = path
        return name

    def _find(self, name: str, is_kind: Callable[[int], bool]) -> Path | None:
        for candidate in self._candidates(name):
            try:
                real = os.path.realpath(candidate)
                if self.has(real) and is_kind(Path(real).stat().st_mode):
                    return Path(real)
            except (OSError, ValueError):  # a NUL, half a character, a path that is too long
                continue
        return None

    def _candidates(self, name: str) -> Iterator[str]:
        if Path(name).is_absolute():
            yield name
        else:
            yield from (str(root / name) for root in self.folders)
        if name in self._listed:
            yield str(self._listed[name])

    def _check_table(self, name: str, report: Path) -> None:
        """The table of the run beside a report is read with it: it must be inside too."""
        table = table_path(report)
        if os.path.lexists(table) and not self.has(str(table)):
            raise UsageError(
                f"{quoted(name)}: the table of the run beside it is a link that leads outside the "
                "folders of this server; remove the link"
            )


def _no_such_report(name: str) -> UsageError:
    return UsageError(
        f"{quoted(name)}: no such report in the folders of this server; list_reports has the names"
    )


def _opened(path: Path, descriptor: int) -> str:
    """Where an open file lies. Systems that can't tell get where its path leads by now."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return str(path)


def quoted(name: str) -> str:
    """A name that a client sent, as a message repeats it."""
    return shortened(one_line(name), _LONGEST_NAME)


def _root(folder: Path) -> Path:
    try:
        real = Path(os.path.realpath(folder, strict=True))
        is_folder = real.is_dir()
    except (OSError, ValueError):
        is_folder = False
    if not is_folder:
        raise UsageError(f"{folder}: there is no such folder; name the folders with your reports")
    if real.parent == real or any(_is_inside(str(real), each) for each in _FORBIDDEN):
        raise UsageError(f"{folder}: the server would offer too much; name the folders of reports")
    return real


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
