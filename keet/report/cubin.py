"""Reads cubins: sections and symbols of the ELF file, and how ptxas compiled it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from keet.report.protobuf import Malformed, decode_text

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
        names = _Strings(self._bytes(*rows[names_index][4:6]))
        return [_Section(names.at(row[0]), row[1], *row[4:8]) for row in rows]

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._data):
            raise Malformed("a section of the cubin exceeds the file")
        return self._data[offset : offset + size]

    def section(self, name: str) -> bytes | None:
        """The bytes of the first section of this name."""
        exact = (s for s in self._sections if s.name == name and s.kind != _NOBITS)
        first = next(exact, None)
        return None if first is None else self._bytes(first.offset, first.size)

    def sections(self, prefix: str) -> list[bytes]:
        """The bytes of every section whose name starts with `prefix`."""
        chosen = [s for s in self._sections if s.name.startswith(prefix) and s.kind != _NOBITS]
        return [self._bytes(section.offset, section.size) for section in chosen]

    def symbols(self) -> list[ElfSymbol]:
        tables = (section for section in self._sections if section.name == ".symtab")
        if (section := next(tables, None)) is None:
            return []
        linked = self._sections[section.link : section.link + 1]
        names = _Strings(b"".join(self._bytes(each.offset, each.size) for each in linked))
        return [ElfSymbol(names.at(row[0]), row[5]) for row in self._rows(section, _SYMBOL)]

    def _rows(self, section: _Section, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """Without a last row that is cut short."""
        table = self._bytes(section.offset, section.size)
        return layout.iter_unpack(table[: len(table) - len(table) % layout.size])

    def relocations(self, name: str) -> dict[int, tuple[int, int]]:
        """The relocations of a section: (symbol index, addend) by offset."""
        layouts = {f".rel{name}": _REL, f".rela{name}": _RELA}
        return {
            offset: (info >> 32, addend[0] if addend else 0)
            for section in self._sections
            if section.name in layouts
            for offset, info, *addend in self._rows(section, layouts[section.name])
        }


def _terminated(table: bytes, start: int) -> bytes:
    """A C string; the last one may lack its zero."""
    end = table.find(b"\0", start)
    return table[start : end if end >= 0 else len(table)]


class _Strings:
    """A string table. Names may overlap in it, so the total that is read has its own limit."""

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._left = _MAX_NAMES

    def at(self, offset: int) -> str:
        raw = _terminated(self._table, offset)
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
        note = notes[start : start + size]
        places = _TOOL.unpack_from(note)[1:] if len(note) >= _TOOL.size else ()
        strings = [decode_text(_terminated(note[_TOOL.size :], place)) for place in places]
        if strings[1:2] == ["ptxas"]:
            release = re.search(r"release (\d+\.\d+)", strings[2])
            return (release[1] if release else None), strings[4].strip()
        at = start + -(-size // 4) * 4
    return None, None
