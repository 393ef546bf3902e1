"""Uncoalesced global access."""

from __future__ import annotations

from keet.analysis.facts import global_memory, instructions, on_chip, origin
from keet.findings import Edit, FindingSpec, SmallShare, otherwise, when

FINDING = FindingSpec(
    id="uncoalesced_global",
    family="memory",
    label="uncoalesced global access",
    meaning="The threads of a warp touch many sectors with one instruction and use a part of each.",
    how="For every global load and store, the sectors that it touched are compared with the "
    "sectors that packed addresses would touch. The rest is waste in L1, and in L2 and DRAM for "
    "the part that reaches them. Where indices read from memory decide the addresses (a gather), "
    "only a part of the waste is assumed to be removable. Without counters per instruction, keet "
    "suspects it where L1 is busy much longer than the LSU pipe that feeds it.",
    rules=("UncoalescedGlobalAccess",),
    credited_rules=(
        "SOLBottleneck",
        "CPIStall",
        "UncoalescedGlobalAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=("coalesced_waits", "gathered", "replayed", "indirect"),
    claims=("bytes",),
    memory="global",
    looks_good=SmallShare(
        "src_l2_sectors_global_excess",
        "src_l2_sectors_global",
        "coalesced global accesses ({share} excess sectors)",
    ),
    unlike={
        "narrow_access": "Narrow accesses can be perfectly coalesced: all bytes of the sectors are "
        "used, but each instruction moves few of them.",
        "shared_bank_conflict": "Bank conflicts are repeats of accesses to shared memory, counted "
        "in wavefronts; uncoalesced access is counted in sectors of global memory.",
        "redundant_traffic": "Redundant traffic uses every byte of a sector, but moves it several "
        "times.",
        "atomic_contention": "Sectors of atomics are left out: scattered atomics are not a matter "
        "of layout.",
    },
    remedies={
        when(origin.library): "Pass {library} contiguous, aligned inputs: copy strided or "
        "transposed views into a packed layout once, or choose the layout that the routine "
        "prefers. The access pattern inside its kernel can't be changed.",
        when(origin.triton, global_memory.gathers, name="triton_gather"): "Make neighbouring "
        "elements of a block load neighbouring addresses{here}: sort or group the indices, and "
        "load whole contiguous rows per index (a second tl.arange along the row) instead of "
        "single elements.",
        when(origin.triton): "Let the last dimension of the block run along the axis with stride "
        "one{here}: build the pointers with tl.arange along that axis, or make the tensor "
        "contiguous once before the launch.",
        when(global_memory.gathers, name="gather"): "Make neighbouring threads read neighbouring "
        "entries{here}: sort or group the work by its index, keep a table that is read like this "
        "small enough for L1 or shared memory, or store next to each other the values that are "
        "read with one index.",
        when(
            global_memory.strided_records,
            global_memory.consecutive_accesses,
            name="consecutive",
            unless=(global_memory.accesses_wide,),
        ): "Each thread "
        "accesses consecutive elements one by one{here}: move them as one aligned vector (float4, "
        "uint4), or let neighbouring threads take neighbouring elements.",
        when(global_memory.strided_records, name="records"): "Neighbouring threads access the same "
        "field of neighbouring records{here}: store each field in an array of its own (structure "
        "of arrays), or move whole records with vector types or through shared memory.",
        when(
            global_memory.excess_in_loads,
            instructions.tensor_cores_used,
            name="fragments",
            unless=(on_chip.uses_shared,),
        ): "The threads "
        "of a warp load a fragment from several rows{here}: copy tiles of the operands into "
        "shared memory in the order of memory, and load the fragments from there.",
        when(global_memory.excess_in_stores, name="stores"): "Let the threads of a warp store "
        "along the fastest axis of the output{here}: swap the thread's axes, or collect the "
        "results in a tile in shared memory and store the tile row by row.",
        when(global_memory.excess_in_loads, name="loads", unless=(on_chip.uses_shared,)): "Let the "
        "threads of a warp load along the fastest axis of the array{here}: swap the thread's "
        "axes, or load a tile row by row into shared memory and read its columns there.",
        when(
            global_memory.excess_in_loads, on_chip.uses_shared, name="loads_of_tiles"
        ): "Load into "
        "shared memory in the order of memory, with neighbouring threads on neighbouring "
        "elements{here}, and pick from there in any order.",
        when(
            global_memory.sends_to_l2, name="sent", unless=(global_memory.excess_in_loads,)
        ): "Far more goes "
        "to L2 than comes back, as with stores: let neighbouring threads store to neighbouring "
        "addresses{here}. Keep each field of a structure in an array of its own, or collect the "
        "results in shared memory and store them in the order of memory.",
        otherwise: "Let neighbouring threads of a warp access neighbouring addresses{here}: run "
        "them along the fastest axis of the array, keep each field of a structure in an array of "
        "its own, or go through a tile in shared memory.",
    },
    edit=Edit(
        "Make neighbouring threads of a warp access neighbouring addresses in global memory",
        below=("the percentage of global sectors beyond the least", 8),
        unlike=("narrow_access",),
        usual=1,
    ),
)
