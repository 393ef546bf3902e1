"""The metrics of one launch, decoded on demand.

A launch has up to 2,500 metrics in 1.5 MB, of which a command needs a few hundred values. The index
below reads only the first bytes of each metric; values and instances are decoded on demand.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from struct import Struct

from keet.profile import Instances, MetricId, RawMetric, Value
from keet.report.input.files import SizedCache
from keet.report.protobuf import (
    Malformed,
    decode_text,
    double_at,
    fields,
    float_at,
    spans_of,
    varint,
)

# --- the instances of a metric, such as its value per instruction: see `Instances`

_INSTANCE = 3
_ID, _ELEMENT = 1, 2
_MAX_INSTANCES = 2_000_000
"""Per metric: ten times the instructions of the largest known kernel."""
_INSTANCE_KEY = _INSTANCE << 3 | 2
_ID_KEY, _ELEMENT_KEY = _ID << 3 | 2, _ELEMENT << 3 | 2
_LONGEST_IN_RUNS = 60
"""Longest id or value, in bytes, that is matched in runs: numbers have up to 11, opcodes more."""
_A_FEW = 8
_ADDRESSES = 1 << 64
_NEVER = re.compile(rb"(?!)")
_WHOLE = bytes((5 << 3,))  # field 5 of a value: 64 bits without a sign
_SHORT = 6
"""Bytes of a key and a number below 2 ** 35."""
_WIDEST = 11  # the key, and 64 bits in seven bits per byte
_SEVEN_BITS = bytes(range(0x80)) * 2
_ENDS = bytes(range(0x80))
_columns: SizedCache[Instances] = SizedCache(2 << 20)
"""Limit in bytes of the file; decoded they take six times that. Launches of a kernel with the same
input execute the same instructions equally often."""


def read_instances(data: bytes, start: int, stop: int) -> Instances | None:
    """The consecutive instances in this range; `None` if there are none."""
    raw = data[start:stop]
    known = _columns.get(raw)
    if known is not None:
        return known
    instances = _decoded(raw)
    return _columns.put(raw, instances, len(raw)) if instances else None


def first_addresses(data: bytes, start: int, stop: int) -> list[int]:
    """The addresses of the first instances, without reading the rest."""
    some = next(_elements(data, start, stop))
    ids = [read_identity(raw) for raw, _ in some[:_A_FEW] if raw is not None]
    return [part for part in ids if isinstance(part, int)]


def _decoded(raw: bytes) -> Instances | None:
    pairs: list[_Element] = []
    for some in _elements(raw, 0, len(raw)):
        pairs += some
        if len(pairs) > _MAX_INSTANCES:
            raise Malformed(f"more than {_MAX_INSTANCES:,} instances of a metric")
    if not pairs:
        return None
    ids, values = zip(*pairs)
    return Instances(tuple(map(InstanceValues().__getitem__, values)), _identities(ids))


def _identities(raw: tuple[bytes | None, ...]) -> tuple[MetricId, ...] | None:
    if None in raw:
        return None
    ids: tuple[bytes, ...] = raw  # type: ignore[assignment]
    width = len(ids[0])
    if len(ids) > _A_FEW and set(map(len, ids)) == {width}:
        return _whole_numbers(b"".join(ids), width) or tuple(map(read_identity, ids))
    return tuple(map(read_identity, ids))


class InstanceValues(dict[bytes, Value]):
    """Decoded value messages, cached by their bytes: most are zero or small counts."""

    def __missing__(self, raw: bytes) -> Value:
        value = self[raw] = read_value(raw)
        return value


@lru_cache(maxsize=64)  # several metrics of a launch have the same addresses
def _whole_numbers(data: bytes, width: int) -> tuple[int, ...]:
    """Decode consecutive integers of `width` bytes; empty if one of them has another form.

    Decodes byte position by byte position: most positions are equal in all addresses.
    """
    if not 1 < width <= _WIDEST:
        return ()
    keys, *places = (data[place::width] for place in range(width))
    if keys.strip(_WHOLE) or not places[-1].isascii() or _has_end(places[:-1]):
        return ()
    same, parts = 0, []
    for shift, place in zip(range(0, 64, 7), places):
        bits = place.translate(_SEVEN_BITS)
        if bits.count(bits[0]) == len(bits):
            same |= bits[0] << shift
        else:
            parts.append((bits, shift))
    numbers = [same] * len(keys)
    for bits, shift in parts:
        numbers = [number + (byte << shift) for number, byte in zip(numbers, bits)]
    return tuple(numbers)


def _has_end(places: Iterable[bytes]) -> bool:
    """Whether a number ends at one of these byte positions: its last byte is below 0x80."""
    return any(len(place.translate(None, _ENDS)) < len(place) for place in places)


@lru_cache(maxsize=4096)  # launches execute the same opcodes
def read_identity(raw: bytes) -> MetricId:
    return _identity(read_value(raw))


def _identity(value: Value) -> MetricId:
    """Addresses and counters are integers, but are sometimes stored as doubles."""
    if not isinstance(value, float):
        return value if isinstance(value, int) else str(value)
    if value.is_integer() and 0 <= value < _ADDRESSES:
        return int(value)
    return f"0x{struct.pack('>d', value).hex()}"  # damage: a text that is not taken for a number


_Element = tuple[bytes | None, bytes]
"""The two messages of an instance: its id (None if it has none) and its value."""


def _elements(data: bytes, start: int, stop: int) -> Iterator[Sequence[_Element]]:
    """The instances of a metric: runs of the same form at once, the rest one by one."""
    at = start
    while at + 4 <= stop and data[at] == _INSTANCE_KEY and data[at + 2] == _ID_KEY:
        width = data[at + 3]
        form, unpack = _form(width, data[at + width + 5] if at + width + 5 < stop else 0)
        run = form.match(data, at, stop)
        if run is None:
            break
        yield list(unpack(run[0]))
        at = run.end()
    yield [_element(data, *span) for span in spans_of(_INSTANCE, data, at, stop)]


@cache
def _form(width: int, size: int) -> tuple[re.Pattern[bytes], Callable[[bytes], Iterator[_Element]]]:
    """A pattern for a run of instances with ids of `width` and values of `size` bytes, and the
    function that splits it.

    Neighbouring instructions mostly have values of the same length, so runs are long; a kernel has
    thousands of instructions for each of fifty metrics. The pattern includes every length, so a
    match gives the same result as parsing field by field.
    """
    if max(width, size) > _LONGEST_IN_RUNS:
        return _NEVER, Struct("").iter_unpack
    start = re.escape(bytes((_INSTANCE_KEY, width + size + 4, _ID_KEY, width)))
    middle = re.escape(bytes((_ELEMENT_KEY, size)))
    run = b"(?:%s.{%d}%s.{%d})++" % (start, width, middle, size)
    return re.compile(run, re.DOTALL), Struct(f"4x{width}s2x{size}s").iter_unpack


def _element(data: bytes, start: int, stop: int) -> _Element:
    part_id: bytes | None = None
    value = b""
    for number, at, end in fields(data, start, stop):
        if number == _ID and end != -1:
            part_id = data[at:end]
        elif number == _ELEMENT and end != -1:
            value = data[at:end]
    return part_id, value


def read_value(data: bytes) -> Value:
    """Decode one value message."""
    if data[:1] == _WHOLE and 2 <= len(data) <= _SHORT:
        whole = _short_whole(data[1:])
        if whole is not None:
            return whole
    return _value(data, 0, len(data))


def _short_whole(data: bytes) -> int | None:
    """A varint that takes all of the bytes; None if it does not. Nearly all counts are such."""
    number = shift = 0
    for byte in data[:-1]:
        if byte < 0x80:
            return None
        number |= (byte & 0x7F) << shift
        shift += 7
    return number | data[-1] << shift if data[-1] < 0x80 else None


def _value(data: bytes, start: int, stop: int) -> Value:
    """A value message: one of text, float, double, 32 or 64 bits."""
    value: Value = None
    for number, at, end in fields(data, start, stop):
        if end == -1:
            value = at
        elif number == 1:
            value = decode_text(data[at:end])
        elif end - at == 8:
            value = double_at(data, at)
        elif end - at == 4:
            value = float_at(data, at)
    return value


Span = tuple[int, int]

_NAME, _VALUE = 1, 2
_NAME_KEY = _NAME << 3  # field 1, a varint: how every metric starts
_VALUE_KEY = _VALUE << 3 | 2  # field 2, a message
# --- the metrics of a launch

_DOUBLE = b"\x12\x09\x19"  # a value of nine bytes: a double. Nearly every one of a report.
_PLAIN = {
    14: rb"\x08[\x80-\xff][\x00-\x7f]\x12\x09\x19.{8}",
    16: rb"\x08[\x80-\xff][\x00-\x7f]\x12\x09\x19.{8}\x20[\x00-\x7f]",
}
"""Patterns of metrics that are one double, by length: two thirds of a report's metrics. A name
number of two bytes, the value, and one field that newer versions of ncu add."""
_NOTHING = b"\xff"
"""Fills up to three bytes where a metric has nothing but its name number. A number that does not
end before it is then recognised as damaged."""
_FIRST_BYTES = bytes(range(0x80, 0x100))
_MAX_ORDERS = 32
"""Orders of metrics that are cached, 100 kB each. A report has a few."""
_MAX_NAMES = 1 << 14
"""Most metric names of a report; 2,600 is the most seen."""
_unpack_double = Struct("<d").unpack_from


class MetricTable:
    """The metrics of one result message, by name. Raises `Malformed` if they can't be read."""

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
        """The metric; `None` if the launch has no metric of this name."""
        index = self._indices.get(name)
        if index is None:
            return None
        data, at = self._data, self._starts[index]
        if data[at + 1] in _PLAIN and data[at + 3] >= 0x80 and data[at + 5 : at + 8] == _DOUBLE:
            return RawMetric(_unpack_double(data, at + 8)[0])
        return RawMetric(self._value(*_content(data, at)))

    def _value(self, start: int, stop: int) -> Value:
        """The value; `None` if the metric has none."""
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

    def _instances_span(self, name: str) -> Span:
        """Empty if there is no such metric."""
        index = self._indices.get(name)
        if index is None:
            return 0, 0
        return _parts(self._data, *_content(self._data, self._starts[index]))

    def instances(self, name: str) -> Instances | None:
        if name not in self._instances:
            self._instances[name] = read_instances(self._data, *self._instances_span(name))
        return self._instances[name]

    def first_addresses(self, name: str) -> list[int]:
        """The addresses of the first instances, without reading the rest."""
        return first_addresses(self._data, *self._instances_span(name))


class NameTable:
    """The metric names of a report. Results refer to them by number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._known: dict[bytes, Mapping[str, int]] = {}

    def indices(self, numbers: bytes) -> Mapping[str, int]:
        """The index of each metric by name. `numbers`: the encoded name numbers, in the order of
        the metrics. If a name occurs twice, the last one counts, as in NVIDIA's reader.

        Cached: launches profiled with the same options have the same metrics in the same order.
        """
        known = self._known.get(numbers)
        if known is None:
            if len(self._known) == _MAX_ORDERS:
                self._known.clear()
            try:
                known = {self.names[n]: index for index, n in enumerate(_decoded_numbers(numbers))}
            except IndexError:
                problem = f"a metric refers to a name beyond the report's {len(self.names)}"
                raise Malformed(problem) from None
            self._known[numbers] = known
        return known


class MetricPlaces:
    """The start of each metric of a message, and the numbers of their names, in order."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self._numbers: list[bytes] = []

    @property
    def numbers(self) -> bytes:
        """Encoded; `_decoded_numbers` decodes them."""
        return b"".join(self._numbers)

    def read(self, data: bytes, at: int, end: int) -> int:
        """Read consecutive metrics, as `protobuf.Run` requires. Runs of plain ones are matched at
        once: a launch has a thousand. Raises `Malformed`, or IndexError at the end of `data`."""
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
            elif (high := data[at + 2]) < 0x80:  # `varint` inlined for the most common length
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
    """Decode the name numbers that `MetricPlaces` collects.

    A single metric has three bytes: a key below 128, then the number in one or two bytes. A run of
    plain metrics has the first byte of every number (each 128 or more), then every second byte.
    """
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
    """The number of consecutive first bytes, which are 128 or more."""
    rest = numbers[at:].lstrip(_FIRST_BYTES)
    return len(numbers) - at - len(rest)


def _number(low: int, high: int) -> int:
    return low & 0x7F | high << 7


def _content(data: bytes, at: int) -> Span:
    """The span of a metric's message, whose field starts at `at`."""
    length, start = data[at + 1], at + 2
    if length >= 0x80:
        length, start = varint(data, at + 1)
    return start, start + length


def _parts(data: bytes, start: int, stop: int) -> Span:
    """The span that may contain instances: after the name, and after the value if it is short."""
    at = start + 1
    while data[at] >= 0x80:
        at += 1
    at += 1
    if at + 2 <= stop and data[at] == _VALUE_KEY and data[at + 1] < 0x80:
        at += 2 + data[at + 1]
    return at, stop
