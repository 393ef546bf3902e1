"""The bytes of a report: in memory, or on disk and read piece by piece.

Reports of up to `LARGE` bytes are read whole. Larger ones stay on disk: the file stays open as long
as the profile exists, and the bytes of a launch are read on first use. mmap would be simpler, but
if the file shrinks, the process is killed, and touched pages count as its memory.
"""

from __future__ import annotations

import hashlib
import io
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from keet.errors import DamagedReport, UnreadableFile, reason_of
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


class WholeReport(ReportBytes, Protocol):
    """Bytes that can be read again from the start."""

    def open(self) -> BinaryIO: ...

    def sha256(self) -> str: ...


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
