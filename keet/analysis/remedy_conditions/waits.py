"""Facts about loops, about what warps wait for, and which threads and warps work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from keet.analysis.archetype import called_part
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.machine_code.instructions.opcodes import (
    BY_PIPE,
    GLOBAL_ATOMICS,
    GLOBAL_READS,
    GLOBAL_STORES,
    RETURNING_ATOMICS,
    SHARED,
    TEXTURES,
    Role,
)
from keet.analysis.parallelism.inactive_threads import (
    WARP,
    Cause,
    few_work,
    inactive_threads,
    lone_thread,
    waits_at_barriers,
)
from keet.analysis.parameters import FEW, MAJORITY, Parameter
from keet.analysis.remedy_conditions.fact import Answer, Fact, fact, if_most_run, total
from keet.analysis.remedy_conditions.origin import slow_double
from keet.documents.finding import Place

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.loop_chains import LoopChains
    from keet.analysis.machine_code.launch_code import MachineCode

# --- loops

MANY_TRIPS = Parameter(8, "iterations of a loop that can be split over more threads", "judgement")


def _main_loop(code: MachineCode) -> LoopChains | None:
    """The loop with most executed instructions."""
    return code.chains[0] if code.chains and code.chains[0].share >= MAJORITY else None


@Fact.of_code(
    "most instructions are executed in loops of many iterations",
    "most instructions are executed outside loops of many iterations",
)
def loops_dominate(code: MachineCode) -> Answer:
    loop = _main_loop(code)
    return loop is not None and (loop.trips or 0) >= MANY_TRIPS


@Fact.of_code("loops run different numbers of times for different warps")
def uneven_loops(code: MachineCode) -> Answer:
    from keet.analysis.machine_code.flow.program import uneven_exits

    shares = {chain.loop: chain.share for chain in code.chains}
    hot = (loop for loop in code.program.flow.loops if shares.get(loop.index, 0) >= FEW)
    repeated = (loop for loop in hot if loop.trips is not None and loop.trips > 1)
    return code.addresses(p for loop in repeated for p in uneven_exits(code.program, loop))


@Fact.of_code("each load of a loop needs the address that the previous load returned")
def chases_pointers(code: MachineCode) -> Answer:
    loop = _main_loop(code)
    if loop is None or loop.recurrence is None or not loop.recurrence.loads:
        return False
    from keet.analysis.machine_code.analyses.loop_chains import FAR

    chain = (code.program.code[position] for position in loop.recurrence.positions)
    return [instruction.address for instruction in chain if instruction.opcode in FAR]


@Fact.of_code("iterations of the main loop depend on each other through arithmetic")
def one_accumulator(code: MachineCode) -> Answer:
    loop = _main_loop(code)
    if loop is None or loop.recurrence is None or loop.recurrence.loads:
        return False
    chain = [code.program.code[position] for position in loop.recurrence.positions]
    is_arithmetic = any(instruction.role in (Role.FLOAT, Role.TENSOR) for instruction in chain)
    return [instruction.address for instruction in chain] if is_arithmetic else False


@Fact.of_code("loads wait for other loads that return their index")
def dependent_loads(code: MachineCode) -> Answer:
    """In a hot loop, or outside of loops: an index that is loaded once is not a chain. A load that
    only decides whether another is made returns no index."""
    from keet.analysis.machine_code.analyses.address_patterns import index_loads

    for loop in code.chains:
        if loop.share >= FEW and loop.load_depth > 1:
            indices = {at for load in loop.load_chain for at in index_loads(code.program, load)}
            if indices & {*loop.load_chain}:
                return code.addresses(loop.load_chain)
    flow, loads = code.program.flow, [access for access in code.accesses if access.kind == "load"]
    gathered = [
        load.position
        for load in loads
        if load.is_gather and flow.block_of[load.position] not in flow.loop_of
        if index_loads(code.program, load.position)
    ]
    # Each gathered value has a load of its index before it.
    return if_most_run(code, gathered, (load.position for load in loads), FEW)


@Fact.of_code("branches to code that never ran stand between the loads of an unrolled loop")
def branches_part_loads(code: MachineCode) -> Answer:
    times, loads = parted_loads(code)
    return code.addresses(loads) if times >= 2 else False


def parted_loads(code: MachineCode) -> tuple[float, list[int]]:
    """How often a thread waits per iteration for loads of the same line, because branches to code
    that never ran part them (slow paths of roots and divisions), on average over the samples; and
    the positions of these loads. The compiler moves no load ahead of a branch."""
    flow = code.program.flow
    # Blocks that never ran are left out: they are gaps.
    gaps = [i for i, (a, b) in enumerate(pairwise(flow.blocks)) if a.end < b.start]
    samples = Counter[tuple[int, object] | None]()
    awaited = defaultdict[tuple[int, object] | None, set[int]](set)
    for wait in code.waits:
        if wait.reason in _LONG_WAITS:
            load = wait.producers[0] if wait.producers else wait.position
            loop = flow.loop_of.get(flow.block_of[load])
            place = (loop, code.location(load)) if loop is not None else None
            samples[place] += wait.samples
            awaited[place].add(load)
    awaited.pop(None, None)
    times = dict.fromkeys(samples, 1)
    for line, loads in awaited.items():
        blocks = sorted({flow.block_of[load] for load in loads})
        times[line] += sum(any(a <= gap < b for gap in gaps) for a, b in pairwise(blocks))
    parted = [load for line, loads in awaited.items() if times[line] > 1 for load in loads]
    average = sum(times[line] * count for line, count in samples.items())
    return average / max(1, samples.total()), sorted(parted)


def _serial(words: str, *reasons: str) -> Fact:
    """That loads wait for each other without need, for one of these reasons, in an important part
    of all waits for loads."""

    def test(view: LaunchView) -> Answer:
        if view.code is None:
            return False
        from keet.analysis.amounts.accesses import avoidable_loads

        region = avoidable_loads(view)
        if region is None:
            return False
        waiting = sum(wait.samples for wait in view.code.waits if wait.reason in _LONG_WAITS)
        trips = [trip for trip in region.trips if trip.is_avoidable and trip.reason in reasons]
        is_most = 2 * len(trips) >= sum(trip.is_avoidable for trip in region.trips)
        if not is_most or region.avoidable_samples < FEW * waiting:
            return False
        return view.code.addresses(load for trip in trips for load in trip.loads)

    return Fact(words, test)


stores_delay_loads = _serial(
    "loads are issued after stores that may write what they read", "store", "atomic"
)
branches_delay_loads = _serial(
    "loads that need no result of earlier loads are issued after branches", "branch"
)
volatile_delays_loads = _serial(
    "volatile or atomic loads are issued one after the other", "volatile"
)


def awaited_iterations(code: MachineCode) -> tuple[float, list[int]]:
    """Iterations per entry of loops that a load ends, by their waits for loads, and the positions
    of these loads; 0 if most waits are elsewhere."""
    from keet.analysis.machine_code.analyses.source_loops import exit_loads

    flow, samples = code.program.flow, Counter[int]()
    for wait in code.waits:
        if wait.reason in _LONG_WAITS:
            samples[flow.loop_of.get(flow.block_of[wait.position], -1)] += wait.samples
    chained = {each.loop for each in code.chains if each.recurrence and each.recurrence.loads}
    of_loops, trips, loads = 0, 0.0, list[int]()
    for index, count in samples.items():
        loop = flow.loops[index] if index >= 0 and index not in chained else None
        ending = exit_loads(code.program, loop) if loop is not None and loop.trips else []
        if loop is not None and ending:
            of_loops, trips = of_loops + count, trips + count * (loop.trips or 0.0)
            loads += ending
    return (trips / of_loops, loads) if of_loops > MAJORITY * samples.total() else (0.0, [])


@Fact.of_code("a load decides whether the loop with most waits for loads goes on")
def load_ends_loop(code: MachineCode) -> Answer:
    return code.addresses(awaited_iterations(code)[1])


# --- waits


@fact(
    "most samples are in routines outside of the kernel's code, such as malloc or printf",
    metrics=("samples_total",),
)
def calls_dominate(view: LaunchView) -> Answer:
    return called_part(view) > MAJORITY


_LONG_WAITS = ("long_scoreboard", "long_scoreboard_pipe_l1tex")
_SHORT_WAITS = ("short_scoreboard", "mio_throttle", "mio_throttle_pipe_mio")
_ISSUING = ("selected", "not_selected")
"""States in which a warp does not wait."""
_TEXTURES = TEXTURES | {"SULD"}
_RETURNING = RETURNING_ATOMICS | {"LDL"}


def _mostly_wait(view: LaunchView, states: tuple[str, ...]) -> bool:
    """Whether warps wait most cycles in one of these states."""
    waits = [state for state in view.stalls if state not in _ISSUING]
    return max(waits, key=lambda state: view.stalls[state], default=None) in states


def _waits(what: str, *states: str) -> Fact:
    words, metrics = f"warps mostly wait for {what}", (f"stall_{states[0]}",)
    return Fact(words, lambda view: _mostly_wait(view, states), metrics=metrics)


def _waits_for_data(what: str, *opcodes: str) -> Fact:
    """That most waits are long ones, and most instructions that can cause them are these."""

    def test(view: LaunchView) -> Answer:
        possible, every = view.count(*opcodes), view.count(*GLOBAL_READS | _RETURNING | _TEXTURES)
        return _mostly_wait(view, _LONG_WAITS) and possible > MAJORITY * every

    words, metrics = f"warps mostly wait for {what}", ("stall_long_scoreboard",)
    return Fact(words, test, metrics=metrics, opcodes=opcodes)


@fact("warps sleep for most of their waiting", metrics=("stall_sleeping",))
def warps_sleep(view: LaunchView) -> Answer:
    """In nanosleep, or in a lock or a flag that sleeps between two looks."""
    waiting = sum(cycles for state, cycles in view.stalls.items() if state not in _ISSUING)
    return view.stalls.get("sleeping", 0.0) > MAJORITY * waiting


@Fact.of_code("the sleep is outside of any loop, so it waits for no lock and no flag")
def sleeps_on_purpose(code: MachineCode) -> Answer:
    flow, sleeps = code.program.flow, code.with_opcodes(["NANOSLEEP"])
    is_looped = any(flow.block_of[position] in flow.loop_of for position in sleeps)
    return [] if is_looped else code.addresses(sleeps)


@fact("warps mostly wait for data from global memory", metrics=("stall_long_scoreboard",))
def waits_for_global_loads(view: LaunchView) -> Answer:
    loaded, others = view.count(*GLOBAL_READS), view.count(*_RETURNING | _TEXTURES)
    if not view.opcodes:
        loaded = total(view, "global_load_requests", "global_load_sectors")
    return _mostly_wait(view, _LONG_WAITS) and loaded > 0 and loaded >= others


waits_for_atomics = _waits_for_data("the old values that atomics return", *RETURNING_ATOMICS)
waits_for_local = _waits_for_data("data from local memory", "LDL")
waits_for_textures = _waits_for_data("textures", *_TEXTURES)


def _short_waits(what: str, test: Callable[[float, float], bool]) -> Fact:
    """Decided by executed instructions on shared memory, and special functions and conversions.
    Where the FP64 pipe has few lanes, more doubles than of both explain the waits."""

    def decided(view: LaunchView) -> Answer:
        shared, special, doubles = _on_short_queues(view)
        is_other = doubles <= max(shared, special)
        return _mostly_wait(view, _SHORT_WAITS) and is_other and test(shared, special)

    metrics = ("stall_short_scoreboard", "stall_mio_throttle")
    return Fact(f"warps mostly wait for {what}", decided, metrics=metrics)


def _on_short_queues(view: LaunchView) -> tuple[float, float, float]:
    """Executed instructions that answer through the short scoreboard: shared memory, special
    functions and conversions, doubles. The last are 0 on GPUs whose FP64 pipe is a full one."""
    shared = view.count(*SHARED, "SHFL")
    special, doubles = view.count(*BY_PIPE["XU"]), view.count(*BY_PIPE["FP64"])
    return shared, special, doubles if slow_double.test(view) else 0.0


@fact(
    "warps mostly wait for double-precision instructions, of which this GPU executes few at a time",
    metrics=("stall_short_scoreboard",),
    opcodes=BY_PIPE["FP64"],
)
def waits_for_doubles(view: LaunchView) -> Answer:
    """On GPUs with few FP64 lanes, the pipe is fed by the queues of memory instructions."""
    shared, special, doubles = _on_short_queues(view)
    return _mostly_wait(view, _SHORT_WAITS) and doubles > max(shared, special)


waits_for_shared = _short_waits(
    "shared memory", lambda shared, special: shared > 0 and shared >= special
)
waits_for_special = _short_waits(
    "special functions or conversions", lambda shared, special: special > shared
)
waits_for_arithmetic = _waits("a fixed arithmetic latency", "wait")
waits_for_queue = _waits("room in the queue of memory instructions", "lg_throttle", "tex_throttle")
waits_for_stores = _waits("their stores to complete before they exit", "drain")
waits_for_fences = _waits("memory fences", "membar")
waits_for_constants = _waits("constant cache misses", "imc_miss")
waits_for_branches = _waits("branches", "branch_resolving")
waits_for_tensor = _waits("asynchronous tensor instructions", "gmma", "warpgroup_arrive")
waits_for_pipe = _waits("a busy arithmetic pipe", "math_pipe_throttle")
waits_for_instructions = _waits("instructions to be fetched", "no_instruction")


def _inactive(words: str, cause: Cause, metric: str = "active_threads_per_warp") -> Fact:
    def test(view: LaunchView) -> Answer:
        inactive = inactive_threads(view)
        return inactive is not None and inactive.cause == cause

    return Fact(words, test, metrics=(metric,))


IDLE_WARPS = "idle_warps"
without_work = Fact.of_variant("most warps execute no load and no store", IDLE_WARPS)
partial_warps = _inactive(
    "the block size is not a multiple of the warp size, and most inactive threads come from that",
    "block_size",
    "block_size",
)
threads_outside = _inactive(
    "most inactive threads exit at a bounds check before anything is loaded: their index lies "
    "outside of the data",
    "outside",
)
different_paths = _inactive(
    "most inactive threads wait for others of their warp that take another path", "paths"
)


@fact(
    "most inactive threads occur in routines that the code calls, such as the slow paths of "
    "division",
    opcodes=("CALL",),
)
def inactive_in_routines(view: LaunchView) -> Answer:
    code, inactivity = view.code, inactive_threads(view)
    threads = view.table.column("thread_inst_executed")
    if code is None or threads is None or inactivity is None or inactivity.cause != "paths":
        return False
    program = code.program
    inactive = {
        position: WARP * program.counts[position] - threads.get(program.code[position].address, 0)
        for position in program.ran
    }
    called = [position for position in program.ran if position in program.call_sites]
    in_routines = sum(inactive[position] for position in called)
    is_most = in_routines >= MAJORITY * sum(inactive.values())
    return code.addresses(called) if is_most else False


# --- barriers

STEPS = "steps"
few_threads_in_steps = Fact.of_variant(
    "in steps between barriers, only a part of the block's threads has work", STEPS
)


@fact(
    "one thread works while the other warps of its block wait at the barrier",
    metrics=("stall_barrier",),
)
def one_thread_works(view: LaunchView) -> Answer:
    lone = lone_thread(view)
    return view.code.addresses(lone.positions) if view.code and lone else False


@fact(
    "while most warps wait at the barrier, fewer than half of their block's warps work",
    metrics=("stall_barrier",),
)
def few_warps_work(view: LaunchView) -> Answer:
    if view.code is None or not few_work(view):
        return False
    waits = waits_at_barriers(view)
    few = [wait.position for wait in waits if wait.by_few >= MAJORITY * wait.samples]
    return view.code.addresses(few)


@fact("the warps that work meanwhile repeatedly read what other blocks write (polling)")
def waits_for_other_blocks(view: LaunchView) -> Answer:
    """Looks at the few warps that work while others wait at the barrier with most samples."""
    waits = waits_at_barriers(view)
    if not waits or view.code is None:
        return False
    from keet.analysis.machine_code.analyses.blame import polls_memory

    return view.code.addresses(polls_memory(view.code.program, waits[0].alone))


# --- what warps wait for


def awaited_places(view: LaunchView, reason: str) -> tuple[Place, ...]:
    """Lines of the instructions whose results warps wait for in this state, then those where they
    wait."""
    return view.led_places(partial(_awaited, reason), view.waiting_places(reason))


def _awaited(state: str, code: MachineCode) -> LeadingLines:
    """Lines of the instructions whose results warps wait for in this warp state, the one that the
    finding names, by samples of those waits. For stores that drain: those stores."""
    program = code.program
    if state == "drain":
        return LeadingLines.executed("stores", code, code.with_opcodes(_DRAINED_OPCODES))
    stalled = [wait for wait in code.waits if wait.reason == state]
    waited = [(wait.producers[0], wait.samples) for wait in stalled if wait.producers]
    if state == "wait":
        return LeadingLines("waits for a fixed instruction latency", waited)
    from_memory = (Role.LOAD, Role.ATOMIC, Role.COPY)
    data = [entry for entry in waited if program.code[entry[0]].role in from_memory]
    # What these wait for is not known: they stay at the line that waits.
    unknown = [(wait.position, wait.samples) for wait in stalled if not wait.producers]
    return LeadingLines("waits for data", data + unknown)


_DRAINED_OPCODES = GLOBAL_STORES | GLOBAL_ATOMICS - RETURNING_ATOMICS
"""A warp ends only when these have been sent."""
