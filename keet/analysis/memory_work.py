"""The parts of L1's work and of waiting that belong to one memory, for findings and claims."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from keet.analysis.candidate import MIO_WAITS, kept_waits
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hotspots.source_lines import ACCESS_BYTES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import GLOBAL, GLOBAL_ATOMICS, LOCAL, SHARED
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, Effect, TimeModel, float_atomics

UNRELATED_WAITS = Parameter(
    0.8, "share of other waiting that stays when shared memory is relieved", "fit"
)
# Below 1, because wide stores make several requests of one instruction.
MOSTLY_SPILLS = Parameter(0.75, "spill over local requests: registers are spilled", "judgement")
_GLOBAL, _SHARED = 4, 16
"""ncu's codes of memories in `memory_type`: their sum for copies from one to the other."""
_LOADS_AND_STORES = (2, 4, 6)
"""ncu's codes in `memory_access_type`; asynchronous copies do both."""
SECTORS_PER_LINE = 4
"""A cache line of 128 bytes: a pass through L1 serves one."""


@cached_per_view
def global_addresses(view: LaunchView) -> list[int]:
    """Addresses of the instructions that load from or store to global memory. Atomics are left
    out: data scatters them, not the layout."""
    atomics = set(global_atomics(view))
    kinds = view.by_address("memory_type")
    return [
        address for address, kind in kinds.items() if kind == _GLOBAL and address not in atomics
    ]


@cached_per_view
def global_atomics(view: LaunchView) -> list[int]:
    """Addresses of atomics and reductions on global memory; the latter have no kind of access.
    None if the report does not have the kinds."""
    operations = view.by_address("memory_access_type")
    return [
        address
        for address, kind in view.by_address("memory_type").items()
        if operations and kind == _GLOBAL and operations.get(address) not in _LOADS_AND_STORES
    ]


@cached_per_view
def shared_addresses(view: LaunchView) -> list[int]:
    """Addresses of the instructions that load from or store to shared memory, asynchronous copies
    included. Atomics are left out: their threads access one word, not one bank."""
    operations = view.by_address("memory_access_type")
    return [
        address
        for address, kind in view.by_address("memory_type").items()
        if int(kind) & _SHARED and operations.get(address) in _LOADS_AND_STORES
    ]


@cached_per_view
def _widths(view: LaunchView) -> dict[int, tuple[int, float]]:
    """Bytes per thread of an access, and its threads, by address."""
    threads = view.by_address("thread_inst_executed_true")
    return {
        address: (ACCESS_BYTES.get(code, 0), float(threads.get(address, 0.0)))
        for address, code in view.by_address("memory_access_size_type").items()
    }


@cached_per_view
def global_accesses(view: LaunchView) -> list[tuple[int, float]]:
    """Bytes per thread and number of threads, per load or store on global memory."""
    widths = _widths(view)
    return [widths[address] for address in global_addresses(view) if address in widths]


def requested_bytes(view: LaunchView, addresses: Iterable[int] | None = None) -> float:
    """Bytes that threads load and store on global memory; only those of the instructions at
    `addresses`, if given. 0: not known."""
    read_at = global_addresses(view) if addresses is None else addresses
    widths = _widths(view)
    return sum(math.prod(widths.get(address, (0, 0.0))) for address in read_at)


@cached_per_view
def widened_parts(view: LaunchView) -> dict[int, float]:
    """By address of a load or store on global memory: the part, 0 to 1, that wider accesses could
    save. A warp whose threads all load the same word touches one sector. Neighbouring threads have
    no neighbouring words there that one of them could move for the others. 1 if sectors were not
    counted, and where even distinct words fit into one sector."""
    sectors = view.table.column("src_l2_sectors_global") or {}
    executed, widths = view.table.executed or {}, _widths(view)
    parts = dict.fromkeys(global_addresses(view), 1.0)
    for address in parts:
        runs, (size, threads) = executed.get(address, 0), widths.get(address, (0, 0.0))
        distinct = size * threads / SECTOR - runs
        if address in sectors and runs and distinct > 0:
            parts[address] = min(1.0, max(0.0, (sectors[address] - runs) / distinct))
    return parts


def widened_share(view: LaunchView) -> float:
    """That part of all executed loads and stores on global memory, 0 to 1."""
    executed, parts = view.table.executed or {}, widened_parts(view)
    every = sum(executed.get(address, 0) for address in parts)
    widened = sum(executed.get(address, 0) * part for address, part in parts.items())
    return widened / every if every else 1


def access_width(view: LaunchView) -> float | None:
    """Bytes per thread of a global access, on average; None where it is not known."""
    accesses = global_accesses(view)
    threads = sum(count for _, count in accesses)
    return sum(size * count for size, count in accesses) / threads if threads else None


def accesses_saved(view: LaunchView, widest: float) -> dict[int, int]:
    """By address: executions of a load or store on global memory that accesses of `widest` bytes
    per thread would save, times threads. None of a word that all threads of a warp load."""
    parts, widths = widened_parts(view), _widths(view)
    sized = ((address, *widths[address]) for address in global_addresses(view) if address in widths)
    return {
        address: int(threads * (1 - width / widest) * parts[address])
        for address, width, threads in sized
        if 0 < width < widest
    }


def global_part(view: LaunchView) -> float:
    """Share of L1's work that is global memory, 0 to 1."""
    world, local = (_loads_and_stores(view, space, "sectors") for space in ("global", "local"))
    plain = world / (world + local) if world else 1.0
    shared = view.value("shared_wavefronts")
    # A pass through L1 serves at least one sector.
    most = (world + local) / (world + local + shared) if world and shared else 1.0
    return plain * min(most, 1 - _shared_part(view, unknown=0.0))


def _loads_and_stores(view: LaunchView, memory: str, unit: str) -> float:
    return view.sum_of(f"{memory}_load_{unit}", f"{memory}_store_{unit}")


def global_loads_part(view: LaunchView) -> float:
    """Share of the passes through the LSU pipe and L1 that are global loads, 0 to 1; 1 if passes
    of shared memory were not counted. A pass of a coalesced load serves four sectors."""
    sectors, requests = view.value("global_load_sectors"), view.value("global_load_requests")
    loads = max(requests or 0.0, (sectors or 0.0) / SECTORS_PER_LINE)
    every = loads + (view.value("shared_wavefronts") or 0.0)
    return loads / every if loads else 1.0


def global_requests_part(view: LaunchView) -> float:
    """Share of the LSU pipe's instructions that access global memory, 0 to 1; 1 if they were not
    counted. The pipe takes an instruction once, however many passes through L1 it needs."""
    world, others = view.count(*GLOBAL - GLOBAL_ATOMICS), view.count(*SHARED | LOCAL)
    return world / (world + others) if world else 1.0


def global_accesses_part(view: LaunchView) -> float:
    """Share of the loads and stores on global and local memory that is global, 0 to 1; 1 if they
    were not counted. Warps wait for both in the same warp states."""
    world, local = (_loads_and_stores(view, space, "inst") for space in ("global", "local"))
    if not world:
        world, local = view.count(*GLOBAL - GLOBAL_ATOMICS), view.count(*LOCAL)
    return world / (world + local) if world else 1.0


SPREAD_PASSES = 3.53
"""Wavefronts of an atomic on shared memory whose 32 threads access random words: the most of them
that meet in one of 32 banks, on average (32 balls in 32 bins). That many repeats are no
contention."""


def shared_atomics_by_data(view: LaunchView) -> bool:
    """Whether data chooses the addresses of atomics on shared memory, or may do so."""
    regular = ("one address", "one address per block", "one address per warp or less")
    spreads = {atomic.spread for atomic in view.atomics("shared")}
    return view.code is None or not spreads <= {*regular, "different addresses"}


ATOMIC_SECTORS = ("global_reduction_sectors", "global_atomic_sectors")


FLOAT_PASSES = Parameter(
    7.8,
    "passes through L1 of an addition of floats on shared memory, over those of integers",
    "fit",
)
"""Shared memory has no such addition: it is a loop of loads and swaps. A warp needs 3.6 rounds with
27.5 passes for doubles in a table of 4096 words, and 18.6 with 169 for floats in one of 512."""


def without_atomic_requests(view: LaunchView, retried: float = 0.0) -> float:
    """What is left of L1's work, 0 to 1, if atomics on global memory, which pass through L1 once
    per request, become atomics on shared memory; 1: not counted. `retried`: the share of them that
    is retries of compare-and-swap loops, which additions do not need."""
    requests = view.sum_of(*ATOMIC_SECTORS)
    # Sectors of swaps are counted with those of other atomics, their instructions are not.
    kinds = ("global_reduction_inst", "global_atomic_inst", "global_cas_inst")
    runs = (1 - retried) * view.sum_of(*kinds)
    if not requests or not runs:
        return 1.0
    plain = _loads_and_stores(view, "global", "sectors")
    part = requests / (requests + plain / SECTORS_PER_LINE)
    passes = SPREAD_PASSES * (1 + (FLOAT_PASSES - 1) * float_atomics(view, "chosen by data"))
    needed = min(1.0, passes * runs / requests)
    return 1 - part * (1 - needed) * (1 - _shared_part(view, unknown=0.0))


def _shared_part(view: LaunchView, unknown: float) -> float:
    """Share of L1's work that is shared memory, 0 to 1. Relative to the data stage alone where ncu
    counts the stage twice in the share of L1 (7.5): so are shares of wavefronts."""
    shared, whole = view.value("shared_wavefronts_pct"), view.ceilings.share("L1")
    stage = view.ceilings.stage("L1")
    if stage is not None and stage.inferred and stage.id == "l1_data_stage":
        stages = view.ceilings.stages("L1")
        whole = next(candidate.share for candidate in stages if candidate.id == stage.id)
    return unknown if shared is None or not whole else min(1.0, shared / 100 / whole)


def less_shared(model: TimeModel, removed: float, fronts: float | None = None) -> Effect:
    """Without the share `removed` of these wavefronts of shared memory; None: of all of them."""
    view = model.view
    of_all = max(view.value("shared_wavefronts") or 0.0, fronts) if fronts else 1.0
    units = {"L1": 1 - removed * (fronts or 1.0) / of_all * _shared_part(view, unknown=1.0)}
    # Half of the time that warps wait for other things may be queueing behind shared memory.
    related = model.waiting_for(*MIO_WAITS, "lg_throttle", "barrier")
    issued = view.ceilings.share("issue") or 0.0
    stays = UNRELATED_WAITS * (1 - related) * max(0.0, 1 - issued)
    return Effect(units, kept_waits(model, MIO_WAITS, removed), least=stays)


def without_local(view: LaunchView) -> dict[str, float]:
    """What is left of the units' work without local memory; empty if there is none."""
    local, world = (_loads_and_stores(view, space, "sectors") for space in ("local", "global"))
    if not local:
        return {}
    wasted = local / (local + world)
    behind_l1 = behind_l2 = 1 - wasted
    moved = view.value("l2_l1_sectors")
    loads, stores = view.value("global_load_sectors_missed"), view.value("global_store_sectors")
    if moved and loads is not None and stores is not None:
        # L1 absorbs most of local memory while it fits, and L2 a part of the rest. Global loads
        # that hit L1 stay out of L2, whatever their share of L1's work.
        behind_l1 = min(1.0, (loads + stores) / moved)
        dram = view.sum_of("dram_bytes_read", "dram_bytes_written")
        at_dram = SECTOR * (loads + stores) / dram if dram else 1.0
        behind_l2 = min(1.0, max(behind_l1, at_dram))
    return {"L1": 1 - wasted, "L2": behind_l1, "DRAM": behind_l2, "LSU": 1 - INDIRECT * wasted}


def local_cause(view: LaunchView) -> Literal["spill", "array", ""]:
    """What local memory holds: spilled registers, or arrays that are indexed at run time."""
    spilled = view.value("spilling_requests")
    loads, stores = view.value("local_load_requests"), view.value("local_store_requests")
    if spilled is None or (loads is None and stores is None):
        return ""
    if not spilled:
        return "array"
    return "spill" if spilled >= MOSTLY_SPILLS * ((loads or 0) + (stores or 0)) else ""
