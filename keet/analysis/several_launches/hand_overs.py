"""Which launches may read what another one writes: all candidates, by the names and sizes of their
arrays.

A report has no pointers. An array that a kernel writes, and one of the same size that a later
kernel reads, may be the same data; several kernels often read as much. Names of parameters tell
more, but prove nothing either.

Also which arrays a launch reads many times, what one launch reads and writes, by array where that
is known, and what the chip of its GPU can hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from keet.analysis.amounts.arrays import AGAIN, SMALL, arrays
from keet.analysis.amounts.units import gathered_share
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import FEW_BYTES, SAVED_PART
from keet.analysis.recapture import setting_of
from keet.analysis.roofline.memory import memory_ceilings
from keet.analysis.several_launches.traffic import are_variants, is_same_size
from keet.analysis.time_model import TimeModel
from keet.documents.amounts import ArrayDocument, Basis
from keet.evidence import Evidence
from keet.profile import Profile
from keet.units import Quantity

_REGISTER_BYTES = 4
"""Bytes."""
_ATOMICS = ("global_atomic_sectors", "global_reduction_sectors")


class DataArray(NamedTuple):
    """What a launch touches of the data behind one pointer."""

    name: str | None
    """None: all that the launch reads or writes, by counters."""
    bytes: float | None
    """None: not known."""
    is_exact: bool
    """Else it is about or at most so much."""
    is_read: bool
    is_written: bool


class MovedData:
    """The data of one launch that stands for others. `None`: the report does not say."""

    def __init__(self, view: LaunchView, *, flushed: bool) -> None:
        """`flushed`: whether ncu emptied the caches before the launch, so that DRAM delivers all
        that it reads."""
        self.view = view
        self._flushed = flushed

    @cached_property
    def read(self) -> Evidence | None:
        """Bytes, each at least once: from DRAM if the caches were empty, else from L2."""
        sectors = self.view.get("l2_l1_read_sectors")
        from_l2 = self._bytes("moved_read_l2", "bytes read from L2", sectors)
        dram = self.view.get("dram_bytes_read") if self._flushed else None
        # What DRAM reads beyond what L2 delivers fills sectors that are written in part.
        return min(filter(None, (from_l2, dram)), key=lambda piece: piece.value, default=None)

    @cached_property
    def written(self) -> Evidence | None:
        """Bytes that are sent to L2."""
        sectors = self.view.get("l2_l1_write_sectors")
        return self._bytes("moved_written_l2", "bytes written to L2", sectors)

    def _bytes(self, name: str, label: str, sectors: Evidence | None) -> Evidence | None:
        if sectors is None:
            return None
        amount = float(sectors.value) * SECTOR
        return self.view.ledger.derived(name, amount, label, sectors, unit="byte")

    @cached_property
    def moved(self) -> Evidence | None:
        """Read and written together."""
        if self.read is None or self.written is None:
            return None
        return self.view.total("moved_bytes", "bytes read and written", self.read, self.written)

    @cached_property
    def through_dram(self) -> Evidence | None:
        """Bytes that DRAM reads and writes. What is still in L2 at the end is not written yet."""
        read, written = self.view.get("dram_bytes_read"), self.view.get("dram_bytes_written")
        if read is None or written is None:
            return None
        return self.view.total("moved_dram", "bytes that DRAM reads and writes", read, written)

    @cached_property
    def documents(self) -> tuple[ArrayDocument, ...]:
        """All that is known of its arrays."""
        return arrays(self.view)

    @cached_property
    def arrays(self) -> tuple[DataArray, ...]:
        return tuple(
            DataArray(
                document.name,
                document.distinct_bytes,
                document.basis == "exact",
                document.access != "written",
                document.access != "read",
            )
            for document in self.documents
        )

    @cached_property
    def basis(self) -> Basis | None:
        """How the sizes of all arrays together are known; None: one of them is not."""
        bases = {document.basis for document in self.documents}
        order: tuple[Basis, ...] = ("bound", "estimate", "exact")
        return None if None in bases else next((basis for basis in order if basis in bases), None)

    @cached_property
    def distinct(self) -> Evidence | None:
        """Bytes of all arrays; None unless all of them are known exactly."""
        if self.basis != "exact":
            return None
        amount = Quantity(sum(array.bytes or 0.0 for array in self.arrays), "byte")
        return self.view.ledger.derived("moved_distinct", amount, "bytes of all its arrays")

    @cached_property
    def has_atomics(self) -> bool:
        """Whether atomics change data, which the counter of writes does not count."""
        return any(self.view.value(name) for name in _ATOMICS)

    @cached_property
    def follows_data(self) -> bool:
        """Whether loaded data choose what it reads, so that a thread may need any part of it."""
        return gathered_share(self.view) >= SAVED_PART

    @cached_property
    def start_share(self) -> float:
        """Part of the launch's time in which the grid starts and drains, 0 to 1."""
        return TimeModel(self.view).fixed

    def rate(self, level: str) -> Evidence | None:
        """Peak of `dram` or `l2` in bytes per second; None if it is not known, or 0."""
        return self._peaks.get(level)

    @cached_property
    def _peaks(self) -> dict[str, Evidence]:
        ceilings, _ = memory_ceilings(self.view.ledger, self.view.ceilings)
        return {x.id: x.peak for x in ceilings if x.peak is not None and x.peak.value}

    @cached_property
    def capacity(self) -> dict[str, Evidence]:
        """Bytes that L2, and the shared memory and registers of all SMs hold; without those that
        are not known."""
        view, ledger = self.view, self.view.ledger
        capacities: dict[str, Evidence] = {}
        if size := view.get("device_l2_size"):
            capacities["L2"] = size
        count = view.get("device_sm_count")
        for name, metric, width in (
            ("shared memory", "device_shared_memory_per_sm", 1),
            ("registers", "device_registers_per_sm", _REGISTER_BYTES),
        ):
            if count and (of_sm := view.get(metric)):
                amount = Quantity(float(of_sm.value) * float(count.value) * width, "byte")
                label = f"{name} of all SMs"
                capacities[name] = ledger.derived(f"capacity_{name}", amount, label, of_sm, count)
        return capacities


def empties_caches(profile: Profile) -> bool:
    """Whether ncu emptied the caches before each launch; False if that is not known."""
    setting = setting_of(profile, "cache-control")
    return setting is not None and setting.value == "all"


class DataSize(NamedTuple):
    """How much data launches move. All of it is read or written by each turn."""

    bytes: float
    basis: Basis
    by_names: bool
    """It counts arrays of several kernels once if they have the same name and size."""
    least: float
    """The largest amount that one of the kernels touches for certain."""


def data_size(data: Sequence[MovedData]) -> DataSize:
    """Of one launch of each kernel. Where arrays are not known, all bytes that it reads and writes
    count; they may be the same."""
    named: dict[tuple[str | None, float], None] = {}
    every = unknown = least = 0.0
    for launch_data in data:
        if launch_data.basis is None:
            unknown += float(launch_data.moved.value) if launch_data.moved else 0.0
        else:
            named |= dict.fromkeys((array.name, array.bytes or 0.0) for array in launch_data.arrays)
            every += sum(array.bytes or 0.0 for array in launch_data.arrays)
        exact = sum(array.bytes or 0.0 for array in launch_data.arrays if array.is_exact)
        least = max(least, exact)
    once = sum(size for _, size in named)
    bases = {launch_data.basis for launch_data in data}
    basis: Basis = "estimate" if bases <= {"exact", "estimate"} else "bound"
    if bases == {"exact"}:  # names are no proof, but more data than all arrays there is not
        basis = "exact" if len(data) == 1 else "bound"
    return DataSize(once + unknown, basis, once < every, least)


_UNNAMED_PREFIX = "param+"
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
        sizes = [array.bytes for array in self.written]
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
    hand_overs: list[Candidate] = []
    for row, readers in _later(order, data).items():
        for written in _side(data[row], is_written=True):
            of_array = list(_readers_of(written, data, row, readers))
            if any(candidate.same_name and candidate.is_between_kernels for candidate in of_array):
                of_array = [candidate for candidate in of_array if candidate.same_name]
            hand_overs += (candidate._replace(readers=len(of_array)) for candidate in of_array)
    joined = [_joined(list(some)) for _, some in groupby(sorted(hand_overs, key=_key), key=_key)]
    return sorted(joined, key=lambda x: (not x.same_name, -round(x.bytes, -3), x.writers_between))


def _key(candidate: Candidate) -> tuple[object, ...]:
    """Equal for candidates that are told together: arrays with the same names."""
    writer, reader = candidate.writer.view.launch.id, candidate.reader.view.launch.id
    return (writer, reader, "" if candidate.same_name else candidate.written[0].name or "")


def _joined(some: Sequence[Candidate]) -> Candidate:
    first = some[0]
    if not first.same_name or len(some) == 1:
        return first
    return first._replace(
        written=tuple(candidate.written[0] for candidate in some),
        read=tuple(candidate.read[0] for candidate in some),
        readers=max(candidate.readers for candidate in some),
    )


def _later(order: Sequence[int], data: Mapping[int, MovedData]) -> dict[int, list[int]]:
    """Per row, the rows with a launch after its first one: where launches repeat, each may follow
    each."""
    first, last = dict[int, int](), {row: at for at, row in enumerate(order)}
    for at, row in enumerate(order):
        first.setdefault(row, at)
    rows = [row for row in first if row in data]  # in the order of their first launches
    later = {}
    for at, row in enumerate(rows):
        after = (*rows[at + 1 :], *rows[: at + 1])
        later[row] = [other for other in after if last[other] > first[row]]
    return later


def _readers_of(
    written: DataArray, data: Mapping[int, MovedData], row: int, readers: Sequence[int]
) -> Iterator[Candidate]:
    between, later = 0, 0.0
    for other in readers:
        candidate = _between(data[row], data[other], written)
        if candidate and not candidate.same_name:
            yield candidate._replace(writers_between=between)
        elif candidate and later < (candidate.read[0].bytes or math.inf):
            yield candidate  # else all of it was written again
        stored = _side(data[other], is_written=True)
        between += any(is_same_size(written.bytes, array.bytes) for array in stored)
        if other != row and not (written.name or _UNNAMED_PREFIX).startswith(_UNNAMED_PREFIX):
            again = (x.bytes or 0.0 for x in stored if x.name == written.name and x.is_exact)
            later = max((later, *again))


def _between(writer: MovedData, reader: MovedData, written: DataArray) -> Candidate | None:
    first, second = writer.view.launch, reader.view.launch
    is_other = first.name.full != second.name.full and first.device == second.device
    may_hand_over = is_other and not are_variants(first, second)  # two kernels, no versions of one
    if not (writer.arrays if reader is writer else may_hand_over):
        return None
    every = _side(reader, is_written=False)
    named = [read for read in every if _has_name(read, written, writer, reader)]
    if named:
        return Candidate(writer, reader, (written,), (named[0],), same_name=True)
    outer = (written.name or "").rpartition(".")[0]
    same = tuple(
        read
        for read in every
        if is_same_size(written.bytes, read.bytes)
        # Two members of one structure, `nodes.x` and `nodes.fx`, are two arrays.
        if not outer or read.name == written.name or (read.name or "").rpartition(".")[0] != outer
    )
    # Few bytes are often equal by chance.
    if not same or (written.bytes or 0.0) < FEW_BYTES:
        return None
    return Candidate(writer, reader, (written,), same, same_name=False)


def _has_name(read: DataArray, written: DataArray, writer: MovedData, reader: MovedData) -> bool:
    """An array of the same name whose size is the same, or not known exactly. `elements.stress` and
    `stress` may be the same array; `nodes.x` and `cells.x` are not."""
    first, second = read.name, written.name
    if first is None or second is None:
        return False
    outer, _, inner = max(first, second, key=len).rpartition(".")
    if first != second and not (outer and inner == min(first, second, key=len)):
        return False
    is_named = writer is reader or not second.startswith(_UNNAMED_PREFIX)
    may_be = not read.is_exact or not written.is_exact
    return is_named and (may_be or is_same_size(written.bytes, read.bytes))


def _side(data: MovedData, *, is_written: bool) -> list[DataArray]:
    """The arrays that a launch writes or reads; all of it as one, where they are not known."""
    every = data.written if is_written else data.read
    if data.arrays or every is None:
        return [x for x in data.arrays if (x.is_written if is_written else x.is_read)]
    size = float(every.value)
    return [DataArray(None, size, False, is_read=not is_written, is_written=is_written)]


# --- arrays that are read many times


class Reread(NamedTuple):
    """An array that a launch reads many times, by the size that another launch writes: where a
    kernel computes addresses from data, keet can't tell how large an array is. That both arrays are
    the same is an assumption: their names are all there is."""

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
    by_array: dict[tuple[int, str], list[Reread]] = {}
    for candidate in candidates:
        if candidate.same_name and candidate.is_between_kernels:
            for reread in _rereads_of(candidate):
                by_array.setdefault((reread.reader.view.launch.id, reread.array), []).append(reread)
    agreed = [
        some[0]
        for some in by_array.values()
        if all(is_same_size(reread.written, some[0].written) for reread in some)
        and max(some[0].times, some[0].times_from_l2 or 0.0) >= AGAIN
    ]
    return sorted(agreed, key=lambda reread: (-reread.times, -(reread.times_from_l2 or 0.0)))


def _rereads_of(candidate: Candidate) -> Iterator[Reread]:
    """Of arrays whose size the reader does not tell, and whose traffic is that of its launch."""
    documents = {document.name: document for document in candidate.reader.documents}
    for written, read in zip(candidate.written, candidate.read, strict=True):
        document = documents.get(read.name or "")
        if document is None or not written.is_exact or not written.bytes:
            continue
        is_measured = document.access == "read" and document.traffic_basis == "measured"
        dram = document.dram_bytes or 0.0
        if document.distinct_bytes is None and is_measured and dram >= SMALL:
            moved = (written.bytes, dram, document.l2_bytes)
            yield Reread(candidate.writer, candidate.reader, document.name, *moved)
