"""Arrays that a launch reads many times, by the size that another launch writes.

Where a kernel computes addresses from data, keet can't tell how large an array is. Another kernel
may write all of it, at addresses that are known. That both arrays are the same is an assumption: a
report has no pointers, and their names are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.amounts.arrays import AGAIN, SMALL
from keet.analysis.several_launches.hand_overs import Candidate, is_same_size
from keet.analysis.several_launches.moved_data import MovedData


class Reread(NamedTuple):
    writer: MovedData
    reader: MovedData
    array: str
    written: float
    """Bytes."""
    dram: float
    l2: float | None
    """Bytes that the reader gets from there for this array."""

    @property
    def times(self) -> float:
        """From DRAM."""
        return self.dram / self.written

    @property
    def times_from_l2(self) -> float | None:
        return self.l2 / self.written if self.l2 else None


def rereads(candidates: Sequence[Candidate]) -> list[Reread]:
    """The most often read one first. None of an array that several kernels write in part."""
    found: dict[tuple[int, str], list[Reread]] = {}
    for one in candidates:
        if one.same_name and one.is_between_kernels:
            for each in _of(one):
                found.setdefault((each.reader.view.launch.id, each.array), []).append(each)
    agreed = [
        some[0]
        for some in found.values()
        if all(is_same_size(each.written, some[0].written) for each in some)
        and max(some[0].times, some[0].times_from_l2 or 0.0) >= AGAIN
    ]
    return sorted(agreed, key=lambda each: (-each.times, -(each.times_from_l2 or 0.0)))


def _of(one: Candidate) -> Iterator[Reread]:
    """Of arrays whose size the reader does not tell, and whose traffic is that of its launch."""
    documents = {each.name: each for each in one.reader.documents}
    for written, read in zip(one.written, one.read, strict=True):
        found = documents.get(read.name or "")
        if found is None or not written.is_exact or not written.bytes:
            continue
        is_measured = found.access == "read" and found.traffic_basis == "measured"
        dram = found.dram_bytes or 0.0
        if found.distinct_bytes is None and is_measured and dram >= SMALL:
            yield Reread(one.writer, one.reader, found.name, written.bytes, dram, found.l2_bytes)
