"""Narrow access."""

from __future__ import annotations

from keet.analysis.facts import global_memory, origin
from keet.findings import Edit, FindingSpec, otherwise, when

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
    parameters=("narrow_instructions", "indirect"),
    claims=("bytes", "instructions", "waiting"),
    memory="global",
    unlike={
        "uncoalesced_global": "Uncoalesced accesses touch sectors of which they use a part, "
        "whatever their width.",
        "integer_overhead": "If accesses are wide, address arithmetic that is left is integer "
        "overhead.",
        "latency_bound": "Exposed latency has too few loads in flight; narrow accesses have enough "
        "loads, each of which brings few bytes.",
    },
    remedies={
        when(origin.library): "Pass {library} aligned data whose innermost extent is a multiple of "
        "sixteen bytes, so that it can choose a vectorised kernel.",
        when(origin.triton, global_memory.accesses_narrow): "Let each program handle a longer "
        "contiguous block{here}, and state alignment and contiguity (tl.multiple_of, "
        "tl.max_contiguous), so that the compiler emits wide accesses.",
        when(
            global_memory.consecutive_accesses,
            name="consecutive",
            unless=(global_memory.accesses_wide,),
        ): "Each thread "
        "accesses consecutive elements one by one{here}: read or write them as one aligned "
        "vector, such as float4 or uint4.",
        when(global_memory.gathers, global_memory.accesses_narrow, name="gather"): "Store next to "
        "each other the values that are read with one index{here}, so that one wide access "
        "(float4, uint4) fetches them.",
        when(
            origin.looks_like_convolution, name="convolution", unless=(global_memory.accesses_wide,)
        ): "Let each "
        "thread compute several neighbouring results{here}, so that a value that it has loaded "
        "serves several of them and fewer accesses are issued.",
        when(
            origin.looks_like_stencil, name="stencil", unless=(global_memory.accesses_wide,)
        ): "Let each "
        "thread compute several neighbouring points{here}, so that it loads their inputs with "
        "wide accesses (float4) and uses each of them several times.",
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
