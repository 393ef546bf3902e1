"""What one launch reads and writes, by array where that is known, and what the chip of its GPU can
hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.units import gathered_share
from keet.analysis.capture.ncu_command_line import setting_of
from keet.analysis.hardware.rates import SECTOR
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import SAVED_PART
from keet.analysis.roofline.memory import memory_ceilings
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
        sectors, dram = self.view.get("l2_l1_read_sectors"), self.view.get("dram_bytes_read")
        from_l2 = self._bytes("moved_read_l2", "bytes read from L2", sectors)
        if from_l2 is None or dram is None or not self._flushed:
            return from_l2 or (dram if self._flushed else None)
        # What DRAM reads beyond that fills sectors that are written in part.
        return min(from_l2, dram, key=lambda piece: piece.value)

    @cached_property
    def written(self) -> Evidence | None:
        """Bytes that are sent to L2."""
        sectors = self.view.get("l2_l1_write_sectors")
        return self._bytes("moved_written_l2", "bytes written to L2", sectors)

    def _bytes(self, name: str, label: str, sectors: Evidence | None) -> Evidence | None:
        if sectors is None:
            return None
        amount = Quantity(float(sectors.value) * SECTOR, "byte")
        return self.view.ledger.derived(name, amount, label, sectors)

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
        """Peak of `dram` or `l2` in bytes per second."""
        return self._peaks.get(level)

    @cached_property
    def _peaks(self) -> dict[str, Evidence]:
        ceilings, _ = memory_ceilings(self.view.ledger, self.view.ceilings)
        return {ceiling.id: ceiling.peak for ceiling in ceilings if ceiling.peak}

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
    named: dict[tuple[str | None, float], float] = {}
    every = unknown = least = 0.0
    for launch_data in data:
        sizes = [(array.name, array.bytes or 0.0) for array in launch_data.arrays]
        if launch_data.basis is None:
            unknown += float(launch_data.moved.value) if launch_data.moved else 0.0
        else:
            named |= {array: array[1] for array in sizes}
            every += sum(size for _, size in sizes)
        exact = sum(array.bytes or 0.0 for array in launch_data.arrays if array.is_exact)
        least = max(least, exact)
    once = sum(named.values())
    bases = {launch_data.basis for launch_data in data}
    basis: Basis = "estimate" if bases <= {"exact", "estimate"} else "bound"
    if bases == {"exact"} and len(data) == 1:
        basis = "exact"
    elif bases == {"exact"}:
        basis = "bound"  # names are no proof, but more data than all arrays there is not
    return DataSize(once + unknown, basis, once < every, least)
