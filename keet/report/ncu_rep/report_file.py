"""The data that all launches of a report share: bytes, metric names, code, and the session.

ncu writes the session (versions of tools and driver, the time, the command line) in pieces over
several blocks. Host names, addresses and the environment are in there too; keet does not read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from keet.profile import Device, KernelName, RawMetric, Value, is_measurement
from keet.profile.launch import Dim3
from keet.report.cubin import CodeObject
from keet.report.input.files import ReportBytes
from keet.report.ncu_rep.container import ContainerBlock, ContainerEntry, EntryKind, release_of
from keet.report.ncu_rep.metrics import NameTable, read_value
from keet.report.protobuf import Malformed, ProtoMessage, Run, varint

_ATTRIBUTE_PREFIX = "device__attribute_"
_DEVICE_ATTRIBUTES = (
    "display_name",
    "compute_capability_major",
    "compute_capability_minor",
    "multiprocessor_count",
    "device_index",
)

_CREATED, _DEVICE, _VERSION, _COMMAND_LINE = 2, 6, 8, 11


class SessionInfo(NamedTuple):
    """How the report was made; `None` for what is not recorded."""

    ncu_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    command_line: str | None = None
    created: str | None = None


def read_session(pieces: Iterable[ProtoMessage]) -> SessionInfo:
    """Merge the pieces of one session; later pieces override earlier ones."""
    versions: dict[str, str] = {}
    created: int | None = None
    command_line: str | None = None
    for piece in pieces:
        created = piece.number(_CREATED) or created
        command_line = piece.text(_COMMAND_LINE) or command_line
        versions.update(map(_version, piece.raws(_VERSION)))
    ncu = _first(versions, "Nsight Compute Target", "Nsight Compute")
    return SessionInfo(
        # `2025.3.1.0 (build 36398880) (public-release)` is version 2025.3.1.0.
        ncu_version=ncu.split(" ", 1)[0] if ncu else None,
        cuda_version=_first(versions, "CUDA Version", "CUDA"),
        driver_version=_first(versions, "Driver Version", "Display Driver Version", "Driver"),
        command_line=command_line,
        created=_moment(created) if created else None,
    )


@lru_cache(maxsize=64)  # reports of one machine were made with the same tools
def _version(raw: bytes) -> tuple[str, str]:
    """The name of a tool, and its version."""
    message = ProtoMessage(raw)
    return message.text(1) or "", message.text(2) or ""


def read_devices(pieces: Iterable[ProtoMessage]) -> tuple[Device, ...]:
    """The GPUs of the machine in the order of their index; later pieces override earlier ones."""
    devices: dict[int, Device] = {}
    for piece in pieces:
        for attributes in piece.messages(_DEVICE):
            device = _device(attributes)
            devices[device.index or 0] = device
    return tuple(devices[index] for index in sorted(devices))


def _first(versions: dict[str, str], *providers: str) -> str | None:
    return next((versions[name] for name in providers if versions.get(name)), None)


def _moment(seconds: int) -> str | None:
    """Seconds since 1970 as ISO 8601; `None` for a number that is not a valid time."""
    try:
        at = time.gmtime(seconds)
    except (ValueError, OverflowError, OSError):
        return None
    if not 0 < at.tm_year < 10_000:
        return None
    return f"{at.tm_year:04}-{time.strftime('%m-%dT%H:%M:%S', at)}+00:00"


def _device(message: ProtoMessage) -> Device:
    listed = [(each.text(1) or "", each.raw(2) or b"") for each in message.messages(3)]
    attributes = {n.removeprefix(_ATTRIBUTE_PREFIX): read_value(raw) for n, raw in listed}
    return _from_attributes(attributes, name=message.text(2), index=message.number(1))


def device_from_metrics(
    metric: Callable[[str], RawMetric | None], index: int | None = None
) -> Device:
    """The device according to a launch's metrics; `metric` looks up a metric by name."""
    metrics = {name: metric(_ATTRIBUTE_PREFIX + name) for name in _DEVICE_ATTRIBUTES}
    attributes = {name: raw.value for name, raw in metrics.items() if raw is not None}
    return _from_attributes(attributes, index=index)


def _from_attributes(
    attributes: dict[str, Value], name: str | None = None, index: int | None = None
) -> Device:
    """A device from CUDA's attributes, named as in `device__attribute_*` without the prefix."""
    major = _whole(attributes.get("compute_capability_major"))
    minor = _whole(attributes.get("compute_capability_minor"))
    display = attributes.get("display_name")
    return Device(
        name=display if isinstance(display, str) and display else name or None,
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=_whole(attributes.get("multiprocessor_count")),
        index=index if index is not None else _whole(attributes.get("device_index")),
    )


def _whole(value: Value) -> int | None:
    """Counts are stored as doubles in some versions of ncu and as integers in others."""
    return int(value) if is_measurement(value) else None


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

    def process(self, block: ContainerBlock) -> tuple[int, str | None]:
        """Number and name of the process of a block's launches or code."""
        raw = block.process
        if raw not in self._processes:
            message = ProtoMessage(raw or b"")
            self._processes[raw] = (message.number(1) or 0, message.text(3))
        return self._processes[raw]

    @cached_property
    def code_entries(self) -> dict[CodeKey, list[ContainerEntry]]:
        """Entries by the code that they belong to; ncu splits one code over several entries."""
        by_key: dict[CodeKey, list[ContainerEntry]] = {}
        for block in self.blocks:
            for entry in block.entries:
                if entry.kind is EntryKind.SOURCE:
                    key = (self.process(block)[0], self._reference(entry))
                    by_key.setdefault(key, []).append(entry)
        return by_key

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
