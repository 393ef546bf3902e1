"""Special functions."""

from __future__ import annotations

from keet.analysis.facts import instructions, origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="sfu_bound",
    family="instructions",
    label="special functions",
    meaning="Special functions or conversions keep the XU pipe busy, which runs at an eighth of "
    "the FP32 rate or less.",
    how="The XU pipe executes special functions, or is the busiest unit. A fixed part of its work "
    "is assumed to be left after a rewrite, and the instructions that go with each function are "
    "saved.",
    rules=("HighPipeUtilization",),
    credited_rules=("HighPipeUtilization", "CPIStall"),
    parameters=("special_functions", "pipe_work", "sharpness", "indirect"),
    claims=("instructions",),
    unlike={
        "integer_overhead": "Integer divisions and conversions use the XU pipe, too; they count as "
        "overhead.",
        "fp64_promotion": "Conversions between float and double use the XU pipe; they count as "
        "double precision.",
        "pipe_saturated": "Any other pipe of the SM that is the busiest unit.",
    },
    remedies={
        when(origin.library): "Choose a cheaper function or a lower-precision variant of this "
        "operation in {library}, or fuse it with neighbours that wait for memory.",
        when(instructions.mostly_conversions, name="conversions"): "Most of this pipe's work is "
        "conversions between types{here}: keep counters and values in one type, convert once "
        "outside of the loop, and convert several small values at a time with bit operations "
        "(__byte_perm, half2).",
        when(instructions.mostly_sines, name="sines"): "Replace sines and cosines by a recurrence "
        "(rotate by a fixed angle), a table, or sincospif for both at once{here}, and move those "
        "that repeat out of the loop.",
        when(instructions.mostly_exponentials, name="exponentials"): "Compute fewer exponentials "
        "and logarithms{here}: combine factors into one exponent, use exp2f and log2f with the "
        "factor folded in, and evaluate a part of them by polynomials on the FMA pipe.",
        when(instructions.mostly_reciprocals, name="reciprocals"): "Compute fewer reciprocals and "
        "roots{here}: divide once and multiply by the reciprocal, combine several divisions into "
        "one, and use rsqrtf instead of a root and a division.",
        otherwise: "Replace special functions, divisions and conversions{here} by recurrences, "
        "polynomials, multiplications or a table, and move those that repeat out of the loop.",
    },
    edit=Edit(
        "Replace sines, exponentials and divisions by recurrences or a cheaper formula",
        below=("the XU pipe's percentage of peak", 15),
        needs="the XU pipe's percentage of peak",
        unlike=("fp64_promotion", "low_precision_possible", "warp_divergence"),
        is_answer=False,
        usual=20,
    ),
)
