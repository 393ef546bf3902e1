"""Facts about grid, blocks and occupancy."""

from __future__ import annotations

import math

from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.resident_warps import FEW_INSTRUCTIONS, PER_WARP, tightest_limits
from keet.analysis.parameters import FEW, LONGEST_START_NS, MAJORITY, Parameter
from keet.analysis.remedy_conditions.fact import Answer, Fact, fact

# --- grid and blocks

one_block = Fact.measured("the grid is one block", lambda size: size == 1, "grid_size")


@fact(
    "there are fewer blocks than SMs",
    "there are at least as many blocks as SMs",
    metrics=("grid_size", "launch_sm_count"),
)
def fewer_blocks_than_sms(view: LaunchView) -> Answer:
    blocks, sms = view.launch.number("grid_size"), view.launch.number("launch_sm_count")
    sms = sms or view.launch.device.sm_count  # older reports have it of the device alone
    return blocks is not None and sms is not None and blocks < sms


# CUDA's best practices guide recommends 128 to 256 threads.
LARGE_BLOCK = Parameter(512, "threads from which a block is large", "judgement")
SMALL_BLOCK = Parameter(64, "threads up to which a block is small", "judgement")
large_blocks = Fact.measured(
    "the blocks have sixteen warps or more", lambda size: size >= LARGE_BLOCK, "block_size"
)
small_blocks = Fact.measured(
    "the blocks have one or two warps", lambda size: size <= SMALL_BLOCK, "block_size"
)
one_thread_blocks = Fact.measured("a block is one thread", lambda size: size == 1, "block_size")
warp_sized_blocks = Fact.measured("a block is one warp", lambda size: size <= WARP, "block_size")


SECTOR_THREADS = 8
"""Threads that access neighbouring words of one sector of 32 bytes."""


@fact(
    "a block is only a few threads wide, so that a warp covers short pieces of several rows",
    metrics=("block_size",),
)
def narrow_rows(view: LaunchView) -> Answer:
    """By the first dimension of the block, which the threads of a warp follow first. A warp of a
    block of 1 x 128 threads runs along the second one, and covers no other row of it."""
    width, *others = view.launch.block or (WARP,)
    is_column = width == 1 and max(others, default=1) >= WARP
    return width < SECTOR_THREADS and math.prod(others) > 1 and not is_column


@fact(
    "a warp executes few instructions before it ends",
    metrics=("inst_executed", "grid_size", "block_size"),
)
def short_lived_warps(view: LaunchView) -> Answer:
    """Only in a grid of several waves: with one wave, threads can't have more items."""
    executed, waves = view.ledger.entry_named(PER_WARP), view.launch.number("waves_per_sm")
    return executed is not None and executed.value <= FEW_INSTRUCTIONS and (waves or 0) > 1


SHORT_BLOCKS = "short_blocks"
short_blocks = Fact.of_variant("blocks end about as fast as new ones start", SHORT_BLOCKS)
EARLY_WARPS = "early_warps"
early_warps = Fact.of_variant("most warps of a block end long before the block", EARLY_WARPS)
ANY_LENGTH = "any_length"
blocks_of_any_length = Fact.of_variant(
    "SMs hold fewer warps than they would if all blocks took equally long", ANY_LENGTH
)
waves_just_over = Fact.measured(
    "the last wave holds a few blocks",
    lambda waves: waves > 1 and 0 < waves % 1 <= FEW,
    "waves_per_sm",
)
few_sms_active = Fact.measured(
    "the average SM is active for a small part of the longest SM's cycles",
    lambda average, longest: longest > 0 and average / longest < FEW,
    *("sm_active_cycles", "sm_active_cycles_max"),
)
cold_start = Fact.measured(
    "the kernel is so short that caches are still empty",
    lambda duration: 0 < duration <= LONGEST_START_NS,
    "duration",
)

# --- occupancy

NEAR_FULL = Parameter(90.0, "percent of the possible warps: SMs are full", "judgement")
SEVERAL_WAVES = Parameter(4, "waves from which a grid keeps all SMs full", "judgement")
HARDLY_ISSUING = Parameter(0.05, "share of the issue slots: full SMs execute little", "judgement")
# Full SMs whose warps each wait for one sector of DRAM at a time load DRAM by about a tenth.
HARDLY_BUSY = Parameter(0.1, "share of peak of the busiest unit: no unit limits", "judgement")


@fact(
    "SMs are full of warps, and no unit does much",
    metrics=("achieved_occupancy_pct", "waves_per_sm"),
)
def blocks_may_wait(view: LaunchView) -> Answer:
    """Blocks that wait for each other look like this. Units that were not measured may be busy."""
    shares = [view.ceilings.share(unit) for unit in ("issue", "L1", "L2", "DRAM")]
    occupancy, waves = (view.launch.number(name) or 0.0 for name in blocks_may_wait.metrics)
    return (
        None not in shares
        and (shares[0] or 0.0) <= HARDLY_ISSUING
        and max(ceiling.share for ceiling in view.ceilings.ranked) <= HARDLY_BUSY
        and occupancy >= NEAR_FULL
        and waves >= SEVERAL_WAVES
    )


registers_limit = Fact(
    "registers limit the blocks per SM",
    lambda view: "registers" in tightest_limits(view),
    metrics=("block_limit_registers", "registers_per_thread"),
)
shared_limit = Fact(
    "shared memory limits the blocks per SM",
    lambda view: "shared_memory" in tightest_limits(view),
    metrics=("block_limit_shared_memory", "shared_memory_per_block"),
)


warps_limit = Fact.measured(
    "whole blocks do not fill the warps of an SM evenly",
    # Blocks are so large that the remaining warps of an SM do not fit another one.
    lambda warps, size, threads, *others: warps <= min(others) and warps * size < threads,
    *("block_limit_warps", "block_size"),
    uncited=(
        "device_threads_per_sm",
        "block_limit_sm",
        "block_limit_registers",
        "block_limit_shared_memory",
    ),
)
REGISTER_GRANULE = 256
"""Allocation unit of a warp's registers (NVIDIA's occupancy calculator)."""
MORE_WARPS = Parameter(1.25, "factor of warps for another block size to matter", "judgement")


@fact(
    "the registers of an SM would hold more warps in smaller blocks",
    metrics=("registers_per_thread", "block_size", "block_limit_registers"),
)
def smaller_blocks_fit_more(view: LaunchView) -> Answer:
    per_thread, size, blocks = map(view.launch.number, smaller_blocks_fit_more.metrics)
    registers = view.launch.number("device_registers_per_sm")
    if not per_thread or not size or blocks is None or registers is None:
        return False
    warps = math.ceil(size / WARP)
    per_warp = -(-per_thread * WARP // REGISTER_GRANULE) * REGISTER_GRANULE
    by_warp = registers // per_warp
    possible = (view.launch.number("device_threads_per_sm") or by_warp * WARP) // WARP
    return warps > 1 and min(by_warp, possible) >= MORE_WARPS * max(blocks, 1) * warps


@fact("the source sets launch bounds")
def launch_bounds_set(view: LaunchView) -> Answer:
    """From the source: on the line of the kernel, or one or two lines above."""
    name = view.launch.name.function
    for text in filter(None, view.launch.source_files.values()):
        lines = text.splitlines()
        for index, line in enumerate(lines):
            near = " ".join(lines[max(0, index - 2) : index + 1])
            is_kernel = name and name in line and "__global__" in near
            if is_kernel and ("__launch_bounds__" in near or "__maxnreg__" in near):
                return True
    return False


@fact(
    "the SM's shared memory is configured to less than its maximum",
    metrics=("shared_memory_config", "device_shared_memory_per_sm"),
)
def carveout_below_maximum(view: LaunchView) -> Answer:
    """Whether the driver configured less shared memory than the SM has, and that limits the
    blocks."""
    configured, available = map(view.launch.number, carveout_below_maximum.metrics)
    is_low = configured is not None and configured < MAJORITY * (available or 0)
    return is_low and shared_limit.test(view)
