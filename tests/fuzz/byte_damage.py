"""Damage to bytes of any file, as by a bad disk or an incomplete copy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

ByteDamage = Callable[[bytes, Random], bytes]
_SPAN = 4096
"""Longest span of bytes that is taken out, doubled or swapped."""


def flip(data: bytes, rng: Random) -> bytes:
    """One to twenty bytes changed."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 20)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 0xFF, 0x80, rng.randrange(256)))
    return bytes(changed)


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def remove(data: bytes, rng: Random) -> bytes:
    start, stop = _span(data, rng)
    return data[:start] + data[stop:]


def double(data: bytes, rng: Random) -> bytes:
    start, stop = _span(data, rng)
    return data[:stop] + data[start:]


def swap(data: bytes, rng: Random) -> bytes:
    (a, b), (c, d) = sorted((_span(data, rng), _span(data, rng)))
    c, d = max(b, c), max(b, d)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def blank(data: bytes, rng: Random) -> bytes:
    """A span of one byte, as a sparse file or a bad sector has."""
    start, stop = _span(data, rng)
    return data[:start] + bytes([rng.choice((0, 0xFF))]) * (stop - start) + data[stop:]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 64, rng.randint(1, _SPAN))))


_ALL: tuple[ByteDamage, ...] = (flip, cut, remove, double, swap, blank)
KINDS = {kind.__name__: kind for kind in _ALL}
