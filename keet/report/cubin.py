"""Cubins and what they say about the code of launches, as a report stores it.

Sections and symbols of the ELF file, and how ptxas compiled it; the lines of instruction addresses,
from the DWARF line programs; embedded sources; the functions that ran.

ptxas writes one sequence of rows per function. Its start is a relocation to the function's symbol
(the report says where the driver loaded each), or, in reports before 2021, the address itself.

ncu has values for every instruction of a kernel and of the functions that it calls, executed or
not, except for the final branch to itself and the padding after it; some reports have samples even
there. SASS text is fetched for whole functions, so that it covers all of these.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from keet.profile import Location
from keet.report.input.files import SizedCache
from keet.report.protobuf import Malformed, ProtoMessage, decode_text

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


# --- lines of instructions

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS, _DEFINE_FILE = 1, 2, 3
_SUPPORTED = (2, 3, 4)
_MAX_ROWS = 4_000_000
_MAX_LINE = 1 << 31
_MAX_PATHS = 16 << 20
"""Limits on a line program: beyond them it is damaged or malicious, and its lines are dropped."""
_MAX_KNOWN = 100_000
"""Addresses of a cubin whose lines are cached, about 100 bytes each."""


@dataclass(slots=True, eq=False)
class LineSequence:
    """The rows of one function: the start address and the source line of each."""

    symbol: int | None
    """Index of the symbol that addresses are relative to; `None` if they are absolute."""
    starts: list[int] = field(default_factory=list)
    locations: list[Location | None] = field(default_factory=list)
    """`None` marks the end: addresses after it have no line."""


class CodePlace(NamedTuple):
    """The address at which the driver loaded a function, as recorded in the report."""

    symbol: str
    address: int


class _Function(NamedTuple):
    """A range of code and its rows, whose addresses are relative to `base`."""

    start: int
    stop: int
    base: int
    sequence: LineSequence


_NO_FUNCTION = _Function(0, 0, 0, LineSequence(symbol=None))


class CubinLines:
    """The lines of a cubin's functions, relative to the start of each function."""

    def __init__(self, cubin: bytes) -> None:
        elf = Elf(cubin)
        section = elf.section(".debug_line") or b""
        sequences = read_sequences(section, elf.relocations(".debug_line"))
        symbols = elf.symbols()
        named = [s for s in sequences if s.symbol is not None and s.symbol < len(symbols)]
        self.by_name = {symbols[s.symbol or 0].name: s for s in named}
        self.sizes = {symbol.name: symbol.size for symbol in symbols if symbol.name in self.by_name}
        self.absolute = [s for s in sequences if s.symbol is None]
        self.rows = sum(len(sequence.starts) for sequence in sequences)


_cubins: SizedCache[CubinLines] = SizedCache(200_000)
"""Limit in rows of about 50 bytes: those of about a hundred kernels."""


def cubin_lines(cubin: bytes, digest: str) -> CubinLines:
    """The lines of a cubin; `digest` is its hash."""
    known = _cubins.get(digest)
    if known is None:
        known = CubinLines(cubin)
        _cubins.put(digest, known, known.rows)
    return known


class LineTable:
    """The lines of a cubin's functions, by the addresses at which the driver loaded them."""

    def __init__(self, lines: CubinLines, places: Iterable[CodePlace]) -> None:
        placed = [
            _Function(address, address + lines.sizes[symbol], address, lines.by_name[symbol])
            for symbol, address in places
            if symbol in lines.by_name
        ]
        absolute = [_Function(s.starts[0], s.starts[-1], 0, s) for s in lines.absolute]
        self.functions = sorted([*absolute, *placed], key=lambda function: function.start)
        self._starts = [function.start for function in self.functions]
        self._known: dict[int, Location] = {}

    def locate(self, addresses: Collection[int]) -> dict[int, Location]:
        """The line of each address that has one. Cached: launches of a kernel, and the metrics of
        each launch, have the same addresses."""
        known = self._known
        unknown = [address for address in addresses if address not in known]
        if unknown:
            if len(known) > _MAX_KNOWN:
                known.clear()
                unknown = list(addresses)
            known.update(self._looked_up(unknown))
        return {address: known[address] for address in addresses if address in known}

    def _looked_up(self, addresses: Iterable[int]) -> dict[int, Location]:
        locations: dict[int, Location] = {}
        start = stop = base = 0
        for address in addresses:
            if not start <= address < stop:  # neighbours are of one function
                start, stop, base, sequence = self._function_at(address)
                rows, lines = sequence.starts, sequence.locations
            row = bisect_right(rows, address - base)
            where = lines[row - 1] if row else None
            if where is not None:
                locations[address] = where
        return locations

    def _function_at(self, address: int) -> _Function:
        """The last function that starts at or before the address, cut at the start of the next
        one. Without rows if there is none."""
        index = bisect_right(self._starts, address)
        start, stop, base, sequence = self.functions[index - 1] if index else _NO_FUNCTION
        if address >= stop:
            return _NO_FUNCTION
        following = self._starts[index] if index < len(self._starts) else stop
        return _Function(start, min(stop, following), base, sequence)


_tables: SizedCache[LineTable] = SizedCache(200_000)
"""Limit in rows, as above."""


def line_table(cubin: bytes, digest: str, places: Iterable[CodePlace]) -> LineTable:
    """The line table of a cubin whose functions were loaded at `places`; `digest` is its hash."""
    key = digest, tuple(places)
    known = _tables.get(key)
    if known is None:
        lines = cubin_lines(cubin, digest)
        known = _tables.put(key, LineTable(lines, key[1]), lines.rows)
    return known


def read_sequences(
    section: bytes, relocations: Mapping[int, tuple[int, int]]
) -> list[LineSequence]:
    """Run every line program of a `.debug_line` section."""
    sequences: list[LineSequence] = []
    at = rows = 0
    while at + 4 <= len(section):
        (length,) = struct.unpack_from("<I", section, at)
        end = at + 4 + length
        if end > len(section):
            raise Malformed("a line program exceeds its section")
        program = _Program(section, at + 4, end, relocations, _MAX_ROWS - rows)
        sequences += program.run()
        rows = _MAX_ROWS - program.room
        at = end
    return sequences


class _Locations(dict[tuple[int, int], Location | None]):
    """Locations by file number and line, cached: a line has many rows."""

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __missing__(self, row: tuple[int, int]) -> Location | None:
        file, line = row
        # In DWARF, line 0 means that an instruction belongs to no source line.
        known = 0 < line < _MAX_LINE and 0 < file < len(self._files)
        location = self[row] = Location(self._files[file], line) if known else None
        return location


class _Program:
    """One line program: its header, and the state machine that produces the rows."""

    def __init__(
        self, data: bytes, at: int, end: int, relocations: Mapping[int, tuple[int, int]], room: int
    ) -> None:
        self.data, self.at, self.end, self.relocations = data, at, end, relocations
        self.room = room
        """Rows that may still be added."""
        self.files: list[str] = [""]
        self.locations = _Locations(self.files)
        self._read_header()

    def _read_header(self) -> None:
        version, header_length = struct.unpack("<HI", self._take(6))
        if version not in _SUPPORTED:
            raise Malformed(f"a line program of version {version}")
        body = self.at + header_length
        self.min_length = self._byte()
        if version >= 4:
            self._byte()  # operations per instruction: only for VLIW
        self._byte()  # default_is_stmt
        self.line_base = int.from_bytes(bytes([self._byte()]), "little", signed=True)
        self.line_range = self._byte()
        self.opcode_base = self._byte()
        self.operands = [self._byte() for _ in range(self.opcode_base - 1)]
        if self.line_range == 0:
            raise Malformed("a line program with a line range of zero")
        self.moves = _moves(self.opcode_base, self.min_length, self.line_base, self.line_range)
        self._read_files()
        self.at = body

    def _read_files(self) -> None:
        folders = [""]
        room = _MAX_PATHS
        while folder := self._string():
            folders.append(folder)
        while name := self._string():
            number = self._uleb()
            self._uleb()  # time
            self._uleb()  # size
            parent = folders[number] if number < len(folders) else ""
            room -= len(parent) + len(name)
            if room < 0:
                raise Malformed("the paths of a line program are too long")
            self.files.append(_join(parent, name))

    def run(self) -> list[LineSequence]:
        sequences: list[LineSequence] = []
        while self.at < self.end:
            sequence = self._run_sequence()
            if len(sequence.starts) > 1:  # a row and the end of it
                sequences.append(sequence)
        return sequences

    def _run_sequence(self) -> LineSequence:
        sequence = LineSequence(symbol=None)
        self.address, self.file, self.line = 0, 1, 1
        while self.at < self.end:
            self._run_rows(sequence)
            if self.at < self.end and self._run_rare(sequence):
                break
        return sequence

    def _run_rows(self, sequence: LineSequence) -> None:
        """Run opcodes that produce rows, up to the first of another kind.

        Nearly all of a program's thousands of opcodes are such, so the state is in local variables.
        Of two rows at one address the first counts, as on Nsight Compute's source page.
        """
        data, at, end = self.data, self.at, self.end
        base, moves, step = self.opcode_base, self.moves, self.min_length
        address, line, file = self.address, self.line, self.file
        starts: list[int] = sequence.starts
        lines: list[tuple[int, int]] = []
        last = starts[-1] if starts else None
        while at < end:
            opcode = data[at]
            if opcode >= base or opcode == _COPY:
                if opcode >= base:
                    moved, added = moves[opcode - base]
                    address += moved
                    line += added
                if address != last:
                    starts.append(address)
                    lines.append((file, line))
                    last = address
                at += 1
            elif opcode == _ADVANCE_LINE:
                value, bits, at = _leb(data, at + 1, end)
                line += value - (1 << bits) if value >> (bits - 1) else value
            elif opcode == _ADVANCE_PC:
                value, _, at = _leb(data, at + 1, end)
                address += value * step
            elif opcode == _SET_FILE:
                file, _, at = _leb(data, at + 1, end)
            elif opcode == 0 and at + 2 < end and _is_unknown(data[at + 1], data[at + 2]):
                at += 2 + data[at + 1]
            else:
                break
        self.at, self.address, self.line, self.file = at, address, line, file
        sequence.locations += map(self.locations.__getitem__, lines)
        self.room -= len(lines)
        if self.room < 0:
            raise Malformed(f"more than {_MAX_ROWS:,} rows of line numbers")

    def _run_rare(self, sequence: LineSequence) -> bool:
        """Run an opcode that produces no row; true at the end of a sequence."""
        opcode = self._byte()
        if opcode == 0:
            return self._extended(sequence)
        if opcode == _CONST_ADD_PC:
            self.address += (255 - self.opcode_base) // self.line_range * self.min_length
        elif opcode == _FIXED_ADVANCE_PC:
            self.address += int.from_bytes(self._take(2), "little")
        else:
            for _ in range(self.operands[opcode - 1]):
                self._uleb()
        return False

    def _extended(self, sequence: LineSequence) -> bool:
        """Run an extended opcode; true at the end of a sequence. Unknown ones are skipped."""
        length = self._uleb()
        after = self.at + length
        opcode = self._byte() if length else 0
        if opcode == _SET_ADDRESS:
            self._set_address(sequence, length - 1)
        elif opcode == _END_SEQUENCE:
            sequence.starts.append(self.address)
            sequence.locations.append(None)
        self.at = after
        return opcode == _END_SEQUENCE

    def _set_address(self, sequence: LineSequence, size: int) -> None:
        relocation = self.relocations.get(self.at)
        value = int.from_bytes(self._take(size), "little")
        if relocation is not None and value == 0:
            sequence.symbol, self.address = relocation
        else:
            self.address = value

    def _take(self, length: int) -> bytes:
        if length < 0 or self.at + length > self.end:
            raise Malformed("a line program is cut short")
        taken = self.data[self.at : self.at + length]
        self.at += length
        return taken

    def _byte(self) -> int:
        at = self.at
        if at >= self.end:
            raise Malformed("a line program is cut short")
        self.at = at + 1
        return self.data[at]

    def _string(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise Malformed("a file name of a line program is cut short")
        text = decode_text(self.data[self.at : end])
        self.at = end + 1
        return text

    def _uleb(self) -> int:
        value, _, self.at = _leb(self.data, self.at, self.end)
        return value


@lru_cache(maxsize=8)
def _moves(opcode_base: int, step: int, line_base: int, line_range: int) -> list[tuple[int, int]]:
    """The address and line increments of each opcode from `opcode_base` on."""
    pairs = (divmod(number, line_range) for number in range(256 - opcode_base))
    return [(moved * step, line_base + added) for moved, added in pairs]


def _is_unknown(length: int, opcode: int) -> bool:
    """A short extended opcode that keet does not need: NVIDIA's own ones describe inlining."""
    return 0 < length < 0x80 and opcode > _DEFINE_FILE


def _leb(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """An LEB128 number (7 bits per byte), its number of bits, and the position after it."""
    value = bits = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << bits
        bits += 7
        if byte < 0x80:
            return value, bits, at
        if bits > 63:
            raise Malformed("a number of a line program is longer than 64 bits")
    raise Malformed("a line program is cut short")


def _join(folder: str, name: str) -> str:
    """The normalised path: `/src/./layer/x.cu` is `/src/layer/x.cu`."""
    if not folder or name.startswith("/") or name[1:3] in (":\\", ":/"):
        return posixpath.normpath(name) if "\\" not in name else name
    if "\\" in folder:
        return f"{folder}\\{name}"
    return posixpath.normpath(posixpath.join(folder, name))


_MAX_FUNCTION = 4 << 20
"""Bytes: a larger size is treated as damage. The largest function seen has 0.4 MB."""


class FunctionExtent(NamedTuple):
    """Addresses of a function in the profiled process. `stop` is exclusive."""

    symbol: str
    start: int
    stop: int


class CodeObject:
    """A cubin with the sources embedded for it. ncu may split one over several entries."""

    def __init__(self) -> None:
        self.cubin: bytes | None = None
        self.places: list[CodePlace] = []
        self.files: dict[str, str | None] = {}

    def add(self, message: ProtoMessage) -> None:
        self.cubin = message.raw(4) or self.cubin
        relocations = message.message(9)
        for function in relocations.messages(1) if relocations else ():
            self.places.append(CodePlace(function.text(1) or "", function.number(2) or 0))
        files = message.message(8)
        for file in files.messages(1) if files else ():
            self.files[file.text(1) or ""] = file.lines_of_text(2)

    @cached_property
    def lines(self) -> LineTable | None:
        """None if the cubin is missing or damaged: the rest of the report stays readable."""
        try:
            if not self.cubin or not self.digest:
                return None
            return line_table(self.cubin, self.digest, self.places)
        except Malformed:
            return None

    @cached_property
    def is_for_debugging(self) -> bool:
        """Whether ptxas was told to make code for a debugger (-g, from `nvcc -G`): only then does
        it write where variables are. Line information alone (-lineinfo) has no such section, and
        `.debug_info` may be from another compiler."""
        try:
            return bool(self.cubin and Elf(self.cubin).section(".nv_debug_info_reg_sass"))
        except Malformed:
            return False

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of the cubin."""
        return hashlib.sha256(self.cubin).hexdigest() if self.cubin else None

    @cached_property
    def extents(self) -> tuple[FunctionExtent, ...]:
        """The functions whose address and size are known."""
        try:
            symbols = Elf(self.cubin).symbols() if self.cubin and self.places else []
        except Malformed:
            return ()
        sizes = {symbol.name: symbol.size for symbol in symbols}
        return tuple(
            FunctionExtent(symbol, start, start + sizes[symbol])
            for symbol, start in dict.fromkeys(self.places)
            if 0 < sizes.get(symbol, 0) <= _MAX_FUNCTION
        )


INSTRUCTION = 16
"""Bytes of an instruction, from Volta on."""


class Function(NamedTuple):
    """Code whose SASS text is fetched and cached as a unit."""

    start: int
    addresses: Sequence[int]
    """Of all instructions, ascending."""
    identity: str | None
    """Equal for the same code in any report; None if the report has no cubin."""
    movable: bool
    """Whether other reports may have the same code at other addresses."""


def functions_of(code: Sequence[CodeObject], addresses: Sequence[int]) -> tuple[Function, ...]:
    """The functions that contain the addresses, which ascend. Addresses outside of all functions
    with a known place are put into one more function (reports before 2021 have no places)."""
    functions: list[Function] = []
    covered: set[int] = set()
    for each in code:
        for extent in each.extents:
            here = addresses[
                bisect_left(addresses, extent.start) : bisect_left(addresses, extent.stop)
            ]
            if here and not any((pc - extent.start) % INSTRUCTION for pc in here):
                identity = f"{each.digest} {extent.symbol} {extent.stop - extent.start}"
                inside = range(extent.start, extent.stop, INSTRUCTION)
                functions.append(Function(extent.start, inside, identity, movable=True))
                covered.update(here)
    rest = [pc for pc in addresses if pc not in covered] if covered else addresses
    if rest:
        digests = [each.digest for each in code if each.digest]
        listed = hashlib.sha256(repr(list(rest)).encode()).hexdigest()
        is_known = len(digests) == len(code) > 0
        whole = " ".join([*digests, listed]) if is_known else None
        functions.append(Function(rest[0], rest, whole, movable=False))
    return tuple(functions)
