"""Writes reports byte by byte, for tests that need a file with exactly one fault or with exactly
given content."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Scalar = int | float | str | None


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field_number: int, value: int) -> bytes:
    return varint(field_number << 3) + varint(value)


def chunk(field_number: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field_number << 3 | 2) + varint(len(raw)) + raw


def double(field_number: int, value: float) -> bytes:
    return varint(field_number << 3 | 1) + struct.pack("<d", value)


def scalar(value: Scalar) -> bytes:
    """A metric's value message."""
    if value is None:
        return b""
    if isinstance(value, str):
        return chunk(1, value)
    return number(5, value) if isinstance(value, int) else double(3, value)


@dataclass
class Kernel:
    """A launch to write: metric values, and instances as (id, value) pairs."""

    name: str = "kernel"
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    instances: Mapping[str, Iterable[tuple[Scalar, Scalar]]] = field(default_factory=dict)
    source: int | None = None

    def encode(self, strings: list[str]) -> bytes:
        parts = [chunk(5, f"_Z{self.name}"), chunk(6, self.name), chunk(7, f"{self.name}(int)")]
        parts += [chunk(field_number, _dim3(1, 2, 3)) for field_number in (10, 11)]
        for name in dict.fromkeys((*self.metrics, *self.instances)):
            parts.append(chunk(13, self._metric(name, strings)))
        if self.source is not None:
            parts.append(chunk(15, number(1, self.source)))
        return b"".join(parts)

    def _metric(self, name: str, strings: list[str]) -> bytes:
        if name not in strings:
            strings.append(name)
        encoded = number(1, strings.index(name))
        value = self.metrics.get(name)
        if value is not None:
            encoded += chunk(2, scalar(value))
        for part_id, part in self.instances.get(name, ()):
            identity = chunk(1, scalar(part_id)) if part_id is not None else b""
            encoded += chunk(3, identity + chunk(2, scalar(part)))
        return encoded


def _dim3(x: int, y: int, z: int) -> bytes:
    return number(1, x) + number(2, y) + number(3, z)


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def block(entries: Mapping[int, list[bytes]], header: bytes = b"") -> bytes:
    """A block whose payload holds the entries, by the header field that counts them."""
    payload = b"".join(sized(entry) for kind in sorted(entries) for entry in entries[kind])
    counts = b"".join(number(kind, len(found)) for kind, found in sorted(entries.items()))
    return sized(counts + header + number(5, len(payload))) + payload


def report(kernels: Iterable[Kernel], version: int = 7, sources: Iterable[bytes] = ()) -> bytes:
    strings: list[str] = []
    results = [kernel.encode(strings) for kernel in kernels]
    table = chunk(4, b"".join(chunk(1, text) for text in strings))
    session = chunk(3, number(2, 1_700_000_000))
    code = list(sources)
    blocks = block({1: code}) if code else b""
    return b"NVR\0" + sized(number(1, version)) + blocks + block({2: results}, table + session)
