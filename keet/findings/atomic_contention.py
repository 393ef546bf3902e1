"""Contended atomics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits, kept_waits_by
from keet.analysis.decisions.atomics import Retries, hot_slice, lane_requests, retries
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hotspots.source_calls import beside, call_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import ATOMICS, GLOBAL_LOADS, Role
from keet.analysis.memory_work import (
    ATOMIC_SECTORS,
    FLOAT_PASSES,
    SECTORS_PER_LINE,
    SPREAD_PASSES,
    UNRELATED_WAITS,
    global_atomics,
    less_shared,
    shared_atomics_by_data,
)
from keet.analysis.parameters import LIKELY, MAJORITY, NOTABLE_PART
from keet.analysis.remedy_conditions import on_chip, origin
from keet.analysis.time_model import (
    ATOMIC_RATE,
    BLOCK_STARTS,
    FLOAT_ATOMIC_RATE,
    HOT_LINE,
    INDIRECT,
    MOST_REMOVED,
    WITHIN_SM,
    Effect,
    TimeModel,
    atomic_rate,
    l2_cycles,
)
from keet.documents.finding import Place
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.flow.program import SassProgram
    from keet.analysis.machine_code.launch_code import MachineCode

FINDING = FindingSpec(
    id="atomic_contention",
    family="memory",
    label="contended atomics",
    meaning="Many threads update few addresses, which are served one after the other.",
    how="Compare-and-swap loops: the executions beyond one per update, which are retries. On "
    "shared memory: the wavefronts of atomics that are repeats, because threads of a warp update "
    "the same address, beyond those of evenly spread addresses. On global memory: the busiest "
    "slice of L2 is compared with the average one, where its requests are atomics, because one "
    "address is served by one slice at a limited rate. Also: requests of atomics beyond the "
    "sectors that the addresses of each warp are in: threads of a warp that update the same "
    "address make a request each. Last: sums at addresses from a list of indices, by their share "
    "of the sectors between SMs and L2.",
    rule_titles=("L2 Slices Workload Imbalance",),
    parameters=(
        FLOAT_ATOMIC_RATE,
        ATOMIC_RATE,
        FLOAT_PASSES,
        MOST_REMOVED,
        UNRELATED_WAITS,
        INDIRECT,
    ),
    claims=("instructions", "bytes", "waiting"),
    rests_on=("atomics", "slices"),
    memory="global",
    headline="hot line",
    unlike={
        "l2_partition_imbalance": "The same skew between slices of L2, caused by plain loads and "
        "stores.",
        "shared_bank_conflict": "Repeats of plain accesses to shared memory: different addresses "
        "in one bank.",
    },
    remedies={
        when(origin.library): "Use a routine of {library} that combines values before it updates "
        "memory (a reduction, a sort followed by a reduction by key), or its deterministic "
        "variant.",
        when(origin.triton): "Combine within the program first (tl.sum, tl.histogram), then issue "
        "one tl.atomic_add per program{here}.",
        when(on_chip.updates_host_memory, name="in_host"): "The address is in memory of the "
        "host{here}: put it into the GPU's memory, and copy the result back when the "
        "kernel is done. Then combine updates before they reach L2: within a warp, in shared "
        "memory by block, or in several copies that are added at the end.",
        when(on_chip.retries_in_shared, name="retries"): "Threads retry a compare-and-swap on "
        "shared memory{here}. Give each thread or warp its own copy, or sum runs of equal keys in "
        "registers. Additions of float, double and long long are such loops there; int and "
        "unsigned have native atomics, which suffice if the sum of a block fits.",
        when(on_chip.contention_in_shared, name="shared"): "Threads of a warp update the same "
        "words of shared memory{here}: combine equal keys within the warp first "
        "(__match_any_sync), let each thread count runs of equal keys in a register, or keep a "
        "copy per warp and add the copies at the end.",
        when(on_chip.atomics_compare_and_swap, name="compare_and_swap"): "Threads retry a "
        "compare-and-swap{here}: use a native atomic for the type where there is one (atomicAdd "
        "for float, double and half2; atomicMax on integers that keep the order), and combine "
        "values within the warp first.",
        when(
            on_chip.one_atomic_per_block, on_chip.atomics_one_address, name="per_block"
        ): "A block updates the address only once already{here}: use fewer blocks, and let each "
        "thread work on several items (a grid-stride loop), so that there are fewer updates.",
        when(on_chip.atomics_return, on_chip.atomics_one_address, name="counter"): "Threads take "
        "numbers from one counter{here}: let one thread add for its whole warp and distribute the "
        "numbers (cooperative_groups::coalesced_threads, or __ballot_sync and __popc), or scan "
        "within the block and add once per block.",
        when(on_chip.atomics_one_address, name="one_address"): "All blocks update one "
        "address{here}: combine values within the warp (__shfl_down_sync) and the block "
        "(cub::BlockReduce) first, and issue one atomic per block.",
        when(on_chip.lanes_on_one_address, name="lanes"): "Threads of a warp update the same "
        "address{here}: combine their values first, and let one thread per address issue the "
        "atomic: a sum of the warp if all have one address (__shfl_down_sync), a segmented sum if "
        "neighbours have, else a sum per group of equal addresses (__match_any_sync).",
        when(
            on_chip.adds_scattered, name="scattered"
        ): "A list of indices chooses where atomics add "
        "floating-point values{here}: turn the list around once (sort the items by destination, "
        "or store the items of each destination), sum the items of a destination in registers, "
        "and store each sum once, also if both ends of an item then compute it.",
        when(
            on_chip.atomics_by_data,
            on_chip.one_update_per_thread,
            name="privatise_in_fewer_blocks",
            unless=(on_chip.adds_block_copies,),
        ): "Data chooses the addresses of atomics on global memory{here}, and a block has one item "
        "per thread. Where the table fits, update a copy in shared memory per block, with fewer "
        "blocks that take many items each (a grid-stride loop), and add the copies to global "
        "memory at the end.",
        when(
            on_chip.atomics_by_data, name="privatise", unless=(on_chip.adds_block_copies,)
        ): "Data chooses the addresses of atomics on global memory{here}: where the table fits, "
        "update a copy in shared memory per block, where atomics are far cheaper, and add the "
        "copies to global memory at the end. Else combine equal addresses within the warp first.",
        when(
            origin.looks_like_histogram,
            on_chip.atomics_global,
            name="histogram",
            unless=(on_chip.atomics_shared,),
        ): "Count in a copy in shared memory per block{here}, where atomics are far cheaper, and "
        "add the copies to global memory at the end.",
        when(on_chip.adds_block_copies, name="shared_and_global"): "The atomics on global memory "
        "add copies of blocks already{here}: use fewer and larger blocks (a grid-stride loop), so "
        "that fewer copies are added to global memory, and combine within the warp before the "
        "block.",
        otherwise: "Combine updates before they reach L2{here}: within a warp, in shared memory "
        "by block, or in several copies that are added at the end.",
    },
    edit=Edit(
        "Combine updates of the same address within a block before they go to global atomics",
        usual=7,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    hot, line = hot_slice(model), model.hot_line
    if hot and line and line.is_atomic:
        variant = "in_host" if line.is_in_host else "global"
        yield hot._replace(places=lambda: _places(view), variant=variant)
    if crowded := _same_address(view, model) or _one_by_one(view, model):
        yield crowded
    if not hot and (scattered := _scattered(view, model)):
        yield scattered
    if view.code is not None:
        for of_memory in retries(view):
            yield _of_retries(view, view.code, model, of_memory)
    conflicts, fronts = view.get("bank_conflicts_atomic"), view.get("shared_atomic_wavefronts")
    if conflicts is None or fronts is None or not conflicts.value:
        return
    label = "wavefronts of shared atomics that are repeats"
    share = view.percent("atomic_conflict_share", label, conflicts, fronts)
    if share is None:
        return
    text = (
        "{share:.0f} of the {fronts}s of atomics on shared memory are repeats: threads of a warp "
        "update the same address."
    )
    needed = 1 - min(1.0, share.value / 100)
    wasted = max(0.0, 1 - needed * (SPREAD_PASSES if shared_atomics_by_data(view) else 1.0))
    effect = less_shared(model, wasted, fronts.value)
    units = {"L1": max(effect.units["L1"], 1 - MOST_REMOVED)}
    waits = kept_waits(model, MEMORY_WAITS, wasted * INDIRECT)
    yield Candidate(
        Sentence(text, share=share, fronts=fronts),
        effect._replace(units=units, waits={**effect.waits, **waits}),
        (share, conflicts, fronts),
        lambda: view.column_places("excess wavefronts", "src_shared_wavefronts_excess"),
        variant="shared",
    )


_QUEUES = ("lg_throttle", "mio_throttle", "drain")
"""Warp states in which requests wait in a queue for those before them."""


def _same_address(view: LaunchView, model: TimeModel) -> Candidate | None:
    """Lanes of a warp that update one address, where other warps update others. Each address is hot
    for a while only, so that all slices of L2 serve as many requests in the end."""
    lanes = lane_requests(view)
    cycles, sent = l2_cycles(view), view.value("l2_l1_sectors")
    executed = view.get("global_reduction_inst") or view.get("global_atomic_inst")
    if lanes is None or not lanes.repeated or not cycles or not sent or executed is None:
        return None
    # 1: they take all of the time if one slice serves them, or even if all slices serve as many.
    takes = lanes.repeated / atomic_rate(view) / cycles
    serial, in_all = min(1.0, takes), min(1.0, takes / (view.value("device_l2_slices") or math.inf))
    queued = model.waiting_for(*_QUEUES)
    behind = queued / (queued + model.waiting_for("long_scoreboard")) if queued else 0.0
    waits = kept_waits(model, _QUEUES, MOST_REMOVED * serial)
    loads_behind = MOST_REMOVED * max(serial * behind, in_all)
    waits |= kept_waits(model, ("long_scoreboard",), loads_behind)
    counted = filter(None, map(view.get, (*ATOMIC_SECTORS, "src_l2_sectors_global")))
    label = "requests of atomics per sector that the addresses of a warp are in"
    times = lanes.made / lanes.needed
    per = view.derived("atomic_requests_per_sector", times, label, *counted)
    text = (
        "Atomics on global memory make {per:.1f} requests for each sector that a warp updates: "
        "threads of the warp update the same address. Each of them makes a request of its own, and "
        "L2 serves these one after the other."
    )
    left = 1 - min(1.0, lanes.repeated / sent)
    return Candidate(
        Sentence(text, per=per),
        Effect(dict.fromkeys(("L1", "L2"), left), waits),
        (per, executed),
        lambda: _crowded_places(view),
        basis="assumed",
        variant="lanes",
    )


def _scattered(view: LaunchView, model: TimeModel) -> Candidate | None:
    """Sums at addresses from a list of indices: without atomics if each destination sums its own
    items."""
    adds, executed = _scattered_adds(view), view.get("global_reduction_inst")
    if adds is None or executed is None:
        return None
    part, again = adds
    label = "of the sectors that SMs exchange with L2 are those of scattered additions"
    share = view.share("scattered_adds", part, label, executed)
    text = (
        "{share:.0f} of the sectors between the SMs and L2 are atomic additions to addresses from "
        "a list of indices: no address is updated often, but each addition is a request to L2."
    )
    left = min(1.0, (1 - part) * again)
    computed = {unit: load for unit, load in model.loads.items() if unit in _COMPUTED}
    units = {"L2": left, "L1": left, BLOCK_STARTS: 1 - INDIRECT}
    removed = 1 - min(1.0, (1 - part * model.loads.get("L2", 0.0)) * again)
    return Candidate(
        Sentence(text, share=share),
        Effect(
            units,
            kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), removed),
            moved={unit: min(1.0, load * again) for unit, load in computed.items()},
        ),
        (share, executed),
        lambda: _places(view),
        basis="assumed",
        variant="scattered",
        likelihood=LIKELY,
    )


_FLOATS = {"F32", "F64", "F16", "BF16"}
_SPREADS = ("chosen by data", "different addresses")
_LONGEST_SLICE = 200
"""Most values that a slice of an address follows; usual addresses need about ten."""


def _scattered_adds(view: LaunchView) -> tuple[float, int] | None:
    """Additions to many addresses, which come from a list of indices. No address is updated often,
    so nothing queues for a word. But each update is a request of its own to L2, with its data. If
    each destination sums its items in registers, it is stored once.

    Their share of all requests of L1 to L2, 0 to 1; and how often an item is computed if each
    destination sums its own: twice if the code reads data of the destination, because then the
    other end of the item needs it as well. None without the machine code, or if no list of indices
    chooses most of the addresses.

    Also none where each lane adds a value that does not depend on the destination to a word of its
    own: that is a histogram, whose indices are new in each launch. Lanes that add a row together,
    and items that read data of their destinations, have a list that can be turned around.
    """
    code, sent = view.code, view.value("l2_l1_sectors")
    if code is None or not sent or not code.sectors:
        return None
    program = code.program
    adds = [
        atomic.position
        for atomic in view.atomics("global")
        if atomic.spread in _SPREADS
        and not atomic.has_result
        and not _FLOATS.isdisjoint(program.code[atomic.position].modifiers)
    ]
    sources = {position: _index_loads(program, position) for position in adds}
    requests = {at: code.sectors.get(program.code[at].address, 0) for at in adds}
    listed = [at for at in adds if sources[at]]
    if 2 * sum(requests[at] for at in listed) <= sum(requests.values()):
        return None
    every = frozenset[int]().union(*(sources[at] or () for at in listed))
    again = any(
        position not in every and not every.isdisjoint(_index_loads(program, position) or ())
        for position in code.with_opcodes(GLOBAL_LOADS)
    )
    if not again and sum(requests.values()) > _WARP_LANES / 2 * sum(
        program.counts[at] for at in adds
    ):
        return None
    # Lanes that update one address each make a request.
    threads = view.table.threads or {}
    lone = [x.position for x in view.atomics("global") if x.spread.startswith("one address")]
    others = sum(threads.get(address, 0) for address in code.addresses(lone))
    total = max(sum(requests.values()), (view.value("global_reduction_sectors") or 0.0) - others)
    return min(1.0, total / sent), 2 if again else 1


def _index_loads(program: SassProgram, position: int) -> frozenset[int] | None:
    """Loads from global memory that the address of an access depends on; None if numbers decide it
    (the cell of a position), so that it is another one in each launch."""
    from keet.analysis.machine_code.analyses.purpose import address_registers

    read = program.values.read
    spent = address_registers(program.code[position])
    waiting = [read[position][name] for name in spent if name in read[position]]
    seen, loads = set(waiting), set[int]()
    while waiting and len(seen) <= _LONGEST_SLICE:
        for at in program.values.definitions(waiting.pop()):
            instruction = program.code[at]
            if instruction.role in (Role.FLOAT, Role.CONVERSION) and read[at]:
                return None
            if instruction.role is Role.LOAD:
                loads |= {at} if instruction.opcode in GLOBAL_LOADS else set()
                continue
            following = set(read[at].values()) - seen
            seen |= following
            waiting += following
    return frozenset(loads)


_COMPUTED = tuple(unit for unit in WITHIN_SM if unit != "L1")
"""Units that work more if an item is computed at both of its ends."""
_WARP_LANES = 32
_WORD_BYTES = 4
"""Bytes of the smallest word that most atomics update."""


def _one_by_one(view: LaunchView, model: TimeModel) -> Candidate | None:
    """Without the sectors of single instructions: atomics of which each thread makes a request of
    its own, and that wait in a queue although no level of memory is busy: threads update few
    addresses. Scattered updates of a large table make as many requests, but keep L2 or DRAM
    busy."""
    kinds = ("global_reduction", "global_atomic")
    counted = [(view.get(f"{kind}_sectors"), view.get(f"{kind}_inst")) for kind in kinds]
    pairs = [(ours, runs) for ours, runs in counted if ours and runs and ours.value and runs.value]
    spreads = {atomic.spread for atomic in view.atomics("global")}
    if not pairs or spreads == {"different addresses"} or lane_requests(view) is not None:
        return None
    sectors, executed = max(pairs, key=lambda pair: float(pair[0].value))
    label = "requests of a warp's atomic on global memory"
    per = view.ratio("atomic_requests_per_inst", label, sectors, executed)
    if per is None:
        return None
    per_instruction = min(float(per.value), float(_WARP_LANES))
    # From half a warp up: coalesced updates of different words need at most 8 (of 8 bytes).
    crowded = 1 - min(1.0, 2 - 2 * per_instruction / _WARP_LANES) ** 2
    plain = view.sum_of("global_load_sectors", "global_store_sectors")
    passes = float(sectors.value) / (float(sectors.value) + plain / SECTORS_PER_LINE)
    busy = max(model.loads.get(unit, 0.0) for unit in ("L1", "L2", "DRAM", HOT_LINE))
    idle = min(1.0, max(0.0, (MAJORITY - busy) / (MAJORITY - NOTABLE_PART)))
    fewer = min(MOST_REMOVED, passes * (1 - 1 / per_instruction)) * crowded * idle
    if not crowded or not fewer:
        return None
    text = (
        "A warp's atomic on global memory becomes {per:.0f} requests, one for each thread or "
        "nearly so, and no level of memory is near its peak: the threads seem to update the "
        "same few addresses, one after the other."
    )
    return Candidate(
        Sentence(text, per=per),
        Effect(dict.fromkeys(("L1", "L2"), 1 - fewer), kept_waits(model, MEMORY_WAITS, fewer)),
        (per, sectors, executed),
        lambda: _places(view),
        basis="assumed",
        variant="global",
        likelihood=1.0 if on_chip.atomics_one_address.test(view) else LIKELY,
    )


def _places(view: LaunchView) -> tuple[Place, ...]:
    """Lines of global atomics, by executions; sampled lines without the machine code."""
    positions = [atomic.position for atomic in view.atomics("global")]
    costs = view.code.executions(positions) if view.code else {}
    return _with_call(view, view.places_by("atomics", costs)) or view.sampled_places()


def _with_call(view: LaunchView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Whether each thread, warp or block updates is often decided where a helper is called."""
    return beside(places, *(call_of(view, place) for place in places[:1]))


def _crowded_places(view: LaunchView) -> tuple[Place, ...]:
    """Lines of atomics whose threads outnumber the words of the sectors that they update."""
    column, threads = view.table.column("src_l2_sectors_global") or {}, view.table.threads or {}
    costs = {
        address: int(threads.get(address, 0) - column.get(address, 0) * SECTOR / _WORD_BYTES)
        for address in global_atomics(view)
    }
    crowded = {address: cost for address, cost in costs.items() if cost > 0}
    return _with_call(view, view.places_by("atomics", crowded)) or _places(view)


def _of_retries(
    view: LaunchView, code: MachineCode, model: TimeModel, retries: Retries
) -> Candidate:
    executed = view.get("inst_executed")
    sources = () if executed is None else (executed,)
    label = "rounds of a compare-and-swap loop per update of a warp"
    times = retries.swaps / retries.updates
    rounds = view.derived(f"retry_rounds.{retries.memory}", times, label, *sources)
    label = "of the executed instructions are retries of compare-and-swap loops"
    share = view.share(f"retry_share.{retries.memory}", retries.share, label, *sources)
    text = (
        "A warp runs a compare-and-swap loop on {memory} memory {rounds:.1f} times per update. "
        "Once is enough if no other thread updates the same address meanwhile. {share:.0f} of the "
        "executed instructions are such retries, and the threads that are done are inactive in "
        "them."
    )
    executions = {code.program.code[at].address: n for at, n in retries.repeated.items()}
    return Candidate(
        Sentence(text, memory=retries.memory, rounds=rounds, share=share),
        _without_retries(view, code, model, retries),
        (rounds, share, *sources),
        partial(view.places_by, "retries", executions),
        variant="retries" if retries.memory == "shared" else "global",
    )


_MEMORY_ROLES = ("load", "store", "atomic or reduction in memory")
"""Roles of the instructions that the LSU pipe executes."""
_MATH_PIPES = ("ALU", "FMA", "FP64", "FP16")


def _without_retries(
    view: LaunchView, code: MachineCode, model: TimeModel, retries: Retries
) -> Effect:
    """The rest of the kernel is left."""
    counts, repeated = code.program.counts, retries.repeated
    loads = {at for at, each in enumerate(code.program.code) if each.role.value in _MEMORY_ROLES}

    def kept(positions: Set[int]) -> float:
        every = sum(counts[at] for at in positions)
        return 1 - sum(repeated.get(at, 0) for at in positions) / every if every else 1.0

    units = {"issue": 1 - retries.share, "LSU": kept(loads)}
    units |= dict.fromkeys(_MATH_PIPES, kept(set(range(len(counts))) - loads))
    in_shared = retries.memory == "shared"
    metric = "src_shared_wavefronts" if in_shared else "src_l2_sectors_global"
    column = view.table.column(metric) or {}
    taken = {at: column.get(code.program.code[at].address, 0) for at in repeated}
    # Where data chooses the addresses, the only round takes as many wavefronts as any spread
    # addresses do.
    least = SPREAD_PASSES if in_shared and shared_atomics_by_data(view) else 0.0
    every, needless = sum(column.values()), 0.0
    for at, n in repeated.items():
        if taken[at]:
            needless += taken[at] - max(taken[at] / counts[at], least) * (counts[at] - n)
    part = max(0.0, needless / every) if every else 0.0  # 0: not measured
    if in_shared:
        units |= less_shared(model, part).units
    else:
        units |= {"L2": 1 - part, HOT_LINE: retries.updates / retries.swaps}
    gone = sum(repeated.values()) / sum(counts[at] for at in repeated)
    return Effect(units, kept_waits_by(view, model, dict.fromkeys(repeated, gone), retries.share))


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    kinds = ("global_atomic", "global_cas", "global_reduction", "shared_atomic")
    counted = [view.get(f"{kind}_inst") for kind in kinds]
    collected = tuple(filter(None, counted))
    executes = len(collected) < len(counted) or any(count.value for count in collected)
    if view.opcodes:
        executes = view.count(*ATOMICS) > 0
    return None if executes else (Sentence("The kernel executes no atomics."), collected)
