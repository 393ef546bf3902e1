"""Probably unintended double precision."""

from __future__ import annotations

from keet.analysis.facts import instructions, origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="fp64_promotion",
    family="instructions",
    label="probably unintended double precision",
    meaning="Code that converts between float and double also computes in double precision, and "
    "keet sees nothing in the source that asks for double. Typical causes are a constant without "
    "an f, or a function such as pow instead of powf.",
    how="Double-precision instructions are executed together with conversions between float and "
    "double, and neither the kernel's signature nor the source lines that it runs name the type "
    "double. The arithmetic is then assumed to run on the FMA pipe, without the conversions.",
    rules=("SOLFPRoofline", "FP64"),
    credited_rules=("SOLFPRoofline", "HighPipeUtilization", "FPInstructions"),
    parameters=("promoted", "per_double", "most_removed", "indirect", "sharpness"),
    claims=("precision", "instructions"),
    is_unintended=True,
    unlike={
        "low_precision_possible": "If the source asks for double, keet only says that FP64 may not "
        "be needed.",
        "pipe_saturated": "If the data is double and the GPU has a high FP64 rate, a busy FP64 "
        "pipe is the work itself.",
    },
    remedies={
        when(origin.library): "Call the single-precision routine of {library}, with float data, "
        "float scalars and a single-precision compute type.",
        when(origin.triton): "Keep values in single precision{here}: cast with .to(tl.float32), "
        "and pass tensors and scalars that are not float64.",
        when(
            instructions.converts_to_double, instructions.double_functions, name="functions"
        ): "Call the "
        "float version of functions (sqrtf, expf, powf), divide floats, and write constants with "
        "an f{here}.",
        when(instructions.converts_to_double, name="conversions"): "Floats become doubles and go "
        "back{here}: write constants with an f, and keep sums and intermediate values in float.",
        otherwise: "Write constants with an f, call the float version of functions, and keep "
        "values in float{here}.",
    },
    edit=Edit(
        "Find the double constants that widen float arithmetic, and write them as float",
        below=("the number of double-precision instructions", 1),
        unlike=("low_precision_possible", "sfu_bound"),
        usual=6,
    ),
)
