"""Tensor cores unused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import LEAST_PART, Candidate, is_matrix_product, part_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import less_shared
from keet.analysis.parameters import LIKELY, Parameter
from keet.analysis.remedy_conditions import instructions, origin
from keet.analysis.time_model import Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.lane_groups import FactorType

TENSOR_IDLE = Parameter(5.0, "percent of peak up to which tensor cores are unused", "judgement")
TENSOR_WORK = Parameter(
    0.1, "share of the SM work of a matrix product that is left on tensor cores", "fit"
)

LEAST_DEPTH = Parameter(
    16, "products per sum from which tensor cores pay: the depth of one instruction", "judgement"
)
WARP_TILE = Parameter(
    32, "rows and columns of the result of a warp, for which it reads fragments", "judgement"
)

FINDING = FindingSpec(
    id="no_tensor_core",
    family="instructions",
    label="tensor cores unused",
    meaning="A matrix product, in a type that tensor cores support, runs on the arithmetic pipes.",
    how="Each thread multiplies each of several values with each of several others, and adds every "
    "product to a sum of its own (without the machine code: most instructions are fused "
    "multiply-adds on tiles in shared memory). The operands are half precision or bytes, the GPU "
    "has tensor cores, and they idle. A fixed part of the arithmetic and the waiting is assumed to "
    "be left, and shared memory still delivers the operands, to warps instead of threads.",
    credited_rules=("HighPipeUtilization",),
    parameters=(TENSOR_WORK, LEAST_DEPTH, WARP_TILE),
    claims=("precision", "instructions"),
    rests_on=("fma",),
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
        usual=19,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    busy, tensor = view.ceilings.reached("FMA"), view.ceilings.reached("tensor")
    if busy is None or tensor is None or tensor.value > TENSOR_IDLE or view.capability < (7, 0):
        return
    if not view.all_executed or not (factors := _factors(view)):
        return
    text = Sentence(_WORDS[factors], busy=busy)
    variant = "hopper" if view.capability == (9, 0) else ""  # wgmma is its own
    # The other factor of a quantised one is a float, which has to be rounded.
    chance = LIKELY if factors == "quantised" else 1.0
    # The arithmetic goes to the tensor cores, and a warp reads fragments from shared memory instead
    # of values for each thread. Triton's tiles are larger than those of a warp.
    product, kept = view.code.outer_products if view.code else None, float(TENSOR_WORK)
    units = dict.fromkeys(("FMA", "issue", "LSU", "L1", "ALU"), kept)
    fronts = view.value("shared_load_wavefronts")
    if product is not None and fronts and not origin.triton.test(view):
        needed = product.amount * _BYTES[factors] * 2 / WARP_TILE * _LANES / _WAVEFRONT
        units |= less_shared(model, 1 - min(1.0, needed / fronts), fronts).units
    effect, places = Effect(units, every_wait=kept), partial(_places, view)
    yield Candidate(
        text, effect, (busy,), places, basis="assumed", variant=variant, likelihood=chance
    )


_WORDS: dict[FactorType, str] = {
    "halves": "Half-precision values are multiplied as floats on the FMA pipe, busy for {busy:.0f} "
    "of the time, while the tensor cores idle.",
    "bytes": "A product of matrices of bytes is computed by integer instructions (the FMA pipe is "
    "busy for {busy:.0f} of the time), while the tensor cores idle.",
    "quantised": "A product of matrices, one of which has bytes, is computed in floats (the FMA "
    "pipe is busy for {busy:.0f} of the time), while the tensor cores idle. Bytes are exact in "
    "half precision; the other factor would be rounded to it.",
}


def _factors(view: LaunchView) -> FactorType:
    """What is multiplied; empty: no product of matrices, or of types that tensor cores do not
    have."""
    product = view.code.outer_products if view.code else None
    if is_matrix_product(view) and _has_halves(view):
        return "halves"
    if product is None or product.depth < LEAST_DEPTH:
        return ""
    return product.factors if view.capability >= (7, 2) or product.factors == "halves" else ""


def _places(view: LaunchView) -> tuple[Place, ...]:
    """Lines by executed multiply-adds of the product, those outside of CUDA's headers if there are
    any (__dp4a is in one); without the machine code, by samples."""
    code = view.code
    if code is None or code.outer_products is None:
        return view.sampled_places()
    from keet.analysis.library import is_of_toolkit

    lines = {position: code.location(position) for position in code.outer_products.products}
    outside = [at for at, line in lines.items() if line and not is_of_toolkit(line.file)]
    executed = code.executions(outside or lines)
    where = " outside of CUDA's headers" if 0 < len(outside) < len(lines) else ""
    of = f"multiply-adds of the product{where}"
    return view.places_by(of, executed) or view.sampled_places()


_BYTES: dict[FactorType, int] = {"bytes": 1, "halves": 2, "quantised": 2}
"""Of a factor."""
_LANES, _WAVEFRONT = 32, 128
"""Threads of a warp; bytes that shared memory delivers at a time."""


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
    return absence("The tensor cores are busy for {busy:.0f} of the time.", busy=busy)
