"""Decodes the instances of a metric, such as its value per instruction: see `Instances`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from struct import Struct

from keet.ingest.protobuf import Malformed, decode_text, double_at, fields, float_at, spans_of
from keet.ingest.sized_cache import SizedCache
from keet.profile import Instances, MetricId, Value

_INSTANCE = 3
_ID, _ELEMENT = 1, 2
_MAX_INSTANCES = 2_000_000
"""Per metric: ten times the instructions of the largest known kernel."""
_INSTANCE_KEY = _INSTANCE << 3 | 2
_ID_KEY, _ELEMENT_KEY = _ID << 3 | 2, _ELEMENT << 3 | 2
_LONGEST = 60
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
    found = _decoded(raw)
    return _columns.put(raw, found, len(raw)) if found else None


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
    if max(width, size) > _LONGEST:
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
