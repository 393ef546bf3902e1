"""Instances are read many at a time: what comes out is what each of them says."""

from __future__ import annotations

from struct import pack

import pytest

from keet.ingest.metrics import MetricTable, NameTable
from keet.ingest.wire import Malformed

ADDRESS = 0x7F41_2BD3_0000


def varint(number: int) -> bytes:
    head = bytes((number & 0x7F | (0x80 if number >> 7 else 0),))
    return head + (varint(number >> 7) if number >> 7 else b"")


def field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2, len(content))) + content


def whole(number: int) -> bytes:
    return b"\x28" + varint(number)


def instances(*parts: bytes) -> object:
    """Of a metric with a value, these parts, and what newer versions of ncu write behind them."""
    data = b"\x08\x00" + field(2, whole(5)) + b"".join(field(3, part) for part in parts) + b"\x20\0"
    return MetricTable(data, [(0, len(data))], NameTable(["m"])).instances("m")


def part(identity: bytes, value: bytes) -> bytes:
    return field(1, identity) + field(2, value)


def test_parts_of_many_forms() -> None:
    """Addresses over the 14 bits that they share the rest of, values of one to five bytes."""
    pairs = [(ADDRESS + 16 * i, 7 ** (i % 11)) for i in range(3000)]
    found = instances(*(part(whole(i), whole(v)) for i, v in pairs))
    assert list(found.pairs()) == pairs  # type: ignore[attr-defined]


def test_parts_that_are_no_addresses() -> None:
    parts = [
        (part(field(1, b"FFMA"), b"\x19" + pack("<d", 0.5)), ("FFMA", 0.5)),
        (part(b"\x19" + pack("<d", 3.0), whole(1)), (3, 1)),
        (field(2, whole(9)) + field(1, whole(ADDRESS)), (ADDRESS, 9)),
        (part(whole(ADDRESS + 16), b""), (ADDRESS + 16, None)),
        (part(whole(0), whole(0)), (0, 0)),
    ]
    found = instances(*(raw for raw, _ in parts))
    assert list(found.pairs()) == [pair for _, pair in parts]  # type: ignore[attr-defined]


def test_one_part_without_a_name_leaves_all_without() -> None:
    found = instances(part(whole(ADDRESS), whole(1)), field(2, whole(2)))
    assert (found.values, found.ids) == ((1, 2), None)  # type: ignore[attr-defined]


def test_a_length_that_does_not_fit_is_damage() -> None:
    good = part(whole(ADDRESS), whole(1))
    with pytest.raises(Malformed):
        instances(good, good[:1] + bytes((good[1] + 9,)) + good[2:])
