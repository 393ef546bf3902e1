"""Candidates in global memory accesses: scattered addresses, and few bytes per access."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits, shared_part
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.source_lines.array_accesses import ACCESS_BYTES, is_gather
from keet.analysis.time_model import Effect, TimeModel
from keet.analysis.view_cache import cached_per_view
from keet.evidence import Evidence
from keet.units import Quantity

GLOBAL = 4
"""ncu's code for global memory in `memory_type`."""
WIDEST = 16.0
"""Bytes of the widest access of one thread."""
WORD = 4.0
"""Bytes per thread for which a warp's request is one cache line of 128 bytes."""


def uncoalesced(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Loads and stores only: scattered atomics do not depend on the layout."""
    found = _plain_sectors(view)
    if found is None:
        return
    sectors, ideal = found
    excess = view.ledger.derived(
        "excess_sectors", Quantity(sectors.value - ideal.value, "sector"), "excess", sectors, ideal
    )
    every = view.get("src_l2_sectors_global") or sectors  # atomics and asynchronous copies too
    share = view.percent("excess_sectors_share", "global sectors beyond the ideal", excess, every)
    if share is None or share.value <= 0:
        return
    kept = max(0.0, 1 - float(share.value) / 100)
    variant = _gathers(view)
    if variant == "gather":  # indices decide: only a part can be sorted, grouped or kept close
        kept **= parameter("gathered")
    units = _fewer_sectors(view, kept)
    # Requests with many sectors take longer if the units that serve them have queues.
    relief = max(model.loads.get(unit, 0.0) * (1 - left) for unit, left in units.items())
    removed = min(1.0, relief * parameter("coalesced_waits"))
    yield Candidate(
        "uncoalesced_global",
        f"{share:.0f} of the {every}s that global accesses touch would not be needed if the "
        "threads of a warp accessed neighbouring bytes.",
        Effect(units, kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), removed)),
        (share, every, sectors, ideal),
        lambda: view.column_places("excess sectors", "src_l2_sectors_global_excess"),
        "assumed" if variant == "gather" else "measured",
        variant=variant,
    )


def _fewer_sectors(view: LaunchView, kept: float) -> dict[str, float]:
    """Work that units keep if global accesses keep the share `kept` of their sectors."""
    part = global_part(view)
    within = 1 - (1 - kept) * part
    # L1 may serve the rest of a sector to a later access, so that L2 and DRAM do not see it.
    behind = max(kept, _needed_of(view, 32 * (view.value("l2_l1_sectors") or 0.0)) or kept)
    moved = (view.value("dram_bytes_read") or 0.0) + (view.value("dram_bytes_written") or 0.0)
    last = max(behind, _needed_of(view, moved) or behind)
    return {
        "L1": within,
        "L2": 1 - (1 - behind) * part,
        "DRAM": 1 - (1 - last) * part,
        "LSU": max(within, parameter("indirect")),
    }


def global_part(view: LaunchView) -> float:
    """Share of L1's work that is global memory, 0 to 1."""
    world = sum(view.value(i) or 0.0 for i in ("global_load_sectors", "global_store_sectors"))
    local = sum(view.value(i) or 0.0 for i in ("local_load_sectors", "local_store_sectors"))
    plain = world / (world + local) if world else 1.0
    return plain * (1 - (shared_part(view) or 0.0))


def _plain_sectors(view: LaunchView) -> tuple[Evidence, Evidence] | None:
    plain = global_addresses(view)
    sectors = view.sum_over(
        "load_store_sectors",
        "src_l2_sectors_global",
        plain,
        "sectors touched by global loads and stores",
    )
    ideal = view.sum_over(
        "load_store_sectors_ideal",
        "src_l2_sectors_global_ideal",
        plain,
        "fewest sectors that they could touch",
    )
    if not view.by_address("memory_type"):  # exports and older reports do not distinguish atomics
        sectors = view.get("src_l2_sectors_global")
        ideal = view.get("src_l2_sectors_global_ideal")
    if sectors is None or ideal is None or not sectors.value:
        return None
    return sectors, ideal


def _gathers(view: LaunchView) -> str:
    """`gather` if most excess sectors come from accesses whose addresses depend on data."""
    excess = view.table.column("src_l2_sectors_global_excess") or {}
    if view.code is not None and excess:
        code = view.code.program.code
        data = {code[a.position].address for a in view.code.accesses if a.is_gather}
        part = sum(count for address, count in excess.items() if address in data)
        return "gather" if part > 0.5 * sum(excess.values()) else ""
    places = view.column_places("excess sectors", "src_l2_sectors_global_excess")
    return "gather" if is_gather(view.accesses("scattered global", places)) else ""


Accesses = list[tuple[float, float]]
"""Bytes per thread and number of threads, per load or store on global memory."""


@cached_per_view
def global_addresses(view: LaunchView) -> list[int]:
    """Addresses of the instructions that load from or store to global memory."""
    kinds = view.by_address("memory_type")
    return [address for address, kind in kinds.items() if kind == GLOBAL]


@cached_per_view
def global_accesses(view: LaunchView) -> Accesses:
    sizes = view.by_address("memory_access_size_type")
    threads = view.by_address("thread_inst_executed_true")
    return [
        (float(ACCESS_BYTES.get(sizes[address], 0)), float(threads.get(address, 0.0)))
        for address in global_addresses(view)
        if address in sizes
    ]


def _needed_of(view: LaunchView, moved: float) -> float | None:
    """Bytes that threads requested over the bytes that were moved for them."""
    needed = sum(size * threads for size, threads in global_accesses(view))
    return min(1.0, needed / moved) if moved and needed else None


def access_width(view: LaunchView) -> float | None:
    """Bytes per thread of a global access, on average; None where it is not known."""
    accesses = global_accesses(view)
    threads = sum(count for _, count in accesses)
    return sum(size * count for size, count in accesses) / threads if threads else None


def narrow(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Few bytes per access: instructions or requests in flight limit the launch before bandwidth
    does."""
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or not 0 < width < WIDEST:
        return
    kept = width / WIDEST
    # A request below a cache line also keeps fewer bytes in flight; above it, more loads have the
    # same effect.
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
        f"A global access moves {shown:.1f}s per thread on average; one instruction can move up to "
        f"{widest:.0f}s.",
        Effect(units, waits, every_wait=1 - parameter("indirect") * saved * other),
        (shown, widest, executed),
        lambda: view.column_places("global sectors", "src_l2_sectors_global"),
        "assumed",
    )


def _access_share(view: LaunchView, below_line: float) -> float:
    """Share of the executed instructions that wide accesses would save, 0 to 1.

    Accesses of 4 bytes already compute the addresses that wide accesses need; with accesses of 1 or
    2 bytes, the whole index arithmetic is repeated for each small element.
    """
    every = view.all_executed
    if not every:
        return 0.0
    plain = min(1.0, 3 * view.executed("LDG", "STG") / every)
    if view.code is None:
        return plain
    mix = {purpose.value: share for purpose, share in view.code.mix}
    whole = mix.get("memory", 0) + mix.get("address", 0) + mix.get("control", 0)
    return max(plain, below_line * whole)


MAKERS = (uncoalesced, narrow)
