"""Narrow access."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits
from keet.analysis.facts import global_memory, origin
from keet.analysis.facts.global_memory import TINY_ACCESS, WIDEST_ACCESS
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import access_width, accesses_saved, global_accesses_part
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when
from keet.units import Quantity

PER_ACCESS = Parameter(3, "instructions for an access of a word and its address", "judgement")
NARROW_INSTRUCTIONS = Parameter(
    1.0, "share of access and address instructions that wide accesses save", "fit"
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
    "cache line, so that fewer bytes are in flight while warps wait.",
    rules=("UncoalescedGlobalAccess",),
    credited_rules=(
        "CPIStall",
        "UncoalescedGlobalAccess",
        "UncoalescedSharedAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=(NARROW_INSTRUCTIONS, INDIRECT),
    claims=("bytes", "instructions", "waiting"),
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
        ): "Let each thread compute several neighbouring results{here}, so that a value that it "
        "has loaded serves several of them and fewer accesses are issued.",
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
        "Move 16 bytes with each global load and store instead of fewer bytes at a time",
        below=("the percentage of instructions that access global memory", 3),
        unlike=("uncoalesced_global",),
        usual=10,
    ),
)

_WIDTH = "bytes per thread and access"
_WORD = 4
"""Bytes per thread for which a warp's request is one cache line of 128 bytes."""


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or not 0 < width < WIDEST_ACCESS:
        return
    kept = width / WIDEST_ACCESS
    # A request below a cache line also keeps fewer bytes in flight; above it, more loads have the
    # same effect.
    below_line = min(1.0, max(0.0, (_WORD - width) / (_WORD - TINY_ACCESS)))
    saved = _access_share(view, below_line) * (1 - kept) * NARROW_INSTRUCTIONS
    shown = view.ledger.derived("access_width", Quantity(width, "byte"), _WIDTH, executed)
    most = Quantity(float(WIDEST_ACCESS), "byte")
    label = "bytes that one access of a thread can move"
    widest = view.ledger.derived("widest_access", most, label, executed)
    other = 1 - model.waiting_for(*MEMORY_WAITS)
    text = (
        "A global access moves {width:.1f}s per thread on average; one instruction can move up to "
        "{widest:.0f}s."
    )
    yield Candidate(
        FINDING.id,
        Sentence(text, width=shown, widest=widest),
        Effect(
            dict.fromkeys(("issue", "LSU", "FMA", "ALU", "ADU", "XU"), 1 - saved),
            kept_waits(model, MEMORY_WAITS, (1 - kept**below_line) * global_accesses_part(view)),
            every_wait=1 - INDIRECT * saved * other,
        ),
        (shown, widest, executed),
        lambda: view.places_by("narrow accesses", accesses_saved(view, WIDEST_ACCESS)),
        "assumed",
    )


def _access_share(view: LaunchView, below_line: float) -> float:
    """Share of the executed instructions that wide accesses would save, 0 to 1.

    Accesses of 4 bytes already compute the addresses that wide accesses need; with accesses of 1 or
    2 bytes, the whole index arithmetic is repeated for each small element.
    """
    every = view.all_executed
    if not every:
        return 0.0
    mix = {purpose.value: share for purpose, share in view.code.mix} if view.code else {}
    whole = mix.get("memory", 0) + mix.get("address", 0) + mix.get("control", 0)
    whole *= global_accesses_part(view)
    return max(min(1.0, PER_ACCESS * view.executed("LDG", "STG") / every), below_line * whole)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or width < WIDEST_ACCESS:
        return None
    shown = view.ledger.derived("access_width", Quantity(width, "byte"), _WIDTH, executed)
    text = "A global access moves {width:.1f}s per thread, as many as it can."
    return Sentence(text, width=shown), (shown,)
