"""Gets the SASS text of a report's launches: from the cache, else from NVIDIA's reader.

`prefetch` starts the child process in the background, before the text is needed. Launches that ran
the same code share one text.

The cache is on disk, by the hash of the code: fetching takes a second, reading a few ms. It has one
file per function, in `code/` of keet's cache folder. Branch targets are addresses in the profiled
process; the cache stores them relative to the function's start, so that the entry fits every report
with the same code. If the folder or a file is unusable, the text is fetched again.
`KEET_CODE_CACHE=0` switches the cache off.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keet.files import cache_folder
from keet.profile import Absent
from keet.profile.launch import NO_COUNTS
from keet.report.cubin import Function
from keet.report.disassembly.nvidia_reader import (
    NOT_INSTALLED,
    Disassembly,
    known_code,
    reader_identity,
)
from keet.report.input.files import HeldBytes, bytes_of
from keet.report.ncu_rep.report_file import CodeKey, NcuRepFile

if TYPE_CHECKING:
    from keet.report.ncu_rep.decoded_launch import DecodedLaunch

# --- a large report cut down to some launches: NVIDIA's reader loads a report as a whole


class PartialReport(NamedTuple):
    """The bytes of a report, and the number that each launch has in it."""

    data: bytes
    numbers: Mapping[int, int]


def partial_report(
    file: NcuRepFile, launches: Sequence[int], code: Iterable[CodeKey]
) -> PartialReport:
    """A report with these launches, the code that they ran, and what all launches share. A report
    that is in memory is returned as a whole.

    Blocks are copied unchanged: those of the launches and of the code, and those with a part of
    the session or a table of names. Some of these contain other launches, too.
    """
    if isinstance(file.source, HeldBytes):
        return PartialReport(file.source.data, {number: number for number in launches})
    wanted = {file.results[number].start for number in launches}
    wanted |= {entry.start for key in code for entry in file.code_entries.get(key, ())}
    stops = [*(block.start for block in file.blocks[1:]), file.source.size]
    kept = {
        block.start: stop
        for block, stop in zip(file.blocks, stops)
        if block.sessions or block.strings or any(e.start in wanted for e in block.entries)
    }
    spans = [(0, file.blocks[0].start), *kept.items()]
    data = b"".join(bytes_of(file.source, *span) for span in spans)
    # Launches are numbered in the order of the copied blocks.
    present = [n for n, block in enumerate(file.owners) if block.start in kept]
    places = {number: place for place, number in enumerate(present)}
    return PartialReport(data, {number: places[number] for number in launches})


# --- the cache

_CACHE_FORMAT = "1"
"""Part of the key: change it whenever the format of an entry changes."""
_CACHE_LIMIT = 64 << 20
"""Bytes of all entries: some thousand functions. One with 6,700 instructions takes 56 kB."""
_MAX_TEXT = 64 << 20
"""Bytes of one decompressed entry: more is damage."""
_PRIVATE = 0o600
_SUFFIX, _PARTIAL = ".sass", ".partial"
_CACHE_OFF = ("0", "off", "no", "false")

_ADDRESS = re.compile(r"0x([0-9a-f]{9,16})(?![0-9a-f])")
"""Numbers of more than 32 bits: code addresses. Immediates of instructions are shorter."""
_LOWEST_ADDRESS = 1 << 32
_TARGET = re.compile(r"<\+([0-9a-f]+)>")


def open_cache(reader: str) -> SassCache | None:
    """The cache for one version of NVIDIA's reader; None if caching is switched off."""
    if os.environ.get("KEET_CODE_CACHE", "").strip().lower() in _CACHE_OFF:
        return None
    return SassCache(cache_folder() / "code", reader)


class SassCache:
    """Safe for concurrent processes: entries are created by one rename and never change."""

    def __init__(self, folder: Path, reader: str, *, limit: int = _CACHE_LIMIT) -> None:
        self._folder = folder
        self._reader = reader
        self._limit = limit

    def find(self, function: Function) -> dict[int, str] | None:
        """The text at each of the function's addresses; None if it is missing or damaged."""
        if function.identity is None:
            return None
        path = self._path(function.identity)
        try:
            lines = _unpack(path.read_bytes(), path.stem, function)
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
        key = "\0".join([_CACHE_FORMAT, self._reader, identity])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _remove_oldest(self) -> None:
        """Reduce the cache to 90 % of the limit, so that not every new entry has to clean up."""
        files = sorted(self._files())
        held = sum(size for _, size, _ in files)
        allowed = self._limit if held <= self._limit else self._limit - self._limit // 10
        for _, size, path in files:
            if held <= allowed:
                break
            held -= size
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
    if start is None:
        text = _TARGET.sub(lambda match: f"0x{function.start + int(match[1], 16):x}", text)
    lines: list[str] = text.split("\n")
    return lines if len(lines) == len(function.addresses) else None


def _relative(text: str, function: Function) -> str | None:
    """The text with the function's addresses relative to its start. None if that is not safe: if a
    large number is not one of them, or if addresses are so low that an immediate could be one."""
    start, last = function.start, function.addresses[-1]
    if start < _LOWEST_ADDRESS or "<+" in text:
        return None
    distances = [int(match[1], 16) - start for match in _ADDRESS.finditer(text)]
    if any(not 0 <= distance <= last - start for distance in distances):
        return None
    return _ADDRESS.sub(lambda match: f"<+{int(match[1], 16) - start:x}>", text)


Code = Mapping[int, str] | Absent


# --- the text of launches


class _Fetch:
    """One request to NVIDIA's reader, for one or several launches."""

    def __init__(self, report: PartialReport, missing: Mapping[int, Sequence[Function]]) -> None:
        self._missing = missing
        self._numbers = report.numbers
        questions = {
            report.numbers[number]: [pc for function in functions for pc in function.addresses]
            for number, functions in missing.items()
        }
        self._disassembly = Disassembly(report.data, questions)

    def finish(self, cache: SassCache | None) -> Mapping[int, Code]:
        """Waits for the child."""
        told = self._disassembly.texts()
        code_of = {number: told[self._numbers[number]] for number in self._missing}
        for number, functions in self._missing.items():
            texts = code_of[number]
            if cache is not None and not isinstance(texts, Absent):
                for function in functions:
                    cache.store(function, texts)
        return code_of


class Disassembler:
    """Fetches and remembers the SASS text of launches.

    Without a prefetch, the first request is for one launch and the second for all others: a command
    needs either one launch or all of them, and each child process costs half a second.
    """

    def __init__(self, file: NcuRepFile) -> None:
        self._file = file
        self._known: dict[Hashable, Code] = {}
        self._cached: dict[Hashable, dict[int, str]] = {}
        """The part of a launch's text that was in the cache, while the rest is fetched."""
        self._running: dict[Hashable, tuple[_Fetch, Mapping[Hashable, DecodedLaunch]]] = {}

    @cached_property
    def _reader(self) -> str | None:
        return reader_identity()

    @cached_property
    def _cache(self) -> SassCache | None:
        return open_cache(self._reader) if self._reader else None

    def code_of(self, launch: DecodedLaunch, others: Iterable[DecodedLaunch] = ()) -> Code:
        """`others`: launches that may be asked about next."""
        if not launch.addresses:
            return NO_COUNTS  # nothing is fetched to know it, not even for others
        key = launch.code_key
        if key not in self._known and key not in self._running:
            self.prefetch(chain([launch], others if self._known else ()))
        if key in self._running:
            self._finish(*self._running[key])
        return self._known[key]

    def prefetch(self, launches: Iterable[DecodedLaunch]) -> None:
        """Start to fetch the text of launches in the background, and return at once."""
        missing: dict[int, list[Function]] = {}
        asked: dict[Hashable, DecodedLaunch] = {}
        for launch in launches:
            key = launch.code_key
            if key in self._known or key in self._running or key in asked:
                continue
            if functions := self._look_up(launch):
                missing[launch.number] = functions
                asked[key] = launch
        if asked:
            code = [key for launch in asked.values() for key in launch.code_keys]
            fetch = _Fetch(partial_report(self._file, sorted(missing), code), missing)
            self._running |= dict.fromkeys(asked, (fetch, asked))

    def _look_up(self, launch: DecodedLaunch) -> list[Function]:
        """The functions whose text has to be fetched; empty if the cache has all, or if no text can
        be fetched."""
        key = launch.code_key
        if not launch.addresses:
            self._known[key] = NO_COUNTS
            return []
        if self._reader is None:
            self._known[key] = NOT_INSTALLED
            return []
        texts: dict[int, str] = {}
        missing = []
        for function in launch.functions:
            cached = self._cache.find(function) if self._cache else None
            if cached is None:
                missing.append(function)
            else:
                texts |= cached
        if missing:
            self._cached[key] = texts
        else:
            self._known[key] = _of_launch(launch, texts)
        return missing

    def _finish(self, fetch: _Fetch, launches: Mapping[Hashable, DecodedLaunch]) -> None:
        for key in launches:
            del self._running[key]
        code_of = fetch.finish(self._cache)
        for key, launch in launches.items():
            texts, cached = code_of[launch.number], self._cached.pop(key)
            self._known[key] = (
                texts if isinstance(texts, Absent) else _of_launch(launch, cached | dict(texts))
            )


def _of_launch(launch: DecodedLaunch, texts: Mapping[int, str]) -> Code:
    """The text of the instructions that the launch has values for."""
    return known_code({pc: texts[pc] for pc in launch.addresses if pc in texts})
