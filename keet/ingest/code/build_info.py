"""How a cubin was compiled: from ptxas's notes in it, and from its embedded PTX."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from keet.ingest.code.elf import Elf
from keet.ingest.protobuf import Malformed, decode_text

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
