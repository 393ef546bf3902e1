"""Integer and address arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.facts import instructions, origin
from keet.analysis.place import LeadingLines
from keet.findings import Edit, FindingSpec, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.sass.machine_code import MachineCode

FINDING = FindingSpec(
    id="integer_overhead",
    family="instructions",
    label="integer and address arithmetic",
    meaning="Many of the issued instructions compute indices, addresses, conditions and "
    "conversions instead of results.",
    how="The share of executed instructions that compute addresses, conditions and conversions, "
    "from the machine code (from integer counters without it). What every kernel needs is "
    "subtracted. Integer divisions are counted with all their instructions.",
    credited_rules=("SOLBottleneck", "HighPipeUtilization"),
    parameters=("overhead_base", "overhead_removed", "per_division", "most_removed", "indirect"),
    claims=("instructions", "redundant"),
    unlike={
        "narrow_access": "Address arithmetic for many narrow accesses goes away with wider ones.",
        "pipe_saturated": "A pipe that is busy with the work itself.",
        "sfu_bound": "Special functions of the work itself, not of divisions.",
    },
    remedies={
        when(origin.library): "Pass {library} contiguous inputs of few dimensions (merge "
        "dimensions that lie side by side), so that it can choose a kernel with simple indices.",
        when(origin.triton): "Make sizes and strides tl.constexpr{here}, advance pointers instead "
        "of computing them anew, and keep offsets in int32.",
        when(instructions.divides_integers, name="division"): "Replace integer division and "
        "remainder{here}: use the block's and thread's own coordinates, divisors known at compile "
        "time (templates, powers of two), or a precomputed reciprocal (multiply and shift).",
        when(instructions.repeats_invariant_work, name="invariant"): "A part of the work in the "
        "loop gives the same result every time{here}: compute it before the loop, and mark "
        "pointers __restrict__ so that the compiler may do it.",
        when(instructions.computes_wide_indices, name="wide"): "Compute indices in int instead of "
        "size_t or long{here} where they fit: let a pointer advance by a fixed step, or add a "
        "small offset to one base pointer.",
        when(instructions.overhead_is_control, name="control"): "Spend fewer instructions on "
        "conditions and loops{here}: unroll, handle several items per iteration, treat borders "
        "outside of the inner loop, and replace short branches by selection.",
        when(instructions.overhead_is_conversions, name="conversions"): "Spend fewer instructions "
        "on conversions{here}: convert once instead of at every use, compute in the type of the "
        "data (half2), or unpack several values at a time (__byte_perm).",
        otherwise: "Take index arithmetic out of the loop{here}: pointers that advance, offsets in "
        "int, divisions replaced by precomputed reciprocals or by the block's own coordinates.",
    },
    edit=Edit(
        "Take index arithmetic out of the inner loop, with offsets that are worked out once",
        below=("the percentage of issue slots in use", 25),
        usual=14,
    ),
)


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines by executed instructions that compute addresses, conditions and conversions."""
    overhead = [
        (position, code.program.counts[position])
        for position in code.program.ran
        if code.purposes[position].value in ("address", "control", "conversion")
    ]
    return LeadingLines("work on addresses and conditions", overhead)
