"""Causes in how memory is accessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.accesses import is_gather
from keet.analysis.ceilings import NEAR, bounded, less_work
from keet.analysis.findings import Finding, Place
from keet.analysis.view import View
from keet.profile import Launch
from keet.units import Quantity

_EXCESS = 30.0
"""Per cent of sectors beyond the ideal from which access is worth changing: a fully used sector is
the norm, and strides of two already waste half."""
_PRESSED = 35.0
"""Per cent of its peak from which a memory unit can be what the launch waits for: latency grows
long before bandwidth ends."""
_MEMORY_STALLS = ("long_scoreboard", "lg_throttle", "drain", "mio_throttle")


def _waits_for_memory(view: View) -> bool:
    """A memory unit is pressed, or most warps wait for memory."""
    busy = max(view.ceilings.share(unit) for unit in ("DRAM", "L2", "L1"))
    return busy >= _PRESSED / 100 or sum(view.stalls.get(r, 0) for r in _MEMORY_STALLS) >= 0.5


def uncoalesced_global(view: View) -> Iterator[Finding]:
    """Loads and stores alone: an atomic on scattered addresses is no matter of layout."""
    kinds = view.by_address("memory_type")
    plain = {address for address, kind in kinds.items() if kind == _GLOBAL}
    sectors = view.sum_over("src_l2_sectors_global", plain, "of global loads and stores")
    ideal = view.sum_over("src_l2_sectors_global_ideal", plain, "of them at the least")
    if not kinds:  # exports and older reports: atomics can't be told apart
        sectors = view.get("src_l2_sectors_global")
        ideal = view.get("src_l2_sectors_global_ideal")
    if sectors is None or ideal is None or not sectors.value:
        return
    excess = view.ledger.derived(
        "excess_sectors", Quantity(sectors.value - ideal.value, "sector"), "excess", sectors, ideal
    )
    every = view.get("src_l2_sectors_global") or sectors  # atomics and asynchronous copies too
    share = view.percent("excess_sectors_share", "global sectors beyond the ideal", excess, every)
    if share.value < _EXCESS or not _waits_for_memory(view):
        return
    kept = 1 - float(share.value) / 100
    accesses = _global_bytes(view)
    beyond = _needed_of_l2(view, accesses)
    # L1 may serve the rest of a sector to a later access: then L2 and DRAM see nothing of it.
    behind = max(kept, beyond) if beyond is not None else kept
    forecast = less_work(view.ceilings, {"L1": kept, "L2": behind, "DRAM": max(behind, 0.5)})
    places = view.places_by("excess sectors", view.table.column("src_l2_sectors_global_excess"))
    narrow = _is_narrow(accesses)
    yield Finding(
        "narrow_access" if narrow else "uncoalesced_global",
        "high" if share.value >= 50 else "medium",
        f"{share:.0f} of the {every}s that global accesses touch would not be needed if the "
        "threads of a warp accessed neighbouring bytes.",
        forecast,
        (share, every, sectors, ideal),
        places,
        "gather" if not narrow and is_gather(view.accesses("uncoalesced_global", places)) else "",
    )


_GLOBAL = 4
"""ncu's code for global memory in `memory_type`."""


_Accesses = list[tuple[float, float]]
"""Bytes a thread and threads that ran, for each instruction on global memory."""


def _global_bytes(view: View) -> _Accesses:
    columns = ("memory_type", "memory_access_size_type", "thread_inst_executed_true")
    kinds, sizes, threads = (view.by_address(name) for name in columns)
    return [
        (sizes[address] / 8, threads.get(address, 0.0))
        for address, kind in kinds.items()
        if kind == _GLOBAL and address in sizes
    ]


def _is_narrow(parts: _Accesses) -> bool:
    """Most accesses move one or two bytes a thread."""
    total = sum(threads for _, threads in parts)
    return total > 0 and sum(size * threads for size, threads in parts) / total <= 2


def _needed_of_l2(view: View, parts: _Accesses) -> float | None:
    """Bytes that threads asked for, over the bytes that L2 moved for them."""
    moved = view.value("l2_l1_sectors")
    needed = sum(size * threads for size, threads in parts)
    return min(1.0, needed / (32 * moved)) if moved and needed else None


def shared_bank_conflict(view: View) -> Iterator[Finding]:
    conflicts = view.total(
        "bank_conflicts",
        "shared-memory bank conflicts",
        view.get("bank_conflicts_load"),
        view.get("bank_conflicts_store"),
    )
    fronts = view.total(
        "shared_wavefronts",
        "shared-memory wavefronts",
        view.get("shared_load_wavefronts"),
        view.get("shared_store_wavefronts"),
    )
    if conflicts is None or fronts is None or not fronts.value:
        return
    share = view.percent(
        "bank_conflict_share", "shared wavefronts lost to bank conflicts", conflicts, fronts
    )
    waits = view.stalls.get("mio_throttle", 0) + view.stalls.get("short_scoreboard", 0)
    if share.value < 20 or (view.ceilings.share("L1") < NEAR / 100 and waits < 0.3):
        return
    kept = 1 - float(share.value) / 100
    places = view.places_by("excess wavefronts", view.table.column("src_shared_wavefronts_excess"))
    yield Finding(
        "shared_bank_conflict",
        "high" if view.ceilings.share("L1") >= NEAR / 100 else "medium",
        f"{share:.0f} of the {fronts}s of shared memory are repeats for threads whose words lie in "
        "the same bank.",
        less_work(view.ceilings, {"L1": kept}),
        (share, conflicts, fronts),
        places,
    )


def local_memory_spill(view: View) -> Iterator[Finding]:
    local = view.total(
        "local_sectors",
        "local-memory sectors",
        view.get("local_load_sectors"),
        view.get("local_store_sectors"),
    )
    world = view.total(
        "global_sectors",
        "global-memory sectors",
        view.get("global_load_sectors"),
        view.get("global_store_sectors"),
    )
    if local is None or world is None or not local.value:
        return
    every = view.total("l1_sectors", "sectors of local and global memory", local, world)
    assert every is not None
    share = view.percent("local_share", "of these sectors from local memory", local, every)
    if share.value < 15 or not _waits_for_memory(view):
        return
    kept = 1 - float(share.value) / 100
    places = view.places_by("local sectors", view.table.column("src_l2_sectors_local"))
    variant = _local_cause(view)
    yield Finding(
        "local_memory_spill",
        "high" if share.value >= 40 else "medium",
        f"{share:.0f} of the sectors that L1 serves are local memory: {_LOCAL[variant]}.",
        less_work(view.ceilings, {"L1": kept, "L2": _without_local(view, kept), "DRAM": 0.5}),
        (share, local, every),
        places,
        variant,
    )


_LOCAL = {
    "spill": "registers that the compiler spilled",
    "array": "arrays that are indexed at run time, as the compiler spilled no register",
    "": "spilled registers, or arrays that are indexed at run time",
}


def _local_cause(view: View) -> str:
    spilled = view.value("spilling_requests")
    loads, stores = view.value("local_load_requests"), view.value("local_store_requests")
    if spilled is None or loads is None or stores is None:
        return ""
    # Wide stores make several requests of one instruction: mostly spills is enough.
    return "array" if not spilled else "spill" if spilled >= 0.75 * (loads + stores) else ""


def _without_local(view: View, kept: float) -> float:
    """What L2 keeps of its work: L1 absorbs most of local memory while it fits."""
    moved = view.value("l2_l1_sectors")
    loads, stores = view.value("global_load_sectors_missed"), view.value("global_store_sectors")
    if not moved or loads is None or stores is None:
        return kept
    return min(1.0, max(kept, (loads + stores) / moved))


def hot_slices(view: View) -> Iterator[Finding]:
    """Atomics on few addresses, or plain accesses to few lines: one slice of L2 works for all."""
    most, usual = view.get("l2_slice_sectors_max"), view.get("l2_slice_sectors_avg")
    if most is None or usual is None or not usual.value:
        return
    skew = view.ratio("l2_slice_skew", "busiest L2 slice over the average", most, usual)
    # It matters when the busiest slice is busy, whatever the average one does.
    if skew.value < 1.3 or view.ceilings.share("L2") * float(skew.value) < NEAR / 100:
        return
    atomic = view.total(
        "l2_atomics",
        "L2 sectors of atomics and reductions",
        view.get("l2_all_atomic_sectors"),
        view.get("l2_all_reduction_sectors"),
    )
    sectors = view.get("l2_sectors")
    contended = bool(atomic and sectors and atomic.value >= 0.2 * sectors.value)
    # The busiest slice sets the time; evenly spread it would be the average, or another unit.
    times = float(skew.value) if not contended else max(float(skew.value), 4.0)
    room = 1 / max(view.ceilings.without({}), 0.02)
    places = view.sampled_places()
    yield Finding(
        "atomic_contention" if contended else "l2_partition_imbalance",
        "high" if skew.value >= 4 else "medium",
        f"The busiest slice of L2 looks up {skew:.1f} times the sectors of an average one: many "
        f"threads want the same few addresses{', by atomics' if contended else ''}.",
        bounded(min(times, room), min(2 * times, room)),
        tuple(e for e in (skew, most, usual, atomic) if e is not None),
        places,
    )


def pcie_or_nvlink_traffic(view: View) -> Iterator[Finding]:
    misses, duration = view.get("l2_sysmem_misses"), view.get("duration")
    if misses is None or duration is None or not misses.value:
        return
    rate = view.ledger.derived(
        "sysmem_rate",
        Quantity(32 * misses.value / duration.value * 1e9, "byte/s"),
        "read and written over the link to the host",
        misses,
        duration,
    )
    # The GPU's own memory would deliver that in no time. Where it is shared with the host, there is
    # no link.
    shared = view.value("device_integrated")
    if rate.value < 4e9 or shared or view.ceilings.share("DRAM") >= NEAR / 100:
        return
    yield Finding(
        "pcie_or_nvlink_traffic",
        "high" if rate.value >= 8e9 else "medium",
        f"The kernel itself moves {rate} between the GPU and the host's memory.",
        bounded(8.0, 1 / max(view.ceilings.without({}), 0.02)),
        (rate, misses),
        view.sampled_places(),
    )


_BIG = 100e6
"""Bytes from which data does not stay in the L2 of today's GPUs from one kernel to the next."""


def repeated_passes(view: View, beside: Sequence[Launch]) -> Iterator[Finding]:
    """Other kernels of the report read as many bytes from DRAM: perhaps the same ones."""
    read = view.get("dram_bytes_read")
    if read is None or read.value < _BIG:
        return
    if view.ceilings.share("DRAM") < NEAR / 100:
        return
    others = [o for o in beside if o.kernel != view.launch.kernel and _reads_as_much(o, read.value)]
    if not others:
        return
    kernels = {o.kernel: o for o in others}
    moved = _moved(view.launch) + sum(map(_moved, kernels.values()))
    times = moved / (moved - len(kernels) * float(read.value))
    names = ", ".join(f"#{o.id} {o.kernel}" for o in kernels.values())
    yield Finding(
        "redundant_traffic",
        "low",
        f"The kernel reads {read} from DRAM and so does {names}: if that is the same data, it is "
        "moved once for each step of one computation.",
        bounded(times, times * 1.2),
        (read,),
        view.places_by("global sectors", view.table.column("src_l2_sectors_global")),
    )


_READ_SHARE = 0.4
"""Of DRAM's peak from which reading less can gain: the prototype found the same kernels from here
to 0.6."""
_REREAD = 1.5
"""Requested over distinct bytes from which a pointer counts as read again."""


def read_several_times(view: View) -> Iterator[Finding]:
    """The same bytes come from DRAM more than once within the launch."""
    if view.ceilings.share("DRAM") < _READ_SHARE:
        return
    found, read, executed = view.streaming, view.get("dram_bytes_read"), view.get("inst_executed")
    if found is None or found.verdict != "several" or not found.distinct_bytes:
        return
    if read is None or executed is None:
        return
    distinct = view.ledger.derived(
        "distinct_bytes",
        Quantity(found.distinct_bytes, "byte"),
        "distinct bytes that the loads can touch, by the machine code",
        executed,
    )
    factor = Quantity(found.times or 1.0, "")  # of what the loads asked for
    times = view.ledger.derived(
        "dram_reads_per_byte", factor, "DRAM reads of each byte", read, distinct
    )
    written = view.value("dram_bytes_written") or 0.0
    kept = 1 - float(read.value) / (float(read.value) + written) * (1 - 1 / float(times.value))
    hedge = "at most" if found.basis == "bound" else "about"
    yield Finding(
        "redundant_traffic",
        "high" if found.basis == "bound" else "medium",
        f"DRAM is read for {read}, but the addresses of the loads span {hedge} {distinct}: each "
        f"byte is read {times:.1f} times.",
        less_work(view.ceilings, {"DRAM": kept, "L2": kept}),
        (times, read, distinct),
        _reread_places(view),
    )


def _reread_places(view: View) -> tuple[Place, ...]:
    """Lines of the loads through pointers that are read more than once."""
    if view.code is None:
        return ()
    sectors = view.code.sectors or {}
    costs = {
        address: sectors.get(address, 0)
        for row in view.code.reuse
        if (row.times or 0) >= _REREAD
        for access in row.accesses
        for address in (view.code.program.code[access.position].address,)
    }
    return view.places_by("global sectors", costs)


def _moved(launch: Launch) -> float:
    """Bytes to and from DRAM."""
    parts = (launch.get("dram_bytes_read"), launch.get("dram_bytes_written"))
    return float(sum(part.value for part in parts if part))


def _reads_as_much(launch: Launch, size: float) -> bool:
    read = launch.get("dram_bytes_read")
    return read is not None and abs(read.value - size) <= 0.03 * size


CHECKS = (
    uncoalesced_global,
    shared_bank_conflict,
    local_memory_spill,
    hot_slices,
    pcie_or_nvlink_traffic,
    read_several_times,
)
