"""The metrics of one launch, read when asked for.

A launch holds up to 2,500 metrics in 1.5 MB, of which a command wants a few hundred numbers. The
index below touches the first bytes of each metric only; values and instances are decoded on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from struct import Struct

from keet.ingest.ncu_rep.instances import (
    InstanceValues,
    first_addresses,
    read_instances,
    read_value,
)
from keet.ingest.protobuf import Malformed, fields, varint
from keet.profile import Instances, RawMetric, Value

Span = tuple[int, int]

_NAME, _VALUE = 1, 2
_NAME_KEY = _NAME << 3  # field 1, a varint: how every metric starts
_VALUE_KEY = _VALUE << 3 | 2  # field 2, a message
_DOUBLE = b"\x12\x09\x19"  # a value of nine bytes: a double. Nearly every one of a report.
_PLAIN = {
    14: rb"\x08[\x80-\xff][\x00-\x7f]\x12\x09\x19.{8}",
    16: rb"\x08[\x80-\xff][\x00-\x7f]\x12\x09\x19.{8}\x20[\x00-\x7f]",
}
"""Metrics that are one double, by their length: two thirds of a report's metrics. A name of two
bytes, the value, and what newer versions of ncu write behind it."""
_NOTHING = b"\xff"
"""Behind the number of a metric that has nothing else: a number that goes on has no end then."""
_FIRST_BYTES = bytes(range(0x80, 0x100))
_MAX_ORDERS = 32
"""Orders of metrics that are kept, of 100 kB each. A report has a few."""
_MAX_NAMES = 1 << 14
"""Names of metrics that a report can have; 2,600 were seen."""
_unpack_double = Struct("<d").unpack_from


class MetricTable:
    """The metrics of one result message, by name. Raises `Malformed` where they can't be read."""

    def __init__(self, data: bytes, places: MetricPlaces, strings: NameTable) -> None:
        self._data, self._starts = data, places.starts
        self._indices = strings.indices(places.numbers)
        self._values = InstanceValues()
        self._instances: dict[str, Instances | None] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._indices)

    def __contains__(self, name: str) -> bool:
        return name in self._indices

    def get(self, name: str) -> RawMetric | None:
        """The metric; `None` where it is not named."""
        index = self._indices.get(name)
        if index is None:
            return None
        data, at = self._data, self._starts[index]
        if data[at + 1] in _PLAIN and data[at + 3] >= 0x80 and data[at + 5 : at + 8] == _DOUBLE:
            return RawMetric(_unpack_double(data, at + 8)[0])
        return RawMetric(self._value(*_content(data, at)))

    def _value(self, start: int, stop: int) -> Value:
        """The value, or `None` where the metric has none."""
        data = self._data
        key_at = start + (2 if data[start + 1] < 0x80 else 3)
        if key_at + 2 <= stop and data[key_at] == _VALUE_KEY:
            after = key_at + 2 + data[key_at + 1]
            if data[key_at + 1] < 0x80 and after <= stop:
                return self._values[data[key_at + 2 : after]]
        for number, at, end in fields(data, start, stop):
            if number == _VALUE and end != -1:
                return read_value(data[at:end])
        return None

    def _span(self, name: str) -> Span | None:
        index = self._indices.get(name)
        return None if index is None else _content(self._data, self._starts[index])

    def instances(self, name: str) -> Instances | None:
        if name not in self._instances:
            self._instances[name] = self._read_instances(name)
        return self._instances[name]

    def first_addresses(self, name: str) -> list[int]:
        """What the first instances belong to, without reading the rest."""
        span = self._span(name)
        return first_addresses(self._data, *_parts(self._data, *span)) if span else []

    def _read_instances(self, name: str) -> Instances | None:
        span = self._span(name)
        return read_instances(self._data, *_parts(self._data, *span)) if span else None


class NameTable:
    """The names of a report's metrics, which results refer to by number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._known: dict[bytes, Mapping[str, int]] = {}

    def indices(self, numbers: bytes) -> Mapping[str, int]:
        """Which of a launch's metrics has a name; `numbers` are those of the names, in the order of
        the metrics. Of a name that occurs twice the last counts, as NVIDIA does it.

        Kept, as launches that were profiled alike have the same metrics in the same order.
        """
        known = self._known.get(numbers)
        if known is None:
            if len(self._known) == _MAX_ORDERS:
                self._known.clear()
            known = self._known[numbers] = self._indices(numbers)
        return known

    def _indices(self, numbers: bytes) -> Mapping[str, int]:
        try:
            return {self.names[n]: index for index, n in enumerate(_decoded_numbers(numbers))}
        except IndexError:
            problem = f"a metric's name is none of the report's {len(self.names)}"
            raise Malformed(problem) from None


class MetricPlaces:
    """Where the metrics of a message start, in their order, and the numbers of their names."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self._numbers: list[bytes] = []

    @property
    def numbers(self) -> bytes:
        """As `_decoded_numbers` reads them."""
        return b"".join(self._numbers)

    def read(self, data: bytes, at: int, end: int) -> int:
        """Of metrics that lie one behind the other, as `wire.Run` has it. Plain ones are taken many
        at a time: a launch has a thousand. Raises `Malformed`, or IndexError at the end of `data`.
        """
        key, starts, numbers = data[at], self.starts, self._numbers
        while at < end and data[at] == key:
            length = data[at + 1]
            if length in _PLAIN and (run := _plain_run(key, length).match(data, at, end)):
                size, plain = length + 2, run[0]
                numbers += plain[3::size], plain[4::size]
                starts += range(at, run.end(), size)
                at = run.end()
                continue
            starts.append(at)
            if length < 0x80:
                start = at + 2
            elif (high := data[at + 2]) < 0x80:  # as most columns have it, written out
                length, start = length & 0x7F | high << 7, at + 3
            else:
                length, start = varint(data, at + 1)
            at = start + length
            if at > end:
                break
            if length < 2 or data[start] != _NAME_KEY:
                raise Malformed("a metric does not start with its name")
            numbers.append(data[start : start + 3] if length > 2 else data[start:at] + _NOTHING)
        return at


@cache
def _plain_run(key: int, length: int) -> re.Pattern[bytes]:
    one = re.escape(bytes((key, length))) + _PLAIN[length]
    return re.compile(b"(?:%s)++" % one, re.DOTALL)


def _decoded_numbers(numbers: bytes) -> Iterator[int]:
    """Of a single metric, its first three bytes: a key below 128, the number, and what is behind a
    number below 128. Of a run, the first byte of each number, from 128 on, and then the second."""
    at = 0
    while at < len(numbers):
        if numbers[at] >= 0x80:
            size = _count_from(numbers, at)
            yield from map(_number, numbers[at:], numbers[at + size : at + 2 * size])
            at += 2 * size
            continue
        low, high = numbers[at + 1], numbers[at + 2]
        if low >= 0x80 and high >= 0x80:
            raise Malformed(f"the number of a metric's name is above {_MAX_NAMES:,}")
        yield low if low < 0x80 else _number(low, high)
        at += 3


def _count_from(numbers: bytes, at: int) -> int:
    """How many bytes from here on are first bytes of numbers."""
    rest = numbers[at:].lstrip(_FIRST_BYTES)
    return len(numbers) - at - len(rest)


def _number(low: int, high: int) -> int:
    return low & 0x7F | high << 7


def _content(data: bytes, at: int) -> Span:
    """Where the message of a metric lies, whose field starts here."""
    length, start = data[at + 1], at + 2
    if length >= 0x80:
        length, start = varint(data, at + 1)
    return start, start + length


def _parts(data: bytes, start: int, stop: int) -> Span:
    """Where the instances may be: behind the name and the value, if it is a short one."""
    at = start + 1
    while data[at] >= 0x80:
        at += 1
    at += 1
    if at + 2 <= stop and data[at] == _VALUE_KEY and data[at + 1] < 0x80:
        at += 2 + data[at + 1]
    return at, stop
