"""Kernel too short."""

from __future__ import annotations

from keet.analysis.facts import origin, parallelism
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="launch_bound",
    family="parallelism",
    label="kernel too short",
    meaning="Starting and ending the kernel takes a large part of its time.",
    how="The time of starting and draining a grid is compared with the kernel's duration; the gap "
    "to the next launch is added. Kernels with so few instructions that they do no work are left "
    "out.",
    credited_rules=(
        "SOLBottleneck",
        "HighPipeUtilization",
        "CPIStall",
        "LaunchConfiguration",
        "AchievedOccupancy",
    ),
    parameters=("launch_gap_ns", "least_kernel_ns", "short_kernel_ns"),
    claims=("launches",),
    of_launches=True,
    unlike={
        "small_grid": "A long kernel with few blocks leaves SMs empty while it works.",
        "tail_effect": "Idle SMs in the last wave of a long kernel are a tail effect.",
    },
    remedies={
        when(origin.library_elementwise): "Fuse small operations (torch.compile), or capture the "
        'sequence in a CUDA graph (torch.cuda.graph, mode="reduce-overhead"); use larger '
        "batches.",
        when(origin.library): "Batch several calls of {library} into one, or put the sequence of "
        "calls into a CUDA graph.",
        when(parallelism.one_block): "If this is a small step between other kernels, do it within "
        "one of them (the last block to finish does it), or put the sequence into a CUDA graph. "
        "Else give one launch more work.",
        when(parallelism.short_lived_warps): "Start fewer threads{here}: no threads without work, "
        "and several items per thread (a grid-stride loop). Where the kernel is launched many "
        "times, do the work of many launches in one.",
        otherwise: "Do the work of many launches in one, or put them into a CUDA graph.",
    },
    edit=Edit(
        "Do the work of the many short kernel launches in a single launch or a graph",
        above=("the launch's time in microseconds", 100),
        unlike=("redundant_traffic",),
        usual=16,
    ),
)
