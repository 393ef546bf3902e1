"""Caches SASS text on disk by the hash of the code: fetching takes a second, reading a few ms.

One file per function, in `code/` of keet's cache folder. Branch targets are addresses in the
profiled process; the cache stores them relative to the function's start, so that the entry fits
every report with the same code. If the folder or a file is unusable, the text is fetched again.
`KEET_CODE_CACHE=0` switches the cache off.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from keet.files import cache_folder
from keet.ingest.code.functions import Function

_FORMAT = "1"
"""Part of the key: change it whenever the format of an entry changes."""
_LIMIT = 64 << 20
"""Bytes of all entries: some thousand functions. One with 6,700 instructions takes 56 kB."""
_MAX_TEXT = 64 << 20
"""Bytes of one decompressed entry: more is damage."""
_PRIVATE = 0o600
_SUFFIX, _PARTIAL = ".sass", ".partial"
_OFF = ("0", "off", "no", "false")

_ADDRESS = re.compile(r"0x([0-9a-f]{9,16})(?![0-9a-f])")
"""Numbers of more than 32 bits: code addresses. Immediates of instructions are shorter."""
_LOWEST = 1 << 32
_TARGET = re.compile(r"<\+([0-9a-f]+)>")


def open_cache(reader: str) -> SassCache | None:
    """The cache for one version of NVIDIA's reader; None if caching is switched off."""
    if os.environ.get("KEET_CODE_CACHE", "").strip().lower() in _OFF:
        return None
    return SassCache(cache_folder() / "code", reader)


class SassCache:
    """Safe for concurrent processes: entries are created by one rename and never change."""

    def __init__(self, folder: Path, reader: str, *, limit: int = _LIMIT) -> None:
        self._folder = folder
        self._reader = reader
        self._limit = limit

    def find(self, function: Function) -> dict[int, str] | None:
        """The text at each of the function's addresses; None if it is missing or damaged."""
        if function.identity is None:
            return None
        path = self._path(function.identity)
        try:
            packed = path.read_bytes()
            lines = _unpack(packed, path.stem, function)
        except (OSError, ValueError, KeyError, TypeError, zlib.error, RecursionError):
            return None
        if lines is None:
            return None
        with suppress(OSError):  # the least recently used entries are removed first
            os.utime(path)
        return dict(zip(function.addresses, lines, strict=True))

    def store(self, function: Function, texts: Mapping[int, str]) -> None:
        """Store the text if it covers the whole function."""
        lines = [texts.get(address) for address in function.addresses]
        whole = [line for line in lines if line is not None and "\n" not in line]
        if function.identity is None or len(whole) != len(lines):
            return
        path = self._path(function.identity)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(path, _pack(path.stem, function, whole))
            self._remove_oldest()

    def _path(self, identity: str) -> Path:
        key = "\0".join([_FORMAT, self._reader, identity])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _remove_oldest(self) -> None:
        """Reduce the cache to 90 % of the limit, so that not every new entry has to clean up."""
        files = sorted(self._files())
        excess = sum(size for _, size, _ in files) - self._limit
        if excess <= 0:
            return
        excess += self._limit // 10
        for _, size, path in files:
            if excess <= 0:
                break
            excess -= size
            with suppress(OSError):
                path.unlink()

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry, and of files left by killed processes."""
        for entry in os.scandir(self._folder):
            if entry.name.endswith((_SUFFIX, _PARTIAL)):
                with suppress(OSError):
                    known = entry.stat(follow_symlinks=False)
                    yield known.st_mtime, known.st_size, Path(entry.path)


def _write(path: Path, content: bytes) -> None:
    """Readable by its owner only, since it is the user's code. Raises OSError."""
    partial = path.with_name(f"{secrets.token_hex(8)}{_PARTIAL}")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE), "wb") as f:
            f.write(content)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _pack(key: str, function: Function, lines: Sequence[str]) -> bytes:
    text = "\n".join(lines)
    relative = _relative(text, function) if function.movable else None
    document = {
        "key": key,
        # The start address for which the text is valid; null means any.
        "start": None if relative is not None else function.start,
        "text": text if relative is None else relative,
    }
    return zlib.compress(json.dumps(document).encode(), 1)


def _unpack(packed: bytes, key: str, function: Function) -> list[str] | None:
    """None if the entry does not fit the function; raises one of many errors if it is damaged."""
    unpacker = zlib.decompressobj()
    document = json.loads(unpacker.decompress(packed, _MAX_TEXT))
    if not unpacker.eof or document["key"] != key:
        return None
    start, text = document["start"], document["text"]
    if start not in (None, function.start):
        return None
    lines: list[str] = (text if start is not None else _absolute(text, function)).split("\n")
    return lines if len(lines) == len(function.addresses) else None


def _relative(text: str, function: Function) -> str | None:
    """The text with the function's addresses relative to its start. None if that is not safe: if a
    large number is not one of them, or if addresses are so low that an immediate could be one."""
    start, last = function.start, function.addresses[-1]
    if start < _LOWEST or "<+" in text:
        return None
    distances = [int(match[1], 16) - start for match in _ADDRESS.finditer(text)]
    if any(not 0 <= distance <= last - start for distance in distances):
        return None
    return _ADDRESS.sub(lambda match: f"<+{int(match[1], 16) - start:x}>", text)


def _absolute(text: str, function: Function) -> str:
    return _TARGET.sub(lambda match: f"0x{function.start + int(match[1], 16):x}", text)
