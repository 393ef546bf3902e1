"""The data that all launches of a report share: bytes, metric names, session, code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path

from keet.profile import Device, KernelName
from keet.profile.launch import Dim3
from keet.report.code_object import CodeObject
from keet.report.input.report_bytes import ReportBytes
from keet.report.ncu_rep.completeness import release_of
from keet.report.ncu_rep.container import ContainerBlock, ContainerEntry, EntryKind
from keet.report.ncu_rep.metrics import NameTable
from keet.report.ncu_rep.session import SessionInfo, read_devices, read_session
from keet.report.protobuf import Malformed, ProtoMessage, Run, varint

_RESULTS = frozenset((EntryKind.KERNEL, EntryKind.RANGE, EntryKind.CMDLIST, EntryKind.GRAPH))
_MANY, _LEAST_BYTES = 100_000, 1_000
"""A launch has 13 kB or more. A file with more than `_MANY` launches that are smaller than
`_LEAST_BYTES` on average is refused: listing them would take more memory than the file's size."""

_REFERENCE_KEY = 1 << 3  # field 1, a varint
_NUMBER_BYTES = 11  # a key, and 64 bits in seven a byte

CodeKey = tuple[int, int]
"""Process id and reference: two processes may use the same reference for different code."""


class NcuRepFile:
    """A report file: the positions of its launches and what they share, but no launch itself."""

    def __init__(self, path: Path, source: ReportBytes, blocks: list[ContainerBlock]) -> None:
        self.path = path
        self.source = source
        self.blocks = blocks
        self.results = [e for block in blocks for e in block.entries if e.kind in _RESULTS]
        self.owners = [b for b in blocks for e in b.entries if e.kind in _RESULTS]
        """The block of each result."""
        self.kernel_names: dict[tuple[bytes, ...], KernelName] = {}
        self.shapes: dict[bytes, Dim3] = {}
        """Names and shapes by their bytes: many launches have the same."""
        self._code: dict[CodeKey, CodeObject] = {}
        self._processes: dict[bytes | None, tuple[int, str | None]] = {}

    def check_count(self) -> None:
        count = len(self.results)
        if count > _MANY and self.source.size < count * _LEAST_BYTES:
            raise Malformed(f"{count:,} launches in {self.source.size:,} bytes")

    def message(self, entry: ContainerEntry, run: Run | None = None) -> tuple[ProtoMessage, bytes]:
        """A parsed entry, and the bytes that its spans refer to."""
        data, start = self.source.piece(entry.start, entry.stop)
        return ProtoMessage(data, start, start + entry.stop - entry.start, run=run), data

    @cached_property
    def names(self) -> NameTable:
        """The metric names of all blocks. Results refer to them by number."""
        return _name_table(tuple(raw for block in self.blocks for raw in block.strings))

    @cached_property
    def session(self) -> SessionInfo:
        return read_session(self.session_pieces)

    @cached_property
    def has_grid_in_threads(self) -> bool:
        """Up to ncu 2020.2."""
        release = release_of(self.session.ncu_version)
        return release is not None and release < (2020, 3)

    @cached_property
    def session_pieces(self) -> list[ProtoMessage]:
        return [ProtoMessage(raw) for block in self.blocks for raw in block.sessions]

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs of the session: hundreds of attributes, which few reports need."""
        return read_devices(self.session_pieces)

    def process_id(self, block: ContainerBlock) -> int:
        return self._process(block)[0]

    def process_name(self, block: ContainerBlock) -> str | None:
        return self._process(block)[1]

    def _process(self, block: ContainerBlock) -> tuple[int, str | None]:
        raw = block.process
        if raw not in self._processes:
            message = ProtoMessage(raw or b"")
            self._processes[raw] = (message.number(1) or 0, message.text(3))
        return self._processes[raw]

    @cached_property
    def code_entries(self) -> dict[CodeKey, list[ContainerEntry]]:
        """Entries by the code that they belong to; ncu splits one code over several entries."""
        by_key: dict[CodeKey, list[ContainerEntry]] = {}
        for block, entry in self._sources():
            key = (self.process_id(block), self._reference(entry))
            by_key.setdefault(key, []).append(entry)
        return by_key

    def _sources(self) -> Iterator[tuple[ContainerBlock, ContainerEntry]]:
        for block in self.blocks:
            for entry in block.entries:
                if entry.kind is EntryKind.SOURCE:
                    yield block, entry

    def _reference(self, entry: ContainerEntry) -> int:
        """The number by which launches refer to this code. ncu writes it first, so the code itself
        need not be read."""
        data, start = self.source.piece(entry.start, min(entry.stop, entry.start + _NUMBER_BYTES))
        if data[start] == _REFERENCE_KEY and entry.stop - entry.start > _NUMBER_BYTES:
            return varint(data, start + 1)[0]
        return self.message(entry)[0].number(1) or 0

    def code(self, keys: Iterable[CodeKey]) -> list[CodeObject]:
        """The code objects of these keys that the report has. Read once: launches share them."""
        return [self._code_object(key) for key in keys if key in self.code_entries]

    def _code_object(self, key: CodeKey) -> CodeObject:
        if key not in self._code:
            code = CodeObject()
            for entry in self.code_entries[key]:
                code.add(self.message(entry)[0])
            self._code[key] = code
        return self._code[key]


@lru_cache(maxsize=8)
def _name_table(tables: tuple[bytes, ...]) -> NameTable:
    """Reports of one ncu command have the same names, so a batch parses them once."""
    return NameTable([name for table in tables for name in ProtoMessage(table).texts(1)])
