"""keet's own reader of `.ncu-rep`: what is in the file, with no native code in the way.

It gives everything but the SASS text, for which NVIDIA's reader is asked in a process of its own
(`disassembler.py`). A test holds the two readers equal, value by value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keet.errors import DamagedReport
from keet.ingest.code import CodeObject
from keet.ingest.completeness import cut_notes, release_of
from keet.ingest.container import PROCESS, SESSION, STRINGS, Block, Entry, EntryKind, damaged
from keet.ingest.functions import Function, functions_of
from keet.ingest.lines import LineTable
from keet.ingest.metrics import MetricTable, NameTable
from keet.ingest.nvtx import read_nvtx
from keet.ingest.rules import read_markers, read_rules
from keet.ingest.session import Session, device_from_metrics, read_devices, read_session
from keet.ingest.wire import Malformed, Message
from keet.profile import (
    Absent,
    Device,
    Dim3,
    Instances,
    KernelName,
    Launch,
    Location,
    MetricId,
    NvtxRange,
    RawMetric,
    RuleResult,
    SourceMarker,
    Workload,
)

if TYPE_CHECKING:
    from keet.ingest.disassembler import Disassembler


class _Fields(NamedTuple):
    """Field numbers of the four kinds of result, which hold the same things in other places."""

    metrics: int
    sections: int
    rules: int
    nvtx: int
    context: int
    sources: int
    stream: int | None = None


_FIELDS = {
    EntryKind.KERNEL: _Fields(13, 17, 19, 21, 22, sources=15, stream=23),
    EntryKind.RANGE: _Fields(4, 7, 20, 10, 11, sources=15),
    EntryKind.CMDLIST: _Fields(4, 7, 21, 10, 11, sources=17, stream=12),
    EntryKind.GRAPH: _Fields(4, 7, 22, 10, 11, sources=17, stream=12),
}
_WORKLOADS = {
    EntryKind.KERNEL: Workload.KERNEL,
    EntryKind.RANGE: Workload.RANGE,
    EntryKind.CMDLIST: Workload.CMDLIST,
    EntryKind.GRAPH: Workload.GRAPH,
}

_MAX_LAUNCHES = 100_000
"""Ten times the largest report that has been seen."""

_EXECUTED, _SAMPLES = "inst_executed", "smsp__pcsamp_sample_count"
_SAMPLES_BY_REASON = "smsp__pcsamp_warps_issue_stalled_"
"""Metrics whose instances are instruction addresses."""


class Report:
    """The file behind a profile: its bytes, and what several launches share."""

    def __init__(self, path: Path, data: bytes, blocks: list[Block]) -> None:
        self.path = path
        self.data = data
        self.blocks = blocks
        self.results: list[FileLaunch] = []

    @cached_property
    def names(self) -> NameTable:
        """The names of metrics, which results refer to by number, over all blocks."""
        return _name_table(
            tuple(raw for block in self.blocks for raw in block.header.raws(STRINGS))
        )

    @cached_property
    def disassembler(self) -> Disassembler:
        from keet.ingest.disassembler import Disassembler

        return Disassembler(self.data, self.results)

    def prefetch_code(self, launches: Iterable[int]) -> None:
        """Start to fetch the SASS text of launches, by their numbers, in the background."""
        self.disassembler.prefetch([self.results[number] for number in launches])

    @cached_property
    def session(self) -> Session:
        return read_session(self._session_pieces)

    @cached_property
    def _session_pieces(self) -> list[Message]:
        return [p for block in self.blocks for p in block.header.messages(SESSION)]

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs of the session: hundreds of attributes, which few reports need."""
        return read_devices(self._session_pieces)

    @cached_property
    def sources(self) -> Mapping[tuple[int, int], CodeObject]:
        """Code by process and reference: two processes use the same reference for their own."""
        found: dict[tuple[int, int], CodeObject] = {}
        for block in self.blocks:
            process = block.header.message(PROCESS)
            pid = (process.number(1) if process else None) or 0
            for entry in block.entries:
                if entry.kind is EntryKind.SOURCE:
                    message = Message(self.data, entry.start, entry.stop)
                    key = (pid, message.number(1) or 0)
                    found.setdefault(key, CodeObject()).add(message)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know: a newer ncu may store what keet can't read."""
        kinds = [entry.kind for block in self.blocks for entry in block.entries]
        unknown = kinds.count(EntryKind.UNKNOWN)
        notes = []
        if unknown:
            notes.append(f"{unknown} results of a kind that this keet does not know are left out")
        notes += cut_notes(self.blocks, self.session.ncu_version)
        return tuple(notes)

    def launches(self) -> tuple[Launch, ...]:
        """Raises `Malformed` where a result can't be taken apart."""
        results = [
            (block, entry)
            for block in self.blocks
            for entry in block.entries
            if entry.kind in _FIELDS
        ]
        if len(results) > _MAX_LAUNCHES:
            raise Malformed(
                f"{len(results):,} launches; keet reads {_MAX_LAUNCHES:,} of one report"
            )
        return tuple(
            self._launch(number, block, entry) for number, (block, entry) in enumerate(results)
        )

    def _grid(self, message: Message, data: FileLaunch) -> Dim3 | None:
        """The grid in blocks; up to ncu 2020.2 the file has it in threads."""
        grid, block = _dim3(message.message(10)), _dim3(message.message(11))
        if grid is None or block is None or not all(block):
            return grid
        release = release_of(self.session.ncu_version)
        if release is not None and release < (2020, 3):
            blocks = tuple(size // step for size, step in zip(grid, block))
            count = data.metric("launch__grid_size")
            if count is None or count.value == math.prod(blocks):
                return (blocks[0], blocks[1], blocks[2])
        return grid

    def _launch(self, number: int, block: Block, entry: Entry) -> Launch:
        message = Message(self.data, entry.start, entry.stop)
        where = _FIELDS[entry.kind]
        process = block.header.message(PROCESS)
        data = FileLaunch(self, number, message, where, (process and process.number(1)) or 0)
        self.results.append(data)
        is_kernel = entry.kind is EntryKind.KERNEL
        return Launch(
            number=number,
            name=_kernel_name(message) if is_kernel else _workload_name(message, entry.kind),
            workload=_WORKLOADS[entry.kind],
            grid=self._grid(message, data) if is_kernel else None,
            block=_dim3(message.message(11)) if is_kernel else None,
            data=data,
            process=process.text(3) if process else None,
            stream=message.number(where.stream) if where.stream else None,
            context=message.number(where.context),
        )


@lru_cache(maxsize=8)
def _name_table(tables: tuple[bytes, ...]) -> NameTable:
    """Reports that were made in one way name the same metrics, so a batch reads them once."""
    return NameTable([name for table in tables for name in Message(table).texts(1)])


def _kernel_name(message: Message) -> KernelName:
    mangled, function, demangled = (message.text(number) or "" for number in (5, 6, 7))
    if not (mangled or function or demangled):
        raise Malformed("a kernel without a name")
    # C and Triton kernels have nothing to demangle.
    return KernelName(function=function, demangled=demangled or mangled, mangled=mangled)


def _workload_name(message: Message, kind: EntryKind) -> KernelName:
    shown = message.text(18) if kind is EntryKind.CMDLIST else None
    name = shown or _WORKLOADS[kind].value
    return KernelName(function=name, demangled=name, mangled=name)


def _dim3(message: Message | None) -> Dim3 | None:
    if message is None:
        return None
    x, y, z = (message.number(axis) for axis in (1, 2, 3))
    return (x or 0, y or 0, z or 0)


class FileLaunch:
    """One result of a report, decoded as far as it was asked for."""

    def __init__(
        self, report: Report, number: int, message: Message, where: _Fields, pid: int
    ) -> None:
        self.number = number
        self._report = report
        self._message = message
        self._where = where
        self._pid = pid

    @cached_property
    def _metrics(self) -> MetricTable:
        spans = self._message.spans(self._where.metrics)
        with self._damage_named():
            return MetricTable(self._report.data, spans, self._report.names)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except Malformed as problem:
            raise self._damaged(problem) from None

    def _damaged(self, problem: Malformed) -> DamagedReport:
        return damaged(self._report.path, f"launch {self.number} can't be read ({problem})")

    def device(self) -> Device:
        found = device_from_metrics(self.metric)
        if found.name is not None:
            return found
        with self._damage_named():
            recorded = self._report.devices
        # Before 2020.2 attributes were kept in the session alone.
        return recorded[0] if len(recorded) == 1 else found

    def metric_names(self) -> tuple[str, ...]:
        return self._metrics.names()

    def metric(self, name: str) -> RawMetric | None:
        # Asked for hundreds of times a launch: the context manager would be most of the cost.
        try:
            return self._metrics.get(name)
        except Malformed as problem:
            raise self._damaged(problem) from None

    def instances(self, name: str) -> Instances | None:
        with self._damage_named():
            return self._metrics.instances(name)

    def sections(self) -> tuple[str, ...]:
        with self._damage_named():
            sections = self._message.messages(self._where.sections)
            return tuple(section.text(1) or "" for section in sections)

    def rules(self) -> tuple[RuleResult, ...]:
        with self._damage_named():
            return read_rules(self._message.messages(self._where.rules))

    def markers(self) -> tuple[SourceMarker, ...]:
        with self._damage_named():
            return read_markers(self._message.messages(self._where.rules))

    def nvtx(self) -> tuple[NvtxRange, ...]:
        with self._damage_named():
            return read_nvtx(self._message.message(self._where.nvtx))

    @cached_property
    def _code(self) -> list[CodeObject]:
        """The code that ran: one cubin for a kernel, several for a range or graph."""
        where = self._where.sources
        with self._damage_named():
            if self._message.spans(where):
                references = [source.number(1) or 0 for source in self._message.messages(where)]
            else:
                references = self._message.numbers(where)
            sources = self._report.sources
        return [
            sources[self._pid, reference]
            for reference in references
            if (self._pid, reference) in sources
        ]

    def cubins(self) -> list[bytes]:
        return [code.cubin for code in self._code if code.cubin]

    @cached_property
    def _embedded(self) -> Mapping[str, str | None]:
        return {path: text for code in self._code for path, text in code.files.items()}

    def source_files(self) -> Mapping[str, str | None]:
        seen = {location.file: None for location in self.locations().values()}
        return {**seen, **self._embedded}

    def source_text(self, path: str) -> str | None:
        return self._embedded.get(path)

    def has_source_text(self) -> bool:
        return any(self._embedded.values())

    def addresses(self) -> tuple[int, ...]:
        """Every instruction address that the launch has numbers for."""
        return self._addresses

    @cached_property
    def _addresses(self) -> tuple[int, ...]:
        names = [_EXECUTED, _SAMPLES]
        if _SAMPLES not in self._metrics:  # before ncu 2021.2 there was only the split by reason
            names += [name for name in self._metrics.names() if name.startswith(_SAMPLES_BY_REASON)]
        found: set[MetricId] = set()
        for name in names:
            instances = self.instances(name)
            if instances is not None and instances.ids is not None:
                found.update(instances.ids)
        return tuple(sorted([part for part in found if isinstance(part, int)]))

    def locations(self) -> Mapping[int, Location]:
        return self._locations

    @cached_property
    def _locations(self) -> Mapping[int, Location]:
        return self.locate(self.addresses()) if self._line_tables else {}

    @cached_property
    def _line_tables(self) -> list[LineTable]:
        tables = [code.lines for code in self._code]
        return [table for table in tables if table is not None and table.functions]

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]:
        found: dict[int, Location] = {}
        for table in self._line_tables:
            found.update(table.locate(addresses))
        return found

    def has_lines(self) -> bool:
        """The first instructions of a function with lines have one, or all have to be looked at."""
        with self._damage_named():
            first = self._metrics.first_addresses(_EXECUTED) if self._line_tables else ()
        return bool(self.locate(first)) or bool(self.locations())

    def disassembly(self) -> Mapping[int, str] | Absent:
        return self._report.disassembler.code_of(self)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return functions_of(self._code, self.addresses())

    @cached_property
    def code_key(self) -> tuple[object, ...]:
        """Launches with the same key ran the same instructions, so one disassembly serves them."""
        return (*(id(code) for code in self._code), self.addresses())
