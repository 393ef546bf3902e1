"""Redundant traffic."""

from __future__ import annotations

from keet.analysis.facts import global_memory, instructions, on_chip, origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="redundant_traffic",
    family="memory",
    label="redundant traffic",
    meaning="The same data is moved several times: it is not reused, is read in extra passes, or "
    "does not stay in a cache.",
    how="From DRAM: the distinct bytes that the loads can touch, found from the addresses in the "
    "machine code, are compared with the bytes that DRAM delivered. From L2: the bytes that L1 "
    "reads from L2 are compared with the bytes that come from DRAM. In L1: L1 is the busiest "
    "unit, mostly with global loads that hit. Between launches: two launches move the same amount "
    "of data one after the other, which is only a suspicion, because a report holds no pointers.",
    credited_rules=(
        "SOLBottleneck",
        "CPIStall",
        "UncoalescedGlobalAccess",
        "MemoryCacheAccessPattern",
    ),
    parameters=("repeated", "reuse", "pipe_work", "most_removed"),
    claims=("bytes", "instructions", "redundant", "launches"),
    memory="global",
    may_drop_stores=True,
    labels={
        "hand_over": "redundant traffic between kernels",
        "same_input": "redundant reads of a shared input",
    },
    unlike={
        "at_dram_roofline": "A kernel at the DRAM roofline is as busy with DRAM, but its addresses "
        "do not show that bytes are read twice.",
        "uncoalesced_global": "Bytes that are fetched and never used are uncoalesced access; bytes "
        "that are used and fetched again are redundant traffic.",
        "local_memory_spill": "Traffic of registers that were spilled is counted as local memory.",
    },
    remedies={
        when(origin.library_merge_sort): "A merge sort makes a pass over the data per level: sort "
        "with cub::DeviceRadixSort instead, or call thrust::sort with a plain integer or "
        "floating-point key and thrust::less, which uses it. Fewer key bits mean fewer passes.",
        when(origin.library_elementwise): "Fuse this operation with its neighbours (torch.compile, "
        "or one kernel of your own), so that intermediate results stay in registers instead of "
        "going through memory.",
        when(origin.library): "Use a routine of {library} that does several steps in one pass over "
        "the data (fused epilogues, fused graphs, transforming iterators) instead of one call per "
        "step.",
        when(global_memory.handed_over, name="hand_over"): "If one kernel reads what the other "
        "wrote, fuse them, so that the values stay in registers or shared memory; or process the "
        "data in chunks that stay in L2 between the two kernels.",
        when(global_memory.repeated_launches): "If these launches work on the same data, make "
        "fewer passes over it: fuse the kernels, or do several steps per pass on tiles that stay "
        "in shared memory.",
        when(
            origin.looks_like_gemm,
            instructions.tensor_cores_used,
            name="product_fragments",
            unless=(on_chip.uses_shared,),
        ): "Load tiles of "
        "both operands into shared memory, once for several warps of a block, and let each warp "
        "compute several fragments from them{here}; or call cuBLAS.",
        when(
            origin.looks_like_gemm, name="product_untiled", unless=(on_chip.uses_shared,)
        ): "Load tiles of "
        "both operands into shared memory, and let each thread compute a block of several rows "
        "and columns in registers{here}; or call cuBLAS.",
        when(origin.looks_like_gemm, on_chip.uses_shared, name="product"): "Use larger "
        "tiles{here}: let each block and each thread compute more results, so that every value "
        "loaded into shared memory or registers serves more of them; or call cuBLAS.",
        when(origin.looks_like_stencil, name="stencil"): "Neighbouring outputs read the same "
        "inputs{here}: stage a tile with its border in shared memory, compute several outputs per "
        "thread, or march along one axis and keep the last planes in registers.",
        when(origin.looks_like_convolution, name="convolution"): "Each input serves many "
        "outputs{here}: stage an input tile and the weights in shared memory, and compute several "
        "outputs per thread; or call cuDNN.",
        when(global_memory.passes_in_kernel, name="passes"): "Several loops read the same "
        "data{here}: fuse them into one pass (with running results where one needs the other's), "
        "or keep the piece that a block works on in registers or shared memory between them.",
        when(global_memory.rereads_from_dram, name="reread"): "Each byte comes from DRAM several "
        "times{here}: finish all work on a piece of the data that fits into shared memory or L2 "
        "before the next, fuse loops that read the same array, or let blocks that read the same "
        "data run at the same time.",
        when(global_memory.reloads_from_l1, name="reload"): "Most loads hit L1, and still take its "
        "bandwidth{here}: keep values that are used again in registers, by computing several "
        "results per thread.",
        when(
            global_memory.rereads_from_l2, on_chip.uses_shared, origin.has_tma, name="cluster"
        ): "Blocks load "
        "the same data from L2{here}: use larger tiles in shared memory, or let the blocks of a "
        "thread block cluster share their loads (TMA multicast, distributed shared memory).",
        when(global_memory.rereads_from_l2, name="from_l2"): "Blocks or neighbouring threads load "
        "the same data from L2{here}: load it once per block into shared memory, and let each "
        "thread and block compute more results from it.",
        otherwise: "Fuse the steps, or work on tiles that stay in cache, so that data is read once "
        "and then used from registers or shared memory{here}.",
    },
    edit=Edit(
        "Read each value from memory once and reuse it on chip, by tiling or by fusing passes",
        below=("the busiest memory unit's percentage of peak", 35),
        unlike=("pipe_saturated", "launch_bound"),
        usual=2,
    ),
)
