"""The metrics of one launch, read when asked for.

A launch holds up to 2,500 metrics in 1.5 MB, of which a command wants a few hundred numbers. The
index below touches the first bytes of each metric only; values and instances are decoded on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from keet.ingest.wire import Malformed, decode_text, double_at, fields, float_at, varint
from keet.profile import Instances, MetricId, Value

Span = tuple[int, int]

_NAME, _VALUE, _INSTANCE = 1, 2, 3
_ID, _ELEMENT = 1, 2
_MAX_INSTANCES = 2_000_000
"""Of one metric: a value for each instruction of the largest kernels, ten times over."""
_NAME_KEY = _NAME << 3  # field 1, a varint: how every metric starts
_VALUE_KEY = _VALUE << 3 | 2  # field 2, a message
_ID_KEY, _ELEMENT_KEY = _ID << 3 | 2, _ELEMENT << 3 | 2
_DOUBLE = b"\x09\x19"  # nine bytes: field 3, a double. Nearly every value of a report.
_unpack_double = Struct("<d").unpack_from


class MetricTable:
    """The metrics of one result message, by name. Raises `Malformed` where they can't be read."""

    def __init__(self, data: bytes, spans: Sequence[Span], strings: Sequence[str]) -> None:
        self._data = data
        self._spans = _by_name(data, spans, strings)
        self._seen: dict[bytes, Value] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._spans)

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def value(self, name: str) -> Value:
        """The value, or `None` where the metric has none. Raises KeyError where it is not named."""
        start, stop = self._spans[name]
        data = self._data
        at = _after_varint(data, start + 1)
        if at + 11 <= stop and data[at] == _VALUE_KEY and data[at + 1 : at + 3] == _DOUBLE:
            return float(_unpack_double(data, at + 3)[0])
        for number, at, end in fields(data, start, stop):
            if number == _VALUE and end != -1:
                return _value(data, at, end)
        return None

    def instances(self, name: str) -> Instances | None:
        span = self._spans.get(name)
        if span is None:
            return None
        values: list[Value] = []
        ids: list[MetricId] = []
        for number, at, end in fields(self._data, *span):
            if number == _INSTANCE and end != -1:
                part_id, value = _element(self._data, at, end)
                values.append(self._decoded(value))
                if len(values) > _MAX_INSTANCES:
                    raise Malformed(f"more than {_MAX_INSTANCES:,} instances of {name}")
                if part_id is not None:
                    ids.append(self._identity(part_id))
        if not values:
            return None
        return Instances(tuple(values), tuple(ids) if len(ids) == len(values) else None)

    def _decoded(self, raw: bytes) -> Value:
        """A value message. Most are the same few: the addresses of the code, small counts, zero."""
        try:
            return self._seen[raw]
        except KeyError:
            value = self._seen[raw] = read_value(raw)
            return value

    def _identity(self, raw: bytes) -> MetricId:
        """Addresses and counters are whole numbers, now and then stored as doubles."""
        found = self._decoded(raw)
        if isinstance(found, int):
            return found
        whole = isinstance(found, float) and found.is_integer()
        return int(found) if whole else str(found)  # type: ignore[arg-type]


def _by_name(data: bytes, spans: Sequence[Span], strings: Sequence[str]) -> dict[str, Span]:
    """Where each metric lies. Of a name that occurs twice the last counts, as NVIDIA does it."""
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


def _element(data: bytes, start: int, stop: int) -> tuple[bytes | None, bytes]:
    """An instance as its two messages: what it belongs to, if that is said, and the value."""
    part_id: bytes | None = None
    value = b""
    at = start
    while at + 2 <= stop and data[at + 1] < 0x80:  # a short field, as all are
        end = at + 2 + data[at + 1]
        if data[at] == _ID_KEY:
            part_id = data[at + 2 : end]
        elif data[at] == _ELEMENT_KEY:
            value = data[at + 2 : end]
        else:
            break
        at = end
    if at == stop:
        return part_id, value
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
