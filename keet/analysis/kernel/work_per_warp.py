"""How much work a warp does: its instructions, and how much of the work can be spread further."""

from __future__ import annotations

import math

from keet.analysis.hardware.stages import SCHEDULERS
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence
from keet.units import Quantity

WARP = 32
"""Threads."""
PER_WARP = "instructions_per_warp"
FEW_INSTRUCTIONS = Parameter(
    32.0, "instructions per warp: a check, an address, a load or two", "judgement"
)
NO_WORK = Parameter(4, "instructions per warp below which a kernel does no work", "judgement")
_ACCESSES = ("LD", "ST", "ATOM", "RED")
_NOT_DATA = ("LDC", "LDGDEPBAR", "LDTM", "REDUX")


def instructions_per_warp(view: LaunchView) -> Evidence | None:
    """From the count of executed instructions; else from the used issue slots."""
    grid, block = view.get("grid_size"), view.get("block_size")
    if grid is None or block is None or grid.value <= 0 or block.value <= 0:
        return None
    executed = view.get("inst_executed") or _issued(view)
    if executed is None:
        return None
    warps = float(grid.value) * -(-float(block.value) // WARP)
    each = Quantity(float(executed.value) / warps, "")
    return view.ledger.derived(PER_WARP, each, "instructions per warp", executed, grid, block)


def does_nothing(view: LaunchView) -> bool:
    """Whether warps end at once, as in an empty kernel that warms up the GPU. A share of the issue
    slots is too inexact for that."""
    each = instructions_per_warp(view) if view.get("inst_executed") else None
    return each is not None and each.value < NO_WORK


def _issued(view: LaunchView) -> Evidence | None:
    share, elapsed = view.ceilings.reached("issue"), view.get("elapsed_cycles")
    sms = view.launch.device.sm_count
    if share is None or elapsed is None or not sms or view.capability < (7, 0):
        return None
    amount = float(share.value) / 100 * float(elapsed.value) * sms * SCHEDULERS
    return view.ledger.derived(
        "instructions_issued", Quantity(amount, "inst"), "instructions issued", share, elapsed
    )


def _alive(view: LaunchView) -> float:
    """Resident warps over those that the blocks of an SM start with: warps without work exit. The
    last one is left out of both, since other blocks can't share its work."""
    alive, block = view.value("achieved_warps_per_sm"), view.value("block_size")
    grid, sms = view.value("grid_size"), view.launch.device.sm_count
    if not alive or not block or not grid or not sms:
        return 1.0
    resident = -(-block // WARP) * -(-grid // sms)
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
    found = [view.ledger.named(name, "executed instructions") for name in counters]
    every = max((float(each.value) for each in found if each is not None), default=0.0)
    own = sum(view.code.program.counts)
    return min(1.0, own / every) if own and every else 1.0


def _between_barriers(view: LaunchView) -> float:
    """Executions of the busiest memory access over those of the busiest barrier. If few warps load
    or store between two barriers, there are fewer parallel items than threads, and more blocks do
    not help."""
    if view.code is None or not view.executed("BAR"):
        return 1.0
    program = view.code.program
    counts: dict[bool, float] = {True: 0.0, False: 0.0}
    for position in program.ran:
        opcode = program.code[position].opcode
        is_access = opcode.startswith(_ACCESSES) and not opcode.startswith(_NOT_DATA)
        if is_access or opcode.startswith("BAR"):
            counts[is_access] = max(counts[is_access], float(program.counts[position]))
    accesses, barriers = counts[True], counts[False]
    return min(1.0, accesses / barriers) if accesses and barriers else 1.0


_QUEUES = (
    "not_selected",
    "dispatch_stall",
    "math_pipe_throttle",
    "lg_throttle",
    "mio_throttle",
    "tex_throttle",
    "barrier",
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
    each = view.cycles_between(*_QUEUES)
    if not elapsed or code is None or not each:
        return 0.0
    program, flow = code.program, code.program.flow
    warps = max((program.counts[position] for position in program.ran[:1]), default=0)
    trips = {chain.loop: chain.trips or 1.0 for chain in code.chains if chain.is_serial}
    together = {chain.loop for chain in code.chains if chain.is_exchange}
    if not warps or not (is_outside or trips):
        return 0.0
    # A block whose threads exchange results stays on its SM, and so do its queues.
    whole = (view.cycles_between() or each) if is_outside else each
    cycles = 0.0
    for position in program.ran:
        around = flow.loops_around(flow.block_of[position]) if trips else []
        serial = [trips[loop.index] for loop in around if loop.index in trips]
        if serial or is_outside:
            once = min(math.prod(serial), program.counts[position] / warps)
            is_whole = any(loop.index in together for loop in around)
            cycles += once * (whole if is_whole else each)
    return min(1.0, cycles / elapsed)
