"""Reads the name and shape of a launch from the first bytes of its message.

ncu writes them before the metrics, which make up nearly all of a message. A report may have 100,000
launches, and most commands need no more of most of them. If the order is different, the whole
message is parsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from keet.ingest.ncu_rep.container import ContainerEntry, EntryKind
from keet.ingest.ncu_rep.report_file import NcuRepFile
from keet.ingest.protobuf import BYTES, VARINT, Malformed, ProtoMessage, decode_text, varint
from keet.profile import Dim3, KernelName, RawMetric, Workload

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


class LaunchHead(NamedTuple):
    """The part of a launch that is read when its report is opened."""

    name: KernelName
    grid: Dim3 | None = None
    block: Dim3 | None = None


def read_head(
    file: NcuRepFile, entry: ContainerEntry, metric: Callable[[str], RawMetric | None]
) -> LaunchHead:
    """Raises `Malformed` if there is no name. `metric` looks up a metric of the launch by name."""
    if entry.kind is not EntryKind.KERNEL:
        return LaunchHead(_workload_name(file, entry))
    raw = _first_fields(file, entry) or _all_fields(file, entry)
    names = tuple(raw.get(number, b"") for number in _NAMES)
    if names not in file.kernel_names:
        file.kernel_names[names] = _kernel_name(*names)
    grid, block = (_shape(file, raw.get(number)) for number in (_GRID, _BLOCK))
    return LaunchHead(file.kernel_names[names], _in_blocks(file, grid, block, metric), block)


def _first_fields(file: NcuRepFile, entry: ContainerEntry) -> dict[int, bytes] | None:
    """The wanted fields; None unless all of them precede the metrics.

    `protobuf.fields` inlined for what ncu writes: most of the time to open a report is spent here.
    """
    length = min(entry.stop - entry.start, _WINDOW)
    data, at = file.source.piece(entry.start, entry.start + length)
    stop = at + length
    found: dict[int, bytes] = {}
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
                    found[key >> 3] = data[at : at + size]
                at += size
            else:
                return None
    except (IndexError, Malformed):
        return None
    return found if at <= stop and len(found) == len(_WANTED) else None


def _all_fields(file: NcuRepFile, entry: ContainerEntry) -> dict[int, bytes]:
    message, _ = file.message(entry)
    raw = {number: message.raw(number) for number in _FIELDS}
    return {number: value for number, value in raw.items() if value is not None}


def _kernel_name(*raw: bytes) -> KernelName:
    mangled, function, demangled = map(decode_text, raw)
    if not (mangled or function or demangled):
        raise Malformed("a kernel without a name")
    # C and Triton kernels have nothing to demangle.
    return KernelName(function=function, demangled=demangled or mangled, mangled=mangled)


def _workload_name(file: NcuRepFile, entry: ContainerEntry) -> KernelName:
    shown = file.message(entry)[0].text(18) if entry.kind is EntryKind.CMDLIST else None
    name = shown or WORKLOADS[entry.kind].value
    return KernelName(function=name, demangled=name, mangled=name)


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
        blocks = tuple(size // step for size, step in zip(grid, block))
        count = metric("launch__grid_size")
        if count is None or count.value == math.prod(blocks):
            return (blocks[0], blocks[1], blocks[2])
    return grid
