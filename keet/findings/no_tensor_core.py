"""Tensor cores unused."""

from __future__ import annotations

from keet.analysis.facts import instructions, origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="no_tensor_core",
    family="instructions",
    label="tensor cores unused",
    meaning="What looks like a matrix product, in a type that tensor cores support, runs on the "
    "FMA pipe.",
    how="Most instructions are fused multiply-adds on tiles in shared memory, the operands are "
    "half precision, the GPU has tensor cores, and they idle. A fixed part of the work of the SM "
    "is assumed to be left.",
    credited_rules=("HighPipeUtilization",),
    parameters=("tensor_work",),
    claims=("precision", "instructions"),
    unlike={
        "at_compute_roofline": "A matrix product of single precision on a busy FMA pipe is at its "
        "roofline.",
        "low_precision_possible": "keet does not advise to change the type here: the operands are "
        "half precision already.",
    },
    remedies={
        when(origin.library): "Allow {library} to use the tensor cores: half, bfloat16 or TF32 "
        "inputs (a compute type such as CUBLAS_COMPUTE_32F_FAST_TF32), aligned pointers, and "
        "dimensions that are multiples of eight.",
        when(origin.triton): "Use tl.dot for the product{here}: it runs on the tensor cores for "
        "half, bfloat16, TF32 and FP8 inputs.",
        when(instructions.tensor_cores_used, name="partly"): "The tensor cores do a part of the "
        "work already{here}: move the products that are left on the FMA pipe to them too.",
        when(origin.has_tcgen05, name="blackwell"): "Use the tensor cores (tcgen05.mma, mma.sync, "
        "or a library) for the product{here}.",
        when(origin.has_wgmma, name="hopper"): "Use the tensor cores (wgmma, mma.sync, or a "
        "library) for the product{here}.",
        otherwise: "Use the tensor cores (mma.sync, or a library) for the product{here}.",
    },
    edit=Edit(
        "Do the multiply-adds of the matrix product on the tensor cores, by mma instructions",
        ruled_out="no matrix product",
        needs="the FMA pipes' percentage of peak",
        is_answer=False,
        usual=19,
    ),
)
