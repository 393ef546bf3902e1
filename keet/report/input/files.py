"""Opens what a user names: files, standard input and the folder of `--source`; and their bytes.

Only regular files, so that nothing hangs or fills memory. Standard input has the same limits; large
input goes to an unnamed temporary file.

Reports of up to `LARGE` bytes are read whole. Larger ones stay on disk: the file stays open as long
as the profile exists, and the bytes of a launch are read on first use. mmap would be simpler, but
if the file shrinks, the process is killed, and touched pages count as its memory.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar, cast

from keet.errors import DamagedReport, UnreadableFile, UsageError, reason_of
from keet.files import REPORT_SUFFIXES, STDIN
from keet.progress import ProgressStage

LARGE = 64 << 20
"""Bytes. Reports up to this size are read whole, which is fastest. Most have less than 20 MB."""
_CHUNK = 1 << 20
_MB = 1_000_000
COPY_AGAIN = "copy the file again, or profile again"


class ReportBytes(Protocol):
    """Bytes by their offset in the report."""

    @property
    def size(self) -> int: ...

    def piece(self, start: int, stop: int) -> tuple[bytes, int]:
        """Bytes that contain this range, and the offset of its start in them: bytes that are in
        memory already are not copied."""


def bytes_of(source: ReportBytes, start: int, stop: int) -> bytes:
    """Exactly this range, as a copy."""
    data, at = source.piece(start, stop)
    return data[at : at + stop - start]


class HeldBytes:
    """All bytes, in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        return len(self.data)

    def piece(self, start: int, stop: int) -> tuple[bytes, int]:
        del stop
        return self.data, start

    def open(self) -> BinaryIO:
        return io.BytesIO(self.data)

    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class DiskBytes:
    """Bytes of an open file, which must not change. Owns the descriptor."""

    def __init__(self, descriptor: int, path: Path) -> None:
        """`path`: for messages; the file may be renamed or deleted meanwhile."""
        self._descriptor, self._path = descriptor, path
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        self._known = self._state()

    @property
    def size(self) -> int:
        return self._known[0]

    def close(self) -> None:
        self._finalizer()

    def _state(self) -> tuple[int, int]:
        known = os.fstat(self._descriptor)
        return known.st_size, known.st_mtime_ns

    def check(self) -> None:
        """Raises if the file changed since it was opened."""
        if self._state() != self._known:
            raise changed(self._path)

    def piece(self, start: int, stop: int) -> tuple[bytes, int]:
        length = stop - start
        try:
            data = _read_at(self._descriptor, length, start)
            if len(data) != length:
                data += b"".join(self._read(start + len(data), stop))
            self.check()
        except OSError as problem:
            raise unreadable(self._path, problem) from None
        if len(data) != length:
            raise changed(self._path)
        return data, 0

    def _read(self, start: int, stop: int) -> Iterator[bytes]:
        """The rest: a system call may return less than requested, and at most 2 GiB."""
        while start < stop and (data := _read_at(self._descriptor, stop - start, start)):
            yield data
            start += len(data)

    def chunks(self) -> Iterator[bytes]:
        with ProgressStage("reading the report", self.size, " MB", _MB) as stage:
            for start in range(0, self.size, _CHUNK):
                yield self.piece(start, min(start + _CHUNK, self.size))[0]
                stage.advance(_CHUNK)

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def open(self) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Stream(self), _CHUNK))


class _Stream(io.RawIOBase):
    """A `DiskBytes` as a stream."""

    def __init__(self, source: DiskBytes) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        stop = min(self._at + len(buffer), self._source.size)
        data, _ = self._source.piece(self._at, stop)
        buffer[: len(data)] = data
        self._at = stop
        return len(data)


WholeReport = HeldBytes | DiskBytes
"""Bytes that can be read again from the start."""


class ForwardBytes:
    """Bytes of a stream that can't seek back, such as a decompressor: no piece may start before the
    previous one."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self.size = stream, size
        self._held, self._base = b"", 0
        self._at = 0
        """Bytes read from the stream so far."""

    def piece(self, start: int, stop: int) -> tuple[bytes, int]:
        """Shorter where the stream ends."""
        if start < self._base:
            raise ValueError(f"piece {start} lies before {self._base}")
        self._held = self._held[start - self._base :]
        self._base = start
        while self._at < start and self._next(min(start - self._at, _CHUNK)):
            pass
        self._held += self._next(max(stop - self._at, 0))
        return self._held, 0

    def _next(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._at += len(data)
        return data


def _seek_and_read(descriptor: int, count: int, place: int) -> bytes:
    """For Windows. A report is read by one thread at a time."""
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, count)


_read_at = getattr(os, "pread", _seek_and_read)


def first_chunks(chunks: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """Chunks until there are more than `LARGE` bytes, and whether these are all."""
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > LARGE:
            return held, False
    return held, True


def spooled(chunks: Iterator[bytes], path: Path) -> WholeReport:
    """The chunks in memory, or in an unnamed temporary file if they are large. The file disappears
    with its last user, even after a crash."""
    held, is_all = first_chunks(chunks)
    if is_all:
        return HeldBytes(b"".join(held))
    import tempfile

    try:
        with tempfile.TemporaryFile() as file:
            file.writelines(held)
            held.clear()
            file.writelines(chunks)
            file.flush()
            return DiskBytes(os.dup(file.fileno()), path)
    except OSError as problem:
        raise UnreadableFile(
            path,
            f"more than {LARGE / 1e6:.0f} MB can't be written to a temporary file "
            f"({reason_of(problem)})",
            "free disk space, or set TMPDIR to another folder",
        ) from None


def changed(path: Path) -> DamagedReport:
    return DamagedReport(path, "the file changed while it was read", "try again")


def unreadable(path: Path, problem: OSError) -> UnreadableFile:
    return UnreadableFile(path, f"it can't be read ({reason_of(problem)})", "check the disk")


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


_Result = TypeVar("_Result")


class SizedCache(Generic[_Result]):
    """Limited by the total size of its entries; drops the least recently used.

    Keys are the content that a result was computed from: launches of one kernel have the same code
    and often the same counts, so a report with thousands of launches decodes them once.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: the largest sum of sizes, in whatever unit the caller gives to `put`."""
        self._limit = limit
        self._used = 0
        self._results: dict[Hashable, tuple[_Result, int]] = {}

    def get(self, key: Hashable) -> _Result | None:
        entry = self._results.pop(key, None)
        if entry is None:
            return None
        self._results[key] = entry  # the most recently used one is last
        return entry[0]

    def put(self, key: Hashable, result: _Result, size: int) -> _Result:
        """Returns the result. One that is larger than the limit is not cached."""
        if size > self._limit:
            return result
        self._used += size
        self._results[key] = result, size
        while self._used > self._limit:
            _, freed = self._results.pop(next(iter(self._results)))
            self._used -= freed
        return result
