"""Facts about grid, blocks, occupancy and waits: yes/no tests that `remedy_choice` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.decisions.occupancy import Resource, tightest_limits
from keet.analysis.facts.fact import Answer, Fact, Test, at_least, fact, more_than
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.facts.thresholds import (
    COLD_NS,
    FEW_OF_A_WAVE,
    FEW_SMS,
    LARGE_BLOCK,
    MANY_TRIPS,
    MORE_WARPS,
    MOST,
    REGISTER_GRANULE,
    SMALL_BLOCK,
    WARP,
)
from keet.analysis.kernel.work_per_warp import FEW_INSTRUCTIONS, PER_WARP

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.loop_chains import LoopChains


@fact("the grid is one block", metrics=("grid_size",))
def one_block(inputs: FactInputs) -> Answer:
    size = inputs.value("grid_size")
    return None if size is None else size == 1


@fact(
    "there are fewer blocks than SMs",
    negated="there are at least as many blocks as SMs",
    metrics=("grid_size", "launch_sm_count"),
)
def fewer_blocks_than_sms(inputs: FactInputs) -> Answer:
    blocks, sms = inputs.value("grid_size"), inputs.value("launch_sm_count")
    sms = sms or inputs.launch.device.sm_count  # older reports have it of the device alone
    return None if blocks is None or sms is None else blocks < sms


@fact("the blocks have sixteen warps or more", metrics=("block_size",))
def large_blocks(inputs: FactInputs) -> Answer:
    return at_least(inputs.value("block_size"), LARGE_BLOCK)


@fact("the blocks have one or two warps", metrics=("block_size",))
def small_blocks(inputs: FactInputs) -> Answer:
    size = inputs.value("block_size")
    return None if size is None else size <= SMALL_BLOCK


@fact("a block is one warp", metrics=("block_size",))
def warp_sized_blocks(inputs: FactInputs) -> Answer:
    size = inputs.value("block_size")
    return None if size is None else size <= WARP


@fact(
    "a warp executes few instructions before it ends",
    metrics=("inst_executed", "grid_size", "block_size"),
)
def short_lived_warps(inputs: FactInputs) -> Answer:
    """Only in a grid of several waves: with one wave, threads can't have more items."""
    each, waves = inputs.view.ledger.entry_named(PER_WARP), inputs.value("waves_per_sm")
    if each is None or waves is None:
        return None
    return waves > 1 and each.value <= FEW_INSTRUCTIONS


@fact("the last wave holds a few blocks", metrics=("waves_per_sm",))
def waves_just_over(inputs: FactInputs) -> Answer:
    waves = inputs.value("waves_per_sm")
    return None if waves is None else waves > 1 and 0 < waves % 1 <= FEW_OF_A_WAVE


def _limits(inputs: FactInputs, resource: Resource) -> Answer:
    """Whether the limit by this resource on the blocks per SM is the lowest."""
    if None in (inputs.value(f"block_limit_{resource}"), inputs.value("block_limit_warps")):
        return None
    return resource in tightest_limits(inputs.view)


@fact(
    "registers limit the blocks per SM", metrics=("block_limit_registers", "registers_per_thread")
)
def registers_limit(inputs: FactInputs) -> Answer:
    return _limits(inputs, "registers")


@fact(
    "shared memory limits the blocks per SM",
    metrics=("block_limit_shared_memory", "shared_memory_per_block"),
)
def shared_limit(inputs: FactInputs) -> Answer:
    return _limits(inputs, "shared_memory")


@fact(
    "whole blocks do not fill the warps of an SM evenly",
    metrics=("block_limit_warps", "block_size"),
)
def warps_limit(inputs: FactInputs) -> Answer:
    """Whether blocks are so large that the remaining warps of an SM do not fit another one."""
    warps, size = inputs.value("block_limit_warps"), inputs.value("block_size")
    others = [inputs.value(f"block_limit_{each}") for each in ("registers", "shared_memory", "sm")]
    most = inputs.value("device_threads_per_sm")
    if warps is None or size is None or most is None or None in others:
        return None
    lowest = warps <= min(value for value in others if value is not None)
    return lowest and warps * size < most


@fact(
    "the registers of an SM would hold more warps in smaller blocks",
    metrics=("registers_per_thread", "block_size", "block_limit_registers"),
)
def smaller_blocks_fit_more(inputs: FactInputs) -> Answer:
    per_thread = inputs.value("registers_per_thread") or 0.0
    size = inputs.value("block_size") or 0.0
    blocks, file = inputs.value("block_limit_registers"), inputs.value("device_registers_per_sm")
    if blocks is None or file is None or per_thread <= 0 or size <= 0:
        return None
    warps = -(-size // WARP)
    per_warp = -(-per_thread * WARP // REGISTER_GRANULE) * REGISTER_GRANULE
    by_warp = file // per_warp
    most = (inputs.value("device_threads_per_sm") or by_warp * WARP) // WARP
    return warps > 1 and min(by_warp, most) >= MORE_WARPS * max(blocks, 1) * warps


@fact("the source sets launch bounds")
def launch_bounds_set(inputs: FactInputs) -> Answer:
    """From the source: on the line of the kernel, or one or two lines above."""
    if not inputs.texts:
        return None
    name = inputs.launch.name.function
    for text in inputs.texts:
        lines = text.splitlines()
        for index, line in enumerate(lines):
            near = " ".join(lines[max(0, index - 2) : index + 1])
            if name and name in line and "__global__" in near:
                return "__launch_bounds__" in near or "__maxnreg__" in near
    return None


@fact(
    "the SM's shared memory is configured to less than its maximum",
    metrics=("shared_memory_config", "device_shared_memory_per_sm"),
)
def carveout_below_maximum(inputs: FactInputs) -> Answer:
    """Whether the driver configured less shared memory than the SM has, and that limits the
    blocks."""
    configured = inputs.value("shared_memory_config")
    most = inputs.value("device_shared_memory_per_sm")
    if configured is None or most is None:
        return None
    return bool(_limits(inputs, "shared_memory")) and configured < MOST * most


@fact(
    "the average SM is active for a small part of the longest SM's cycles",
    metrics=("sm_active_cycles", "sm_active_cycles_max"),
)
def few_sms_active(inputs: FactInputs) -> Answer:
    usual, most = inputs.value("sm_active_cycles"), inputs.value("sm_active_cycles_max")
    share = inputs.ratio(usual, most)
    return None if share is None else share < FEW_SMS


@fact("loops run different numbers of times for different warps")
def uneven_loops(inputs: FactInputs) -> Answer:
    """Whether loops with a notable part of the instructions end at different times in different
    warps."""
    code = inputs.code
    if code is None:
        return None
    from keet.analysis.sass.flow.trip_counts import uneven_exits

    shares = {each.loop: each.share for each in code.chains}
    found = [
        position
        for loop in code.program.flow.loops
        if loop.trips is not None and loop.trips > 1 and shares.get(loop.index, 0) >= MOST / 2
        for position in uneven_exits(code.program, loop)
    ]
    return [code.program.code[position].address for position in found]


def _main_loop(inputs: FactInputs) -> LoopChains | None:
    """The loop with most executed instructions."""
    chains = inputs.code.chains if inputs.code else []
    return chains[0] if chains and chains[0].share >= MOST else None


@fact(
    "most instructions are executed in loops of many iterations",
    negated="most instructions are executed outside loops of many iterations",
)
def loops_dominate(inputs: FactInputs) -> Answer:
    if inputs.code is None:
        return None
    loop = _main_loop(inputs)
    return loop is not None and (loop.trips or 0) >= MANY_TRIPS


@fact("the kernel is so short that caches are still empty", metrics=("duration",))
def cold_start(inputs: FactInputs) -> Answer:
    duration = inputs.value("duration")
    return None if not duration else duration <= COLD_NS


# --- waits


def _waits(*reasons: str) -> Test:
    def test(inputs: FactInputs) -> Answer:
        return inputs.main_wait in reasons if inputs.waits else None

    return test


_LONG = ("long_scoreboard", "long_scoreboard_pipe_l1tex")
_SHORT = ("short_scoreboard", "mio_throttle", "mio_throttle_pipe_mio")


@fact("warps mostly wait for data from global memory", metrics=("stall_long_scoreboard",))
def waits_for_global_loads(inputs: FactInputs) -> Answer:
    if not inputs.waits or inputs.main_wait not in _LONG:
        return False if inputs.waits else None
    loaded = inputs.count("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP")
    if loaded is None:
        return more_than(inputs.total("global_load_requests", "global_load_sectors"), 0)
    others = inputs.count("LDL", "TEX", "TLD", "TLD4", "SULD", "ATOM", "ATOMG") or 0
    return loaded > 0 and loaded >= others


def _waits_for_data_of(*opcodes: str) -> Test:
    """Whether most waits are long ones, and most instructions that can cause them are these."""

    def test(inputs: FactInputs) -> Answer:
        if not inputs.waits or inputs.main_wait not in _LONG:
            return False if inputs.waits else None
        own, every = inputs.count(*opcodes), inputs.count(*_AWAITED)
        return None if own is None or every is None else own > MOST * every

    return test


_TEXTURES = ("TEX", "TLD", "TLD4", "TXD", "SULD")
_AWAITED = ("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP", "LDL", "ATOM", "ATOMG", *_TEXTURES)
waits_for_atomics = Fact(
    "waits_for_atomics",
    "warps mostly wait for the old values that atomics return",
    _waits_for_data_of("ATOM", "ATOMG"),
    metrics=("stall_long_scoreboard",),
    opcodes=("ATOM", "ATOMG"),
)
waits_for_local = Fact(
    "waits_for_local",
    "warps mostly wait for data from local memory",
    _waits_for_data_of("LDL"),
    metrics=("stall_long_scoreboard",),
    opcodes=("LDL",),
)
waits_for_textures = Fact(
    "waits_for_textures",
    "warps mostly wait for textures",
    _waits_for_data_of(*_TEXTURES),
    metrics=("stall_long_scoreboard",),
    opcodes=("TEX", "TLD", "TLD4", "TXD", "SULD"),
)


def _short_waits(inputs: FactInputs) -> tuple[float, float] | None:
    """Executed instructions on shared memory, and executed special functions and conversions."""
    if inputs.main_wait not in _SHORT:
        return None
    shared = inputs.count("LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL")
    special = inputs.count("MUFU", "F2F", "F2I", "I2F", "FRND", "I2I", "POPC", "FLO", "BREV")
    return None if shared is None or special is None else (shared, special)


@fact(
    "warps mostly wait for shared memory", metrics=("stall_short_scoreboard", "stall_mio_throttle")
)
def waits_for_shared(inputs: FactInputs) -> Answer:
    if inputs.waits and inputs.main_wait not in _SHORT:
        return False
    found = _short_waits(inputs)
    return None if found is None else found[0] > 0 and found[0] >= found[1]


@fact(
    "warps mostly wait for special functions or conversions",
    metrics=("stall_short_scoreboard", "stall_mio_throttle"),
)
def waits_for_special(inputs: FactInputs) -> Answer:
    if inputs.waits and inputs.main_wait not in _SHORT:
        return False
    found = _short_waits(inputs)
    return None if found is None else found[1] > found[0]


waits_for_arithmetic = Fact(
    "waits_for_arithmetic",
    "warps mostly wait for a fixed arithmetic latency",
    _waits("wait"),
    metrics=("stall_wait",),
)
waits_for_queue = Fact(
    "waits_for_queue",
    "warps mostly wait for room in the queue of memory instructions",
    _waits("lg_throttle", "tex_throttle"),
    metrics=("stall_lg_throttle",),
)
waits_for_stores = Fact(
    "waits_for_stores",
    "warps mostly wait for their stores to complete before they exit",
    _waits("drain"),
    metrics=("stall_drain",),
)
waits_for_fences = Fact(
    "waits_for_fences",
    "warps mostly wait for memory fences",
    _waits("membar"),
    metrics=("stall_membar",),
)
waits_for_constants = Fact(
    "waits_for_constants",
    "warps mostly wait for constant cache misses",
    _waits("imc_miss"),
    metrics=("stall_imc_miss",),
)
waits_for_branches = Fact(
    "waits_for_branches",
    "warps mostly wait for branches",
    _waits("branch_resolving"),
    metrics=("stall_branch_resolving",),
)
waits_for_tensor = Fact(
    "waits_for_tensor",
    "warps mostly wait for asynchronous tensor instructions",
    _waits("gmma", "warpgroup_arrive"),
    metrics=("stall_gmma",),
)
waits_for_pipe = Fact(
    "waits_for_pipe",
    "warps mostly wait for a busy arithmetic pipe",
    _waits("math_pipe_throttle"),
    metrics=("stall_math_pipe_throttle",),
)
waits_for_instructions = Fact(
    "waits_for_instructions",
    "warps mostly wait for instructions to be fetched",
    _waits("no_instruction"),
    metrics=("stall_no_instruction",),
)


# --- chains of dependent instructions


@fact("each load of a loop needs the address that the previous load returned")
def chases_pointers(inputs: FactInputs) -> Answer:
    code, loop = inputs.code, _main_loop(inputs)
    if code is None:
        return None
    if loop is None or loop.recurrence is None or not loop.recurrence.loads:
        return False
    from keet.analysis.sass.analyses.loop_chains import FAR

    chain = (code.program.code[position] for position in loop.recurrence.positions)
    return [each.address for each in chain if each.opcode in FAR]


@fact("loads wait for other loads that return their index")
def dependent_loads(inputs: FactInputs) -> Answer:
    """In a hot loop, or outside of loops: an index that is loaded once is not a chain."""
    code = inputs.code
    if code is None:
        return None
    for loop in code.chains:
        if loop.share >= MOST / 2 and loop.load_depth > 1:
            return [code.program.code[position].address for position in loop.load_chain]
    flow, loads = code.program.flow, [each for each in code.accesses if each.kind == "load"]
    gathered = [
        each
        for each in loads
        if each.is_gather and flow.block_of[each.position] not in flow.loop_of
    ]
    every = sum(inputs.executions(each.position) for each in loads)
    # Each gathered value has a load of its index before it.
    if not every or sum(inputs.executions(each.position) for each in gathered) * 4 < every:
        return False
    return [code.program.code[each.position].address for each in gathered]


@fact("iterations of the main loop depend on each other through arithmetic")
def one_accumulator(inputs: FactInputs) -> Answer:
    code, loop = inputs.code, _main_loop(inputs)
    if code is None:
        return None
    if loop is None or loop.recurrence is None or loop.recurrence.loads:
        return False
    from keet.analysis.sass.instructions.opcodes import Role

    chain = [code.program.code[position] for position in loop.recurrence.positions]
    is_arithmetic = any(each.role in (Role.FLOAT, Role.TENSOR) for each in chain)
    return [each.address for each in chain] if is_arithmetic else False
