"""Waiting at barriers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import Candidate, kept_waits, kept_waits_by, removed_part
from keet.analysis.decisions.saturated import indexed_constants
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.analysis.parallelism.block_steps import BlockSteps, block_steps
from keet.analysis.parallelism.inactive_threads import lone_thread
from keet.analysis.parallelism.resident_warps import least_kept, resident_blocks
from keet.analysis.parameters import NOTABLE_PART, Parameter
from keet.analysis.remedy_conditions import grid, instructions, on_chip, origin, waits
from keet.analysis.remedy_conditions.waits import STEPS
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, WITHIN_SM, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

BARRIER_WAITS = Parameter(0.75, "share of the waiting at barriers that a fix removes", "fit")
FEW_BLOCKS = Parameter(2, "blocks per SM, beyond which they cover each other's barriers", "fit")

ONE_THREAD = "one_thread"

FINDING = FindingSpec(
    id="barrier_bound",
    family="parallelism",
    label="waiting at barriers",
    meaning="Warps spend a large part of their time waiting at block-wide barriers.",
    how="The share of warp time spent at block-wide barriers. A fixed part of it is assumed to be "
    "removable, and less where an SM holds many blocks: the others work meanwhile. The machine "
    "code shows steps in which a part of the block's threads has work: a warp that has the whole "
    "item executes fewer of their instructions, and does not wait at barriers.",
    rules=("CPIStall",),
    credited_rules=("IssueSlotUtilization", "CPIStall", "LaunchConfiguration"),
    parameters=(BARRIER_WAITS, FEW_BLOCKS, INDIRECT),
    claims=("waiting", "instructions"),
    rests_on=("barriers",),
    labels={
        ONE_THREAD: "one thread works while its block waits",
        STEPS: "steps in which few threads of a block work",
    },
    unlike={
        "latency_bound": "If all warps of a block wait for loads in front of the barrier, the "
        "loads are the cause; both findings may then be reported.",
        "load_imbalance": "Uneven work between blocks does not show at barriers, which are within "
        "a block.",
    },
    remedies={
        when(origin.library_template): "Choose more stages, or a smaller thread-block tile so that "
        "several blocks share an SM, in the template arguments of {library}: others work while "
        "the warps of one wait.",
        when(origin.library): "Choose another algorithm or problem size of {library} for this "
        "call: its barriers can't be changed.",
        when(origin.triton): "Reduce across the program less often{here}: accumulate element by "
        "element in the loop and call tl.sum or tl.max once after it, or use fewer warps "
        "(num_warps).",
        when(grid.warp_sized_blocks, name="one_warp"): "A block is one warp: replace "
        "__syncthreads by __syncwarp, and exchange values by shuffles{here}.",
        when(waits.few_warps_work, waits.waits_for_other_blocks, name="look_back"): "A few warps "
        "of each block wait for results of other blocks, and the rest of the block waits for "
        "these warps{here}: let each thread handle several items, so that there are fewer blocks "
        "and fewer such waits. Smaller blocks would increase them.",
        when(waits.one_thread_works, name="one_thread"): "One thread works{here} while the rest of "
        "its block waits at a barrier: spread its loop over all threads, and combine their partial "
        "results by shuffles (cub::BlockReduce, or cub::BlockScan where each step needs the one "
        "before).",
        when(
            origin.looks_like_reduction, name="reduction", unless=(instructions.uses_shuffles,)
        ): "Reduce within warps by shuffles (__shfl_xor_sync) and across warps once, or use "
        "cub::BlockReduce{here}; let each thread add several items first.",
        when(waits.few_threads_in_steps, name=STEPS): "Give each item to one warp, or to a few of "
        "its lanes, with several values in the registers of each{here}, and exchange them by "
        "shuffles. This removes the barriers and the checks in idle threads. Where an item needs "
        "more threads, work within warps first and across warps once.",
        when(waits.few_warps_work, name="few_warps"): "Only a few warps of each block work before "
        "the barrier, and the others wait for them{here}: spread that step over all warps, let "
        "each thread handle several items so that it is done less often, or start no more warps "
        "than have work.",
        when(on_chip.uses_async_copy, name="pipeline"): "Let each stage of the pipeline have a "
        "barrier of its own (cuda::pipeline, cuda::barrier) and add stages{here}, so that warps "
        "wait only for the stage that they need next.",
        when(origin.looks_like_scan, name="scan", unless=(instructions.uses_shuffles,)): "Scan "
        "within warps by shuffles (__shfl_up_sync) and across warps once, or use "
        "cub::BlockScan{here}; let each thread scan several items first.",
        when(on_chip.stages_through_shared, origin.has_async_copy, name="async_tiles"): "Keep two "
        "or more tiles in shared memory and copy the next one with cp.async while the current one "
        "is used{here}: one barrier per step is enough then, and it seldom waits.",
        when(on_chip.stages_through_shared, name="tiles"): "Keep two tiles in shared memory, and "
        "load the next one into registers while the current one is used{here}: one barrier per "
        "step is enough then.",
        when(waits.uneven_loops, name="uneven"): "Warps reach the barrier at different times, "
        "because their loops differ in length{here}: share the work between barriers evenly, or "
        "use smaller blocks.",
        when(grid.large_blocks, unless=(grid.fewer_blocks_than_sms,)): "Use smaller blocks, so "
        "that fewer warps wait for each other and other blocks of the SM work meanwhile{here}; do "
        "more work between barriers.",
        otherwise: "Do more work between barriers{here}, and exchange within warps by shuffles.",
    },
    edit=Edit(
        "Do more work between block barriers, or replace them by shuffles within warps", usual=18
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    barrier, code = view.stall("barrier"), view.code
    if barrier is None or barrier.value <= 0:
        return
    words = "Warps spend {at:.0f} of their time at block-wide barriers."
    cited: dict[str, Evidence] = {}
    # Other blocks of an SM do not wait at the barriers of this one.
    blocks, uncovered = resident_blocks(view), 1.0
    if blocks is not None:
        uncovered = min(1.0, FEW_BLOCKS / float((blocks.given or blocks.fit).value))
    waits = kept_waits(model, ("barrier",), BARRIER_WAITS * uncovered)
    constants = indexed_constants(view)
    of_barriers = 1 - constants.part if constants else 1.0
    variant, doubt, effect = "", 1.0, Effect({"ADU": 1 - INDIRECT * of_barriers}, waits)
    places: Callable[[], tuple[Place, ...]] = view.barrier_places
    if code is not None and (steps := block_steps(view)):
        effect, doubt = _by_few_warps(view, code, model, steps, effect), 1 - steps.idle
        if steps.idle >= NOTABLE_PART:
            metrics = ("inst_executed", "thread_inst_executed_pred_on")
            counts = [*filter(None, map(view.get, metrics))]
            label = "executed in steps in which a part of the block's threads has work"
            share = view.share("steps_share", steps.executed, label, *counts[:1])
            label = "of the block's threads that have work in such a step"
            active = view.share("steps_threads", steps.threads, label, *counts)
            words = "{share:.0f} of the instructions are executed in steps between barriers in "
            words += "which {active:.0f} of the block's threads have work; the others execute "
            words += "conditions and wait. Warps spend {at:.0f} of their time at the barriers."
            variant, cited = STEPS, {"share": share, "active": active}
    if code is not None and (lone := lone_thread(view)):
        # All threads of the block do a part of what one of them does now.
        kept = 1 - MOST_REMOVED * lone.executed
        gone = dict.fromkeys(lone.positions, float(MOST_REMOVED))
        waits = kept_waits_by(view, model, gone, 1 - kept)
        waits["barrier"] = 1 - MOST_REMOVED * lone.waiting
        variant, effect, doubt = ONE_THREAD, Effect(dict.fromkeys(WITHIN_SM, kept), waits), 1.0
        label = "executed by one thread per block"
        cited = {"share": view.share("lone_thread_share", lone.executed, label)}
        words = "Warps spend {at:.0f} of their time at block-wide barriers, mostly while one "
        words += "thread of their block executes {share:.0f} of all instructions."
        places = partial(_lone_places, view, code.executions(lone.positions))
    yield Candidate(
        Sentence(words, at=barrier, **cited),
        effect,
        (barrier, *cited.values()),
        places,
        basis="assumed",
        variant=variant,
        doubt=doubt,
    )


def _lone_places(view: LaunchView, executions: Mapping[int, int]) -> tuple[Place, ...]:
    """Lines by the instructions that one thread executes; without lines, the barrier."""
    return view.places_by("instructions of one thread", executions) or view.barrier_places()


_PIPES: Mapping[str, Collection[str]] = {
    "L1": BY_PIPE["LSU"],
    "LSU": BY_PIPE["LSU"],
    "ADU": ("BAR",),
    "XU": BY_PIPE["XU"],
    "FP64": BY_PIPE["FP64"],
}
"""Opcodes by whose executions these units have less work."""


def _by_few_warps(
    view: LaunchView, code: MachineCode, model: TimeModel, steps: BlockSteps, fewer: Effect
) -> Effect:
    """As many warps as have work execute the steps. `fewer`: what the fix of the other barriers
    leaves."""
    removed = {unit: removed_part(view, steps.gone, unit) for unit in ("issue", "FMA", "ALU")}
    for unit, opcodes in _PIPES.items():
        removed[unit] = code.part_gone(code.with_opcodes(opcodes), steps.gone)
    units = {unit: 1 - min(MOST_REMOVED, part) for unit, part in removed.items()}
    of_barriers = (1 - fewer.units["ADU"]) / INDIRECT  # the rest are loads of constants
    units["ADU"] = min(fewer.units["ADU"], 1 - of_barriers * (1 - units["ADU"]))
    waits = kept_waits_by(view, model, steps.gone, removed["issue"])
    others = (1 - steps.waiting) * fewer.waits["barrier"]
    waits["barrier"] = steps.waiting * (1 - MOST_REMOVED) + others
    return Effect(units, waits)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    if not view.stalls or view.stalls.get("barrier", 0.0) >= least_kept():
        return None
    share = view.stall("barrier")
    if share is None:
        return absence("No warp waits at barriers.")
    return absence("Warps spend {share:.1f} of their time waiting at barriers.", share=share)
