"""Tensor cores unused."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import LEAST_PART, Candidate, is_matrix_product, part_of
from keet.analysis.facts import instructions, origin
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

TENSOR_IDLE = Parameter(5.0, "percent of peak up to which tensor cores are unused", "judgement")
TENSOR_WORK = Parameter(
    0.1, "share of the SM work of a matrix product that is left on tensor cores", "fit"
)

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
    parameters=(TENSOR_WORK,),
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


def candidates(view: LaunchView, _model: TimeModel) -> Iterator[Candidate]:
    busy, tensor = view.ceilings.reached("FMA"), view.ceilings.reached("tensor")
    if busy is None or tensor is None or tensor.value > TENSOR_IDLE or view.capability < (7, 0):
        return
    if not view.all_executed or not is_matrix_product(view) or not _has_halves(view):
        return
    words = (
        "Half-precision values are multiplied as floats on the FMA pipe, busy for {busy:.0f} of "
        "the time, while the tensor cores idle."
    )
    text, kept = Sentence(words, busy=busy), TENSOR_WORK
    effect = Effect(dict.fromkeys(("FMA", "issue", "LSU", "L1", "ALU"), kept), every_wait=kept)
    variant = "hopper" if view.capability == (9, 0) else ""  # wgmma is its own
    yield Candidate(FINDING.id, text, effect, (busy,), view.sampled_places, "assumed", variant)


def _has_halves(view: LaunchView) -> bool:
    """From the kernel's signature; else from the instructions that unpack halves."""
    signature = view.launch.name.demangled or ""
    if "(" in signature:
        return any(name in signature for name in ("__half", "half2", "bfloat16", "__nv_bf"))
    # HADD2 converts a half to float, PRMT a bfloat16; HFMA2 also writes constants.
    return max(part_of(view, "HADD2"), part_of(view, "PRMT")) > LEAST_PART


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("tensor")
    if busy is None or busy.value <= TENSOR_IDLE:
        return None
    return Sentence("The tensor cores are busy for {busy:.0f} of the time.", busy=busy), (busy,)
