"""Reads cubins: sections and symbols of the ELF file, and how ptxas compiled it."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from keet.ingest.protobuf import Malformed, decode_text

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL = struct.Struct("<QQ")
_RELA = struct.Struct("<QQq")
_NOBITS = 8
_MAX_NAMES = 64 << 20


class ElfSymbol(NamedTuple):
    name: str
    size: int


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


class Elf:
    """A parsed cubin. Raises `Malformed` if its parts contradict its recorded sizes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            header = _HEADER.unpack_from(data, 0)
            if header[0][:6] != b"\x7fELF\x02\x01":
                raise Malformed("the cubin is not a 64-bit ELF file")
            self._sections = self._read_sections(header[6], header[12], header[13])
        except (struct.error, OverflowError) as problem:
            raise Malformed(f"the cubin is cut short ({problem})") from None

    def _read_sections(self, table: int, count: int, names_index: int) -> list[_Section]:
        rows = [_SECTION.unpack_from(self._data, table + i * _SECTION.size) for i in range(count)]
        if names_index >= len(rows):
            raise Malformed("the cubin has no section names")
        names = self._bytes(rows[names_index][4], rows[names_index][5])
        read = _Strings(names)
        return [_Section(read.at(row[0]), row[1], row[4], row[5], row[6], row[7]) for row in rows]

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._data):
            raise Malformed("a section of the cubin exceeds the file")
        return self._data[offset : offset + size]

    def section(self, name: str) -> bytes | None:
        """The bytes of the first section of this name."""
        for section in self._sections:
            if section.name == name and section.kind != _NOBITS:
                return self._bytes(section.offset, section.size)
        return None

    def sections(self, prefix: str) -> list[bytes]:
        """The bytes of every section whose name starts with `prefix`."""
        chosen = [s for s in self._sections if s.name.startswith(prefix) and s.kind != _NOBITS]
        return [self._bytes(section.offset, section.size) for section in chosen]

    def symbols(self) -> list[ElfSymbol]:
        for section in self._sections:
            if section.name == ".symtab":
                strings = (
                    self._sections[section.link] if section.link < len(self._sections) else None
                )
                names = self._bytes(strings.offset, strings.size) if strings else b""
                table = self._bytes(section.offset, section.size)
                usable = len(table) - len(table) % _SYMBOL.size
                read = _Strings(names)
                rows = _SYMBOL.iter_unpack(table[:usable])
                return [ElfSymbol(read.at(row[0]), row[5]) for row in rows]
        return []

    def relocations(self, name: str) -> dict[int, tuple[int, int]]:
        """The relocations of a section: (symbol index, addend) by offset."""
        found: dict[int, tuple[int, int]] = {}
        for section in self._sections:
            if section.name not in (f".rel{name}", f".rela{name}"):
                continue
            layout = _RELA if section.name.startswith(".rela") else _REL
            table = self._bytes(section.offset, section.size)
            usable = len(table) - len(table) % layout.size
            for row in layout.iter_unpack(table[:usable]):
                found[row[0]] = (row[1] >> 32, row[2] if layout is _RELA else 0)
        return found


class _Strings:
    """A string table. Names may overlap in it, so the total that is read has its own limit."""

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._left = _MAX_NAMES

    def at(self, offset: int) -> str:
        end = self._table.find(b"\0", offset)
        raw = self._table[offset : end if end >= 0 else len(self._table)]
        self._left -= len(raw)
        if self._left < 0:
            raise Malformed(f"the cubin's names take more than {_MAX_NAMES:,} bytes")
        return decode_text(raw)


# --- how a cubin was compiled: from ptxas's notes in it, and from its embedded PTX

_NOTE = struct.Struct("<III")
_TOOL = struct.Struct("<6I")
"""A tool's note: its version, then the offsets of five strings: file, tool, version, branch,
options."""
_FLAGS_AT = 48
_NEW_LAYOUT = 8
"""From this ABI version on, the architecture is in the second byte of the ELF flags."""
_MOST_PTX = 8 << 20
_ARITHMETIC = re.compile(rb"\b(?:add|sub|mul|fma)(?:\.rn)?(\.ftz)?\.f32\b")
_DIVISION = re.compile(rb"\bdiv\.(rn|full|approx)(?:\.ftz)?\.f32\b")
_DEBUG = re.compile(rb"\.target[^\n\0]*\bdebug\b")


@runtime_checkable
class HasCubins(Protocol):
    """Launch data that includes cubins."""

    def cubins(self) -> Sequence[bytes]: ...


class BuildInfo(NamedTuple):
    """Fields are None if not recorded."""

    architecture: int
    """90 for sm_90."""
    line_information: bool
    debug: bool
    """Compiled with -G."""
    tool_version: str | None
    """Of ptxas, for example `13.0`."""
    options: str | None
    """Command line options of ptxas."""
    flushes: bool | None
    """Whether all single-precision arithmetic flushes denormals, as with -use_fast_math."""
    divisions: frozenset[str]
    """Kinds of single-precision division in the PTX: `rn`, `full`, `approx`."""


def build_info(cubin: bytes) -> BuildInfo | None:
    """None for a damaged cubin."""
    try:
        elf = Elf(cubin)
        version, options = _tool(elf.section(".note.nv.tkinfo") or b"")
        ptx = b"\n".join(elf.sections(".nv_debug_ptx_txt"))[:_MOST_PTX]
        lines = bool(elf.section(".debug_line"))
    except (Malformed, struct.error):
        return None
    return BuildInfo(
        _architecture(cubin),
        lines,
        bool(_DEBUG.search(ptx)),
        version,
        options,
        _flushes(ptx),
        frozenset(match[1].decode() for match in _DIVISION.finditer(ptx)),
    )


def _architecture(cubin: bytes) -> int:
    flags = int.from_bytes(cubin[_FLAGS_AT : _FLAGS_AT + 4], "little")
    return flags >> 8 & 0xFF if cubin[8] >= _NEW_LAYOUT else flags & 0xFF


def _flushes(ptx: bytes) -> bool | None:
    """None if there is no arithmetic, or if inline assembly mixes both kinds."""
    kinds = {match[1] is not None for match in _ARITHMETIC.finditer(ptx)}
    return kinds.pop() if len(kinds) == 1 else None


def _tool(notes: bytes) -> tuple[str | None, str | None]:
    """Version and options of ptxas; a linked cubin has notes of several tools."""
    at = 0
    while at + _NOTE.size <= len(notes):
        name, size, _ = _NOTE.unpack_from(notes, at)
        start = at + _NOTE.size + -(-name // 4) * 4
        strings = _strings(notes[start : start + size])
        if len(strings) == 5 and strings[1] == "ptxas":
            release = re.search(r"release (\d+\.\d+)", strings[2])
            return (release[1] if release else None), strings[4].strip()
        at = start + -(-size // 4) * 4
    return None, None


def _strings(note: bytes) -> list[str]:
    if len(note) < _TOOL.size:
        return []
    texts = note[_TOOL.size :]
    return [_text_at(texts, start) for start in _TOOL.unpack_from(note, 0)[1:]]


def _text_at(texts: bytes, start: int) -> str:
    end = texts.find(b"\0", start)
    return decode_text(texts[start : end if end >= 0 else len(texts)])
