"""Uncoalesced global access."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, Candidate, kept_waits
from keet.analysis.decisions.replays import COALESCED_WAITS, REPLAYED, replays
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hardware.stages import FABRIC_PER_SECTOR, l2_share_by_sectors, sm_elapsed_cycles
from keet.analysis.hotspots.source_lines import is_gather
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import (
    SECTORS_PER_LINE,
    global_addresses,
    global_atomics,
    global_part,
    global_requests_part,
    requested_bytes,
)
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.occupancy import unqueued_share
from keet.analysis.parameters import MAJORITY, WIDEST, Parameter
from keet.analysis.remedy_conditions import global_memory, grid, instructions, on_chip, origin
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, SmallShare, absence, otherwise, when

GATHERED = Parameter(
    0.9,
    "exponent of the share of sectors that a gather needs: below 1, reordering helps less",
    "fit",
)

FINDING = FindingSpec(
    id="uncoalesced_global",
    family="memory",
    label="uncoalesced global access",
    meaning="The threads of a warp touch many sectors with one instruction and use a part of each.",
    how="For every global load and store, the sectors that it touched are compared with the "
    "sectors that packed addresses would touch. The rest is waste in L1, and in L2 and DRAM for "
    "the part that reaches them. Where indices read from memory decide the addresses (a gather), "
    "only a part of the waste is assumed to be removable. Without counters per instruction, keet "
    "suspects it where L1 is busy much longer than the LSU pipe that feeds it, and lookups in L2 "
    "take single sectors; if the kernel has shared memory, only where L2 gets a notable part of "
    "what passes through L1.",
    rules=("UncoalescedGlobalAccess",),
    credited_rules=(
        "SOLBottleneck",
        "CPIStall",
        "UncoalescedGlobalAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=(COALESCED_WAITS, GATHERED, REPLAYED, WIDEST, INDIRECT, FABRIC_PER_SECTOR),
    claims=("bytes",),
    rests_on=("global", "l2"),
    memory="scattered global",
    repeats="global",
    looks_good=SmallShare(
        "src_l2_sectors_global_excess",
        "src_l2_sectors_global",
        "coalesced global accesses ({share:.0f} excess sectors)",
        covers=("global_load_sectors", "global_store_sectors"),
        misses=("global_atomic_sectors", "global_reduction_sectors"),
    ),
    unlike={
        "narrow_access": "Narrow accesses can be perfectly coalesced: all bytes of the sectors "
        "are used, but each instruction moves few of them.",
        "shared_bank_conflict": "Bank conflicts are repeats of accesses to shared memory, counted "
        "in wavefronts; uncoalesced access is counted in sectors of global memory.",
        "redundant_traffic": "Redundant traffic uses every byte of a sector, but moves it several "
        "times.",
        "atomic_contention": "Sectors of atomics are left out: scattered atomics are not a matter "
        "of layout.",
    },
    remedies={
        when(origin.library): "Pass {library} contiguous, aligned inputs: copy strided or "
        "transposed views into a packed layout once, or choose the layout that the routine "
        "prefers. The access pattern inside its kernel can't be changed.",
        when(global_memory.begins_in_sectors, name="misaligned"): "Neighbouring threads access "
        "neighbouring bytes, but the first of them is within a sector{here}: let each thread "
        "handle several items, load aligned words with wide accesses (uint2, uint4), and shift "
        "them in registers. Pad rows to whole sectors where their length is why.",
        when(origin.triton, global_memory.gathers, name="triton_gather"): "Make neighbouring "
        "elements of a block load neighbouring addresses{here}: sort or group the indices, and "
        "load whole contiguous rows per index (a second tl.arange along the row) instead of "
        "single elements.",
        when(origin.triton): "Let the last dimension of the block run along the axis with stride "
        "one{here}: build the pointers with tl.arange along that axis, or make the tensor "
        "contiguous once before the launch.",
        when(global_memory.gathers, name="gather"): "Make neighbouring threads access neighbouring "
        "entries{here}: sort or group the work by its index, keep a table that is read like this "
        "small enough for L1 or shared memory, or store next to each other the values that are "
        "accessed with one index.",
        when(
            global_memory.strided_records,
            global_memory.consecutive_accesses,
            name="consecutive",
            unless=(global_memory.accesses_wide,),
        ): "Each thread accesses consecutive elements one by one{here}: move them as one aligned "
        "vector (float4, uint4), or let neighbouring threads take neighbouring elements.",
        when(global_memory.neighbouring_runs, name="runs"): "Each thread accesses a run of "
        "neighbouring elements one by one{here}: move it as aligned vectors (float4, uint4), or "
        "let neighbouring threads take neighbouring elements, with each thread's elements a "
        "block's width apart.",
        when(global_memory.strided_records, name="records"): "Neighbouring threads access the "
        "same field of neighbouring records{here}: store each field in an array of its own "
        "(structure of arrays), or move whole records with vector types or through shared memory.",
        when(grid.narrow_rows, name="narrow_block"): "A block is only a few threads wide in "
        "x{here}: make it as wide as a warp, and let threadIdx.x run along the fastest axis of "
        "the array, so that the threads of a warp access neighbouring elements.",
        when(
            global_memory.excess_in_loads,
            instructions.tensor_cores_used,
            name="fragments",
            unless=(on_chip.uses_shared,),
        ): "The threads of a warp load a fragment from several rows{here}: copy tiles of the "
        "operands into shared memory in the order of memory, and load the fragments from there.",
        when(global_memory.excess_in_stores, name="stores"): "Let the threads of a warp store "
        "along the fastest axis of the output{here}: swap the thread's axes, or collect the "
        "results in a tile in shared memory and store the tile row by row.",
        when(global_memory.excess_in_loads, name="loads", unless=(on_chip.uses_shared,)): "Let "
        "the threads of a warp load along the fastest axis of the array{here}: swap the thread's "
        "axes, or load a tile row by row into shared memory and read its columns there.",
        when(global_memory.excess_in_loads, on_chip.uses_shared, name="loads_of_tiles"): "Load "
        "into shared memory in the order of memory, with neighbouring threads on neighbouring "
        "elements{here}, and pick from there in any order.",
        when(
            global_memory.sends_to_l2, name="sent", unless=(global_memory.excess_in_loads,)
        ): "Far more goes to L2 than comes back, as with stores: let neighbouring threads store "
        "to neighbouring addresses{here}. Keep each field of a structure in an array of its own, "
        "or collect the results in shared memory and store them in the order of memory.",
        otherwise: "Let neighbouring threads of a warp access neighbouring addresses{here}: run "
        "them along the fastest axis of the array, keep each field of a structure in an array of "
        "its own, or go through a tile in shared memory.",
    },
    edit=Edit(
        "Make neighbouring threads of a warp access neighbouring addresses in global memory",
        usual=1,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    replayed = replays(view, model)
    if replayed and replayed.scattered:
        yield Candidate(*replayed.scattered, view.sampled_places, basis="assumed")
    sectors, ideal = view.get("src_l2_sectors_global"), view.get("src_l2_sectors_global_ideal")
    every = sectors  # atomics and asynchronous copies too; exports do not distinguish them
    if view.by_address("memory_type"):  # scattered atomics do not depend on the layout
        plain = global_addresses(view)
        label = "sectors touched by global loads and stores"
        sectors = view.sum_over("load_store_sectors", "src_l2_sectors_global", plain, label)
        label, column = "fewest sectors that they could touch", "src_l2_sectors_global_ideal"
        ideal = view.sum_over("load_store_sectors_ideal", column, plain, label)
    if every is None or sectors is None or ideal is None or not sectors.value:
        return
    gathered, shifted = _gathered(view), _misaligned(view)
    gathers, is_shifted = gathered > MAJORITY, shifted.share > MAJORITY
    # In the order of its indices, the work needs fewer sectors of atomics as well.
    atomics = _scattered_atomics(view) if gathers else 0.0
    amount = sectors.value - ideal.value + atomics
    excess = view.derived("excess_sectors", amount, "excess", sectors, ideal, unit="sector")
    share = view.percent("excess_sectors_share", "global sectors beyond the ideal", excess, every)
    if share is None or share.value <= 0:
        return
    kept = max(0.0, 1 - share.value / 100)
    if gathers:  # indices decide: only a part can be sorted, grouped or kept close
        kept **= GATHERED
    units = _fewer_sectors(view, kept, gathered, 0.0 if gathers else _lone_sectors(view))
    units["L1"] = _passes(view, units["L1"], gathered)
    if is_shifted:  # the other sector is mostly in the same line, and takes no pass of its own
        for unit in ("L1", "LSU"):
            units[unit] = 1 - (1 - units[unit]) * shifted.lines
    # Requests with many sectors take longer if the units that serve them have queues.
    relief = max(model.loads.get(unit, 0.0) * (1 - left) for unit, left in units.items())
    removed = min(1.0, relief * COALESCED_WAITS)
    text = (
        "{share:.0f} of the {every}s that global accesses touch would not be needed if {otherwise}."
    )
    otherwise = (
        "warps, whose threads access neighbouring bytes already, began at the start of a sector"
        if is_shifted
        else "the threads of a warp accessed neighbouring bytes"
    )
    yield Candidate(
        Sentence(text, share=share, every=every, otherwise=otherwise),
        # Without the queues, a thread still waits for as many round trips.
        Effect(
            units,
            kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), removed),
            least=unqueued_share(view) * _waiting_requests(view, kept, gathered),
        ),
        (share, every, sectors, ideal),
        lambda: _places(view, with_atomics=atomics > 0),
        basis="assumed" if gathers else "measured",
        variant="gather" if gathers else global_memory.MISALIGNED if is_shifted else "",
    )


def _fewer_sectors(view: LaunchView, kept: float, gathered: float, lone: float) -> dict[str, float]:
    """Work that units keep if global accesses keep the share `kept` of their sectors, and requests
    for single sectors (the share `lone`) become requests for lines."""
    part = global_part(view)
    within = 1 - (1 - kept) * part
    behind = _behind_l1(view, kept, gathered)
    dram = max(behind, _least_left(requested_bytes(view), _dram_bytes(view)))
    behind, dram = min(behind, _used_part(view, "L2")), min(dram, _used_part(view, "DRAM"))
    return {
        "L1": within,
        "L2": 1 - (1 - behind * (1 - lone * _requests_share(view))) * part,
        "DRAM": 1 - (1 - dram) * part,
        "LSU": max(within, 1 - (1 - kept) * global_requests_part(view), INDIRECT),
    }


def _behind_l1(view: LaunchView, kept: float, gathered: float) -> float:
    """What is left of the sectors that L1 and L2 exchange, 0 to 1. L1 may serve the rest of a
    sector to a later access already, so that L2 does not see the excess.

    At least the bytes from DRAM stay, and at most those that threads request: all of these if L1
    keeps no line until the next warp needs it. Packed accesses touch fewer lines at a time, so more
    of them stay in L1. How many is not known: with all sectors in excess, the geometric mean is
    assumed. Gathers (the share `gathered` of the excess) still touch as many lines.
    """
    requested, dram = requested_bytes(view), _dram_bytes(view)
    needed = requested
    if 0 < dram < requested:
        needed *= math.pow(dram / requested, INDIRECT * (1 - kept) * (1 - gathered))
    return max(kept, _least_left(needed, SECTOR * (view.value("l2_l1_sectors") or 0.0)))


def _used_part(view: LaunchView, level: Literal["L2", "DRAM"]) -> float:
    """The part of the bytes that a level moves, 0 to 1, without those of loaded sectors that no
    thread uses, by the addresses of the loads: no later access needs these. 1: not known.
    Loads of other arrays may hit L1, which the sums of all accesses do not show."""
    unused = loaded = 0.0
    for row in view.code.reuse if view.code is not None else ():
        sectors, used = row.sector_bytes_at_most, row.distinct_bytes_at_most
        is_bound = row.basis == "bound" and not row.is_ragged and not row.may_overlap
        if sectors and used is not None and is_bound:
            part = 1 - min(1.0, used / sectors)
            once = min(sectors, row.l2_bytes or 0)
            unused += part * ((row.l2_bytes or 0) if level == "L2" else once)
            loaded += once
    if level == "L2":
        moved = SECTOR * (view.value("l2_l1_sectors") or 0.0)
    else:
        moved, read = _dram_bytes(view), view.value("dram_bytes_read") or 0.0
        unused *= min(1.0, read / loaded) if loaded else 0.0
    return 1 - min(1.0, unused / moved) if moved else 1.0


def _least_left(needed: float, moved: float) -> float:
    """The needed part of the bytes that are moved, 0 to 1; 0: not measured."""
    return min(1.0, needed / moved) if moved else 0.0


def _dram_bytes(view: LaunchView) -> float:
    return view.sum_of("dram_bytes_read", "dram_bytes_written")


def _passes(view: LaunchView, within: float, gathered: float) -> float:
    """What is left of L1's work, 0 to 1. Its data stage takes a pass per line that a request
    touches, not per sector: a packed request for 4 sectors takes 1 pass, one for 32 sectors of 32
    lines takes 32. Gathers (the share `gathered` of the excess) still touch several lines. The
    other stages move sectors, of which `within` are left."""
    stages = {stage.id: stage.share for stage in view.ceilings.stages("L1")}
    cycles, sms = sm_elapsed_cycles(view.ledger), view.launch.device.sm_count
    requests = [view.value(f"global_{way}_requests") for way in ("load", "store")]
    ideal = view.value("src_l2_sectors_global_ideal") or 0.0
    part = global_part(view)
    busy = stages.get("l1_data_stage", 0.0)
    if not busy or cycles is None or not cycles.value or not sms or None in requests or not part:
        return within
    passes = busy * sms * float(cycles.value)
    packed = max(sum(filter(None, requests)), ideal / SECTORS_PER_LINE)
    # A pass that goes served at least one sector of a request for single sectors.
    sectors = sum((view.table.column("src_l2_sectors_global") or {}).values())
    removed = min(part * passes - packed, _lone_sectors(view) * sectors)
    left = 1 - max(0.0, removed) / passes
    leading, moved = max(stages.values()), {**stages, "l1_data_stage": 0.0}
    after = busy * (left + (within - left) * gathered)
    return max(after, within * max(moved.values())) / leading


def _waiting_requests(view: LaunchView, kept: float, gathered: float) -> float:
    """Share of the loads, 0 to 1, that leave L1 if accesses are packed; 1: not known. A hit in L1
    takes a small part of the time of a load from L2 or DRAM. A request waits if one of its lines
    misses, and a gather (the share `gathered` of the excess) touches so many that one does."""
    missed, requests = view.value("global_load_sectors_missed"), view.value("global_load_requests")
    requested = requested_bytes(view, global_memory.addresses_of(view, global_memory.LOAD))
    if missed is None or not requests or not requested:
        return 1.0
    misses = min(1.0, SECTOR * missed * _behind_l1(view, kept, gathered) / requested)
    lines = max(1.0, requested / (SECTORS_PER_LINE * SECTOR) / requests)
    return 1 - math.pow(1 - misses, lines) * (1 - gathered)


def _requests_share(view: LaunchView) -> float:
    """Share of L2's time, 0 to 1, that single sectors take beyond sectors of whole lines: lookups
    and the crossbar take a request at a time, however many sectors it has."""
    leading = view.ceilings.stage("L2")
    if leading is None or not leading.share:
        return 0.0
    by_sectors = l2_share_by_sectors(view.ledger, (*view.ceilings.stages("L2"), leading))
    return max(0.0, 1 - by_sectors / leading.share) if by_sectors is not None else 0.0


def _lone_sectors(view: LaunchView) -> float:
    """Share of the sectors of global accesses whose requests are for single sectors, 0 to 1. Where
    half of the sectors of an access would do, each thread has a sector of its own."""
    sectors = view.table.column("src_l2_sectors_global") or {}
    excess, every = _excess(view), sum(sectors.values())
    lone = sum(min(count, excess.get(at, 0) / MAJORITY) for at, count in sectors.items())
    return lone / every if every else 0.0


def _scattered_atomics(view: LaunchView) -> float:
    """Sectors of atomics that are not needed once the work is in the order of its indices. Loads
    that gather show how far it is from that order: atomics that go to indices from memory, too,
    lose the same share of their sectors, down to those of packed addresses."""
    if view.code is None:
        return 0.0
    sectors = view.table.column("src_l2_sectors_global") or {}
    ideal = view.table.column("src_l2_sectors_global_ideal") or {}
    by_data = [access for access in view.code.accesses if access.is_gather]
    loads = view.code.addresses(access.position for access in by_data if access.kind == "load")
    atomics = view.code.addresses(access.position for access in by_data if access.kind == "atomic")
    loaded = sum(sectors.get(at, 0) for at in loads)
    in_order = min(1.0, sum(ideal.get(at, 0) for at in loads) / loaded) if loaded else 1.0
    return sum(
        max(0.0, count - max(ideal.get(at, 0), in_order * count))
        for at in atomics
        if (count := sectors.get(at, 0))
    )


def _gathered(view: LaunchView) -> float:
    """Share of the excess sectors, 0 to 1, of accesses whose addresses depend on data."""
    excess = _excess(view)
    if view.code is not None and excess:
        data = view.code.addresses(a.position for a in view.code.accesses if a.is_gather)
        return sum(excess.get(address, 0) for address in {*data}) / (sum(excess.values()) or 1)
    places = view.places_by("excess sectors", excess)
    return float(is_gather(view.accesses(FINDING.memory, places)))


class Misaligned(NamedTuple):
    """Excess of accesses whose threads access neighbouring bytes: they begin within a sector."""

    share: float
    """Of all excess sectors, 0 to 1."""
    lines: float
    """Share of these accesses, 0 to 1, that cross a line, because they begin anywhere in it."""


def _misaligned(view: LaunchView) -> Misaligned:
    excess, executed = _excess(view), view.table.executed or {}
    every = sum(excess.values())
    if view.code is None or not every:
        return Misaligned(0.0, 1.0)
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride

    shifted: list[tuple[int, float]] = []
    for access in view.code.accesses:
        (address,) = view.code.addresses([access.position])
        count = excess.get(address, 0)
        # A row of threads that ends within a warp has a sector more for each row.
        if not 0 < count <= executed.get(address, 0) or access.is_gather:
            continue
        if abs(lane_stride(access.offset) or 0) == access.width:
            shifted.append((count, access.width * WARP / (SECTORS_PER_LINE * SECTOR)))
    amount = sum(count for count, _ in shifted)
    lines = sum(count * min(1.0, size) for count, size in shifted)
    return Misaligned(amount / every, lines / amount if amount else 1.0)


def _excess(view: LaunchView) -> Mapping[int, int]:
    """Excess sectors by address, without those of atomics."""
    column = view.table.column("src_l2_sectors_global_excess") or {}
    atomics = set(global_atomics(view))
    return {at: n for at, n in column.items() if at not in atomics} if atomics else column


def _places(view: LaunchView, *, with_atomics: bool) -> tuple[Place, ...]:
    """Lines by excess sectors. A line of a store is first if most of the excess is of stores, one
    of a load if it is of loads: advice about stores is not placed at a load."""
    column = view.table.column("src_l2_sectors_global_excess") or {}
    excess = column if with_atomics else _excess(view)
    every = view.places_by("excess sectors", excess)
    for operation in (global_memory.STORE, global_memory.LOAD):
        of_operation = {at: excess.get(at, 0) for at in global_memory.addresses_of(view, operation)}
        if sum(of_operation.values()) > MAJORITY * sum(excess.values()):
            first = view.places_by("excess sectors", of_operation)[:1]
            lines = {(place.file, place.line) for place in first}
            leading = [place for place in every if (place.file, place.line) in lines]
            return (*leading, *(place for place in every if place not in leading))
    return every


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    sectors, ideal = view.get("src_l2_sectors_global"), view.get("src_l2_sectors_global_ideal")
    if sectors is None or ideal is None:
        return None
    used = view.percent("ideal_sectors_share", "ideal of all global sectors", ideal, sectors)
    if used is None:
        return absence("The kernel does not access global memory.", sectors=sectors)
    if used.value < 100 * MOST_REMOVED:
        return None
    text = "Global accesses touch {sectors:.0f}s, and {used:.0f} of that is the ideal."
    return absence(text, sectors=sectors, used=used)
