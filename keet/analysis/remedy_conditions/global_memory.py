"""Facts about accesses to global memory, and to the memory behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hotspots.source_lines import ACCESS_BYTES, is_gather
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import (
    ATOMICS,
    BY_PIPE,
    COPIES,
    GLOBAL_READS,
    GLOBAL_STORES,
    TMA,
)
from keet.analysis.parameters import MAJORITY, NEGLIGIBLE, READ_AGAIN, SIMILAR, WIDEST, Parameter
from keet.analysis.remedy_conditions.fact import (
    Answer,
    Fact,
    RaisedFinding,
    fact,
    if_most_run,
    total,
)
from keet.documents.finding import Place

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.reuse import Access
    from keet.analysis.machine_code.launch_code import MachineCode

loads_global = Fact.executes(
    "the kernel loads from global memory",
    *GLOBAL_READS,
    metrics=("global_load_requests",),
    or_metrics=("global_load_requests", "global_load_sectors"),
)


@fact(
    "the kernel loads or stores",
    metrics=("global_load_requests", "global_store_requests"),
    opcodes=(BY_PIPE["LSU"] | TMA) - ATOMICS,
)
def moves_data(view: LaunchView) -> Answer:
    if view.opcodes:
        return view.count(*moves_data.opcodes) > 0
    return total(view, *moves_data.metrics) > 0


@fact(
    "the kernel stores to global memory and loads next to nothing",
    metrics=("global_store_sectors", "global_load_sectors"),
    opcodes=GLOBAL_STORES,
)
def stores_only(view: LaunchView) -> Answer:
    stored, loaded = map(view.launch.number, stores_only.metrics)
    if stored is None or loaded is None or view.count(*COPIES):
        return False
    return stored > 0 and loaded <= NEGLIGIBLE * stored


# --- address forms


@cached_per_view
def _worst_access(view: LaunchView) -> Access | None:
    """The global load or store that wastes most sectors, from the machine code. If its addresses
    are not known, such as at the border of a domain, one that wastes as many."""
    column = view.table.column("src_l2_sectors_global_excess")
    if view.code is None or not column:
        return None
    code = view.code.program.code
    wasting = [
        (column.get(code[access.position].address, 0), access)
        for access in view.code.accesses
        if access.kind in ("load", "store", "copy")
    ]
    wasted, worst = max(wasting, key=lambda item: item[0], default=(0, None))
    if worst is None or wasted <= 0:
        return None
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride

    if worst.is_gather or lane_stride(worst.offset) is not None:
        return worst
    equal = (access for amount, access in wasting if amount * SIMILAR >= wasted)
    return next((access for access in equal if lane_stride(access.offset) is not None), worst)


def _gathers(view: LaunchView, finding: RaisedFinding) -> Answer:
    """From the machine code of the worst access; without it, from `a[b[i]]` in the source."""
    worst = _worst_access(view)
    if worst is not None and view.code is not None:
        return view.code.addresses([worst.position]) if worst.is_gather else False
    accesses = view.accesses("scattered global", finding.locations)
    return is_gather(accesses)


gathers = Fact("the addresses come from data in memory", of_finding=_gathers)

MISALIGNED = "misaligned"
begins_in_sectors = Fact.of_variant(
    "the threads of a warp access neighbouring bytes that begin within a sector", MISALIGNED
)

LARGEST_RECORD = Parameter(256, "bytes between threads: records, not rows", "judgement")


@fact(
    "neighbouring threads access addresses a fixed number of bytes apart, as in an array of records"
)
def strided_records(view: LaunchView) -> Answer:
    worst = _worst_access(view)
    if worst is None or view.code is None:
        return False
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride

    stride = lane_stride(worst.offset)
    if stride is None and worst.shape is not None:
        # An index that is clamped at the edges: as in another access of the array.
        steps = {of_lane.step for group in worst.shape.groups for of_lane in group.strides}
        same = (access for access in view.code.accesses if access.pointer == worst.pointer)
        lane_steps = (lane_stride(access.offset) for access in same)
        stride = next((lane_step for lane_step in lane_steps if lane_step in steps), None)
    is_record = stride is not None and worst.width < abs(stride) <= LARGEST_RECORD
    return view.code.addresses([worst.position]) if is_record else False


@fact("each thread accesses a run of consecutive elements, and the next thread the next run")
def neighbouring_runs(view: LaunchView) -> Answer:
    """By the worst access: as many bytes from thread to thread as a thread accesses in a row. Other
    terms of the address may be unknown."""
    worst = _worst_access(view)
    if worst is None or view.code is None:
        return False
    steps = [
        bytes_apart
        for product, bytes_apart in worst.offset.terms.items()
        if len(product) == 1 and product[0].kind == "tid" and "tid.x" in product[0].depends
    ]
    runs = [merge for merge in view.code.merges if worst.position in merge.positions]
    is_run = any([len(run.positions) * run.width] == steps for run in runs)
    return view.code.addresses([worst.position]) if is_run else False


@Fact.of_code("a thread accesses consecutive elements with separate instructions")
def consecutive_accesses(code: MachineCode) -> Answer:
    """Whether a notable part of the accesses could be merged into wider ones."""
    merged = [p for merge in code.merges if merge.is_aligned is not False for p in merge.positions]
    return if_most_run(code, merged, (access.position for access in code.accesses))


# --- operations and widths

_GLOBAL_BIT = 4
"""ncu's code in `memory_type`, a bit field: an asynchronous copy has two bits."""
LOAD, STORE = 2, 4
"""ncu's codes in `memory_access_type`."""


@cached_per_view
def _global_addresses(view: LaunchView) -> list[int]:
    """Instructions that access global memory; none if the report has no columns of them."""
    kinds = view.by_address("memory_type")
    return [address for address, kind in kinds.items() if int(kind) & _GLOBAL_BIT]


def addresses_of(view: LaunchView, operation: int) -> list[int]:
    """Instructions that load from global memory, or store to it. A copy into shared memory does
    both, and its load is the global access."""
    kinds = view.by_address("memory_access_type")
    loads_or_stores = ((address, int(kinds.get(address, 0))) for address in _global_addresses(view))
    return [
        address for address, kind in loads_or_stores if (kind & LOAD or kind & STORE) == operation
    ]


def places_of(view: LaunchView, operation: int) -> tuple[Place, ...]:
    """Lines by the global sectors of their loads, or of their stores; by all if the report does
    not distinguish them."""
    sectors = view.table.column("src_l2_sectors_global") or {}
    addresses = addresses_of(view, operation)
    if not addresses:
        return view.column_places("global sectors", "src_l2_sectors_global")
    words = "sectors of global loads" if operation == LOAD else "sectors of global stores"
    return view.places_by(words, {address: sectors.get(address, 0) for address in addresses})


def _excess_in(operations: str, code: int, negated: str = "") -> Fact:
    def test(view: LaunchView) -> Answer:
        excess = view.table.column("src_l2_sectors_global_excess") or {}
        of_operation = sum(excess.get(address, 0) for address in addresses_of(view, code))
        return of_operation > MAJORITY * sum(excess.values())

    words = f"most of the sectors beyond the ideal belong to {operations}"
    metrics = ("src_l2_sectors_global_excess",)
    return Fact(words, test, negated, metrics)


excess_in_stores = _excess_in("stores", STORE)
excess_in_loads = _excess_in(
    "loads", LOAD, "most of the sectors beyond the ideal do not belong to loads"
)


@cached_per_view
def _main_accesses(view: LaunchView) -> tuple[int, list[int]]:
    """The access width (bytes per thread) that moves most global bytes, or 0, and where."""
    sizes, threads = map(view.by_address, ("memory_access_size_type", "thread_inst_executed_true"))
    moved, by_width = Counter[int](), dict[int, list[int]]()
    for address in _global_addresses(view):
        width = ACCESS_BYTES.get(sizes.get(address, 0.0), 0)
        moved[width] += int(float(threads.get(address, 0.0)) * width)
        if threads.get(address):
            by_width.setdefault(width, []).append(address)
    width, amount = max(moved.items(), key=lambda item: item[1], default=(0, 0))
    return (width, by_width[width]) if amount else (0, [])


def _accesses(width: str, test: Callable[[int], bool], negated: str = "") -> Fact:
    def decided(view: LaunchView) -> Answer:
        main_width, instructions = _main_accesses(view)
        return instructions if test(main_width) else False

    return Fact(f"most global data is moved with accesses {width}", decided, negated)


WIDEST_ACCESS = 16
"""Bytes per thread, on all GPUs (CUDA C++ Programming Guide)."""
TINY_ACCESS = 2
"""Bytes per thread: the size of a half."""
accesses_narrow = _accesses(
    "narrower than sixteen bytes per thread", lambda width: width < WIDEST_ACCESS
)
accesses_tiny = _accesses("of one or two bytes per thread", lambda width: width <= TINY_ACCESS)
accesses_wide = _accesses(
    "of sixteen bytes per thread",
    lambda width: width >= WIDEST_ACCESS,
    "most global data is moved with accesses of fewer than sixteen bytes per thread",
)
# Accesses of sixteen bytes per thread take four wavefronts without any replay.
replays = Fact.measured(
    "one memory instruction takes many wavefronts in L1",
    lambda data, requests: requests > 0 and data / requests > SIMILAR * WIDEST,
    *("l1_data_wavefronts_pct", "l1_lsu_requests_pct"),
)


# --- data that is moved again


def _rereads(view: LaunchView, finding: RaisedFinding) -> Answer:
    if finding.variant in ("l1", "l2", "fragments"):  # the candidate is about another level
        return False
    if any(piece.metric == "dram_reads_per_byte" for piece in finding.evidence):
        return True
    return view.streaming is not None and view.streaming.verdict == "several"


rereads_from_dram = Fact(
    "more bytes are read from DRAM than the loads can touch",
    metrics=("dram_bytes_read",),
    of_finding=_rereads,
)
reads_once_from_dram = Fact(
    "about as many bytes are read from DRAM as the loads can touch",
    lambda view: view.streaming is not None and view.streaming.verdict == "once",
    metrics=("dram_bytes_read",),
)


handed_over = Fact.of_variant(
    "another launch of the report writes or reads the same amount of data right before or after",
    "hand_over",
)
repeated_launches = Fact.of_variant(
    "other launches of the report move the same amount of data", "same_input"
)
loads_operands = Fact.of_variant(
    "warps load operands of the tensor cores that other warps load, too", "fragments"
)
loads_in_every_iteration = Fact.of_variant("a loop loads the same data in every iteration", "loop")
stores_in_every_iteration = Fact.of_variant(
    "a loop stores to the same addresses in every iteration", "stores"
)
passes_in_kernel = Fact.of_variant(
    "several loops of the kernel load from the same addresses", "passes"
)


def _at_level(variant: str, words: str, test: Callable[..., bool], *metrics: str) -> Fact:
    """Decided by the candidate's variant, which names the level whose work it reduces; by the
    counters if the candidate names none."""
    measured = Fact.measured(words, test, *metrics)

    def decided(view: LaunchView, finding: RaisedFinding) -> Answer:
        if finding.variant in ("l1", "l2"):
            return finding.variant == variant
        return measured.answer(view, finding)

    return Fact(words, metrics=metrics, of_finding=decided)


rereads_from_l2 = _at_level(
    "l2",
    "L2 delivers more bytes than come from DRAM",
    lambda delivered, read: read > 0 and SECTOR * delivered / read >= READ_AGAIN,
    *("l2_l1_read_sectors", "dram_bytes_read"),
)
reloads_from_l1 = _at_level(
    "l1",
    "most global loads hit L1",
    lambda hit, missed: hit > 0 and hit >= MAJORITY * (hit + missed),
    *("global_load_sectors_hit", "global_load_sectors_missed"),
)


@Fact.of_code("most global loads have the same address in all threads of the grid")
def loads_table(code: MachineCode) -> Answer:
    """Loads whose addresses depend on loops and parameters alone."""
    loads = [access for access in code.accesses if access.kind == "load"]
    by_loops = re.compile(r"exit|loop.*")
    same = [e.position for e in loads if all(map(by_loops.fullmatch, e.offset.depends))]
    return if_most_run(code, same, (access.position for access in loads))


# --- L2 and other memories


sends_to_l2 = Fact.measured(
    "far more is sent to L2 than comes back",
    # A load sends one request and gets one or more sectors back; a store sends its sectors.
    lambda sent, returned: sent > 0 and returned / sent < MAJORITY,
    *("l2_input_pct", "l2_output_pct"),
)

FEW_ADDRESSES = Parameter(256, "distinct bytes in few cache lines", "judgement")


def _few_addresses(words: str, kind: str, modifier: str = "") -> Fact:
    """That accesses to few addresses request more sectors than an average L2 slice serves."""

    def test(view: LaunchView) -> Answer:
        code, usual = view.code, view.launch.number("l2_slice_sectors_avg")
        if code is None or code.sectors is None or usual is None:
            return False
        few = code.addresses(
            access.position
            for access in code.accesses
            if access.kind == kind
            and (not modifier or code.program.code[access.position].has(modifier))
            and (size := access.distinct_bytes) is not None
            and size <= FEW_ADDRESSES
        )
        return few if sum(code.sectors.get(address, 0) for address in few) > usual else False

    return Fact(words, test, metrics=("l2_slice_sectors_max", "l2_slice_sectors_avg"))


few_address_loads = _few_addresses(
    "many threads load the same few addresses with volatile or atomic loads, which bypass L1",
    "load",
    "STRONG",
)
few_address_stores = _few_addresses("many threads store to the same few addresses", "store")


@Fact.of_code("the kernel changes an array by other elements of it")
def changes_what_it_reads(code: MachineCode) -> Answer:
    """Atomics don't tell: launches can add to sums in any order. Nor does an array that is changed
    element by element, as in a scaling: launches may change others."""
    return code.addresses(_changed_by_others(code))


@Fact.of_code("the kernel changes an array by other elements of it, and sets a flag if it did")
def sweeps_until_unchanged(code: MachineCode) -> Answer:
    """Of a kernel whose blocks repeat their part already, launches are not single sweeps."""
    program, flow = code.program, code.program.flow
    in_loops = (at for at in program.ran if flow.block_of[at] in flow.loop_of)
    if any(program.code[at].is_barrier for at in in_loops) or not _changed_by_others(code):
        return False
    stores = (access for access in code.accesses if access.kind == "store")
    return code.addresses(store.position for store in stores if _is_flag(code, store))


def _is_flag(code: MachineCode, store: Access) -> bool:
    """Whether it stores a value that all threads know, to one address, and loaded values decide
    whether it does. A total, which one thread stores, is no flag."""
    from keet.analysis.machine_code.analyses.purpose import loads_behind

    value = code.evaluation.operand(code.program.code[store.position].sources[-1], store.position)
    is_known = value is not None and not value.depends
    is_one = not any(store.offset.terms)  # no term but a constant
    return is_known and is_one and any(loads_behind(code.program, store.position))


def _changed_by_others(code: MachineCode) -> list[int]:
    """Positions of stores to an array that depend on what the thread loads from other elements of
    it."""
    from keet.analysis.machine_code.analyses.purpose import loads_behind
    from keet.analysis.machine_code.analyses.reuse import LOADED, SEVERAL

    loads = {access.position: access for access in code.accesses if access.kind == "load"}
    pointers = {load.pointer for load in loads.values()} - {LOADED, SEVERAL}
    stores = [e for e in code.accesses if e.kind == "store" and e.pointer in pointers]
    return [
        store.position
        for store in stores[:_MOST_STORES]
        if any(
            (load := loads.get(at)) is not None
            and load.pointer == store.pointer
            and not _is_own(load, store)
            for at in loads_behind(code.program, store.position)
        )
    ]


def _is_own(load: Access, store: Access) -> bool:
    """Whether a load is of the element that is stored, or of the same record: closer than the
    element of the next thread."""
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride
    from keet.analysis.machine_code.polynomials.polynomial import add

    apart = add(store.offset, load.offset, -1).value
    record = max(abs(lane_stride(store.offset) or 0), load.width)
    return apart is not None and abs(apart) < record


_MOST_STORES = 100
"""Bounds the time for hostile code."""


@fact(
    "loads miss L2 and go to the host's memory",
    "no loads go to the host's memory",
    metrics=("l2_sysmem_read_misses", "l2_sysmem_misses"),
)
def reads_host(view: LaunchView) -> Answer:
    read, every = map(view.launch.number, reads_host.metrics)
    written = view.launch.number("l2_sysmem_write_misses")
    if read is None and every is not None and written is not None:
        return every > written
    return bool(read)


writes_host = Fact(
    "stores go to the host's memory",
    lambda view: total(view, "l2_sysmem_write_sectors", "l2_sysmem_write_misses") > 0,
    metrics=("l2_sysmem_write_sectors",),
)
reads_peer = Fact(
    "accesses go to the memory of another GPU",
    lambda view: total(view, "l2_peer_misses") > total(view, "l2_sysmem_misses"),
    metrics=("l2_peer_misses",),
)
