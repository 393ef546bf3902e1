"""The metrics of one launch, read when asked for.

A launch holds up to 2,500 metrics in 1.5 MB, of which a command wants a few hundred numbers. The
index below touches the first bytes of each metric only; values and instances are decoded on demand.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from struct import Struct

from keet.ingest.wire import Malformed, decode_text, double_at, fields, float_at, varint
from keet.profile import Instances, MetricId, RawMetric, Value

Span = tuple[int, int]

_NAME, _VALUE, _INSTANCE = 1, 2, 3
_ID, _ELEMENT = 1, 2
_MAX_INSTANCES = 2_000_000
"""Of one metric: a value for each instruction of the largest kernels, ten times over."""
_NAME_KEY = _NAME << 3  # field 1, a varint: how every metric starts
_VALUE_KEY = _VALUE << 3 | 2  # field 2, a message
_INSTANCE_KEY = _INSTANCE << 3 | 2
_ID_KEY, _ELEMENT_KEY = _ID << 3 | 2, _ELEMENT << 3 | 2
_DOUBLE = b"\x12\x09\x19"  # a value of nine bytes: a double. Nearly every one of a report.
_LONGEST = 60
"""Bytes of an id or a value that are looked for in runs: numbers have up to 11, opcodes more."""
_A_FEW = 8
_ADDRESSES = 1 << 64
_NEVER = re.compile(rb"(?!)")
_WHOLE = bytes((5 << 3,))  # field 5 of a value: 64 bits without a sign
_WIDEST = 11  # the key, and 64 bits in seven a byte
_SEVEN_BITS = bytes(range(0x80)) * 2
_ENDS = bytes(range(0x80))
_unpack_double = Struct("<d").unpack_from


class MetricTable:
    """The metrics of one result message, by name. Raises `Malformed` where they can't be read."""

    def __init__(self, data: bytes, spans: Sequence[Span], strings: NameTable) -> None:
        self._data = data
        self._spans = _by_name(data, spans, strings)
        self._values, self._ids = _Values(), _Identities()
        self._instances: dict[str, Instances | None] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._spans)

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def get(self, name: str) -> RawMetric | None:
        """The metric; `None` where it is not named."""
        span = self._spans.get(name)
        return None if span is None else RawMetric(self._value(*span))

    def _value(self, start: int, stop: int) -> Value:
        """The value, or `None` where the metric has none."""
        data = self._data
        at = start + 2 if data[start + 1] < 0x80 else _after_varint(data, start + 2)
        if at + 11 <= stop and data[at : at + 3] == _DOUBLE:
            value: float = _unpack_double(data, at + 3)[0]
            return value
        for number, at, end in fields(data, start, stop):
            if number == _VALUE and end != -1:
                return _value(data, at, end)
        return None

    def instances(self, name: str) -> Instances | None:
        if name not in self._instances:
            self._instances[name] = self._read_instances(name)
        return self._instances[name]

    def first_addresses(self, name: str) -> list[int]:
        """What the first instances belong to, without reading the rest."""
        span = self._spans.get(name)
        stretch: Sequence[_Element] = next(_elements(self._data, *span)) if span else ()
        ids = [self._ids[raw] for raw, _ in stretch[:_A_FEW] if raw is not None]
        return [part for part in ids if isinstance(part, int)]

    def _read_instances(self, name: str) -> Instances | None:
        span = self._spans.get(name)
        if span is None:
            return None
        pairs: list[_Element] = []
        for some in _elements(self._data, *span):
            pairs += some
            if len(pairs) > _MAX_INSTANCES:
                raise Malformed(f"more than {_MAX_INSTANCES:,} instances of {name}")
        if not pairs:
            return None
        ids, values = zip(*pairs)
        return Instances(tuple(map(self._values.__getitem__, values)), self._identities(ids))

    def _identities(self, raw: Sequence[bytes | None]) -> tuple[MetricId, ...] | None:
        if None in raw:
            return None
        ids: Sequence[bytes] = raw  # type: ignore[assignment]
        self._ids.learn(ids)
        return tuple(map(self._ids.__getitem__, ids))


class _Values(dict[bytes, Value]):
    """Value messages decoded. Most are the same few: small counts, zero."""

    def __missing__(self, raw: bytes) -> Value:
        value = self[raw] = read_value(raw)
        return value


class _Identities(dict[bytes, MetricId]):
    """What instances belong to: the same addresses for each metric of the code."""

    def __missing__(self, raw: bytes) -> MetricId:
        found = self[raw] = _identity(read_value(raw))
        return found

    def learn(self, ids: Sequence[bytes]) -> None:
        """Addresses of a column, all at once; those of other forms are left to be asked for."""
        if ids[-1] not in self and set(map(len, ids)) == {len(ids[0])}:
            self.update(zip(ids, _whole_numbers(b"".join(ids), len(ids[0]))))


def _whole_numbers(data: bytes, width: int) -> Sequence[int]:
    """Values of `width` bytes that lie one behind the other; none where one is of another form.

    They are taken apart by place and not by value: most places are the same in all addresses.
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
            parts.append([byte << shift for byte in bits])
    return [same + rest for rest in map(sum, zip(*parts))] if parts else [same] * len(keys)


def _has_end(places: Iterable[bytes]) -> bool:
    """Whether a number ends in one of these places: its last byte is below 0x80."""
    return any(len(place.translate(None, _ENDS)) < len(place) for place in places)


def _identity(value: Value) -> MetricId:
    """Addresses and counters are whole numbers, now and then stored as doubles."""
    if not isinstance(value, float):
        return value if isinstance(value, int) else str(value)
    if value.is_integer() and 0 <= value < _ADDRESSES:
        return int(value)
    return f"0x{struct.pack('>d', value).hex()}"  # damage: a name that nobody takes for a number


class NameTable:
    """The names of a report's metrics, which results refer to by number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    @cached_property
    def by_start(self) -> Mapping[bytes, str]:
        """Names by the first three bytes of a metric: the key, the number, and what is behind."""
        found = {}
        for number, name in enumerate(self.names[: 1 << 14]):
            if number < 0x80:
                for key in (_VALUE_KEY, _INSTANCE_KEY):
                    found[bytes((_NAME_KEY, number, key))] = name
            else:
                found[bytes((_NAME_KEY, number & 0x7F | 0x80, number >> 7))] = name
        return found


def _by_name(data: bytes, spans: Sequence[Span], table: NameTable) -> dict[str, Span]:
    """Where each metric lies. Of a name that occurs twice the last counts, as NVIDIA does it."""
    names = table.by_start
    try:
        starts = [data[start : start + 3] for start, _ in spans]
        return dict(zip(map(names.__getitem__, starts), spans))
    except KeyError:  # one that is written in another way, or damaged
        return _by_number(data, spans, table.names)


def _by_number(data: bytes, spans: Sequence[Span], strings: Sequence[str]) -> dict[str, Span]:
    found: dict[str, Span] = {}
    try:
        for span in spans:
            start, stop = span
            if start + 2 > stop or data[start] != _NAME_KEY:
                raise Malformed("a metric does not start with its name")
            number = data[start + 1]
            if number >= 0x80:
                number, _ = varint(data, start + 1)
            found[strings[number]] = span
    except IndexError:
        raise Malformed(f"a metric's name is none of the report's {len(strings)}") from None
    return found


def _after_varint(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


_Element = tuple[bytes | None, bytes]
"""An instance as its two messages: what it belongs to, if that is said, and the value."""


def _elements(data: bytes, start: int, stop: int) -> Iterator[Sequence[_Element]]:
    """The instances of a metric: as many at a time as have one form, and the rest one by one."""
    at = _first_instance(data, start, stop)
    while at + 4 <= stop and data[at] == _INSTANCE_KEY and data[at + 2] == _ID_KEY:
        width = data[at + 3]
        form, unpack = _form(width, data[at + width + 5] if at + width + 5 < stop else 0)
        run = form.match(data, at, stop)
        if run is None:
            break
        yield list(unpack(run[0]))
        at = run.end()
    yield [_element(data, *span) for span in _spans_of(_INSTANCE, data, at, stop)]


def _first_instance(data: bytes, start: int, stop: int) -> int:
    """Where the instances may start: behind the name and the value, if it is a short one."""
    at = _after_varint(data, start + 1)
    if at + 2 <= stop and data[at] == _VALUE_KEY and data[at + 1] < 0x80:
        at += 2 + data[at + 1]
    return at


@cache
def _form(width: int, size: int) -> tuple[re.Pattern[bytes], Callable[[bytes], Iterator[_Element]]]:
    """A run of instances with an id of `width` bytes and a value of `size`, and how to cut it up.

    Instructions that follow each other have values of one length, so runs are long, and a kernel
    has thousands of instructions for each of fifty metrics. Every length is part of the pattern:
    what it matches is what reading field by field gives.
    """
    if max(width, size) > _LONGEST:
        return _NEVER, Struct("").iter_unpack
    start = re.escape(bytes((_INSTANCE_KEY, width + size + 4, _ID_KEY, width)))
    middle = re.escape(bytes((_ELEMENT_KEY, size)))
    run = b"(?:%s.{%d}%s.{%d})++" % (start, width, middle, size)
    return re.compile(run, re.DOTALL), Struct(f"4x{width}s2x{size}s").iter_unpack


def _spans_of(wanted: int, data: bytes, start: int, stop: int) -> Iterator[Span]:
    for number, at, end in fields(data, start, stop):
        if number == wanted and end != -1:
            yield at, end


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
    """A value message that stands alone, as device attributes have."""
    return _value(data, 0, len(data))


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
