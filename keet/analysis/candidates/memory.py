"""Candidates in other memory than global: shared and local memory, hot addresses, host memory."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import (
    MEMORY_WAITS,
    MIO_WAITS,
    Candidate,
    kept_waits,
    shared_part,
)
from keet.analysis.hardware.ceilings import HOST_LINK
from keet.analysis.hardware.host_link import from_host
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import HOT_LINE, Effect, HotLine, TimeModel


def bank_conflicts(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
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
    if conflicts is None or fronts is None or not conflicts.value:
        return
    share = view.percent(
        "bank_conflict_share", "shared wavefronts lost to bank conflicts", conflicts, fronts
    )
    if share is None:
        return
    wasted = min(1.0, float(share.value) / 100)
    all_fronts = max(view.value("shared_wavefronts") or 0.0, float(fronts.value))
    of_l1 = wasted * float(fronts.value) / all_fronts * _of_l1(view)
    yield Candidate(
        "shared_bank_conflict",
        f"{share:.0f} of the {fronts}s of shared memory are repeats, because "
        "threads of a warp access different words in the same bank.",
        Effect(
            {"L1": 1 - of_l1},
            kept_waits(model, MIO_WAITS, wasted),
            least=other_waits(model),
        ),
        (share, conflicts, fronts),
        lambda: view.column_places("excess wavefronts", "src_shared_wavefronts_excess"),
    )


def other_waits(model: TimeModel) -> float:
    """Time that warps wait for other things than shared memory; half of it may be queueing behind
    it."""
    related = model.waiting_for(*MIO_WAITS, "lg_throttle", "barrier")
    issued = model.view.ceilings.share("issue") or 0.0
    return parameter("unrelated_waits") * (1 - related) * max(0.0, 1 - issued)


def _of_l1(view: LaunchView) -> float:
    """Share of L1's work that is shared memory; 1 if not known."""
    part = shared_part(view)
    return 1.0 if part is None else part


def shared_atomics(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    conflicts, fronts = view.get("bank_conflicts_atomic"), view.get("shared_atomic_wavefronts")
    if conflicts is None or fronts is None or not conflicts.value:
        return
    share = view.percent(
        "atomic_conflict_share", "wavefronts of shared atomics that are repeats", conflicts, fronts
    )
    if share is None:
        return
    wasted = min(1.0, float(share.value) / 100)
    all_fronts = max(view.value("shared_wavefronts") or 0.0, float(fronts.value))
    of_l1 = wasted * float(fronts.value) / all_fronts * _of_l1(view)
    waits = kept_waits(model, MIO_WAITS, wasted) | kept_waits(
        model, MEMORY_WAITS, wasted * parameter("indirect")
    )
    yield Candidate(
        "atomic_contention",
        f"{share:.0f} of the {fronts}s of atomics on shared memory are repeats: threads of a warp "
        "update the same address.",
        Effect(
            {"L1": max(1 - of_l1, 1 - parameter("most_removed"))}, waits, least=other_waits(model)
        ),
        (share, conflicts, fronts),
        lambda: view.column_places("excess wavefronts", "src_shared_wavefronts_excess"),
        variant="shared",
    )


def atomic_places(view: LaunchView) -> tuple[Place, ...]:
    """Lines of global atomics, by executions; sampled lines without the machine code."""
    if view.code is None:
        return view.sampled_places()
    program = view.code.program
    costs = {
        program.code[atomic.position].address: program.counts[atomic.position]
        for atomic in view.code.atomics
        if atomic.memory == "global"
    }
    return view.places_by("atomics", costs) or view.sampled_places()


def hot_slice(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Atomics on few addresses, or plain accesses to few lines: one L2 slice serves them all."""
    hot = model.hot_line
    if hot is None:
        return
    removed = parameter("most_removed")
    waits = kept_waits(model, MEMORY_WAITS, removed * hot.load)
    yield Candidate(
        "atomic_contention" if hot.is_atomic else "l2_partition_imbalance",
        _one_slice(hot),
        Effect({HOT_LINE: 1 - removed}, waits),
        (hot.skew, hot.most, hot.usual),
        (lambda: atomic_places(view)) if hot.is_atomic else view.sampled_places,
        variant="global" if hot.is_atomic else "",
    )


def _one_slice(hot: HotLine) -> str:
    how = "atomics" if hot.is_atomic else "plain loads or stores"
    if hot.is_in_host:
        return (
            f"One slice of L2 is active {hot.skew:.1f} times as long as an average one: {how} "
            "access the same line of host memory repeatedly, one access after the other."
        )
    return (
        f"The busiest slice of L2 looks up {hot.skew:.1f} times the sectors of an average one: "
        f"{how} of many threads access the same few addresses."
    )


def local_memory(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
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
    if share is None:
        return
    wasted = float(share.value) / 100
    l2 = _without_local(view, 1 - wasted)
    variant = _local_cause(view)
    units = {"L1": 1 - wasted, "L2": l2, "DRAM": l2, "LSU": 1 - parameter("indirect") * wasted}
    yield Candidate(
        "local_memory_spill",
        f"{share:.0f} of the sectors that L1 serves belong to local memory: {_LOCAL[variant]}.",
        Effect(units, kept_waits(model, MEMORY_WAITS, wasted)),
        (share, local, every),
        lambda: view.column_places("local sectors", "src_l2_sectors_local"),
        variant=variant,
    )


_LOCAL = {
    "spill": "registers that the compiler spilled",
    "array": "arrays that are indexed at run time (the compiler spilled no registers)",
    "": "spilled registers, or arrays that are indexed at run time",
}


def _local_cause(view: LaunchView) -> str:
    spilled = view.value("spilling_requests")
    loads, stores = view.value("local_load_requests"), view.value("local_store_requests")
    if spilled is None or loads is None or stores is None:
        return ""
    # A wide store makes several requests, so `mostly spills` is enough.
    return "array" if not spilled else "spill" if spilled >= 0.75 * (loads + stores) else ""


def _without_local(view: LaunchView, kept: float) -> float:
    """Work that L2 keeps: L1 absorbs most of local memory while it fits."""
    moved = view.value("l2_l1_sectors")
    loads, stores = view.value("global_load_sectors_missed"), view.value("global_store_sectors")
    if not moved or loads is None or stores is None:
        return kept
    return min(1.0, max(kept, (loads + stores) / moved))


def host_link(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    load, rate = model.loads.get(HOST_LINK, 0.0), view.ceilings.rate(HOST_LINK)
    if not load or rate is None:
        return
    reached, removed = view.ceilings.reached(HOST_LINK), parameter("most_removed")
    units, hot = {HOST_LINK: 1 - removed}, model.hot_line
    if (
        hot is not None and hot.is_in_host
    ):  # L2 would serve such a line at once if it were in the GPU's memory
        units[HOT_LINE], load = 1 - removed, max(load, hot.load)
    part = from_host(view.ledger)
    fills = f", and {part:.0f} of what L2 fetches comes from there" if part is not None else ""
    yield Candidate(
        "pcie_or_nvlink_traffic",
        f"The kernel itself moves {rate} between the GPU and the host's memory{fills}.",
        Effect(units, kept_waits(model, MEMORY_WAITS, removed * load)),
        tuple(e for e in (rate, reached, part) if e is not None),
        view.sampled_places,
    )


def replays(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """L1 is busy much longer than the instructions require, and no counter shows why."""
    stage, asked = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    measured = ("src_l2_sectors_global", "bank_conflicts_load", "global_load_sectors")
    if stage is None or asked is None or any(view.get(each) for each in measured):
        return
    if model.busiest not in ("L1", "L2"):
        return
    if model.loads.get("DRAM", 0.0) > model.pressure * parameter("indirect"):
        return  # L2 only passes on DRAM's bytes
    shared = view.value("shared_memory_per_block") or 0.0
    own = shared - (view.value("shared_memory_driver") or 0.0)
    times = view.ratio("l1_passes", "L1 busy over LSU busy", stage, asked)
    if times is None:
        return
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
    replays,
    bank_conflicts,
    shared_atomics,
    hot_slice,
    local_memory,
    host_link,
)
