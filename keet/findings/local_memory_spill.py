"""Local memory."""

from __future__ import annotations

from keet.analysis.facts import on_chip, origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="local_memory_spill",
    family="memory",
    label="local memory",
    meaning="Registers spill, or an array is indexed at run time: values that could stay in "
    "registers go through L1 and beyond.",
    how="The sectors of local memory are compared with all sectors that L1 serves. L2 and DRAM "
    "only gain as far as L1 does not absorb local memory. Whether registers were spilled or an "
    "array is indexed at run time is decided by the number of spilling requests.",
    credited_rules=("CPIStall", "MemoryCacheAccessPattern"),
    parameters=("indirect",),
    claims=("bytes", "instructions"),
    memory="local",
    unlike={
        "occupancy_limited_registers": "Fewer registers per thread raise the occupancy and may "
        "cause spills: the two fixes pull in opposite directions.",
        "redundant_traffic": "Global data that is read again is redundant traffic; only the "
        "kernel's own temporaries are local memory.",
    },
    remedies={
        when(origin.library): "Choose another algorithm, tile size or data type of {library} for "
        "this call: its registers can't be changed.",
        when(origin.triton): "Let a program handle fewer elements or use more warps "
        "(num_warps){here}, so that each thread holds fewer values; remove maxnreg where it is "
        "set.",
        when(on_chip.local_arrays, name="array"): "Keep the array in registers or shared "
        "memory{here}: indices known at compile time (unrolled loops), or one column per thread "
        "in shared memory. The compiler spilled nothing: more registers do not help.",
        when(on_chip.spills, on_chip.registers_at_limit, name="spill_at_limit"): "Each thread has "
        "the most registers that the GPU allows{here}: split the kernel, handle fewer items per "
        "thread, unroll less, or keep values that are rarely used in shared memory. Other launch "
        "bounds do not help.",
        when(on_chip.spills, name="spill", unless=(on_chip.registers_at_limit,)): "Let the values "
        "fit into registers{here}: fewer live values, fewer items per thread or more threads for "
        "them, launch bounds (or maxnreg) that allow more registers.",
        otherwise: "Keep the values in registers{here}: indices known at compile time, fewer live "
        "values; or lay the array out in shared memory, one column per thread.",
    },
    edit=Edit(
        "Keep per-thread arrays and spilled values out of local memory, in registers or shared",
        below=("the number of requests to local memory", 1),
        usual=4,
    ),
)
