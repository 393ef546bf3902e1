"""The functions that a launch ran: their addresses, and an identity of their code for the cache.

ncu has values for every instruction of a kernel and of the functions that it calls, executed or
not, except for the final branch to itself and the padding after it; some reports have samples even
there. SASS text is fetched for whole functions, so that it covers all of these.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from keet.ingest.code.code_object import CodeObject

INSTRUCTION = 16
"""Bytes of an instruction, from Volta on."""


class Function(NamedTuple):
    """Code whose SASS text is fetched and cached as a unit."""

    start: int
    addresses: Sequence[int]
    """Of all instructions, ascending."""
    identity: str | None
    """Equal for the same code in any report; None if the report has no cubin."""
    movable: bool
    """Whether other reports may have the same code at other addresses."""


def functions_of(code: Sequence[CodeObject], addresses: Sequence[int]) -> tuple[Function, ...]:
    """The functions that contain the addresses, which ascend. Addresses outside of all functions
    with a known place are put into one more function (reports before 2021 have no places)."""
    found: list[Function] = []
    covered: set[int] = set()
    for each in code:
        for extent in each.extents:
            here = _within(addresses, extent.start, extent.stop)
            if here and not any((pc - extent.start) % INSTRUCTION for pc in here):
                identity = f"{each.digest} {extent.symbol} {extent.stop - extent.start}"
                inside = range(extent.start, extent.stop, INSTRUCTION)
                found.append(Function(extent.start, inside, identity, movable=True))
                covered.update(here)
    rest = [pc for pc in addresses if pc not in covered] if covered else addresses
    if rest:
        found.append(Function(rest[0], rest, _identity_of(code, rest), movable=False))
    return tuple(found)


def _within(addresses: Sequence[int], start: int, stop: int) -> Sequence[int]:
    return addresses[bisect_left(addresses, start) : bisect_left(addresses, stop)]


def _identity_of(code: Sequence[CodeObject], addresses: Sequence[int]) -> str | None:
    digests = [each.digest for each in code]
    if not digests or None in digests:
        return None
    listed = hashlib.sha256(repr(list(addresses)).encode()).hexdigest()
    return " ".join([*map(str, digests), listed])
