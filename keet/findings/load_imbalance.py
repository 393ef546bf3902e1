"""Load imbalance."""

from __future__ import annotations

from keet.analysis.facts import origin, parallelism
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="load_imbalance",
    family="parallelism",
    label="load imbalance",
    meaning="Some blocks, warps or SMs have far more work than others, and the others wait for "
    "them.",
    how="The active cycles of the average SM are compared with those of the SM that is active "
    "longest. What the number of waves explains is subtracted, because it is a tail effect. "
    "Without a value for each SM, it is assumed where the average SM is active for only a part of "
    "a long launch.",
    rules=("WorkloadImbalance",),
    credited_rules=("IssueSlotUtilization", "CPIStall", "AchievedOccupancy", "WorkloadImbalance"),
    parameters=("balanced", "short_kernel_ns", "most_removed"),
    claims=("parallelism", "waiting"),
    has_long_blocks=True,
    headline="idle",
    unlike={
        "tail_effect": "Blocks of equal length that do not fill the last wave are a tail effect.",
        "small_grid": "SMs that never get a block are a small grid.",
        "warp_divergence": "Uneven work within a warp shows as inactive threads, not as idle SMs.",
    },
    remedies={
        when(origin.library_communication, name="communication"): "A collective waits for its "
        "slowest participant: make all GPUs reach it at the same time, or overlap it with "
        "computation.",
        when(origin.library): "Give {library} inputs of equal size: group or pad items by length, "
        "or use a routine for ragged or grouped inputs.",
        when(origin.looks_like_sparse, name="sparse"): "Rows have very different lengths{here}: "
        "cut long rows into pieces of one size (merge-based, or a warp per piece), sort rows by "
        "length, or call cuSPARSE.",
        when(parallelism.few_sms_active, name="few_work"): "A few SMs do nearly all of the "
        "work{here}: cut the work of the longest blocks into pieces that other blocks take over. "
        "A larger grid alone does not help.",
        when(parallelism.uneven_loops, name="loops"): "Loops run for different numbers of "
        "iterations{here}: cut long items into pieces of one size, start with the longest, or let "
        "blocks that are done fetch the next item from a counter (atomicAdd).",
        otherwise: "Give every block the same amount of work{here}: cut long items (rows, lists) "
        "into pieces of one size, or let idle blocks fetch work from a counter.",
    },
    edit=Edit(
        "Cut the few very long work items into pieces, so that all blocks end together",
        above=("the least active SM's share of the most active one's cycles", 0.9),
        is_answer=False,
        usual=17,
    ),
)
