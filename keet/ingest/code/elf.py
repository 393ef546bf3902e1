"""Reads the sections, symbols and relocations of a cubin (64-bit little-endian ELF only)."""

from __future__ import annotations

import struct
from typing import NamedTuple

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
