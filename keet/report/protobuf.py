"""Parses protobuf's wire format without a schema, as far as reports need it.

A message is a sequence of fields: a key (field number and wire type), then a varint, four bytes,
eight bytes, or a length and that many bytes. All functions check bounds and raise `Malformed`, so
a damaged file can cause nothing but an error message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from keet.safe_text import bounded_line

_MAX_FIELDS = 2_000_000
"""Per message: a launch has some thousands. More is damage, and would only use up memory."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}

_unpack_double = struct.Struct("<d").unpack_from
_unpack_float = struct.Struct("<f").unpack_from
_unpack_u32 = struct.Struct("<I").unpack_from

Run = tuple[int, Callable[[bytes, int, int], int]]
"""A field that occurs many times in a row: its number (below 16), and a function that reads such a
run. The function gets the data, the position of the run's first key and the end of the message. It
returns the position after the run, which is past the end if the last field exceeds the message."""


class Malformed(Exception):
    """The bytes are not a valid message. `reader` and `container` turn it into DamagedReport."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at`, and the position after it."""
    value = shift = 0
    while True:
        try:
            byte = data[at]
        except IndexError:
            raise Malformed("a number exceeds the data") from None
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Malformed("a number is longer than 64 bits")


def fields(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Each field as (number, start, stop), or as (number, value, -1) if it is a varint.

    Fixed-width values are given as the span of their bytes.
    """
    at = start
    end = len(data) if stop is None else stop
    while at < end:
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, value, -1
            continue
        if kind == BYTES:
            length, at = varint(data, at)
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise Malformed(f"wire type {kind}")
        if at + length > end:
            raise Malformed("a field exceeds its message")
        yield number, at, at + length
        at += length
    if at != end:
        raise Malformed("the last field exceeds its message")


def _index(  # noqa: C901, PLR0912, PLR0915 - one loop, written out
    data: bytes, at: int, end: int, run: Run | None = None
) -> dict[int, list[tuple[int, int]]]:
    """The spans that `fields` yields, by field number. `run`: see `ProtoMessage`.

    The loop of `fields` is inlined for speed: a result message has thousands of fields.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    room = _MAX_FIELDS
    before = -1
    run_key, read_run = (-1, None) if run is None else (run[0] << 3 | BYTES, run[1])
    try:
        while at < end:
            key = data[at]
            if key == run_key and read_run:
                at = read_run(data, at, end)
                continue
            if key == before and key & 7 == BYTES and key < 0x80:
                at, room = _add_run(data, at, end, spans[key >> 3], room)
                continue
            before = key
            at += 1
            if key >= 0x80:
                key, at = varint(data, at - 1)
            kind = key & 7
            if kind == BYTES:
                length = data[at]
                at += 1
                if length >= 0x80:
                    length, at = varint(data, at - 1)
                stop = at + length
                span = (at, stop)
                at = stop
            elif kind == VARINT:
                value = data[at]
                at += 1
                if value >= 0x80:
                    value, at = varint(data, at - 1)
                span = (value, -1)
            elif kind in _WIDTHS:
                stop = at + _WIDTHS[kind]
                span = (at, stop)
                at = stop
            else:
                raise Malformed(f"wire type {kind}")
            number = key >> 3
            if number in spans:
                spans[number].append(span)
            else:
                spans[number] = [span]
            room -= 1
            if room <= 0:
                raise _too_many()
    except IndexError:
        raise Malformed("a field exceeds the data") from None
    if at != end:
        raise Malformed("a field exceeds its message")
    return spans


def spans_of(wanted: int, data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """The spans of one field with a number below 16, skipping all others."""
    spans = []
    wanted_key = wanted << 3 | BYTES
    while at < end:
        key = data[at]
        if key & 7 != BYTES or key >= 0x80:
            _, _, stop = next(fields(data, at, end))
            at = stop if stop != -1 else varint(data, varint(data, at)[1])[1]
            continue
        length, start = data[at + 1], at + 2
        if length >= 0x80:
            length, start = varint(data, at + 1)
        at = start + length
        if key == wanted_key:
            spans.append((start, at))
    if at != end:
        raise Malformed("a field exceeds its message")
    return spans


def _add_run(
    data: bytes, at: int, end: int, spans: list[tuple[int, int]], room: int
) -> tuple[int, int]:
    """Add a field that occurs many times in a row. Returns the position after it and how many
    more fields are allowed."""
    key = data[at]
    known = len(spans)
    add = spans.append
    for _ in range(room):
        if at >= end or data[at] != key:
            return at, room - (len(spans) - known)
        length = data[at + 1]
        start = at + 2
        if length >= 0x80:
            length, start = varint(data, at + 1)
        at = start + length
        add((start, at))
    raise _too_many()


def _too_many() -> Malformed:
    return Malformed(f"more than {_MAX_FIELDS:,} fields in one message")


class ProtoMessage:
    """A parsed message: the spans of its values in order, by field number."""

    __slots__ = ("_spans", "data")

    def __init__(
        self, data: bytes, start: int = 0, stop: int | None = None, run: Run | None = None
    ) -> None:
        """`run`: a repeated field that the given function reads during parsing."""
        self.data = data
        self._spans = _index(data, start, len(data) if stop is None else stop, run)

    def _last(self, number: int) -> tuple[int, int] | None:
        spans = self._spans.get(number)
        return spans[-1] if spans else None

    def number(self, number: int) -> int | None:
        """A varint field; if it is repeated, the last one counts, as in protobuf."""
        last = self._last(number)
        if last is None:
            return None
        if last[1] != -1:
            raise Malformed(f"field {number} is not a number")
        return last[0]

    def numbers(self, number: int) -> list[int]:
        return [value for value, end in self._spans.get(number, ()) if end == -1]

    def span(self, number: int) -> tuple[int, int] | None:
        last = self._last(number)
        if last is not None and last[1] == -1:
            raise Malformed(f"field {number} is a number")
        return last

    def spans(self, number: int) -> list[tuple[int, int]]:
        return [span for span in self._spans.get(number, ()) if span[1] != -1]

    def raw(self, number: int) -> bytes | None:
        span = self.span(number)
        return None if span is None else self.data[span[0] : span[1]]

    def raws(self, number: int) -> list[bytes]:
        return [self.data[start:stop] for start, stop in self.spans(number)]

    def text(self, number: int) -> str | None:
        raw = self.raw(number)
        return None if raw is None else decode_text(raw)

    def lines_of_text(self, number: int) -> str | None:
        """A text with line breaks, of any length, such as a source file."""
        raw = self.raw(number)
        return None if raw is None else _decoded(raw)

    def texts(self, number: int) -> list[str]:
        data = self.data
        return [decode_text(data[start:stop]) for start, stop in self.spans(number)]

    def double(self, number: int) -> float | None:
        span = self.span(number)
        if span is None:
            return None
        if span[1] - span[0] != 8:
            raise Malformed(f"field {number} is not a double")
        return float(_unpack_double(self.data, span[0])[0])

    def message(self, number: int) -> ProtoMessage | None:
        span = self.span(number)
        return None if span is None else ProtoMessage(self.data, *span)

    def messages(self, number: int) -> Iterator[ProtoMessage]:
        for span in self.spans(number):
            yield ProtoMessage(self.data, *span)


def decode_text(raw: bytes) -> str:
    """A name or message as one line of limited length. The terminating zero of a C string, which
    some versions of ncu for Windows write, is dropped."""
    return bounded_line(_decoded(raw.rstrip(b"\0")))


def _decoded(raw: bytes) -> str:
    """Names should be UTF-8 but are not always: invalid bytes become escapes."""
    return raw.decode("utf-8", errors="backslashreplace")


def u32(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise Malformed("a length exceeds the data")
    return int(_unpack_u32(data, at)[0])


def double_at(data: bytes, at: int) -> float:
    return float(_unpack_double(data, at)[0])


def float_at(data: bytes, at: int) -> float:
    return float(_unpack_float(data, at)[0])
