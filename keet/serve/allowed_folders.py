"""Limits file access of the MCP server to the folders that it was given.

Paths are checked after links and `..` are resolved, and again when the file is open, because a
folder may have become a link in between. The error is the same for a file outside the folders, a
missing file and a file that is not regular, so that a client can't find out which other files
exist. The contents and the location of the folders themselves are not secret.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from keet_tools.reports import quoted

from keet.errors import UsageError, one_line
from keet.report.input.files import guarded, printable_path
from keet.report.run_table import table_path
from keet.safe_text import shortened

_LONGEST_LISTED = 400
"""Characters of the name of a report."""
_FORBIDDEN = ("/proc", "/sys", "/dev")
"""Virtual file systems have no reports."""


class AllowedFolders:
    """The folders that the server was given."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises `UsageError` for a path that is not a folder, or a folder that must not be
        served."""
        self.folders = tuple(dict.fromkeys(_root(folder) for folder in folders))
        self._listed: dict[str, Path] = {}
        """Reports whose printed name differs from their path: see `name_of`."""

    def report(self, name: str) -> Path:
        """The real path of a report. Raises `UsageError`."""
        path = self._find(name, stat.S_ISREG)
        if path is None:
            raise _no_such_report(name)
        table = table_path(path)  # is read with the report
        if os.path.lexists(table) and not self.has(str(table)):
            raise UsageError(
                f"{quoted(name)}: the run table beside it is a link to a file outside the "
                "folders of this server; remove the link"
            )
        return path

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """While this is active, files that are opened must be inside the folders; else raises
        `UsageError`."""

        def guard(path: Path, descriptor: int) -> None:
            try:
                opened = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            except OSError:  # a system without /proc
                opened = str(path)
            if not self.has(opened):
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
        """Whether a path is inside one of the folders after links are resolved."""
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return any(_is_inside(real, str(root)) for root in self.folders)

    def name_of(self, path: Path) -> str:
        """The short name that tools print and accept for a real path. It is always one line, even
        if the file name is not."""
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
        candidates = [name] if Path(name).is_absolute() else [root / name for root in self.folders]
        for candidate in (*candidates, *filter(None, [self._listed.get(name)])):
            try:
                real = os.path.realpath(candidate)
                if self.has(real) and is_kind(Path(real).stat().st_mode):
                    return Path(real)
            except (OSError, ValueError):  # a NUL, an incomplete character, a path that is too long
                continue
        return None


def _no_such_report(name: str) -> UsageError:
    return UsageError(
        f"{quoted(name)}: no such report in the folders of this server; list_reports has the names"
    )


def _root(folder: Path) -> Path:
    try:
        real = Path(os.path.realpath(folder, strict=True))
        is_folder = real.is_dir()
    except (OSError, ValueError):
        is_folder = False
    if not is_folder:
        raise UsageError(f"{folder}: there is no such folder; name the folders with your reports")
    if real.parent == real or any(_is_inside(str(real), each) for each in _FORBIDDEN):
        raise UsageError(
            f"{folder}: this folder must not be served; name the folders of your reports"
        )
    return real


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
