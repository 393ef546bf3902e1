"""Narrow access."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits
from keet.analysis.decisions.saturated import float_functions
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, GLOBAL, GLOBAL_ATOMICS
from keet.analysis.memory_work import (
    access_width,
    accesses_saved,
    global_accesses_part,
    widened_share,
)
from keet.analysis.parallelism.occupancy import bytes_in_flight
from keet.analysis.parameters import INTEGER_DIVISIONS, Parameter
from keet.analysis.remedy_conditions import global_memory, instructions, origin, waits
from keet.analysis.remedy_conditions.global_memory import TINY_ACCESS, WIDEST_ACCESS
from keet.analysis.time_model import BLOCK_STARTS, INDIRECT, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

PER_ACCESS = Parameter(3, "instructions for an access of a word and its address", "judgement")
NARROW_INSTRUCTIONS = Parameter(
    1.0, "share of access and address instructions that wide accesses save", "fit"
)

NARROW_REQUESTS = Parameter(
    0.4, "share of L2's load that goes with the waiting which wide accesses save", "fit"
)

FINDING = FindingSpec(
    id="narrow_access",
    family="memory",
    label="narrow access",
    meaning="Each instruction moves few bytes per thread, so the instruction rate or the requests "
    "in flight limit the kernel before bandwidth does.",
    how="The average width of global accesses (bytes per thread and instruction) is compared with "
    "the 16 bytes that one instruction can move. Wider accesses need fewer instructions for "
    "accesses and addresses. Below 4 bytes per thread, a warp's request is also smaller than a "
    "cache line, so that fewer bytes are in flight while warps wait; above, this counts if fewer "
    "bytes are on their way than keep DRAM busy.",
    rules=("UncoalescedGlobalAccess",),
    credited_rules=(
        "CPIStall",
        "UncoalescedGlobalAccess",
        "UncoalescedSharedAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=(NARROW_INSTRUCTIONS, NARROW_REQUESTS, INDIRECT),
    claims=("bytes", "instructions", "waiting"),
    rests_on=("global", "instructions", "issue", "memory waits"),
    memory="global",
    unlike={
        "uncoalesced_global": "Uncoalesced accesses touch sectors of which they use a part, "
        "whatever their width.",
        "integer_overhead": "If accesses are wide, address arithmetic that is left is integer "
        "overhead.",
        "latency_bound": "Exposed latency has too few loads in flight; narrow accesses have "
        "enough loads, each of which brings few bytes.",
    },
    remedies={
        when(origin.library): "Pass {library} aligned data whose innermost extent is a multiple "
        "of sixteen bytes, so that it can choose a vectorised kernel.",
        when(origin.triton, global_memory.accesses_narrow): "Let each program handle a longer "
        "contiguous block{here}, and state alignment and contiguity (tl.multiple_of, "
        "tl.max_contiguous), so that the compiler emits wide accesses.",
        when(
            global_memory.consecutive_accesses,
            name="consecutive",
            unless=(global_memory.accesses_wide,),
        ): "Each thread accesses consecutive elements one by one{here}: read or write them as one "
        "aligned vector, such as float4 or uint4.",
        when(global_memory.gathers, global_memory.accesses_narrow, name="gather"): "Store next to "
        "each other the values that are read with one index{here}, so that one wide access "
        "(float4, uint4) fetches them.",
        when(
            origin.looks_like_convolution, name="convolution", unless=(global_memory.accesses_wide,)
        ): instructions.SEVERAL_RESULTS,
        when(
            origin.looks_like_stencil, name="stencil", unless=(global_memory.accesses_wide,)
        ): "Let each thread compute several neighbouring points{here}, so that it loads their "
        "inputs with wide accesses (float4) and uses each of them several times.",
        when(global_memory.accesses_tiny, name="bytes"): "Let each thread move sixteen bytes at a "
        "time{here} (uint4) and unpack the elements in registers, instead of one or two bytes per "
        "access.",
        when(global_memory.accesses_narrow, name="wider"): "Let each thread handle several "
        "neighbouring elements{here}, and move them with one aligned vector access, such as uint4 "
        "or float4, instead of many narrow ones.",
        when(global_memory.accesses_wide, name="wide_already"): "The accesses are as wide as they "
        "can be{here}: issue fewer of them, by keeping values that are used again in registers.",
        otherwise: "Move the same data with fewer instructions{here}: where a thread accesses "
        "neighbouring elements, use an aligned vector type such as uint4 or float4.",
    },
    edit=Edit(
        "Move 16 bytes with each global load and store instead of fewer bytes at a time", usual=10
    ),
)

_WIDTH = "bytes per thread and access"
_PER_ELEMENT = ("memory", "address", "control")
"""Purposes of instructions that are executed for each element."""
_WORD_BYTES = 4
"""Bytes per thread for which a warp's request is one cache line of 128 bytes."""


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or not 0 < width < WIDEST_ACCESS:
        return
    kept = width / WIDEST_ACCESS
    # A request below a cache line also keeps fewer bytes in flight.
    below_line = min(1.0, max(0.0, (_WORD_BYTES - width) / (_WORD_BYTES - TINY_ACCESS)))
    fewer = (1 - kept) * NARROW_INSTRUCTIONS
    saved, on_xu = (of(view, below_line) * fewer for of in (_access_share, _xu_share))
    held = _left_of_waits(view, kept)
    shown = view.derived("access_width", width, _WIDTH, executed, unit="byte")
    most, label = float(WIDEST_ACCESS), "bytes that one access of a thread can move"
    widest = view.derived("widest_access", most, label, executed, unit="byte")
    other, of_global = 1 - model.waiting_for(*MEMORY_WAITS), global_accesses_part(view)
    text = (
        "A global access moves {width:.1f}s per thread on average; one instruction can move up to "
        "{widest:.0f}s."
    )
    yield Candidate(
        Sentence(text, width=shown, widest=widest),
        Effect(
            dict.fromkeys(("issue", "LSU", "FMA", "ALU", "ADU"), 1 - saved)
            # Threads that take more elements are fewer.
            | {"XU": 1 - on_xu, "L2": 1 - NARROW_REQUESTS * (1 - held), BLOCK_STARTS: kept},
            kept_waits(model, MEMORY_WAITS, (1 - min(held, kept**below_line)) * of_global),
            every_wait=1 - INDIRECT * saved * other,
        ),
        (shown, widest, executed),
        lambda: view.places_by("narrow accesses", accesses_saved(view, WIDEST_ACCESS)),
        basis="assumed",
    )


def _left_of_waits(view: LaunchView, kept: float) -> float:
    """Share of the waiting for memory that is left if accesses are so wide that enough bytes for a
    busy DRAM are on their way, 0 to 1; 1 if they are, if it is not known, or if addresses are data.
    A thread that waits several times could have as many bytes on their way with loads that it
    issues together."""
    flight = bytes_in_flight(view)
    if flight is None or waits.dependent_loads.test(view):
        return 1.0
    # Narrow accesses leave time in which a warp has nothing on its way.
    covered = flight.covered(view.stalls.get("long_scoreboard", 0.0))
    left = max(kept, min(1.0, flight.per_thread / WIDEST_ACCESS), covered)
    return 1 - (1 - left) * _coalesced(view) * flight.unqueued / max(1.0, flight.waits)


def _coalesced(view: LaunchView) -> float:
    """The part of the sectors of global accesses that they use, 0 to 1; 1 if it is not known."""
    every, excess = (
        sum((view.table.column(f"src_l2_sectors_global{of}") or {}).values())
        for of in ("", "_excess")
    )
    return max(0.0, 1 - excess / every) if every else 1.0


def _access_share(view: LaunchView, below_line: float) -> float:
    """Share of the executed instructions that wide accesses would save, 0 to 1.

    Accesses of 4 bytes already compute the addresses that wide accesses need; with accesses of 1 or
    2 bytes, the whole index arithmetic is repeated for each small element. Of divisions of
    integers, a part goes: only if neighbours have the same quotient does one serve all of them.
    """
    every = view.all_executed
    if not every:
        return 0.0
    whole = _index_share(view.code) * global_accesses_part(view) if view.code else 0.0
    accesses = view.executed("LDG", "STG") * widened_share(view)
    return max(min(1.0, PER_ACCESS * accesses / every), below_line * whole)


def _xu_share(view: LaunchView, below_line: float) -> float:
    """Share of the XU pipe's work that wide accesses would save, 0 to 1: that of index arithmetic
    (divisions of integers). The values themselves are converted as often as before."""
    if view.code is None:
        return 0.0
    code, purposes = view.code, view.code.purposes
    on_xu = code.with_opcodes(BY_PIPE["XU"])
    of_indices = [position for position in on_xu if purposes[position].value in _PER_ELEMENT]
    part = code.share(of_indices) / code.share(on_xu) if on_xu else 0.0
    return below_line * part * global_accesses_part(view)


def _index_share(code: MachineCode) -> float:
    """Index work of each thread, and of its iterations that access global memory: a loop on shared
    memory or registers has its own. Conditions that decide by what was loaded stay, once per
    element: those that depend on it, and what is more than there are instructions for addresses, as
    in an interpreter. Those of functions such as powf stay, too."""
    program, flow = code.program, code.program.flow
    loop_of = {p: flow.loop_of.get(flow.block_of[p]) for p in program.ran}
    moves = GLOBAL - GLOBAL_ATOMICS
    loops = {loop_of[p] for p in program.ran if program.code[p].opcode in moves} | {None}
    per_element = {p for p in program.ran if loop_of[p] in loops}.difference(float_functions(code))
    of = {kind: {p for p in per_element if code.purposes[p].value == kind} for kind in _PER_ELEMENT}
    shares = {purpose: code.share(positions) for purpose, positions in of.items()}
    divisions = set(code.expanded(*INTEGER_DIVISIONS)).intersection(set().union(*of.values()))
    decides = code.share(of["control"] & code.decided_by_data)
    decides = max(decides, shares["control"] - shares["address"])
    return sum(shares.values()) - decides - INDIRECT * code.share(divisions)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or width < WIDEST_ACCESS:
        return None
    shown = view.derived("access_width", width, _WIDTH, executed, unit="byte")
    text = "A global access moves {width:.1f}s per thread, as many as it can."
    return absence(text, width=shown)
