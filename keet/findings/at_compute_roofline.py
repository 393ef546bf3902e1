"""At the compute roofline."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import instructions, origin
from keet.analysis.roofline.launch_roofline import AT_CEILING, COMPUTE, reached_roofline
from keet.analysis.time_model import ATTAINABLE_MATH, WORTH, TimeModel
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

FINDING = FindingSpec(
    id="at_compute_roofline",
    family="healthy",
    label="at the compute roofline",
    meaning="The arithmetic pipe that does the work runs near its peak, and keet sees no work "
    "that is not needed.",
    how="No cause is expected to gain enough, none wastes the busiest unit, an arithmetic pipe has "
    "at least 80 % of the load that it can have, and most instructions are arithmetic on data.",
    parameters=(AT_CEILING, WORTH, ATTAINABLE_MATH),
    unlike={
        "at_dram_roofline": "The largest load is that of DRAM or L2.",
        "pipe_saturated": "LSU, L1, ALU and XU have no roofline: near their peak, the advice is "
        "to give them less work.",
        "no_tensor_core": "Half-precision products on the FMA pipe are not at the roofline of the "
        "GPU.",
    },
    remedies={
        when(origin.library): "Only less arithmetic helps: a narrower type or another algorithm "
        "of {library}, or fewer calls.",
        when(instructions.tensor_cores_used, name="tensor"): "Only less matrix arithmetic helps: "
        "skip blocks that are zero or masked, or use a narrower type where the accuracy allows it.",
        when(
            origin.looks_like_gemm,
            instructions.computes_in_single,
            name="product",
            unless=(instructions.tensor_cores_used,),
        ): "The FMA pipe is full: only the tensor cores are faster for a product (in half "
        "precision, or TF32 and bfloat16 where the GPU has them and the accuracy allows it), or "
        "less arithmetic.",
        when(instructions.computes_in_double, name="double"): "Only less arithmetic helps: single "
        "precision where the accuracy allows it, fewer divisions and roots, or another algorithm.",
        otherwise: "Only less arithmetic would help: common terms computed once, another "
        "algorithm, or a narrower type where the accuracy allows it.",
    },
    edit=Edit(
        "Leave it as it is: an arithmetic pipe is near its peak with work that is needed", usual=23
    ),
)


def is_reached(model: TimeModel) -> bool:
    return reached_roofline(model) == "compute"


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    pipes = [pipe for unit in COMPUTE if (pipe := view.ceilings.get(unit)) is not None]
    if not pipes or max(model.loads[pipe.name] for pipe in pipes) >= AT_CEILING:
        return None
    top = max(pipes, key=lambda pipe: pipe.share)
    text = "No unit of that roofline is near its peak ({unit}: {reached:.0f})."
    return absence(text, unit=top.spoken, reached=top.reached)
