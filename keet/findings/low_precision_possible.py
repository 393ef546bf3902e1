"""FP64 may not be needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import Candidate, doubt_if_counted
from keet.analysis.decisions.double_precision import (
    PER_FUNCTION,
    PROMOTED,
    double_precision,
    in_single_precision,
    measured_doubles,
)
from keet.analysis.decisions.saturated import unit_places
from keet.analysis.hotspots.source_calls import beside, chosen_type
from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import instructions, origin
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, TimeModel
from keet.documents.finding import Place
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="low_precision_possible",
    family="instructions",
    label="FP64 may not be needed",
    meaning="The kernel computes in double precision (FP64). If FP32 is accurate enough, it would "
    "be faster; the report can't show which accuracy is needed.",
    how="Double-precision instructions are executed, and the source asks for them or they are not "
    "converted from float; or the FP64 pipe is busy where instruction counts are missing. The gain "
    "follows from how long the pipe is busy and from the GPU's FP64 rate. keet can't know which "
    "accuracy is needed: check that before using FP32. It is not reported for "
    "double data on a GPU with a high FP64 rate.",
    rules=("SOLFPRoofline",),
    credited_rules=("SOLFPRoofline", "HighPipeUtilization", "FPInstructions"),
    parameters=(PROMOTED, PER_FUNCTION, INDIRECT, MOST_REMOVED),
    claims=("precision", "bytes", "instructions"),
    has_narrower_data=True,
    rests_on=("fp64", "fma", "dram", "l2", "global"),
    labels={"lower_precision": "lower precision may be enough"},
    unlike={
        "fp64_promotion": "If values are converted between float and double and nothing in the "
        "source asks for double, keet assumes that the double precision is unintended.",
        "pipe_saturated": "If the data is double and the GPU has a high FP64 rate, a busy FP64 "
        "pipe is the work itself.",
    },
    remedies={
        when(origin.library): "Call the routine of {library} for a narrower type, or a "
        "mixed-precision variant with iterative refinement, where the accuracy allows it.",
        when(
            instructions.computes_in_double,
            origin.looks_like_gemm,
            origin.has_double_tensor_cores,
            name="tensor",
            unless=(instructions.tensor_cores_used,),
        ): "Compute the product on the double-precision tensor cores (mma.sync for f64, or "
        "cuBLAS){here}, or in a narrower type where the accuracy allows it.",
        when(instructions.computes_in_double, origin.slow_double, name="slow_double"): "This GPU "
        "computes doubles at a small part of its single-precision rate: use single precision "
        "where the accuracy allows it{here}, with compensated sums (two floats) where it does not.",
        when(instructions.pipe_fp64, origin.slow_double, name="slow_pipe"): "This GPU computes "
        "doubles at a small part of its single-precision rate: use single precision where the "
        "accuracy allows it{here}, 64-bit integers for whole numbers, and look for unintended "
        "doubles: constants without an f, and functions such as pow and sqrt instead of powf and "
        "sqrtf.",
        when(instructions.computes_in_single, name="single"): "Use half2 or bfloat162 arithmetic "
        "where the accuracy allows it{here}, with sums in single precision.",
        otherwise: "Use single precision where the accuracy allows it{here}, at least for the "
        "bulk of the arithmetic.",
    },
    edit=Edit(
        "Do the bulk of the arithmetic in float where the code now computes in double", usual=15
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    # Without instruction counts, only the pipe shows FP64.
    measured = measured_doubles(view, model)
    if measured and (double_precision(view) == "questionable" or not view.opcodes):
        effect = in_single_precision(view, model, is_unintended=False)
        text, evidence = measured
        places = partial(_places, view)
        candidate = Candidate(text, effect, evidence, places, basis="assumed")
        yield candidate._replace(doubt=doubt_if_counted(view))


def _places(view: LaunchView) -> tuple[Place, ...]:
    """The arithmetic; and where its type is chosen, if that is an argument of a template."""
    return beside(unit_places(view, "FP64"), *chosen_type(view, "double"))
