"""Occupancy limited by shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.occupancy import limited_occupancy, not_limited_by
from keet.analysis.hotspots.source_calls import beside, chosen_for, in_what_ran, launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import MOST_OCCUPANCY
from keet.analysis.parameters import MAJORITY
from keet.analysis.remedy_conditions import grid, on_chip, origin
from keet.analysis.time_model import INDIRECT, LEADS, TimeModel
from keet.documents.finding import Place
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="occupancy_limited_shared",
    family="parallelism",
    label="occupancy limited by shared memory",
    meaning="Each block uses so much shared memory that too few warps fit on an SM to hide "
    "latency.",
    how="Shared memory lets fewer blocks onto an SM than warps would, the theoretical occupancy is "
    "below 100%, and there is more than one wave of blocks. The gain is that of covering the same "
    "waiting with as many more warps as the next limit of the SM leaves room for. Matrix products "
    "are left out, because they reuse data from their tiles, unless an SM holds a single block "
    "that does not copy asynchronously: it loads, computes and stores one after the other.",
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
    unlike={
        "occupancy_limited_registers": "The limiter is registers per thread.",
        "occupancy_limited_block": "The limiter is the number of blocks per SM, or blocks end as "
        "fast as new ones start.",
        "latency_bound": "More independent operations per thread hide the same waiting with as "
        "many warps.",
    },
    remedies={
        when(origin.library_template): "Choose a smaller thread-block tile or fewer stages in the "
        "template arguments of {library}: both take less shared memory. Large tiles with few "
        "warps are often its fastest, so measure both.",
        when(origin.library_launch, name="library"): "Choose an algorithm or tile size of "
        "{library} that uses less shared memory: large tiles with few warps are often its "
        "fastest, so measure both.",
        when(origin.triton): "Use fewer stages (num_stages) or fewer elements per program{here}, "
        "so that it needs less shared memory.",
        when(grid.shared_limit, grid.carveout_below_maximum, name="carveout"): "Ask for more of "
        "the SM's memory as shared memory: cudaFuncSetAttribute with "
        "cudaFuncAttributePreferredSharedMemoryCarveout. Then use less of it per block{here}.",
        when(grid.shared_limit, on_chip.uses_async_copy, name="stages"): "Use fewer stages of "
        "asynchronous copies or smaller tiles{here}, as long as enough bytes stay in flight.",
        when(grid.shared_limit, grid.small_blocks, name="small_blocks"): "Let more threads share "
        "what is in shared memory{here}: larger blocks on the same tile, or less shared memory "
        "per thread (narrower types, registers).",
        otherwise: "Use less shared memory per block{here}: smaller tiles, narrower types, or "
        "registers.",
    },
    edit=Edit(
        "Cut the shared memory per block, so that more blocks fit on an SM at a time", usual=21
    ),
)


_MOST_ARRAYS = 5
"""Places of arrays."""


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    return limited_occupancy(model, "shared_memory", partial(_places, view))


def _places(view: LaunchView) -> tuple[Place, ...]:
    """The arrays; and the launch, if it is what gives them their size."""
    arrays = in_what_ran(view, view.declared("__shared__", "shared arrays"))[:_MOST_ARRAYS]
    dynamic, every = view.value("shared_memory_dynamic"), view.value("shared_memory_per_block")
    if dynamic and every and dynamic > MAJORITY * every:
        sized = tuple(array for array in arrays if "extern" in view.text_of(array))
        return beside((sized or arrays)[:1], *launch_places(view))
    return beside(arrays, *chosen_for(view, arrays))


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    return not_limited_by(view, "shared_memory")
