"""The launches of a `.ncu-rep`, decoded on demand, in pure Python.

Everything but the SASS text is read here; the text comes from NVIDIA's reader in a child process
(`report/disassembler.py`). A test compares the values of both readers.

A report may have 100,000 launches and be larger than the memory. Opening it reads only the name,
the shape and the position of each launch: ncu writes them before the metrics, which make up nearly
all of a message. If the order is different, the whole message is parsed. Only the most recently
used launches stay decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from keet.evidence import Sentence, report_number
from keet.profile import (
    Absent,
    Device,
    Dim3,
    Instances,
    KernelName,
    Launch,
    Location,
    NvtxRange,
    RawMetric,
    RuleResult,
    SourceMarker,
    Workload,
)
from keet.progress import counted
from keet.report.input.files import HeldBytes, ReportBytes
from keet.report.ncu_rep.container import ContainerBlock, ContainerEntry, EntryKind, cut_notes
from keet.report.ncu_rep.decoded_launch import DecodedLaunch
from keet.report.ncu_rep.report_file import NcuRepFile
from keet.report.protobuf import BYTES, VARINT, Malformed, ProtoMessage, decode_text, varint

if TYPE_CHECKING:
    from keet.report.disassembler import Disassembler


WORKLOADS = {
    EntryKind.KERNEL: Workload.KERNEL,
    EntryKind.RANGE: Workload.RANGE,
    EntryKind.CMDLIST: Workload.CMDLIST,
    EntryKind.GRAPH: Workload.GRAPH,
}
_NAMES, _GRID, _BLOCK = (5, 6, 7), 10, 11
_METRICS = 13
_METRICS_KEY = _METRICS << 3 | BYTES
_FIELDS = (*_NAMES, _GRID, _BLOCK)
_WANTED = bytes(number << 3 | BYTES for number in _FIELDS)
_WINDOW = 4096
"""Bytes to look at: more than names and shapes usually take."""


def read_head(
    file: NcuRepFile, entry: ContainerEntry, metric: Callable[[str], RawMetric | None]
) -> tuple[KernelName, Dim3 | None, Dim3 | None]:
    """Name, grid and block, which are read when the report is opened. Raises `Malformed` if there
    is no name. `metric` looks up a metric of the launch by name."""
    if entry.kind is not EntryKind.KERNEL:
        shown = file.message(entry)[0].text(18) if entry.kind is EntryKind.CMDLIST else None
        name = shown or WORKLOADS[entry.kind].value
        return KernelName(function=name, demangled=name, mangled=name), None, None
    raw = _first_fields(file, entry)
    if raw is None:
        message, _ = file.message(entry)
        raw = {n: value for n in _FIELDS if (value := message.raw(n)) is not None}
    names = tuple(raw.get(number, b"") for number in _NAMES)
    if names not in file.kernel_names:
        file.kernel_names[names] = _kernel_name(*names)
    grid, block = (_shape(file, raw.get(number)) for number in (_GRID, _BLOCK))
    return file.kernel_names[names], _in_blocks(file, grid, block, metric), block


def _first_fields(file: NcuRepFile, entry: ContainerEntry) -> dict[int, bytes] | None:
    """The wanted fields; None unless all of them precede the metrics.

    `protobuf.fields` inlined for what ncu writes: most of the time to open a report is spent here.
    """
    length = min(entry.stop - entry.start, _WINDOW)
    data, at = file.source.piece(entry.start, entry.start + length)
    stop = at + length
    fields: dict[int, bytes] = {}
    try:
        while at < stop and (key := data[at]) != _METRICS_KEY:
            at += 1
            if key & 7 == VARINT:
                while data[at] >= 0x80:
                    at += 1
                at += 1
            elif key & 7 == BYTES and key < 0x80:
                size, at = (data[at], at + 1) if data[at] < 0x80 else varint(data, at)
                if key in _WANTED:
                    fields[key >> 3] = data[at : at + size]
                at += size
            else:
                return None
    except (IndexError, Malformed):
        return None
    return fields if at <= stop and len(fields) == len(_WANTED) else None


def _kernel_name(*raw: bytes) -> KernelName:
    mangled, function, demangled = map(decode_text, raw)
    if not (mangled or function or demangled):
        raise Malformed("a kernel without a name")
    # C and Triton kernels have nothing to demangle.
    return KernelName(function=function, demangled=demangled or mangled, mangled=mangled)


def _shape(file: NcuRepFile, raw: bytes | None) -> Dim3 | None:
    if raw is None:
        return None
    if raw not in file.shapes:
        message = ProtoMessage(raw)
        x, y, z = (message.number(axis) for axis in (1, 2, 3))
        file.shapes[raw] = (x or 0, y or 0, z or 0)
    return file.shapes[raw]


def _in_blocks(
    file: NcuRepFile,
    grid: Dim3 | None,
    block: Dim3 | None,
    metric: Callable[[str], RawMetric | None],
) -> Dim3 | None:
    """The grid in blocks; reports of ncu up to 2020.2 store it in threads."""
    if grid is None or block is None or not all(block):
        return grid
    if file.has_grid_in_threads:
        x, y, z = (size // step for size, step in zip(grid, block))
        count = metric("launch__grid_size")
        if count is None or count.value == x * y * z:
            return x, y, z
    return grid


_KEPT_BYTES = 32 << 20
"""Total size in the file of the launches that stay decoded; in memory it is several times that."""
_AHEAD = 200
"""Launches whose SASS text is fetched together with that of a launch that was not prefetched."""


class Report:
    """A report file and its decoded launches."""

    def __init__(
        self, path: Path, source: ReportBytes | bytes, blocks: list[ContainerBlock]
    ) -> None:
        held = HeldBytes(source) if isinstance(source, bytes) else source
        self.file = NcuRepFile(path, held, blocks)
        self.kept: dict[int, DecodedLaunch] = {}
        """By launch number, in the order of decoding."""
        self._kept_bytes = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the file: entries that keet can't read, signs of missing launches."""
        blocks = self.file.blocks
        unknown = sum(e.kind is EntryKind.UNKNOWN for block in blocks for e in block.entries)
        notes: list[str] = []
        if unknown:
            skipped = report_number("skipped_results", unknown, "results that keet can't read")
            words = "skipped {skipped:.0f} results of a kind that this version of keet can't read"
            notes.append(Sentence(words, skipped=skipped))
        notes += cut_notes(blocks, self.file.session_pieces, self.file.session.ncu_version)
        return tuple(notes)

    def launches(self) -> tuple[Launch, ...]:
        """Raises `Malformed` for a result without a name."""
        self.file.check_count()
        numbers = range(len(self.file.results))
        return tuple(self._launch(number) for number in counted(numbers, "listing launches"))

    def _launch(self, number: int) -> Launch:
        entry = self.file.results[number]
        _, process = self.file.process(self.file.owners[number])
        data = FileLaunch(self, number)
        name, grid, block = read_head(self.file, entry, data.metric)
        return Launch(
            number=number,
            name=name,
            workload=WORKLOADS[entry.kind],
            grid=grid,
            block=block,
            data=data,
            process=process,
            find_origin=data.origin,
        )

    def decoded(self, number: int) -> DecodedLaunch:
        """Decodes the launch, or returns it if it is still decoded."""
        if launch := self.kept.get(number):
            return launch
        launch = DecodedLaunch(self.file, number)
        self._kept_bytes += launch.size
        while self.kept and self._kept_bytes > _KEPT_BYTES:
            self.release(next(iter(self.kept)))
        self.kept[number] = launch
        return launch

    def release(self, number: int) -> None:
        if launch := self.kept.pop(number, None):
            self._kept_bytes -= launch.size

    @cached_property
    def disassembler(self) -> Disassembler:
        from keet.report.disassembler import Disassembler

        return Disassembler(self.file)

    def prefetch_code(self, launches: Iterable[int]) -> None:
        """Start fetching the SASS text of launches, by their numbers, in the background."""
        self.disassembler.prefetch(map(self.decoded, launches))

    def code_of(self, number: int) -> Mapping[int, str] | Absent:
        # Launches that may be needed next: all launches of a small report.
        count = len(self.file.results)
        start = number if count > _AHEAD else 0
        others = map(self.decoded, range(start, min(start + _AHEAD, count)))
        return self.disassembler.code_of(self.decoded(number), others)


class FileLaunch:
    """One launch of a report. Decodes on demand; `release` frees the decoded data."""

    __slots__ = ("_report", "number")

    def __init__(self, report: Report, number: int) -> None:
        self._report = report
        self.number = number

    @property
    def decoded(self) -> DecodedLaunch:
        return self._report.decoded(self.number)

    def release(self) -> None:
        self._report.release(self.number)

    def origin(self) -> tuple[int | None, int | None]:
        return self.decoded.origin()

    def device(self) -> Device:
        return self.decoded.device()

    def metric_names(self) -> tuple[str, ...]:
        return self.decoded.metrics.names()

    def metric(self, name: str) -> RawMetric | None:
        return (self._report.kept.get(self.number) or self.decoded).metric(name)

    def instances(self, name: str) -> Instances | None:
        return self.decoded.instances(name)

    def sections(self) -> tuple[str, ...]:
        return self.decoded.sections()

    def rules(self) -> tuple[RuleResult, ...]:
        return self.decoded.rules()

    def leading_rule(self) -> RuleResult | None:
        return self.decoded.leading_rule()

    def markers(self) -> tuple[SourceMarker, ...]:
        return self.decoded.markers()

    def nvtx(self) -> tuple[NvtxRange, ...]:
        return self.decoded.nvtx()

    def cubins(self) -> list[bytes]:
        return [code.cubin for code in self.decoded.code if code.cubin]

    def source_files(self) -> Mapping[str, str | None]:
        seen = {location.file: None for location in self.locations().values()}
        return {**seen, **self.decoded.embedded}

    def source_text(self, path: str) -> str | None:
        return self.decoded.embedded.get(path)

    def has_source_text(self) -> bool:
        return any(self.decoded.embedded.values())

    def addresses(self) -> tuple[int, ...]:
        return self.decoded.addresses

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]:
        return self.decoded.locate(addresses)

    def locations(self) -> Mapping[int, Location]:
        return self.decoded.locations

    def has_lines(self) -> bool:
        return self.decoded.has_lines()

    def disassembly(self) -> Mapping[int, str] | Absent:
        return self._report.code_of(self.number)

    def is_for_debugging(self) -> bool:
        code = [each for each in self.decoded.code if each.cubin]
        return bool(code) and all(each.is_for_debugging for each in code)
