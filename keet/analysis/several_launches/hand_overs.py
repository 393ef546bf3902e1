"""Which launches may read what another one writes: all candidates, by the names and sizes of their
arrays.

A report has no pointers. An array that a kernel writes, and one of the same size that a later
kernel reads, may be the same data; several kernels often read as much. Names of parameters tell
more, but prove nothing either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from keet.analysis.limits import FEW_BYTES, SAME_BYTES
from keet.analysis.several_launches.moved_data import DataArray, MovedData
from keet.analysis.several_launches.traffic import are_variants

_UNNAMED = "param+"
"""Begins the names of parameters that are not known by name."""


class Candidate(NamedTuple):
    """A launch that writes arrays, and a later one that reads arrays of the same size or name."""

    writer: MovedData
    reader: MovedData
    written: tuple[DataArray, ...]
    """Several only if both sides have the same names."""
    read: tuple[DataArray, ...]
    """With other names: any of them may be the one that was written."""
    same_name: bool
    readers: int = 1
    """Kernels that read as much, this one included."""
    writers_between: int = 0
    """Kernels that are launched between them first and write as much."""

    @property
    def bytes(self) -> float:
        """0: not known."""
        sizes = [each.bytes for each in self.written]
        return 0.0 if None in sizes else sum(size or 0.0 for size in sizes)

    @property
    def is_between_kernels(self) -> bool:
        """Else a launch of the kernel may read what an earlier one wrote."""
        return self.writer is not self.reader


def candidates(data: Mapping[int, MovedData], order: Sequence[int]) -> list[Candidate]:
    """Those of arrays with the same name first, then the largest, then those with the fewest other
    writers in between. Where some kernel reads an array of the same name, arrays with other names
    are left out.

    `data`: by row, one row per kernel and shape. `order`: the rows of all launches in their order.
    """
    found: list[Candidate] = []
    for row, readers in _later(order, data).items():
        for written in _written(data[row]):
            own = list(_readers_of(written, data, row, readers))
            if any(each.same_name and each.is_between_kernels for each in own):
                own = [each for each in own if each.same_name]
            found += (each._replace(readers=len(own)) for each in own)
    joined = [_joined(list(some)) for _, some in groupby(sorted(found, key=_key), key=_key)]
    return sorted(joined, key=lambda x: (not x.same_name, -round(x.bytes, -3), x.writers_between))


def _key(each: Candidate) -> tuple[object, ...]:
    """Equal for candidates that are told together: arrays with the same names."""
    one, other = each.writer.view.launch.id, each.reader.view.launch.id
    return (one, other, "" if each.same_name else each.written[0].name or "")


def _joined(some: Sequence[Candidate]) -> Candidate:
    first = some[0]
    if not first.same_name or len(some) == 1:
        return first
    return first._replace(
        written=tuple(each.written[0] for each in some),
        read=tuple(each.read[0] for each in some),
        readers=max(each.readers for each in some),
    )


def _later(order: Sequence[int], data: Mapping[int, MovedData]) -> dict[int, list[int]]:
    """Per row, the rows with a launch after its first one: where launches repeat, each may follow
    each."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, row in enumerate(order):
        first.setdefault(row, at)
        last[row] = at
    rows = [row for row in first if row in data]  # in the order of their first launches
    found = {}
    for at, row in enumerate(rows):
        after = (*rows[at + 1 :], *rows[: at + 1])
        found[row] = [other for other in after if last[other] > first[row]]
    return found


def _readers_of(
    written: DataArray, data: Mapping[int, MovedData], row: int, readers: Sequence[int]
) -> Iterator[Candidate]:
    between, later = 0, 0.0
    for other in readers:
        one = _between(data[row], data[other], written)
        if one and one.same_name:
            if later < (one.read[0].bytes or math.inf):  # else all of it was written again
                yield one
        elif one:
            yield one._replace(writers_between=between)
        own = _written(data[other])
        between += any(is_same_size(written.bytes, each.bytes) for each in own)
        if other != row and not (written.name or _UNNAMED).startswith(_UNNAMED):
            again = [
                each.bytes or 0.0 for each in own if each.name == written.name and each.is_exact
            ]
            later = max([later, *again])


def _between(writer: MovedData, reader: MovedData, written: DataArray) -> Candidate | None:
    if not (writer.arrays if reader is writer else _may_differ(writer, reader)):
        return None
    every = _read(reader)
    named = [read for read in every if _has_name(read, written, writer, reader)]
    if named:
        return Candidate(writer, reader, (written,), (named[0],), same_name=True)
    same = tuple(
        read
        for read in every
        if is_same_size(written.bytes, read.bytes) and not _are_apart(read.name, written.name)
    )
    # Few bytes are often equal by chance.
    if not same or (written.bytes or 0.0) < FEW_BYTES:
        return None
    return Candidate(writer, reader, (written,), same, same_name=False)


def _has_name(read: DataArray, written: DataArray, writer: MovedData, reader: MovedData) -> bool:
    """An array of the same name whose size is the same, or not known exactly."""
    if written.name is None or not _is_one_name(read.name, written.name):
        return False
    is_named = writer is reader or not written.name.startswith(_UNNAMED)
    may_be = not read.is_exact or not written.is_exact
    return is_named and (may_be or is_same_size(written.bytes, read.bytes))


def _is_one_name(one: str | None, other: str) -> bool:
    """`elements.stress` and `stress` may be the same array; `nodes.x` and `cells.x` are not."""
    if one is None or one == other:
        return one == other
    outer, _, inner = max(one, other, key=len).rpartition(".")
    return bool(outer) and inner == min(one, other, key=len)


def _are_apart(one: str | None, other: str | None) -> bool:
    """Whether these are two members of one structure: `nodes.x` and `nodes.fx`."""
    outers = {name.rpartition(".")[0] for name in (one or "", other or "")}
    return outers != {""} and len(outers) == 1 and one != other


def _may_differ(writer: MovedData, reader: MovedData) -> bool:
    """Whether these are two kernels, and no versions of one."""
    one, other = writer.view.launch, reader.view.launch
    is_other = one.name.full != other.name.full and one.device == other.device
    return is_other and not are_variants(one, other)


def _written(data: MovedData) -> list[DataArray]:
    if data.arrays or data.written is None:
        return [each for each in data.arrays if each.is_written]
    every = float(data.written.value)
    return [DataArray(None, every, is_exact=False, is_read=False, is_written=True)]


def _read(data: MovedData) -> list[DataArray]:
    if data.arrays or data.read is None:
        return [each for each in data.arrays if each.is_read]
    every = float(data.read.value)
    return [DataArray(None, every, is_exact=False, is_read=True, is_written=False)]


def is_same_size(one: float | None, other: float | None) -> bool:
    """False if one is not known."""
    return bool(one and other) and abs(math.log((one or 1) / (other or 1))) <= SAME_BYTES
