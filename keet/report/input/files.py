"""Opens what a user names: files, standard input and the folder of `--source`.

Only regular files, so that nothing hangs or fills memory. Standard input has the same limits; large
input goes to an unnamed temporary file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, NamedTuple

from keet.errors import UnreadableFile, UsageError, reason_of
from keet.files import REPORT_SUFFIXES, STDIN
from keet.report.input.report_bytes import WholeReport, spooled

HEAD = 4096
"""Bytes that are enough to recognise every format."""
MAX_TEXT = 256 << 20
"""Largest snapshot or recorded run table in bytes: parsing takes several times that in memory."""
MAX_EXPORT = 64 << 20
"""Largest text that ncu or nsys printed, in bytes: parsing takes up to 16 times that in memory. The
largest public one seen has less than 5 MB."""

_SPECIAL_FILES = (
    (stat.S_ISDIR, "a directory", "name a report in it: keet show DIR/REPORT"),
    (stat.S_ISFIFO, "a pipe", "save the report to a file first"),
    (stat.S_ISCHR, "a device", "name a report file"),
    (stat.S_ISBLK, "a device", "name a report file"),
    (stat.S_ISSOCK, "a socket", "name a report file"),
)
_OTHER_SUFFIXES = (".csv", ".txt", ".json")
"""Names that reports may have, too."""
_MOST_SUGGESTED = 3
_MOST_NAMES = 2000
"""Names of a folder that are compared with one that does not exist."""


Guard = Callable[[Path, int], None]
"""Gets the path and descriptor of an opened file; raises if it must not be read."""
_guard: ContextVar[Guard | None] = ContextVar("guard", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Within this context, the guard checks every report, table and source file after opening it: a
    path that was checked before opening may point elsewhere by then."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


class InputFile(NamedTuple):
    """A regular file that could be opened: its size and its first bytes."""

    path: Path
    size: int
    head: bytes
    content: WholeReport | None = None
    """The whole content if it came from standard input; else None."""

    def open(self) -> BinaryIO:
        return open_regular(self.path) if self.content is None else self.content.open()

    def read(self) -> bytes:
        """The whole content, plus one byte if the file has grown, so that callers notice."""
        try:
            with self.open() as file:
                return file.read(self.size + 1)
        except OSError as problem:
            raise UnreadableFile(self.path, _not_opened(problem), "check the disk") from None


def open_input(path: Path) -> InputFile:
    """Check a path and read its first bytes. Raises `UnreadableFile`."""
    try:
        status = path.stat()
    except FileNotFoundError:
        remedy = "check the path" if _guard.get() else nearest_paths(path)
        raise UnreadableFile(path, "there is no such file", remedy) from None
    except (OSError, ValueError) as problem:
        raise UnreadableFile(path, _not_opened(problem), "check the path") from None
    _refuse_special(path, status.st_mode)
    try:
        with open_regular(path) as file:
            return InputFile(path, status.st_size, file.read(HEAD))
    except OSError as problem:
        raise UnreadableFile(path, _not_opened(problem), "name a report file") from None


def _refuse_special(path: Path, mode: int) -> None:
    for is_kind, what, remedy in _SPECIAL_FILES:
        if is_kind(mode):
            raise UnreadableFile(path, f"this is {what}, not a report", remedy)


def open_regular(path: Path) -> BinaryIO:
    return os.fdopen(open_descriptor(path), "rb")


def open_descriptor(path: Path) -> int:
    """Open without blocking: the file may have become a pipe since it was checked."""
    try:
        others = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, os.O_RDONLY | others)
    except OSError as problem:
        raise UnreadableFile(path, _not_opened(problem), "check the file's permissions") from None
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode)
        if guard := _guard.get():
            guard(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _not_opened(problem: OSError | ValueError) -> str:
    reason = reason_of(problem) if isinstance(problem, OSError) else problem
    return f"it can't be opened ({reason})"


def nearest_paths(path: Path) -> str:
    """What the user may have meant: similar names in the folder of a path that does not exist, else
    the reports there. Where the folder does not exist, the first one of the path that does not."""
    import difflib

    if not path.parent.exists() and path.parent != path:
        missing = next(folder for folder in path.parents if folder.parent.exists())
        nearest = nearest_paths(missing)
        return nearest if nearest.startswith("did you mean") else f"there is no folder {missing}"
    try:
        with os.scandir(path.parent) as entries:
            files = [entry for entry in islice(entries, _MOST_NAMES) if entry.name != path.name]
            names = sorted(entry.name for entry in files if _may_be_meant(entry))
    except (OSError, ValueError):
        return "check the path"
    near = [name for name in names if name.startswith(f"{path.name}.")]
    near = near or difflib.get_close_matches(path.name, names, _MOST_SUGGESTED)
    reports = [name for name in names if name.lower().endswith(REPORT_SUFFIXES)]
    if not (near or reports):
        return "check the path"
    paths = ", ".join(str(path.with_name(name)) for name in (near or reports)[:_MOST_SUGGESTED])
    return f"did you mean: {paths}" if near else f"reports in this folder: {paths}"


def _may_be_meant(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith((*REPORT_SUFFIXES, *_OTHER_SUFFIXES)) or entry.is_dir()


def printable_path(path: Path) -> str:
    """A path as text: file names are bytes and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- standard input

_CHUNK = 1 << 20
_FEWER = "profile fewer launches: ncu --launch-skip N --launch-count N"
_PIPE = "pipe one in: cat report.ncu-rep | keet explain -"
_already_read: dict[int, tuple[object, WholeReport]] = {}
"""Content by stream id: `keet diff - --launch 0:3` reads the same report for both sides."""


def read_once(limit_for: Callable[[bytes], int | None]) -> WholeReport:
    """All of standard input. `limit_for` gets the first bytes and returns the allowed size in
    bytes, or raises if keet does not read such a file. Raises `UnreadableFile`."""
    stream = _standard_input()
    if id(stream) not in _already_read:
        _already_read[id(stream)] = stream, _read_standard_input(stream, limit_for)
    return _already_read[id(stream)][1]


def _read_standard_input(stream: BinaryIO, limit_for: Callable[[bytes], int | None]) -> WholeReport:
    head = _read_from(stream, HEAD)
    if not head:
        raise UnreadableFile(STDIN, "standard input is empty", _PIPE)
    limit = limit_for(head)

    def chunks() -> Iterator[bytes]:
        chunk, size = head, 0
        while chunk:
            size += len(chunk)
            if limit is not None and size > limit:
                raise UnreadableFile(
                    STDIN, f"it has more than the {limit / 1e6:.0f} MB that keet reads", _FEWER
                )
            yield chunk
            chunk = _read_from(stream, _CHUNK)

    return spooled(chunks(), STDIN)


def _standard_input() -> BinaryIO:
    """Refuses a terminal: keet would wait forever for a report."""
    stream = sys.stdin
    if stream is None or stream.closed:
        raise UnreadableFile(STDIN, "standard input is closed", _PIPE)
    if stream.isatty():
        raise UnreadableFile(STDIN, "standard input is a terminal, not a report", _PIPE)
    return stream.buffer


def _read_from(stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as problem:
        reason = reason_of(problem)
        raise UnreadableFile(STDIN, f"standard input can't be read ({reason})", _PIPE) from None


# --- sources, for reports that do not embed them

_MAX_SOURCE_FILES = 100_000
_MAX_SOURCE_BYTES = 8 << 20
_SOURCE_SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".hcu", ".hip"),
        *(".inl", ".inc", ".ipp", ".tpp", ".tcc", ".def", ".cl", ".f", ".for", ".f90", ".f95"),
        *(".cuf", ".py", ".pyx", ".jl", ".rs", ".mojo", ".mlir", ".ttir", ".ptx"),
    )
)


def is_source(name: str) -> bool:
    """By its name: a report must not make keet read keys or settings beside the sources."""
    return not name.startswith(".") and Path(name).suffix.lower() in _SOURCE_SUFFIXES


class SourceFolder:
    """Finds a file by the end of the path that the compiler recorded.

    `/build/proj/src/a/k.cu` is found as `DIR/src/a/k.cu`: the candidate with the longest common end
    is taken. If two are equally good, neither is taken, since one of them would be wrong.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"--source {root}: there is no such folder; name the sources' root")
        self.root = root

    @cached_property
    def _files(self) -> Mapping[str, list[Path]]:
        by_name: dict[str, list[Path]] = {}
        count = 0
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(filter(is_source, names)):
                by_name.setdefault(name, []).append(Path(folder, name))
            count += len(names)
            if count > _MAX_SOURCE_FILES:
                raise UsageError(
                    f"--source {self.root}: more than {_MAX_SOURCE_FILES:,} files; "
                    "name a smaller folder"
                )
        return by_name

    def text_of(self, recorded: str) -> str | None:
        path = self.path_of(recorded)
        return _source_text(path) if path else None

    def path_of(self, recorded: str) -> Path | None:
        """Absolute."""
        parts = (PureWindowsPath if "\\" in recorded else PurePosixPath)(recorded).parts
        candidates = self._files.get(parts[-1], []) if parts else []
        scored = sorted(((_shared_tail(parts, path), path) for path in candidates), reverse=True)
        if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
            return None
        return scored[0][1].absolute()


def _shared_tail(parts: tuple[str, ...], path: Path) -> int:
    """How many names at their ends are equal."""
    pairs = zip(reversed(parts), reversed(path.parts))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _source_text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_SOURCE_BYTES:
            return None
        with open_regular(path) as file:
            text = file.read().decode("utf-8", errors="replace")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnreadableFile):
        return None
