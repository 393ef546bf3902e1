"""Real reports with texts changed inside: names, paths, sources and messages that attack a reader.

A report is taken apart down to the fields that are changed, and put together again with the right
lengths, so that everything else in it stays as ncu wrote it.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from keet.report.ncu_rep.container import EntryKind
from keet.report.protobuf import BYTES, FIXED32, FIXED64, VARINT, varint
from tests import encode

ATTACK = (
    "\x1b[31m\x1b]0;title\x07 \x9b2J \u202elatot\u202c \u2066x\u2069 \u200f\u061c \u2028 \u2029 \u200b"
    "\x7f \r \x08\x08 \ufeff \U000e0041\U000e0042"
)
"""What a terminal would obey: colours, its title, C1, bidi marks, line ends, deletion, tags."""

Change = Callable[[bytes], bytes]


class _Field(NamedTuple):
    number: int
    kind: int
    value: bytes
    """The content; of a number, its bytes."""


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        start = at
        if key & 7 == VARINT:
            _, at = varint(message, at)
        elif key & 7 == BYTES:
            length, start = varint(message, at)
            at = start + length
        else:
            at += {FIXED64: 8, FIXED32: 4}[key & 7]
        yield _Field(key >> 3, key & 7, message[start:at])


def changed(message: bytes, changes: Mapping[int, Change]) -> bytes:
    """The message with the content of these fields changed, in every place that they stand."""
    parts = []
    for number, kind, value in _fields(message):
        if kind != BYTES:
            parts.append(encode.varint(number << 3 | kind) + value)
        else:
            parts.append(
                encode.chunk(number, changes[number](value) if number in changes else value)
            )
    return b"".join(parts)


def inside(changes: Mapping[int, Change]) -> Change:
    """A change of fields of a message that is a field itself."""
    return lambda message: changed(message, changes)


def with_changes(
    data: bytes, header: Mapping[int, Change], entries: Mapping[EntryKind, Change]
) -> bytes:
    """The report with its block headers and entries changed."""
    at = 8 + struct.unpack_from("<I", data, 4)[0]
    parts = [data[:at]]
    while at < len(data):
        length = struct.unpack_from("<I", data, at)[0]
        old = data[at + 4 : at + 4 + length]
        at += 4 + length
        fields = list(_fields(old))
        numbers = {f.number: varint(f.value, 0)[0] for f in fields if f.kind == VARINT}
        payload = b""
        for kind in EntryKind:
            for _ in range(numbers.get(kind, 0)):
                size = struct.unpack_from("<I", data, at)[0]
                content = data[at + 4 : at + 4 + size]
                payload += encode.sized(entries[kind](content) if kind in entries else content)
                at += 4 + size
        new = (
            changed(old, header) if numbers.get(5) is None else _with_payload(old, header, payload)
        )
        parts += [encode.sized(new), payload]
    return b"".join(parts)


def _with_payload(old: bytes, header: Mapping[int, Change], payload: bytes) -> bytes:
    parts = []
    for number, kind, value in _fields(changed(old, header)):
        if number == 5 and kind == VARINT:
            parts.append(encode.number(5, len(payload)))
        elif kind == BYTES:
            parts.append(encode.chunk(number, value))
        else:
            parts.append(encode.varint(number << 3 | kind) + value)
    return b"".join(parts)


def _suffixed(attack: bytes) -> Change:
    return lambda text: text + attack


def nvtx_of(data: bytes) -> bytes:
    """The NVTX state of the first launch."""
    found: list[bytes] = []

    def look(entry: bytes) -> bytes:
        found.extend(field.value for field in _fields(entry) if field.number == 21)
        return entry

    with_changes(data, {}, {EntryKind.KERNEL: look})
    return found[0]


def attacked(
    data: bytes,
    nvtx: bytes,
    attack: str = ATTACK,
    name: str | None = None,
    file: bytes = b"\x1b[1m.cu",
) -> bytes:
    """A report whose kernel, process, files, sources, NVTX ranges, rules, command line and one
    metric attack whoever prints them. `name`: of the first launch's kernel; the others keep theirs,
    with the attack. `file`: in place of tour.cu, and as long."""
    assert len(file) == len(b"tour.cu")
    raw = attack.encode("utf-8", "surrogatepass")
    end = _suffixed(raw)
    rest = iter([name.encode("utf-8", "surrogatepass")] * 3 if name else ())
    names: Change = lambda text: next(rest, text + raw)  # noqa: E731
    open_ranges = {2: inside({2: inside({3: inside({1: end})})}), 3: inside({3: inside({2: end})})}
    state = changed(nvtx, {1: inside({2: end}), **open_ranges})
    rule = inside({2: end, 3: inside({1: inside({1: inside({1: end, 4: end})})})})
    result = {5: names, 6: names, 7: names, 19: rule}
    lines = {2: lambda text: text.replace(b"\n", b" // " + raw + b"\n")}
    strings = inside({1: lambda text: text + raw if text == b"launch__stack_size" else text})
    changed_report = with_changes(
        data,
        {3: inside({11: end}), 4: strings, 6: inside({3: end})},
        {
            EntryKind.KERNEL: lambda entry: changed(entry, result) + encode.chunk(21, state),
            EntryKind.SOURCE: lambda entry: changed(entry, {8: inside({1: inside(lines)})}),
        },
    )
    # In the cubin's table of lines too, where lengths can't change.
    return changed_report.replace(b"tour.cu", file)
