"""Redundant traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import mul
from typing import TYPE_CHECKING, Literal

from keet.analysis.candidate import (
    MAX_GAIN,
    MEMORY_WAITS,
    Candidate,
    kept_waits,
    kept_waits_by,
    removed_part,
)
from keet.analysis.decisions.saturated import PIPE_WORK, saturated
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hotspots.source_calls import beside, launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.library import library_of_launch
from keet.analysis.machine_code.instructions.opcodes import COPIES
from keet.analysis.memory_work import global_loads_part, global_part
from keet.analysis.parallelism.register_tiles import loads_fragments
from keet.analysis.parameters import (
    FEW_BYTES,
    LIKELY,
    NEGLIGIBLE,
    NOTABLE_PART,
    POSSIBLE,
    READ_AGAIN,
    Parameter,
)
from keet.analysis.remedy_conditions import global_memory, instructions, on_chip, origin
from keet.analysis.time_model import BLOCK_STARTS, MOST_REMOVED, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.findings import Edit, FindingSpec, amount_of, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.reuse import PointerReuse
    from keet.analysis.machine_code.launch_code import MachineCode

REUSE = Parameter(0.5, "exponent: how many of the L2 reads beyond DRAM's can be saved", "fit")
L2_READS_KEPT = Parameter(0.2, "least share of L2's reads that a rewrite leaves", "judgement")
PASSES_OVER_DATA = Parameter(8, "most iterations of a loop of passes over the data", "judgement")

_READS = ("load", "copy")
_ARITHMETIC = ("FP64", "FP16", "tensor")
"""Pipes that compute on data only. The others also work for addresses, conversions and loads, which
go with a launch that is fused."""
_REPEATED_SECTORS = "sectors of repeated loads"
"""What places are shares of: loads of data that is read once are left out."""
_FRAGMENTS = (
    "Load tiles of both operands into shared memory, once for several warps of a block, "
    "and let each warp compute several fragments from them{here}; or call cuBLAS."
)

FINDING = FindingSpec(
    id="redundant_traffic",
    family="memory",
    label="redundant traffic",
    meaning="The same data is moved several times: it is not reused, is read in extra passes, or "
    "does not stay in a cache.",
    how="From DRAM: the distinct bytes that the loads can touch, found from the addresses in the "
    "machine code, are compared with the bytes that DRAM delivered. From L2: the bytes that L1 "
    "reads from L2 are compared with the bytes that come from DRAM, and with those of one pass if "
    "several loops of a thread load from the same addresses. In a loop: loads whose addresses and "
    "data stay the same in all iterations, if a block can keep what they load, and stores to the "
    "same addresses in every iteration, of which only the last one counts. In L1: L1 is the "
    "busiest unit, mostly with global loads that hit. Between launches: two launches move the same "
    "amount of data one after the other, which is only a suspicion, because a report holds no "
    "pointers.",
    credited_rules=(
        "SOLBottleneck",
        "CPIStall",
        "UncoalescedGlobalAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=(READ_AGAIN, REUSE, PIPE_WORK, MOST_REMOVED),
    claims=("bytes", "instructions", "redundant", "launches"),
    rests_on=("dram", "l2", "global", "slices", "shared"),
    memory="global",
    may_drop_stores=True,
    labels={
        "hand_over": "redundant traffic between kernels",
        "same_input": "redundant reads of a shared input",
    },
    without_cases=("curand",),
    is_general=True,
    unlike={
        "at_dram_roofline": "A kernel at the DRAM roofline is as busy with DRAM, but its "
        "addresses do not show that bytes are read twice.",
        "uncoalesced_global": "Bytes that are fetched and never used are uncoalesced access; "
        "bytes that are used and fetched again are redundant traffic.",
        "local_memory_spill": "Traffic of registers that were spilled is counted as local memory.",
    },
    remedies={
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(origin.library_merge_sort): "A merge sort makes a pass over the data per level: sort "
        "with cub::DeviceRadixSort instead, or call thrust::sort with a plain integer or "
        "floating-point key and thrust::less, which uses it. Fewer key bits mean fewer passes.",
        when(origin.library_elementwise): "Fuse this operation with its neighbours "
        "(torch.compile, or one kernel of your own), so that intermediate results stay in "
        "registers instead of going through memory.",
        when(origin.library): "Use a routine of {library} that does several steps in one pass "
        "over the data (fused epilogues, fused graphs, transforming iterators) instead of one "
        "call per step.",
        when(global_memory.handed_over, name="hand_over"): "If one kernel reads what the other "
        "wrote, fuse them, so that the values stay in registers or shared memory; or process the "
        "data in chunks that stay in L2 between the two kernels.",
        when(global_memory.repeated_launches): "If these launches work on the same data, make "
        "fewer passes over it: fuse the kernels, or do several steps per pass on tiles that stay "
        "in shared memory.",
        when(global_memory.loads_in_every_iteration, name="loop"): "A loop loads the same data in "
        "every iteration{here}: load them once before the loop, and keep them in registers (an "
        "array whose indices are constants) or in shared memory.",
        when(global_memory.stores_in_every_iteration, name="stores"): "Each iteration of a loop "
        "overwrites what the one before stored{here}: keep the values in registers during the "
        "loop, and store them once after it.",
        when(global_memory.loads_operands, name="fragments"): _FRAGMENTS,
        when(
            origin.looks_like_gemm,
            instructions.tensor_cores_used,
            name="product_fragments",
            unless=(on_chip.uses_shared,),
        ): _FRAGMENTS,
        when(
            origin.looks_like_gemm, name="product_untiled", unless=(on_chip.uses_shared,)
        ): "Load tiles of both operands into shared memory, and let each thread compute a block "
        "of several rows and columns in registers{here}; or call cuBLAS.",
        when(origin.looks_like_gemm, on_chip.uses_shared, name="product"): "Use larger "
        "tiles{here}: let each block and each thread compute more results, so that every value "
        "loaded into shared memory or registers serves more of them; or call cuBLAS.",
        when(origin.looks_like_stencil, name="stencil"): "Neighbouring outputs read the same "
        "inputs{here}: stage a tile with its border in shared memory, compute several outputs per "
        "thread, or march along one axis and keep the last planes in registers.",
        when(origin.looks_like_convolution, name="convolution"): "Each input serves many "
        "outputs{here}: stage an input tile and the weights in shared memory, and compute several "
        "outputs per thread; or call cuDNN.",
        when(global_memory.passes_in_kernel, name="passes"): "Several loops read the same "
        "data{here}: fuse them into one pass (with running results where one needs the other's), "
        "or keep the piece that a block works on in registers or shared memory between them.",
        when(global_memory.rereads_from_dram, name="reread"): "Each byte comes from DRAM several "
        "times{here}: finish all work on a piece of the data that fits into shared memory or L2 "
        "before the next, fuse loops that read the same array, or let blocks that read the same "
        "data run at the same time.",
        when(
            global_memory.reloads_from_l1, global_memory.loads_table, name="table"
        ): "All threads load the same values{here}: copy them to shared memory once per block, or "
        "pass them in constant memory. Computing several results per thread uses each loaded value "
        "several times.",
        when(global_memory.reloads_from_l1, name="reload"): "Most loads hit L1, and still take "
        "its bandwidth{here}: keep values that are used again in registers, by computing several "
        "results per thread.",
        when(
            global_memory.rereads_from_l2, on_chip.uses_shared, origin.has_tma, name="cluster"
        ): "Blocks load the same data from L2{here}: use larger tiles in shared memory, or let "
        "the blocks of a thread block cluster share their loads (TMA multicast, distributed "
        "shared memory).",
        when(global_memory.rereads_from_l2, name="from_l2"): "Blocks or neighbouring threads load "
        "the same data from L2{here}: load it once per block into shared memory, and let each "
        "thread and block compute more results from it.",
        otherwise: "Fuse the steps, or work on tiles that stay in cache, so that data is read "
        "once and then used from registers or shared memory{here}.",
    },
    edit=Edit(
        "Read each value from memory once and reuse it on chip, by tiling or by fusing passes",
        usual=2,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    # Fewer bytes shorten waiting only as far as there is a queue for them.
    queue = max(model.loads.get(unit, 0.0) for unit in ("DRAM", "L2"))
    yield from _from_dram(view, model, queue)
    yield from _second_passes(view, model, queue)
    yield from _in_every_iteration(view, model)
    yield from _overwritten(view, model)
    yield from _from_l2(view, model, queue)
    pipe = saturated(view, model)
    if pipe is not None and pipe.work == "reloads":
        # How often L1 delivers each sector that it reads from L2.
        loads, missed = view.get("global_load_sectors"), view.get("global_load_sectors_missed")
        label = "L1 loads over reads from L2"
        times = view.ratio("l1_loads_per_read", label, loads, missed) if loads and missed else None
        # What L1 is busy with.
        why, variant = Sentence(", mostly with global loads of bytes that L1 holds already"), "l1"
        if times is not None:
            words = "{why}: it delivers each of them {times:.1f} times on average"
            why = Sentence(words, why=why, times=times)
        brief = Sentence("L1 delivers each byte {times:.1f} times", times=times) if times else None
        if loads_fragments(view):  # tiles in shared memory are loaded from L2 once per block
            why = Sentence(", with operands of the tensor cores that other warps load, too")
            variant, brief = "fragments", None
            units = {**pipe.effect.units, "L2": _l2_left(view)}
            waits = kept_waits(model, MEMORY_WAITS, 1 - units["L1"])
            pipe = pipe._replace(effect=Effect(units, {**pipe.effect.waits, **waits}))
        doubt = _new_part(view, "L1")
        yield pipe.candidate(why)._replace(
            variant=variant, doubt=doubt, amount=lambda: amount_of(view, brief, "arithmetic")
        )
    yield from _between_launches(view, model)


def _most_again(view: LaunchView, level: Literal["DRAM", "L2"]) -> Sentence | None:
    """The array of which a level delivers most bytes again, and how often; None if not known."""
    if view.code is None:
        return None
    from keet.analysis.amounts.arrays import arrays

    moved, often = f"{level.lower()}_bytes", f"times_from_{level.lower()}"
    again_of_arrays = [
        (getattr(array, moved) - array.distinct_bytes, array)
        for array in arrays(view)
        if array.access == "read" and array.distinct_bytes and getattr(array, moved)
    ]
    again, array = max(again_of_arrays, key=lambda pair: pair[0], default=(0.0, None))
    if array is None or again <= 0 or (getattr(array, often) or 0.0) < READ_AGAIN:
        return None
    amount, label = getattr(array, often), f"reads of each byte from {level}"
    times = view.derived(f"most_again_{level.lower()}", amount, label, *array.evidence[:1])
    hedge = "at least " if array.basis == "bound" else "about "
    if array.basis == "exact" and array.traffic_basis == "measured":
        hedge = ""
    text = "`{array}` is read {hedge}{times:.1f} times from {level}"
    return Sentence(text, array=array.name, hedge=hedge, times=times, level=level)


def _from_dram(view: LaunchView, model: TimeModel, queue: float) -> Iterator[Candidate]:
    """The same bytes come from DRAM more than once within the launch."""
    code, read, executed = view.code, view.get("dram_bytes_read"), view.get("inst_executed")
    if code is None or read is None or executed is None or read.value < FEW_BYTES:
        return
    l2_size = view.value("device_l2_size")
    wasted, hedge, passes, sectors = _repeats(code, float(read.value), l2_size)
    if not wasted:
        return
    once, label = read.value - wasted, "bytes that would be read from DRAM if each were read once"
    distinct = view.derived("distinct_bytes", once, label, executed, unit="byte")
    per_byte, label = read.value / max(once, 1.0), "DRAM reads of each byte"
    times = view.derived("dram_reads_per_byte", per_byte, label, read, distinct)
    written = view.value("dram_bytes_written") or 0.0
    removed = min(MOST_REMOVED, wasted / (read.value + written))
    to_l1 = max(SECTOR * (view.value("l2_l1_sectors") or 0.0), 1.0)
    # Most of what threads load may come from L1, and most of L1's work may be shared memory: these
    # parts stay.
    loaded = max(SECTOR * (view.value("global_load_sectors") or 0.0), to_l1)
    # What a second pass gets from L2 is not read again, either.
    from_l2 = max(min(removed, wasted / to_l1), _by_passes(code) / to_l1)
    units = {"DRAM": 1 - removed, "L2": 1 - min(MOST_REMOVED, from_l2)}
    within = min(removed, wasted / loaded) * global_loads_part(view)
    units |= dict.fromkeys(("L1", "LSU"), 1 - within)
    units[BLOCK_STARTS] = 1 - removed  # a block that reads for several others does their work
    waits = kept_waits(model, MEMORY_WAITS, removed * queue)
    text = (
        "The launch reads {read} from DRAM, but the addresses of its loads cover {hedge} "
        "{distinct}: each byte is read {times:.1f} times on average."
    )
    yield Candidate(
        Sentence(text, read=read, hedge=hedge, distinct=distinct, times=times),
        _without_passes(view, code, model, passes, Effect(units, waits)),
        (times, read, distinct),
        lambda: view.places_by(_REPEATED_SECTORS, sectors),
        variant="passes" if passes else "",
        amount=lambda: amount_of(
            view,
            _most_again(view, "DRAM")
            or Sentence("each byte is read {times:.1f} times", times=times),
            "bytes_once",
        ),
    )


def _without_passes(
    view: LaunchView, code: MachineCode, model: TimeModel, passes: Mapping[int, float], left: Effect
) -> Effect:
    """Of one pass over the data of a thread: fewer bytes shorten the queue (`left`), but loads that
    go take their round trips and address arithmetic with them. `passes`: the share that goes, by
    position of a load."""
    if not passes:
        return left
    gone = _without_loads(code, passes)
    less = {unit: 1 - removed_part(view, gone, unit) for unit in ("issue", "FMA", "ALU")}
    less_waits = kept_waits_by(view, model, gone, 1 - less["issue"])
    kept = {state: min(left.waits.get(state, 1.0), part) for state, part in less_waits.items()}
    return Effect({**left.units, **less}, {**left.waits, **kept})


def _repeats(
    code: MachineCode, read: float, l2_bytes: float | None
) -> tuple[float, str, dict[int, float], dict[int, int]]:
    """The part of `read` that DRAM had delivered before, at least, by the addresses of the loads;
    how exact the rest is; the loads of further passes over the data, with the share of each that
    goes with them; the sectors of all repeated loads."""
    bounded = [row for row in code.reuse_by_passes if row.sector_bytes_at_most]
    unbounded = [row for row in code.reuse_by_passes if not row.sector_bytes_at_most]
    repeated = [row for row in bounded if (row.times or 0) >= READ_AGAIN]
    in_loops = {load.access.position: load.times for load in code.repeated_loads}
    distinct = float(sum(row.sector_bytes_at_most or 0 for row in bounded))
    # No more of a gather comes from DRAM than L2 delivers.
    gathered = float(sum(_delivered(row) for row in unbounded))
    by_passes = others = 0.0
    passes: dict[int, float] = {}
    for row in repeated:
        is_stream = row.repeated_bytes or _has_own_addresses(row)  # a small table stays in L2
        between = distinct + gathered if is_stream else float(row.sector_bytes_at_most or 0)
        # Bytes that DRAM reads again for a pointer; data that stays in L2 is read once. `between`:
        # bytes that go through L2 from one read to the next.
        outside = min(1.0, between / l2_bytes) if l2_bytes else 1.0
        again = outside * ((row.l1_bytes or 0) - float(row.sector_bytes_at_most or 0))
        # All of a later loop's loads go if there is one pass, and what a loop repeats.
        times_of = in_loops.keys() & {access.position for access in row.accesses}
        if row.repeated_bytes or (times_of and _has_own_addresses(row)):
            by_passes += again
            loads = {access.position for access in row.accesses if access.kind in _READS}
            for position in loads & times_of:
                passes[position] = min(MOST_REMOVED, 1 - 1 / in_loops[position])
            passes |= dict.fromkeys(row.repeats, float(MOST_REMOVED))
        else:
            others += again
    has_passes = by_passes > 0
    positions = [access.position for row in repeated for access in row.accesses]
    # A loop that gathers at the same addresses in every iteration reads that data several times.
    for row in unbounded if has_passes else ():
        for access in row.accesses:
            times = in_loops.get(access.position, 1.0)
            if 1 < times <= PASSES_OVER_DATA:
                (touched,) = _sectors(code, [access.position]).values()
                loaded = SECTOR * touched
                again = loaded * (1 - 1 / times) * _delivered(row) / (row.l1_bytes or 1)
                by_passes, gathered = by_passes + again, gathered - again
                positions.append(access.position)
                passes[access.position] = 1 - 1 / times
    # All other reads at addresses without a known bound may be needed.
    bounded_bytes = float(sum(row.l1_bytes or 0 for row in bounded))
    known_part = bounded_bytes / (bounded_bytes + gathered) if bounded_bytes else 0.0
    left = max(0.0, read - distinct - by_passes)
    wasted = min(by_passes, max(0.0, read - distinct)) + min(others, known_part * left)
    is_vague = unbounded or any(row.basis == "estimate" for row in bounded)
    hedge = "about" if is_vague else "at most"
    return wasted, hedge, passes if has_passes else {}, _sectors(code, positions)


def _sectors(code: MachineCode, positions: Iterable[int]) -> dict[int, int]:
    """Sectors that accesses touch, by address."""
    sectors = code.sectors or {}
    return {address: sectors.get(address, 0) for address in code.addresses(positions)}


def _delivered(row: PointerReuse) -> float:
    """Bytes that L2 delivers for a pointer; those that its loads ask L1 for if it is not known."""
    asked = row.l1_bytes or 0
    return float(asked if row.l2_bytes is None else min(asked, row.l2_bytes))


def _has_own_addresses(row: PointerReuse) -> bool:
    """Whether each thread has its own addresses."""
    loads = [access for access in row.accesses if access.kind == "load"]
    kinds = [{symbol.kind for symbol in access.offset.symbols} for access in loads]
    return bool(kinds) and all({"tid", "ctaid"} <= names for names in kinds)


def _by_passes(code: MachineCode) -> float:
    """Bytes that L2 delivers to a loop and had delivered to an earlier one."""
    rows = code.reuse_by_passes
    return sum(_again_from_l2(row, row.repeated_bytes, row.l2_bytes) for row in rows)


def _again_from_l2(row: PointerReuse, repeated: float, default: int | None) -> float:
    """Bytes that L2 delivers for a pointer again, if so many are requested again. `default`: those
    that are delivered once, if it is not known."""
    if not (repeated and row.l2_bytes and row.requested_bytes):
        return 0.0
    once = min(row.l2_bytes, row.sector_bytes_at_most or default or 0)
    return min(repeated / row.requested_bytes * row.l2_bytes, float(row.l2_bytes - once))


def _delivered_to_l1(view: LaunchView, delivered: float, sectors: Evidence) -> Evidence:
    return view.derived("l2_bytes_delivered", delivered, "read from L2 by L1", sectors, unit="byte")


def _second_passes(view: LaunchView, model: TimeModel, queue: float) -> Iterator[Candidate]:
    """A thread loads the same bytes in several loops, and L2 delivers them again."""
    code, sectors = view.code, view.get("l2_l1_read_sectors")
    if code is None or sectors is None or not (again := _by_passes(code)):
        return
    delivered = float(SECTOR * sectors.value)
    again = min(again, MOST_REMOVED * delivered)
    moved = max(SECTOR * (view.value("l2_l1_sectors") or 0.0), delivered)
    loaded = max(SECTOR * (view.value("global_load_sectors") or 0.0), delivered)
    units = {"L2": 1 - again / moved}
    units |= dict.fromkeys(("L1", "LSU"), 1 - again / loaded * global_loads_part(view))
    asked = _delivered_to_l1(view, delivered, sectors)
    label = "read from L2 again by a later loop"
    repeated = view.derived("l2_bytes_repeated", again, label, asked, unit="byte")
    repeats = [row for row in code.reuse_by_passes if row.repeated_bytes]
    touched_sectors = _sectors(code, [a.position for row in repeats for a in row.accesses])
    # What a loop loads again in each iteration is not among these bytes: see `_in_every_iteration`.
    passes = dict.fromkeys(
        (position for row in code.reuse_by_passes for position in row.repeats), float(MOST_REMOVED)
    )
    waits = kept_waits(model, MEMORY_WAITS, again / delivered * queue)
    text = (
        "Several loops of a thread load from the same addresses: of the {asked} that L1 reads from "
        "L2, about {repeated} were read before by an earlier loop."
    )
    yield Candidate(
        Sentence(text, asked=asked, repeated=repeated),
        _without_passes(view, code, model, passes, Effect(units, waits)),
        (repeated, asked),
        lambda: view.places_by(_REPEATED_SECTORS, touched_sectors),
        variant="passes",
        amount=lambda: amount_of(view, _most_again(view, "L2"), "bytes_once"),
    )


def _in_every_iteration(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """A loop loads what does not depend on it again in every iteration, and a block could keep
    it. Also where no unit is busy: the waiting for these loads goes."""
    code, every = view.code, view.get("global_load_sectors")
    if code is None or every is None or not every.value:
        return
    from keet.analysis.amounts.loops import fits, named_loop, repeated_arrays

    kept = [(array, set(fits(view, array))) for array in repeated_arrays(view)]
    kept = [(array, places) for array, places in kept if places]
    loaded = sum(access.requested_bytes or 0 for access in code.accesses if access.kind in _READS)
    if not kept or sum(array.repeated_bytes for array, _ in kept) < NOTABLE_PART * loaded:
        return
    gone: dict[int, float] = {}
    for array, places in kept:
        # A load from shared memory takes the LSU as well, and about as long as a hit in L1.
        missed = None if "registers" in places else view.value("global_load_sectors_missed")
        left = 1.0 if missed is None else min(1.0, missed / float(every.value))
        part = (1 - 1 / array.times) * left
        gone |= dict.fromkeys(array.positions, min(MOST_REMOVED, part))
    sectors_of = _sectors(code, gone)
    less = sum(map(mul, gone.values(), sectors_of.values())) / float(every.value)
    in_registers = [array for array, places in kept if "registers" in places]
    removed = _without_loads(code, {p: gone[p] for array in in_registers for p in array.positions})
    rows = {row.pointer: row for row in code.reuse}
    again = sum(
        _again_from_l2(rows[array.pointer], array.repeated_bytes, None)
        for array, _ in kept
        if array.pointer in rows
    )
    moved = SECTOR * (view.value("l2_l1_sectors") or 0.0)
    units = dict.fromkeys(("L1", "LSU"), 1 - min(MOST_REMOVED, less) * global_loads_part(view))
    units["L2"] = 1 - min(MOST_REMOVED, again / moved) if moved else 1.0
    units |= {unit: 1 - removed_part(view, removed, unit) for unit in ("issue", "FMA", "ALU")}
    largest = kept[0][0]
    label = "loads of each byte for one entry of the loop"
    times = view.derived("loop_loads_per_byte", largest.times, label, every)
    label, part = "loaded bytes that an earlier iteration loaded", 100 * largest.repeated_bytes
    part_of = view.derived("loop_loads_share", part / loaded, label, every, unit="%")
    amount, label = largest.block_bytes or 0.0, "kept by one block"
    size = view.derived("loop_block_bytes", amount, label, every, unit="byte")
    text = (
        "{loop} loads the same part of `{array}` in every iteration: each byte {times:count} "
        "times, {share:.0f} of all bytes that the launch loads. A block needs {about} {size} of "
        "it, which fits into {fit}."
    )
    about, fit = "about" if largest.is_estimate else "at most", " or ".join(sorted(kept[0][1]))
    named: dict[str, Evidence | str] = {"array": code.pointer_name(largest.pointer), "times": times}
    loop, brief = named_loop(view, largest.loop), "`{array}` is loaded {times:count} times"
    yield Candidate(
        Sentence(text, loop=loop, share=part_of, size=size, about=about, fit=fit, **named),
        Effect(units, kept_waits_by(view, model, gone | removed, 1 - units["issue"])),
        (part_of, times, size),
        lambda: view.places_by(_REPEATED_SECTORS, sectors_of),
        variant="loop",
        amount=lambda: amount_of(view, Sentence(brief, **named), "bytes_once", "arithmetic"),
    )


def _overwritten(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """A loop stores to the same addresses in every iteration, and may load them before that: one
    store after the loop would do. The stores go with their waits, and with the loads."""
    code, executed = view.code, view.get("inst_executed")
    if code is None or executed is None or not code.repeated_stores:
        return
    from keet.analysis.amounts.loops import named_loop

    stores = code.repeated_stores
    gone = {store.access.position: min(MOST_REMOVED, 1 - 1 / store.times) for store in stores}
    for store in stores:
        gone |= dict.fromkeys(store.loads, gone[store.access.position])
    positions = [access.position for access in code.accesses]
    sectors_of = dict(zip(positions, _sectors(code, positions).values()))
    every = sum(sectors_of.values())
    less = sum(gone[position] * sectors_of[position] for position in gone) / every if every else 0.0
    if less < NEGLIGIBLE:
        return
    removed = _without_loads(code, gone)
    units = dict.fromkeys(("L1", "LSU"), 1 - less * global_part(view))
    # L1 writes each store through to L2, and may serve the loads.
    own = [store.access.position for store in stores]
    written = sum(gone[position] * sectors_of[position] for position in own)
    moved = view.value("l2_l1_sectors") or 0.0
    units["L2"] = 1 - min(MOST_REMOVED, written / moved) if moved else 1.0
    units |= {unit: 1 - removed_part(view, removed, unit) for unit in ("issue", "FMA", "ALU")}
    largest = max(stores, key=lambda store: sectors_of[store.access.position])
    label = "stores to each address"
    times = view.derived("loop_stores_per_byte", largest.times, label, executed)
    label = "sectors of global accesses that these stores and the loads of them touch"
    touched = sum(sectors_of[position] for position in (largest.access.position, *largest.loads))
    counted = view.get("src_l2_sectors_global") or executed
    share = view.derived("loop_stores_share", 100 * touched / every, label, counted, unit="%")
    text = (
        "{loop} stores to the same addresses of `{array}` in every iteration{sum}: {times:count} "
        "times each, {share:.0f} of the sectors of all global accesses."
    )
    loop, array = named_loop(view, largest.loop), code.pointer_name(largest.access.pointer)
    also = ", and loads the value back" if largest.loads else ""
    yield Candidate(
        Sentence(text, loop=loop, array=array, sum=also, times=times, share=share),
        Effect(units, kept_waits_by(view, model, removed, 1 - units["issue"])),
        (share, times),
        lambda: view.places_by("sectors that are overwritten", _sectors(code, gone)),
        variant="stores",
    )


def _without_loads(code: MachineCode, loads: Mapping[int, float]) -> dict[int, float]:
    """Share of each instruction that goes with loads of which this share goes, by position: the
    loads, and the arithmetic of their addresses."""
    from keet.analysis.machine_code.analyses.repeated_work import only_for

    users, gone = code.program.values.users(), dict[int, float]()
    for position, part in loads.items():
        gone |= dict.fromkeys(only_for(code.program, users, {position}), part)
    return gone


def _from_l2(view: LaunchView, model: TimeModel, queue: float) -> Iterator[Candidate]:
    """L2 delivers more bytes than it got from DRAM: blocks or threads load the same bytes."""
    sectors, read = view.get("l2_l1_read_sectors"), view.get("dram_bytes_read")
    if sectors is None or read is None:
        return
    delivered = float(SECTOR * sectors.value)
    if not FEW_BYTES <= read.value < delivered:
        return
    # Blocks that stage tiles in shared memory share them already, as far as these are large enough.
    # Share of the global loads, 0 to 1, whose values go on to shared memory, for other threads.
    copies = view.count(*COPIES)
    loads = copies + view.count("LDG")
    known_part = (1 - _new_part(view, "L2")) * (
        1 - (min(1.0, (copies + view.count("STS")) / loads) if loads else 0.0)
    )
    kept = 1 - (1 - _l2_left(view, known_part)) * (1 - _gathered_share(view))
    asked = _delivered_to_l1(view, delivered, sectors)
    per_byte, label = delivered / read.value, "L2 reads over DRAM reads"
    times = view.derived("l2_reads_per_byte", per_byte, label, asked, read)
    # A block that works for several others does not execute their loads.
    loaded = max(SECTOR * (view.value("global_load_sectors") or 0.0), delivered)
    passes = 1 - known_part * (1 - kept) * delivered / loaded * global_loads_part(view)
    units = {"L2": kept, BLOCK_STARTS: kept, "L1": passes, "LSU": passes}
    text = (
        "L1 reads {asked} from L2, {times:.1f} times the {read} that come from DRAM: blocks or "
        "neighbouring threads load the same bytes again."
    )
    yield Candidate(
        Sentence(text, asked=asked, times=times, read=read),
        Effect(units, kept_waits(model, MEMORY_WAITS, (1 - kept) * queue)),
        (times, asked, read),
        lambda: global_memory.places_of(view, global_memory.LOAD),
        basis="assumed",
        variant="l2",
        doubt=1 - known_part,
        amount=lambda: amount_of(view, _most_again(view, "L2"), "bytes_once"),
    )


def _new_part(view: LaunchView, level: Literal["L1", "L2"]) -> float:
    """Share of the bytes that a level delivers that it had not delivered before, by the addresses
    of the loads, 0 to 1. Loads at unknown addresses count as new."""
    delivered = once = 0
    for row in view.code.reuse if view.code is not None else ():
        amount = row.requested_bytes if level == "L1" else row.l2_bytes
        distinct = row.distinct_bytes_at_most if level == "L1" else row.sector_bytes_at_most
        delivered += amount or 0
        once += min(amount or 0, amount or 0 if distinct is None else distinct)
    return once / delivered if delivered else 1.0


def _l2_left(view: LaunchView, known_part: float = 0.0) -> float:
    """Share of the bytes between L1 and L2 that is left if blocks load them once per tile.
    `known_part`: the share of them that the addresses show to be repeats, all of which can go."""
    read = view.value("dram_bytes_read") or 0.0
    reads, written = (SECTOR * view.sum_of(f"l2_l1_{of}_sectors") for of in ("read", "write"))
    needed = (read + written) / (reads + written) if reads else 1.0
    left = min(1.0, max(needed, L2_READS_KEPT))
    return known_part * left + (1 - known_part) * math.pow(left, REUSE)


def _gathered_share(view: LaunchView) -> float:
    """Share of the loaded bytes at addresses that depend on data: tiles do not help there."""
    if view.code is None:
        return 0.0
    loads = [(a.requested_bytes or 0, a.is_gather) for a in view.code.accesses if a.kind == "load"]
    total = sum(size for size, _ in loads)
    return sum(size for size, gathered in loads if gathered) / total if total else 0.0


def _between_launches(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Data that this and other launches move one after the other: a suspicion.

    The gain is that of the launches together: a round trip is saved in two of them.
    """
    shared = view.shared_traffic
    if shared is None or shared.us_saved is None or library_of_launch(view.launch) is not None:
        return  # users can't fuse a library's kernel
    saved = min(shared.us_saved, MOST_REMOVED * shared.total_us)
    gain = shared.total_us / (shared.total_us - saved)
    load = model.loads.get("DRAM", 0.0)
    if shared.kind == "same_input" and model.busiest == "DRAM" and load > 0:
        # The weakest of the suspicions promises no more than a launch at DRAM's peak has left.
        gain = min(gain, max(1.0, 1 / load))
    # A launch that is fused with others still does its arithmetic.
    stays = [model.loads[unit] for unit in model.loads if unit in _ARITHMETIC]
    likelihoods = {"high": 1.0, "medium": LIKELY, "low": POSSIBLE}
    each_likely = POSSIBLE if shared.kind == "same_input" else likelihoods[shared.confidence]
    is_writer = view.launch.id in shared.writers
    operation = global_memory.STORE if is_writer else global_memory.LOAD
    yield Candidate(
        shared.text,
        gain,
        tuple(map(view.ledger.adopt, shared.evidence)),
        # To fuse launches, or to change their order, one changes the lines that launch them.
        lambda: beside(global_memory.places_of(view, operation), *launch_places(view)),
        basis="suspected",
        variant=shared.kind,
        likelihood=math.pow(each_likely, shared.hand_overs),
        most=1 / max(1 / MAX_GAIN, max(stays, default=0.0)),
    )
