"""Occupancy limited by registers."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.occupancy import limited_occupancy, not_limited_by
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import MOST_OCCUPANCY
from keet.analysis.remedy_conditions import grid, origin
from keet.analysis.time_model import INDIRECT, LEADS, TimeModel
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="occupancy_limited_registers",
    family="parallelism",
    label="occupancy limited by registers",
    meaning="Each thread uses so many registers that too few warps fit on an SM to hide latency.",
    how="Registers let fewer blocks onto an SM than warps would, the theoretical occupancy is "
    "below 100%, and there is more than one wave of blocks. The gain is that of covering the same "
    "waiting with as many more warps as the next limit of the SM leaves room for. Where shared "
    "memory limits as much, both are named, and less is expected. Matrix products are left out, "
    "because they reuse data from their registers.",
    rules=("TheoreticalOccupancy", "Occupancy"),
    credited_rules=(
        "HighPipeUtilization",
        "IssueSlotUtilization",
        "CPIStall",
        "TheoreticalOccupancy",
    ),
    parameters=(MOST_OCCUPANCY, INDIRECT, LEADS),
    claims=("parallelism",),
    rests_on=("occupancy",),
    is_general=True,
    labels={"registers_and_shared": "occupancy limited by registers and shared memory"},
    unlike={
        "occupancy_limited_shared": "The limiter is shared memory per block.",
        "occupancy_limited_block": "The limiter is the number of blocks per SM, or blocks end as "
        "fast as new ones start.",
        "latency_bound": "More independent operations per thread hide the same waiting with as "
        "many warps.",
        "local_memory_spill": "Too few registers cause spills.",
    },
    without_cases=("curand",),
    remedies={
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(origin.library_elementwise): "The registers of this kernel of {library} can't be "
        "changed: fuse the operation with its neighbours (torch.compile), so that more work is "
        "done per load and launch.",
        when(origin.library_template): "Choose a smaller warp tile or more warps per block in the "
        "template arguments of {library}, so that a thread holds fewer results. Large tiles with "
        "few warps are often its fastest, so measure both.",
        when(origin.library): "Choose another algorithm, tile size or data type of {library} for "
        "this call: its registers can't be changed. Large tiles with few warps are often its "
        "fastest.",
        when(origin.library_with_function): "Use fewer registers in the function that {library} "
        "runs{here}: fewer live values, less unrolling, and rare paths in a function of their own.",
        when(origin.triton): "Let a program handle fewer elements or use more warps (num_warps), "
        "so that each thread holds fewer values, or set maxnreg and watch for spills.",
        when(origin.openacc): "Split the loop into kernels with fewer live values, use a smaller "
        "vector_length, or compile with -gpu=maxregcount and watch for spills.",
        when(origin.kokkos): "Set Kokkos::LaunchBounds in the execution policy and watch for "
        "spills, or use a smaller team size and fewer live values.",
        when(grid.registers_limit, grid.smaller_blocks_fit_more, name="smaller_blocks"): "Use "
        "smaller blocks: the registers of an SM then hold more warps, because blocks of this size "
        "leave a part of them unused. Then set launch bounds (__launch_bounds__) and watch for "
        "spills.",
        when(grid.registers_limit, grid.launch_bounds_set, name="bounds_set"): "Launch bounds are "
        "set already: keep fewer values alive (fewer items per thread, less unrolling, values "
        "computed again), move rare paths into a separate kernel, or ask for one more block per "
        "SM and watch for spills.",
        when(grid.registers_limit, name="bounds"): "Use fewer registers: move rare paths into a "
        "separate kernel, shorten live ranges, unroll less, or set launch bounds "
        "(__launch_bounds__ with the blocks per SM) and watch for spills.",
        otherwise: "Use fewer registers: move rare paths into a separate kernel, shorten live "
        "ranges, and unroll less.",
    },
    edit=Edit("Cut the registers per thread, so that more blocks fit on an SM at a time", usual=8),
)


def candidates(_: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    return limited_occupancy(model, "registers", if_tied="registers_and_shared")


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    return not_limited_by(view, "registers")
