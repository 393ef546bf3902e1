"""Occupancy limited by the block size."""

from __future__ import annotations

from keet.analysis.facts import origin, parallelism
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="occupancy_limited_block",
    family="parallelism",
    label="occupancy limited by the block size",
    meaning="The SM's limit on blocks, or blocks that are too short or do not fill it evenly, "
    "leave too few warps to hide latency.",
    how="The number of blocks that an SM can hold lets fewer warps onto it than fit; or warps are "
    "so short that blocks end about as fast as new ones start, so that the achieved occupancy "
    "stays below the theoretical one. The gain is that of covering the same waiting with more "
    "warps.",
    rules=("TheoreticalOccupancy",),
    rule_titles=("Block Size",),
    credited_rules=(
        "HighPipeUtilization",
        "IssueSlotUtilization",
        "CPIStall",
        "LaunchConfiguration",
        "TheoreticalOccupancy",
    ),
    parameters=("most_occupancy", "indirect", "leads"),
    claims=("parallelism",),
    unlike={
        "small_grid": "There are not enough blocks in the grid at all.",
        "load_imbalance": "Achieved occupancy is also low if few SMs work longer than the others.",
        "occupancy_limited_registers": "The limiter is registers per thread.",
    },
    remedies={
        when(origin.library): "Choose another algorithm or problem size of {library} for this "
        "call: its block size can't be changed.",
        when(origin.triton): "Raise num_warps, so that each program brings more warps to its SM, "
        "and let a program handle more elements.",
        when(parallelism.warps_limit, name="uneven"): "Use smaller blocks: blocks of this size do "
        "not divide the SM's warps evenly, so some stay unused.",
        when(parallelism.small_blocks, name="small"): "Use larger blocks, of four to eight warps: "
        "the SM's limit on blocks is reached before that on warps.",
        otherwise: "Choose a block size that fills the SM: larger blocks where its limit on blocks "
        "is reached first, smaller ones where whole blocks leave a part of its warps unused.",
    },
    edit=Edit(
        "Put more warps into each block, since an SM holds no more than 32 blocks",
        ruled_out="another limit than block slots",
        usual=27,
    ),
)
