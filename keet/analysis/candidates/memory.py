"""Causes in how memory is accessed: waste of sectors, wavefronts, instructions, hot addresses."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.accesses import ACCESS_BYTES, is_gather
from keet.analysis.candidates.candidate import (
    MEMORY_WAITS,
    MIO_WAITS,
    Candidate,
    kept_waits,
)
from keet.analysis.ceilings import HOST_LINK
from keet.analysis.findings import Place
from keet.analysis.parameters import parameter
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.analysis.view import View
from keet.evidence import Evidence
from keet.units import Quantity

GLOBAL = 4
"""ncu's code for global memory in `memory_type`."""
WIDEST = 16.0
"""Bytes of the widest access of one thread."""
WORD = 4.0
"""Bytes per thread with which a warp's request is a cache line of 128 bytes."""


def uncoalesced(view: View, model: TimeModel) -> Iterator[Candidate]:
    """Loads and stores alone: an atomic on scattered addresses is no matter of layout."""
    found = _plain_sectors(view)
    if found is None:
        return
    sectors, ideal = found
    excess = view.ledger.derived(
        "excess_sectors", Quantity(sectors.value - ideal.value, "sector"), "excess", sectors, ideal
    )
    every = view.get("src_l2_sectors_global") or sectors  # atomics and asynchronous copies too
    share = view.percent("excess_sectors_share", "global sectors beyond the ideal", excess, every)
    if share.value <= 0:
        return
    kept = max(0.0, 1 - float(share.value) / 100)
    accesses = global_accesses(view)
    behind = max(kept, _needed_of_l2(view, accesses) or kept)
    variant = _gathers(view)
    if variant == "gather":  # indices decide: a part can be sorted, grouped or kept near
        kept, behind = (factor ** parameter("gathered") for factor in (kept, behind))
    # Requests of many sectors take longer where the units that serve them have queues.
    pressed = max(model.loads.get(unit, 0.0) for unit in ("L1", "LSU", "L2", "DRAM"))
    removed = (1 - kept) * pressed * parameter("coalesced_waits")
    half = parameter("indirect")
    yield Candidate(
        "uncoalesced_global",
        f"{share:.0f} of the {every}s that global accesses touch would not be needed if the "
        "threads of a warp accessed neighbouring bytes.",
        Effect(
            # L1 may serve the rest of a sector to a later access: L2 and DRAM see nothing of it.
            {"L1": kept, "L2": behind, "DRAM": max(behind, half), "LSU": max(kept, half)},
            kept_waits(model, MEMORY_WAITS, removed),
        ),
        (share, every, sectors, ideal),
        lambda: view.column_places("excess sectors", "src_l2_sectors_global_excess"),
        variant=variant,
    )


def _plain_sectors(view: View) -> tuple[Evidence, Evidence] | None:
    kinds = view.by_address("memory_type")
    plain = {address for address, kind in kinds.items() if kind == GLOBAL}
    sectors = view.sum_over("src_l2_sectors_global", plain, "of global loads and stores")
    ideal = view.sum_over("src_l2_sectors_global_ideal", plain, "of them at the least")
    if not kinds:  # exports and older reports: atomics can't be told apart
        sectors = view.get("src_l2_sectors_global")
        ideal = view.get("src_l2_sectors_global_ideal")
    if sectors is None or ideal is None or not sectors.value:
        return None
    return sectors, ideal


def _gathers(view: View) -> str:
    """Whether most excess sectors are of accesses at addresses that data decides."""
    excess = view.table.column("src_l2_sectors_global_excess") or {}
    if view.code is not None and excess:
        code = view.code.program.code
        data = {code[a.position].address for a in view.code.accesses if a.is_gather}
        part = sum(count for address, count in excess.items() if address in data)
        return "gather" if part > 0.5 * sum(excess.values()) else ""
    places = view.column_places("excess sectors", "src_l2_sectors_global_excess")
    return "gather" if is_gather(view.accesses("uncoalesced_global", places)) else ""


Accesses = list[tuple[float, float]]
"""Bytes per thread and threads that ran, for each load or store on global memory."""


def global_accesses(view: View) -> Accesses:
    columns = ("memory_type", "memory_access_size_type", "thread_inst_executed_true")
    kinds, sizes, threads = (view.by_address(name) for name in columns)
    return [
        (float(ACCESS_BYTES.get(sizes[address], 0)), threads.get(address, 0.0))
        for address, kind in kinds.items()
        if kind == GLOBAL and address in sizes
    ]


def _needed_of_l2(view: View, parts: Accesses) -> float | None:
    """Bytes that threads asked for, over the bytes that L2 moved for them."""
    moved = view.value("l2_l1_sectors")
    needed = sum(size * threads for size, threads in parts)
    return min(1.0, needed / (32 * moved)) if moved and needed else None


def access_width(view: View) -> float | None:
    """Bytes per thread of a global access, on average; None where it is not known."""
    accesses = global_accesses(view)
    threads = sum(count for _, count in accesses)
    return sum(size * count for size, count in accesses) / threads if threads else None


def narrow(view: View, model: TimeModel) -> Iterator[Candidate]:
    """Few bytes per access: instructions, or requests in flight, run out before bandwidth."""
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or not 0 < width < WIDEST:
        return
    kept = width / WIDEST
    # A request below a cache line also keeps fewer bytes in flight; above, more loads do the same.
    below_line = min(1.0, max(0.0, (WORD - width) / (WORD / 2)))
    saved = _access_share(view, below_line) * (1 - kept) * parameter("narrow_instructions")
    waits = kept_waits(model, MEMORY_WAITS, 1 - kept**below_line)
    shown = view.ledger.derived(
        "access_width", Quantity(width, "byte"), "bytes per thread and access", executed
    )
    widest = view.ledger.derived(
        "widest_access",
        Quantity(WIDEST, "byte"),
        "bytes that one access of a thread can move",
        executed,
    )
    units = dict.fromkeys(("issue", "LSU", "FMA", "ALU", "ADU", "XU"), 1 - saved)
    other = 1 - model.waiting_for(*MEMORY_WAITS)
    yield Candidate(
        "narrow_access",
        f"A global access moves {shown:.1f}s per thread on average, of the {widest:.0f}s that one "
        "instruction can.",
        Effect(units, waits, every_wait=1 - parameter("indirect") * saved * other),
        (shown, widest, executed),
        lambda: view.column_places("global sectors", "src_l2_sectors_global"),
        "assumed",
    )


def _access_share(view: View, below_line: float) -> float:
    """Of the executed instructions, those that wide accesses would save, 0 to 1.

    Accesses of words have the addresses that such accesses need; with accesses of bytes and halves
    the whole index arithmetic is done for each small element.
    """
    every = view.all_executed
    if not every:
        return 0.0
    plain = min(1.0, 3 * view.executed("LDG", "STG") / every)
    if view.code is None:
        return plain
    mix = {purpose.value: share for purpose, share in view.code.mix}
    whole = mix.get("memory", 0) + mix.get("address", 0) + mix.get("control", 0) / 2
    return max(plain, below_line * whole)


def bank_conflicts(view: View, model: TimeModel) -> Iterator[Candidate]:
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
    if conflicts is None or fronts is None or fronts.value <= 0 or conflicts.value <= 0:
        return
    share = view.percent(
        "bank_conflict_share", "shared wavefronts lost to bank conflicts", conflicts, fronts
    )
    wasted = min(1.0, float(share.value) / 100)
    all_fronts = max(view.value("shared_wavefronts") or 0.0, float(fronts.value))
    of_l1 = wasted * float(fronts.value) / all_fronts * _shared_part(view)
    yield Candidate(
        "shared_bank_conflict",
        f"{share:.0f} of the {fronts}s of shared memory are repeats for threads whose words lie in "
        "the same bank.",
        Effect(
            {"L1": 1 - of_l1},
            kept_waits(model, MIO_WAITS, wasted),
            least=_other_waits(model),
        ),
        (share, conflicts, fronts),
        lambda: view.column_places("excess wavefronts", "src_shared_wavefronts_excess"),
    )


def _other_waits(model: TimeModel) -> float:
    """Time that warps wait for other than shared memory: half of it may be queueing behind it."""
    related = model.waiting_for(*MIO_WAITS, "lg_throttle", "barrier")
    issued = model.view.ceilings.share("issue") or 0.0
    return parameter("unrelated_waits") * (1 - related) * max(0.0, 1 - issued)


def _shared_part(view: View) -> float:
    """Of L1's work, that of shared memory, 0 to 1."""
    shared, whole = view.value("shared_wavefronts_pct"), view.ceilings.share("L1")
    return 1.0 if shared is None or not whole else min(1.0, shared / 100 / whole)


def shared_atomics(view: View, model: TimeModel) -> Iterator[Candidate]:
    conflicts, fronts = view.get("bank_conflicts_atomic"), view.get("shared_atomic_wavefronts")
    if conflicts is None or fronts is None or fronts.value <= 0 or conflicts.value <= 0:
        return
    share = view.percent(
        "atomic_conflict_share", "wavefronts of shared atomics that are repeats", conflicts, fronts
    )
    wasted = min(1.0, float(share.value) / 100)
    all_fronts = max(view.value("shared_wavefronts") or 0.0, float(fronts.value))
    of_l1 = wasted * float(fronts.value) / all_fronts * _shared_part(view)
    waits = kept_waits(model, MIO_WAITS, wasted) | kept_waits(
        model, MEMORY_WAITS, wasted * parameter("indirect")
    )
    yield Candidate(
        "atomic_contention",
        f"{share:.0f} of the {fronts}s of atomics on shared memory are repeats: threads of a warp "
        "update the same address.",
        Effect(
            {"L1": max(1 - of_l1, 1 - parameter("most_removed"))}, waits, least=_other_waits(model)
        ),
        (share, conflicts, fronts),
        lambda: view.column_places("excess wavefronts", "src_shared_wavefronts_excess"),
        variant="shared",
    )


def atomic_places(view: View) -> tuple[Place, ...]:
    """Lines of the global atomics, by executions; sampled lines without the machine code."""
    if view.code is None:
        return view.sampled_places()
    program = view.code.program
    costs = {
        program.code[atomic.position].address: program.counts[atomic.position]
        for atomic in view.code.atomics
        if atomic.memory == "global"
    }
    return view.places_by("atomics", costs) or view.sampled_places()


def hot_slice(view: View, model: TimeModel) -> Iterator[Candidate]:
    """Atomics on few addresses, or plain accesses to few lines: one slice of L2 serves all."""
    hot = model.hot_line
    if hot is None:
        return
    removed = parameter("most_removed")
    waits = kept_waits(model, MEMORY_WAITS, removed * hot.load)
    how = "by atomics" if hot.is_atomic else "by plain accesses"
    yield Candidate(
        "atomic_contention" if hot.is_atomic else "l2_partition_imbalance",
        f"The busiest slice of L2 looks up {hot.skew:.1f} times the sectors of an average one: "
        f"many threads want the same few addresses, {how}.",
        Effect({HOT_LINE: 1 - removed}, waits),
        (hot.skew, hot.most, hot.usual),
        (lambda: atomic_places(view)) if hot.is_atomic else view.sampled_places,
        variant="global" if hot.is_atomic else "",
    )


def local_memory(view: View, model: TimeModel) -> Iterator[Candidate]:
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
    every = view.total("l1_sectors", "sectors that L1 serves", local, world)
    if local is None or every is None or not local.value:
        return
    share = view.percent("local_share", "local memory of L1 sectors", local, every)
    wasted = float(share.value) / 100
    l2 = _without_local(view, 1 - wasted)
    variant = _local_cause(view)
    half = parameter("indirect")
    units = {"L1": 1 - wasted, "L2": l2, "DRAM": max(half, l2), "LSU": 1 - half * wasted}
    yield Candidate(
        "local_memory_spill",
        f"{share:.0f} of the sectors that L1 serves are local memory: {_LOCAL[variant]}.",
        Effect(units, kept_waits(model, MEMORY_WAITS, wasted)),
        (share, local, every),
        lambda: view.column_places("local sectors", "src_l2_sectors_local"),
        variant=variant,
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


def host_link(view: View, model: TimeModel) -> Iterator[Candidate]:
    load, rate = model.loads.get(HOST_LINK, 0.0), view.ceilings.rate(HOST_LINK)
    if not load or rate is None:
        return
    reached, removed = view.ceilings.reached(HOST_LINK), parameter("most_removed")
    yield Candidate(
        "pcie_or_nvlink_traffic",
        f"The kernel itself moves {rate} between the GPU and the host's memory.",
        Effect({HOST_LINK: 1 - removed}, kept_waits(model, MEMORY_WAITS, removed * load)),
        tuple(e for e in (rate, reached) if e is not None),
        view.sampled_places,
    )


def replays(view: View, model: TimeModel) -> Iterator[Candidate]:
    """L1 works far longer than instructions ask of it, and no counter tells for which of them."""
    stage, asked = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    measured = ("src_l2_sectors_global", "bank_conflicts_load", "global_load_sectors")
    if stage is None or asked is None or any(view.get(each) for each in measured):
        return
    if model.busiest not in ("L1", "L2") or not asked.value:
        return
    if model.loads.get("DRAM", 0.0) > model.pressure * parameter("indirect"):
        return  # what L2 does is passing on DRAM's bytes
    shared = view.value("shared_memory_per_block") or 0.0
    own = shared - (view.value("shared_memory_driver") or 0.0)
    times = view.ratio("l1_passes", "L1 busy over LSU busy", stage, asked)
    kept = min(1.0, parameter("replayed") / max(float(times.value), 1.0))
    found = "shared_bank_conflict" if own > 0 else "uncoalesced_global"
    what = "scattered addresses or bank conflicts" if own > 0 else "scattered addresses"
    yield Candidate(
        found,
        f"L1 is busy for {stage:.0f} of the time and the LSU pipe that feeds it for {asked:.0f}, "
        f"{times:.1f} times less: an access takes many passes through L1, as with {what}.",
        Effect({"L1": kept, "L2": kept}, kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), 1 - kept)),
        (times, stage, asked),
        view.sampled_places,
        "assumed",
    )


MAKERS = (
    uncoalesced,
    replays,
    narrow,
    bank_conflicts,
    shared_atomics,
    hot_slice,
    local_memory,
    host_link,
)
