"""A report parsed into messages that can be changed, and written back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from keet.report.ncu_rep.container import MAGIC, EntryKind, blocks_of
from keet.report.ncu_rep.metrics import read_value
from keet.report.protobuf import BYTES, FIXED32, FIXED64, VARINT, Malformed, ProtoMessage, varint
from tests.encode import Scalar, chunk, scalar, sized
from tests.encode import varint as varint_bytes

_WIDTHS = {FIXED64: 8, FIXED32: 4}
_PAYLOAD = 5
_METRICS = {EntryKind.KERNEL: 13, EntryKind.RANGE: 4, EntryKind.CMDLIST: 4, EntryKind.GRAPH: 4}
_NAME, _VALUE, _INSTANCE = 1, 2, 3


class Field(NamedTuple):
    """One field of a message, as in the file."""

    number: int
    kind: int
    """Wire type."""
    payload: int | bytes

    def encoded(self) -> bytes:
        key = varint_bytes(self.number << 3 | self.kind)
        if isinstance(self.payload, int):
            return key + varint_bytes(self.payload & (1 << 64) - 1)
        return key + (varint_bytes(len(self.payload)) if self.kind == BYTES else b"") + self.payload


def fields_of(data: bytes) -> list[Field]:
    """Raises `Malformed`."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
            found.append(Field(key >> 3, kind, value))
            continue
        if kind == BYTES:
            length, at = varint(data, at)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise Malformed(f"wire type {kind}")
        if at + length > len(data):
            raise Malformed("a field runs over the end")
        found.append(Field(key >> 3, kind, data[at : at + length]))
        at += length
    return found


def encoded(fields: Iterable[Field]) -> bytes:
    return b"".join(each.encoded() for each in fields)


def text_field(number: int, text: str) -> Field:
    return Field(number, BYTES, text.encode("utf-8", "surrogatepass"))


def scalar_bytes(value: Scalar) -> bytes:
    """A value message; whole numbers below zero as two's complement, as protobuf has them."""
    return scalar(value & (1 << 64) - 1 if isinstance(value, int) else value)


class Metric(NamedTuple):
    """A parsed metric of a result."""

    name: str
    fields: tuple[Field, ...]

    @property
    def value(self) -> Scalar:
        for each in self.fields:
            if each.number == _VALUE and isinstance(each.payload, bytes):
                return read_value(each.payload)
        return None

    @property
    def instances(self) -> list[int]:
        """Where they are among the fields."""
        return [at for at, each in enumerate(self.fields) if each.number == _INSTANCE]

    def with_value(self, value: Scalar) -> Metric:
        rest = [each for each in self.fields if each.number != _VALUE]
        new = [Field(_VALUE, BYTES, scalar_bytes(value))] if value is not None else []
        return Metric(self.name, (*rest[:1], *new, *rest[1:]))

    def with_instance(self, at: int, identity: Scalar, value: Scalar) -> Metric:
        body = chunk(1, scalar_bytes(identity)) + chunk(2, scalar_bytes(value))
        fields = list(self.fields)
        fields[at] = Field(_INSTANCE, BYTES, body)
        return Metric(self.name, tuple(fields))

    def instance(self, at: int) -> tuple[Scalar, Scalar]:
        payload = self.fields[at].payload
        message = ProtoMessage(payload if isinstance(payload, bytes) else b"")
        raw_id, raw = message.raw(1), message.raw(2)
        return (
            None if raw_id is None else read_value(raw_id),
            None if raw is None else read_value(raw),
        )


@dataclass
class Entry:
    """A result or a piece of code."""

    kind: EntryKind
    fields: list[Field]
    names: Sequence[str]

    @property
    def metric_field(self) -> int | None:
        return _METRICS.get(self.kind)

    @cached_property
    def metric_places(self) -> list[int]:
        return [at for at, each in enumerate(self.fields) if each.number == self.metric_field]

    def name_at(self, at: int) -> str:
        payload = self.fields[at].payload
        number = varint(payload, 1)[0] if isinstance(payload, bytes) and len(payload) > 1 else -1
        return self.names[number] if 0 <= number < len(self.names) else ""

    def metric(self, at: int) -> Metric:
        payload = self.fields[at].payload
        assert isinstance(payload, bytes)
        return Metric(self.name_at(at), tuple(fields_of(payload)))

    def put(self, at: int, metric: Metric) -> None:
        self.fields[at] = Field(self.fields[at].number, BYTES, encoded(metric.fields))

    def copy(self) -> Entry:
        copied = Entry(self.kind, list(self.fields), self.names)
        copied.__dict__["metric_places"] = self.metric_places
        return copied


@dataclass
class Block:
    header: list[Field]
    entries: list[Entry] = field(default_factory=list)

    def encoded(self) -> bytes:
        ordered = sorted(self.entries, key=lambda entry: entry.kind)
        payload = b"".join(sized(encoded(entry.fields)) for entry in ordered)
        counts = {kind: [e.kind for e in ordered].count(kind) for kind in EntryKind}
        known = [each for each in self.header if each.number not in (*counts, _PAYLOAD)]
        told = [Field(kind, VARINT, count) for kind, count in counts.items() if count]
        return sized(encoded([*told, *known, Field(_PAYLOAD, VARINT, len(payload))])) + payload


@dataclass
class ReportTree:
    """A report whose parts can be changed one by one."""

    file_header: bytes
    blocks: list[Block]

    @property
    def entries(self) -> list[Entry]:
        return [entry for block in self.blocks for entry in block.entries]

    @property
    def results(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind in _METRICS]

    @property
    def code(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind is EntryKind.SOURCE]

    def encoded(self) -> bytes:
        blocks = b"".join(block.encoded() for block in self.blocks)
        return MAGIC + sized(self.file_header) + blocks

    def copy(self) -> ReportTree:
        blocks = [Block(list(b.header), [e.copy() for e in b.entries]) for b in self.blocks]
        return ReportTree(self.file_header, blocks)


def taken_apart(data: bytes) -> ReportTree:
    blocks = blocks_of(data, Path("original"))
    length = struct.unpack_from("<I", data, 4)[0]
    names = [name for b in blocks for raw in b.strings for name in ProtoMessage(raw).texts(1)]
    found = []
    for block in blocks:
        size = struct.unpack_from("<I", data, block.start)[0]
        header = fields_of(data[block.start + 4 : block.start + 4 + size])
        entries = [Entry(e.kind, fields_of(data[e.start : e.stop]), names) for e in block.entries]
        found.append(Block(header, entries))
    return ReportTree(data[8 : 8 + length], found)
