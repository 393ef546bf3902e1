"""How many warps an SM holds at a time, how much work each does, and how the grid uses the GPU.

Latency is exposed where few warps are resident. More of them help only where their limit is known:
the grid, or the registers, shared memory or shape of a block.

A warp that loads and stores nothing has no result: the grid is larger than the data. Two things
look alike: warps that compute much and leave the only store to another one (their instructions are
arithmetic on data), and reports that do not count the accesses. Those of the basic set tell for how
many cycles L1 sends requests to L2: every store is one, so that fewer cycles than warps mean the
same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from keet.analysis.hardware.stages import SCHEDULERS
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, MEMORY, SHARED, TMA
from keet.analysis.parallelism.inactive_threads import launched_warps, per_warp, warps_of_block
from keet.analysis.parameters import FEW, LEAST_KERNEL_NS, MAJORITY, SHORT_KERNEL_NS, Parameter
from keet.analysis.time_model import MOST_REMOVED, TimeModel
from keet.evidence import Evidence, Sentence
from keet.formatting import noun_for
from keet.profile import Launch, Workload
from keet.units import Quantity

BALANCED = Parameter(
    0.98, "active cycles of the average over the longest SM in well balanced kernels", "fit"
)


class GridShape(NamedTuple):
    """How the blocks are distributed over the SMs."""

    grid: Evidence
    sms: int
    waves: Evidence | None

    @property
    def spread(self) -> float:
        """Share of the SMs that get a block, 0 to 1."""
        return min(1.0, float(self.grid.value) / self.sms)

    @property
    def expected(self) -> float:
        """Average over longest active SM, if all blocks took equally long. In less than a wave,
        some SMs get one block more than others."""
        if self.spread < 1:
            return self.spread
        waves = float(self.waves.value) if self.waves else 0.0
        rounds = waves if 1 < waves < math.inf else float(self.grid.value) / self.sms
        return rounds / math.ceil(rounds) if waves else 1.0


def grid_shape(view: LaunchView) -> GridShape | None:
    grid, waves = view.get("grid_size"), view.get("waves_per_sm")
    counted = view.value("launch_sm_count")
    sms = int(view.launch.device.sm_count or counted or 0)
    if grid is None or grid.value <= 0 or sms <= 0 or view.launch.workload is not Workload.KERNEL:
        return None
    return GridShape(grid, sms, waves if waves is not None and waves.value > 0 else None)


def resident(view: LaunchView) -> float:
    """Resident warps over those that fit: an SM counts as active even if only one long block is
    left."""
    reached, possible, waves = (
        view.value(metric)
        for metric in ("achieved_occupancy_pct", "theoretical_occupancy_pct", "waves_per_sm")
    )
    if not reached or not possible:
        return 1.0
    return min(1.0, max(reached / (possible * min(1.0, waves or 1.0)), least_kept()))


def least_kept() -> float:
    """The smallest share of waiting that a remedy can leave, 0 to 1."""
    return 1 - MOST_REMOVED


def shortness(view: LaunchView, model: TimeModel) -> float:
    """1 if launching takes at least as large a share of the time as in a short kernel.

    Decreases to 0 at half of that share, so that there is no threshold.
    """
    taken = view.value("duration") or 0.0
    if taken <= 0:
        return 0.0
    usual = LEAST_KERNEL_NS / SHORT_KERNEL_NS
    return max(0.0, min(1.0, 2 - usual * taken / start_ns(view, model)))


def start_ns(view: LaunchView, model: TimeModel) -> float:
    """Nanoseconds to start and drain the grid: as measured, if that is more than the least of any
    kernel."""
    taken = view.value("duration") or 0.0
    measured = model.fixed * taken if view.launch.workload is Workload.KERNEL else 0.0
    return max(LEAST_KERNEL_NS, measured)


class Evenness(NamedTuple):
    ratio: Evidence
    """Active cycles of the average SM over those of the SM that is active longest, 0 to 1."""
    share: Evidence
    """The same as a percentage, with an id of its own: texts print it, and models refer to it."""
    spread: float = 1.0
    """Share of the SMs that the two are about: 1, or those that get a block."""

    @property
    def text(self) -> Sentence:
        """`the average SM is active for 8% of the longest SM's cycles`."""
        words = "the average SM{some} is active for {share:.0f} of the longest SM's cycles"
        return Sentence(words, share=self.share, some=" with a block" if self.spread < 1 else "")

    @property
    def is_balanced(self) -> bool:
        return float(self.ratio.value) >= BALANCED


def evenness(view: LaunchView) -> Evenness | None:
    average, longest = view.get("sm_active_cycles"), view.get("sm_active_cycles_max")
    if average is None or longest is None:
        return None
    ratio = view.ratio("sm_evenness", "average over longest active SM", average, longest)
    if ratio is None:
        return None
    percent, label = 100 * float(ratio.value), "average of the longest active SM"
    return Evenness(ratio, view.ledger.derived("sm_evenness_pct", percent, label, ratio, unit="%"))


def among_those_with_blocks(view: LaunchView, even: Evenness, spread: float) -> Evenness:
    """The same without SMs that get no block, which a small grid explains. `spread`: the share of
    the SMs that get one."""
    if spread >= 1:
        return even
    part, label = min(1.0, float(even.ratio.value) / spread), "average SM with a block over longest"
    derived = view.ledger.derived
    ratio = derived("sm_evenness_with_blocks", part, label, even.ratio)
    share = derived("sm_evenness_with_blocks_pct", 100 * part, label, ratio, unit="%")
    return Evenness(ratio, share, spread)


EQUAL_BLOCKS = Parameter(
    0.7,
    "warps that SMs hold over those that blocks of equal length would: below, lengths differ; "
    "0.8 to 1.1 in kernels whose last wave is the cause",
    "judgement",
)


def held_of_equal(view: LaunchView, even: Evenness) -> Evidence | None:
    """Warps that SMs hold on average until the longest SM ends, over those that they would hold if
    all blocks took equally long: what a last wave leaves idle is in both. None: not known, or not
    more than a wave."""
    held, fit = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    shape = grid_shape(view)
    if held is None or fit is None or not fit.value or shape is None or shape.waves is None:
        return None
    if shape.spread < 1 or shape.waves.value <= 1:
        return None
    part = float(held.value) * float(even.ratio.value) / (float(fit.value) * shape.expected)
    label = "resident warps over those of blocks that take equally long"
    return view.ledger.derived(
        "held_of_equal_blocks", 100 * part, label, held, fit, even.ratio, shape.waves, unit="%"
    )


def blocks_differ(view: LaunchView, even: Evenness) -> Evidence | None:
    """What shows that warps or blocks do not take equally long, so that the number of waves need
    not be why SMs are idle; None if nothing shows it."""
    held = held_of_equal(view, even)
    return held if held is not None and held.value < 100 * EQUAL_BLOCKS else None


UNEVEN_INSTRUCTIONS = Parameter(
    0.4,
    "unevenness of executed instructions over that of active cycles, from which work is unequal",
    "judgement",
)
_INSTRUCTIONS = ("smsp__inst_executed.avg", "smsp__inst_executed.max")


def unequal_work(view: LaunchView, even: Evenness) -> float:
    """0 to 1: how far unequal work, not unequal speed, makes SMs active for different times; 1 if
    it is not known.

    SMs that execute as many instructions have the same work: those that are farther from memory,
    or share its bandwidth with more others, take longer, and other blocks would not change that.
    Long items may execute few instructions while they wait, so a part of the unevenness is enough.
    """
    label = "instructions of a scheduler"
    average, most = (view.ledger.named(name, label) for name in _INSTRUCTIONS)
    if average is None or most is None or not most.value or even.ratio.value >= 1:
        return 1.0
    uneven = 1 - min(1.0, float(average.value) / float(most.value) / even.spread)
    return min(1.0, uneven / (1 - float(even.ratio.value)) / UNEVEN_INSTRUCTIONS)


PER_WARP = "instructions_per_warp"
FEW_INSTRUCTIONS = Parameter(
    32.0, "instructions per warp: a check, an address, a load or two", "judgement"
)
NO_WORK = Parameter(4, "instructions per warp below which a kernel does no work", "judgement")


def instructions_per_warp(view: LaunchView) -> Evidence | None:
    """From the count of executed instructions; else from the used issue slots."""
    if launched_warps(view) is None:
        return None
    executed = view.get("inst_executed") or _issued(view)
    label = "instructions per warp"
    return executed and per_warp(view, PER_WARP, label, float(executed.value), executed)


def does_nothing(view: LaunchView) -> bool:
    """Whether warps end at once, as in an empty kernel that warms up the GPU. A share of the issue
    slots is too inexact for that."""
    instructions = instructions_per_warp(view) if view.get("inst_executed") else None
    return instructions is not None and instructions.value < NO_WORK


def _issued(view: LaunchView) -> Evidence | None:
    share, elapsed = view.ceilings.reached("issue"), view.get("elapsed_cycles")
    sms = view.launch.device.sm_count
    if share is None or elapsed is None or not sms or view.capability < (7, 0):
        return None
    amount = float(share.value) / 100 * float(elapsed.value) * sms * SCHEDULERS
    return view.ledger.derived(
        "instructions_issued", amount, "instructions issued", share, elapsed, unit="inst"
    )


def _alive(view: LaunchView) -> float:
    """Resident warps over those that the blocks of an SM start with: warps without work exit. The
    last one is left out of both, since other blocks can't share its work."""
    alive, warps = view.value("achieved_warps_per_sm"), warps_of_block(view)
    grid, sms = view.value("grid_size"), view.launch.device.sm_count
    if not alive or not warps or not grid or not sms:
        return 1.0
    resident = warps * -(-grid // sms)
    if grid > sms or resident <= 1 or _in_longest_loop(view) > grid:
        return 1.0
    return min(1.0, max(0.0, alive - 1) / (resident - 1))


def _in_longest_loop(view: LaunchView) -> float:
    """How many warps of the launch run the loop that takes a warp the most instructions; 0: not
    known. With several per block, it is not a lone warp that the others have left: those that exit
    had nothing to do, and the iterations are work for more blocks."""
    if view.code is None:
        return 0.0
    program, flow = view.code.program, view.code.program.flow
    executed: dict[int, float] = {}
    for position in program.ran:
        for loop in flow.loops_around(flow.block_of[position])[-1:]:
            executed[loop.index] = executed.get(loop.index, 0.0) + program.counts[position]
    entries = {at: flow.loops[at].entries or 0 for at in executed}
    longest = max(executed, key=lambda at: executed[at] / max(1, entries[at]), default=None)
    return float(entries[longest]) if longest is not None else 0.0


def working_part(view: LaunchView) -> float:
    """Share of the work that more blocks could do, 0 to 1; 1 if nothing contradicts it."""
    return min(_alive(view), _between_barriers(view), _own_code(view))


def _own_code(view: LaunchView) -> float:
    """Share of the executed instructions in the kernel itself: called code such as printf does not
    get faster with more blocks."""
    if view.code is None:
        return 1.0
    counters = (f"{unit}__inst_executed.sum" for unit in ("smsp", "sm"))  # of all code that ran
    counts = [view.ledger.named(name, "executed instructions") for name in counters]
    every = max((float(count.value) for count in counts if count is not None), default=0.0)
    in_kernel = sum(view.code.program.counts)
    return min(1.0, in_kernel / every) if in_kernel and every else 1.0


def _between_barriers(view: LaunchView) -> float:
    """Executions of the busiest memory access over those of the busiest barrier. If few warps load
    or store between two barriers, there are fewer parallel items than threads, and more blocks do
    not help."""
    if view.code is None:
        return 1.0
    program, accesses, barriers = view.code.program, 0, 0
    for position in program.ran:
        if program.code[position].opcode in BY_PIPE["LSU"]:
            accesses = max(accesses, program.counts[position])
        elif program.code[position].is_barrier:
            barriers = max(barriers, program.counts[position])
    return min(1.0, accesses / barriers) if accesses and barriers else 1.0


QUEUES = (
    *("not_selected", "dispatch_stall", "barrier"),
    *("math_pipe_throttle", "lg_throttle", "mio_throttle", "tex_throttle"),
)
"""Warp states that disappear if fewer warps share an SM."""


def chain_share(view: LaunchView) -> float:
    """Share of the elapsed cycles that one warp needs for its code outside of loops, and for loops
    whose iterations need each other, 0 to 1.

    Spreading blocks over more SMs does not shorten it; other iterations can be given to more
    threads. 0 if the report does not say.
    """
    return _share_of_steps(view, is_outside=True)


def serial_share(view: LaunchView) -> float:
    """The same for loops whose iterations need each other alone: what warps wait for in them, no
    other work hides."""
    return _share_of_steps(view, is_outside=False)


def _share_of_steps(view: LaunchView, *, is_outside: bool) -> float:
    elapsed, code = view.value("elapsed_cycles"), view.code
    queue_cycles = view.cycles_between(*QUEUES)
    if not elapsed or code is None or not queue_cycles:
        return 0.0
    program, flow = code.program, code.program.flow
    warps = max((program.counts[position] for position in program.ran[:1]), default=0)
    trips = {chain.loop: chain.trips or 1.0 for chain in code.chains if chain.is_serial}
    together = {chain.loop for chain in code.chains if chain.is_exchange}
    if not warps or not (is_outside or trips):
        return 0.0
    # A block whose threads exchange results stays on its SM, and so do its queues.
    whole = (view.cycles_between() or queue_cycles) if is_outside else queue_cycles
    cycles = 0.0
    for position in program.ran:
        around = flow.loops_around(flow.block_of[position]) if trips else []
        serial = [trips[loop.index] for loop in around if loop.index in trips]
        if serial or is_outside:
            once = min(math.prod(serial), program.counts[position] / warps)
            is_whole = any(loop.index in together for loop in around)
            cycles += once * (whole if is_whole else queue_cycles)
    return min(1.0, cycles / elapsed)


_REQUESTS = ("global_load", "global_store", "local_load", "local_store", "texture")


class IdleWarps(NamedTuple):
    share: Evidence
    """Percent of the launched warps, at least: an access counts as another warp's."""
    wasted: float
    """Share of all instructions that these warps execute, 0 to 1."""


@cached_per_view
def idle_warps(view: LaunchView) -> IdleWarps | None:
    """None if every warp may access memory, or the report does not say."""
    warps, accesses = launched_warps(view), _accesses(view)
    counted = view.get("inst_by_opcode") or view.get("global_store_requests")
    label = "of the warps access no memory"
    if accesses is None:
        accesses, counted = _sent_to_l2(view), view.get("l1_to_crossbar_pct")
        label = "of the warps send nothing to L2, neither a store nor a load"
    if warps is None or accesses is None:
        return None
    idle, no_result = 1 - accesses / warps, _no_result(view)
    if idle <= 0 or no_result <= 0:
        return None
    sources = filter(None, (view.get("grid_size"), view.get("block_size"), counted))
    share = view.ledger.derived("idle_warps", 100 * idle, label, *sources, unit="%")
    return IdleWarps(share, idle * no_result)


def _sent_to_l2(view: LaunchView) -> float | None:
    """Cycles in which L1 sends to L2, over all SMs: no more requests than that."""
    busy, elapsed = view.value("l1_to_crossbar_pct"), view.value("elapsed_cycles")
    sms = view.launch.device.sm_count
    if busy is None or elapsed is None or not sms:
        return None
    return busy / 100 * elapsed * sms


def _accesses(view: LaunchView) -> float | None:
    """Memory accesses of warps, by opcode or by requests: an instruction whose predicate is off in
    all threads makes none. Those to shared memory by opcode; by wavefronts, which are more, if
    opcodes were not counted. None: not counted."""
    counts = [view.launch.number(f"{access}_requests") for access in _REQUESTS]
    shared = view.launch.number("shared_wavefronts")
    if view.opcodes:
        shared = view.count(*SHARED | TMA)
    ways = [view.count(*MEMORY)] if view.opcodes else []
    if shared is not None and None not in counts[:2]:
        ways.append(shared + sum(count for count in counts if count is not None))
    return min(ways, default=None)


def _no_result(view: LaunchView) -> float:
    """Share of the instructions that are not arithmetic on data. Without the machine code: all or
    none, by whether a warp executes few."""
    if view.code is not None:
        return 1 - sum(n for kind, n in view.code.mix if kind.value in ("value", "unknown"))
    instructions = instructions_per_warp(view)
    return 1.0 if instructions is not None and instructions.value <= FEW_INSTRUCTIONS else 0.0


BLOCK_SLOTS = "block slots"
BLOCK_LIMITS = {
    "registers": "block_limit_registers",
    "shared memory": "block_limit_shared_memory",
    "block size": "block_limit_warps",
    BLOCK_SLOTS: "block_limit_sm",
}
"""What limits the blocks that an SM holds at a time: by name, the metric."""

Resource = Literal["sm", "registers", "shared_memory"]
"""What limits the blocks per SM: the metric `block_limit_sm` has the limit by the number of blocks
that an SM can hold, and so on."""
LIMIT_WORDS: dict[Resource, str] = {
    "sm": BLOCK_SLOTS,
    "registers": "registers",
    "shared_memory": "shared memory",
}
"""In the order in which equal limits are named: every block uses some shared memory of the driver,
also where the number of blocks is the limit that matters."""

MOST_OCCUPANCY = Parameter(
    5.0, "largest factor of warps per SM from fixing the occupancy limiter", "fit"
)


def tightest_limits(view: LaunchView) -> tuple[Resource, ...]:
    """The resources that let fewest blocks onto an SM, the one to name first; none if the number of
    warps lets as few."""
    limits = {
        resource: view.value(f"block_limit_{resource}") or math.inf for resource in LIMIT_WORDS
    }
    lowest, warps = min(limits.values()), view.value("block_limit_warps") or 0.0
    return tuple(resource for resource, limit in limits.items() if limit == lowest < warps)


def more_warps(view: LaunchView, by: Resource) -> float:
    """Times as many warps per SM until another resource limits them; 1 if this one does not limit
    them, or if that is not known."""
    possible = view.value("theoretical_occupancy_pct")
    if tightest_limits(view)[:1] != (by,) or possible is None or not 0 < possible < 100:
        return 1.0
    held = possible
    if by == "sm":  # such small blocks also end before others start
        held = min(held, view.value("achieved_occupancy_pct") or held)
    own_limit = view.value(f"block_limit_{by}") or 1.0
    limits = [view.value(f"block_limit_{other}") or math.inf for other in other_limits(by)]
    following = min((limit for limit in limits if limit > own_limit), default=math.inf)
    times = min(min(100.0, possible * (following / own_limit)) / held, MOST_OCCUPANCY)
    if by == "shared_memory":  # smaller tiles are more of them; or more warps share one
        return times
    return min(times, max(1.0, view.value("waves_per_sm") or MOST_OCCUPANCY))


def other_limits(by: Resource) -> tuple[str, ...]:
    """What may limit the warps next. Larger blocks need no more barriers, nor more of the driver's
    shared memory."""
    return ("registers", "warps") if by == "sm" else (*LIMIT_WORDS, "warps", "barriers")


class ResidentBlocks(NamedTuple):
    fit: Evidence
    """Blocks that fit on an SM at a time."""
    limits: tuple[str, ...]
    """What lets no more fit, by the names of `BLOCK_LIMITS`."""
    given: Evidence | None
    """Blocks per SM that the grid has, rounded up, where that is fewer."""
    are_all: bool = False
    """Whether all blocks of the grid are resident at a time: it has no more of them."""

    @property
    def resident(self) -> Evidence:
        """Blocks that an SM holds at a time."""
        return self.given or self.fit


def resident_blocks(view: LaunchView) -> ResidentBlocks | None:
    """None where the report does not say what fits."""
    allowing, limits = _tightest(view.get)
    if not allowing or view.launch.workload is not Workload.KERNEL:
        return None
    sizes = [view.value(f"shared_memory_{kind}") for kind in ("static", "dynamic")]
    if len(limits) > 1 and not any(sizes) and None not in sizes:
        # What the driver adds to each block is no limit of its own.
        limits = tuple(limit for limit in limits if limit != "shared memory")
    derived, label = view.ledger.derived, "blocks that fit on an SM at a time"
    least = min(float(allowed.value) for allowed in allowing)
    fit = derived("blocks_per_sm", least, label, *allowing)
    grid, sms = view.get("grid_size"), view.launch.device.sm_count
    each_gets = math.ceil(float(grid.value) / sms) if grid and sms else 0
    if grid is None or not 0 < each_gets < least:
        return ResidentBlocks(fit, limits, None, 0 < each_gets <= least)
    label = "blocks per SM that the grid has, rounded up"
    by_grid = derived("blocks_given", each_gets, label, grid)
    return ResidentBlocks(fit, limits, by_grid, True)


_Number = TypeVar("_Number", Evidence, Quantity)


def _tightest(get: Callable[[str], _Number | None]) -> tuple[list[_Number], tuple[str, ...]]:
    """The limits that are known, and the names of those that let fewest blocks onto an SM."""
    by_name: dict[str, _Number] = {}
    for name, metric in BLOCK_LIMITS.items():
        if (limit := get(metric)) is not None and limit.value > 0:
            by_name[name] = limit
    least = min((limit.value for limit in by_name.values()), default=0)
    return list(by_name.values()), tuple(name for name in by_name if by_name[name].value == least)


def few_warps(view: LaunchView) -> tuple[Sentence, tuple[Evidence, ...]] | None:
    """A sentence about the warps of an SM, if they are fewer than half of those that it can hold:
    how many there are, and why. Where the grid gives it more, they have ended."""
    held, blocks = view.get("achieved_warps_per_sm"), resident_blocks(view)
    share = view.get("achieved_occupancy_pct")
    if held is None or share is None or blocks is None or not 0 < share.value < 100 * MAJORITY:
        return None
    most = round(100 * float(held.value) / float(share.value))
    warps = warps_of_block(view)
    if blocks.given is not None and warps:  # more blocks help up to what fits
        most = min(most, warps * int(blocks.fit.value))
    label = "warps that an SM can hold"
    can = view.ledger.derived("warps_an_sm_can_hold", most, label, held)
    if (
        possible_warps := _given_warps(view, blocks)
    ) and held.value < MAJORITY * possible_warps.value:
        rest = "many of them end early"
        if not blocks.are_all:
            rest = "many of them end before others take their place"
        early = "An SM holds {held:.1f}s of the {given:.0f} that it could have: {rest}."
        return Sentence(early, held=held, given=possible_warps, rest=rest), (held, possible_warps)
    by = " and ".join(blocks.limits)
    by = by if blocks.given is None else "the number of blocks in the grid"
    more = ", and the grid has no more blocks" if blocks.are_all and not blocks.given else ""
    allowed = _allowed_warps(view, blocks)
    if allowed is None or held.value >= (1 - FEW) * allowed.value:
        text = "An SM holds {held:.1f}s of the {can:.0f} that it can, limited by {by}{more}."
        return Sentence(text, held=held, can=can, by=by, more=more), (held, can)
    # The limit explains only a part: the others have ended, or the SM has no block.
    text = "An SM holds {held:.1f}s on average of the {can:.0f} that it can, and of the "
    text += "{allowed:.0f} that {by} would allow{more}."
    words = Sentence(text, held=held, can=can, allowed=allowed, by=by, more=more)
    return words, (held, can, allowed)


def _allowed_warps(view: LaunchView, blocks: ResidentBlocks) -> Evidence | None:
    """Warps of an SM with as many blocks as its limit allows; None if the report lacks it."""
    block, warps_per_block, most = view.get("block_size"), warps_of_block(view), blocks.resident
    if block is None or warps_per_block is None:
        return None
    warps = warps_per_block * float(most.value)
    label = "warps of an SM with as many blocks as its limit allows"
    return view.ledger.derived("warps_allowed", warps, label, block, most)


def _given_warps(view: LaunchView, blocks: ResidentBlocks) -> Evidence | None:
    """Warps that an SM with work gets at a time, by the grid and by what fits; None where the
    report does not say. SMs that hold far fewer lack no blocks: their warps have ended."""
    grid, block, sms = view.get("grid_size"), view.get("block_size"), view.launch.device.sm_count
    warps_per_block = warps_of_block(view)
    if grid is None or block is None or warps_per_block is None or not sms:
        return None
    warps = warps_per_block * min(max(1.0, float(grid.value) / sms), float(blocks.fit.value))
    label = "warps that an SM with work gets at a time"
    return view.ledger.derived("warps_given", warps, label, grid, block, blocks.fit)


def occupancy_limit(launch: Launch) -> str:
    """The resource that allows the fewest blocks: `registers allow 2 blocks per SM`. Empty if all
    warps fit, or if the report does not have the data."""
    possible = launch.get("theoretical_occupancy_pct")
    allowing, limits = _tightest(launch.get)

    if not possible or possible.value >= 100 or not allowing:
        return ""
    least, names = min(allowed.value for allowed in allowing), " and ".join(limits)
    allow = "allow" if names.endswith("s") or len(limits) > 1 else "allows"
    return f"{names} {allow} {least:.0f} {noun_for(least, 'block')} per SM"
