"""Waiting at barriers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits, part_of
from keet.analysis.decisions.saturated import indexed_constants
from keet.analysis.facts import grid, instructions, on_chip, origin, waits
from keet.analysis.facts.waits import TREE
from keet.analysis.instruction_removal import kept_waits_by
from keet.analysis.kernel.inactive_threads import LoneThread, lone_thread
from keet.analysis.kernel.register_tiles import SHORTEST_TREE, loads_per_barrier
from keet.analysis.kernel.resident_warps import least_kept, resident_blocks
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, WITHIN_SM, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when
from keet.units import Quantity

PER_STEP = Parameter(
    5, "instructions of a step of a tree: barrier, store, two loads, sum", "judgement"
)
MOSTLY = Parameter(0.75, "accesses of such a step over their usual number", "judgement")
BARRIER_WAITS = Parameter(0.75, "share of the waiting at barriers that a fix removes", "fit")
FEW_BLOCKS = Parameter(2, "blocks per SM, beyond which they cover each other's barriers", "fit")

ONE_THREAD = "one_thread"

FINDING = FindingSpec(
    id="barrier_bound",
    family="parallelism",
    label="waiting at barriers",
    meaning="Warps spend a large part of their time waiting at block-wide barriers.",
    how="The share of warp time spent at block-wide barriers. A fixed part of it is assumed to be "
    "removable, and less where an SM holds many blocks: the others work meanwhile.",
    rules=("CPIStall",),
    credited_rules=("IssueSlotUtilization", "CPIStall", "LaunchConfiguration"),
    parameters=(BARRIER_WAITS, FEW_BLOCKS, INDIRECT),
    claims=("waiting", "instructions"),
    rests_on=("barriers",),
    labels={
        ONE_THREAD: "one thread works while its block waits",
        TREE: "steps of a reduction tree in shared memory",
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
        when(
            origin.looks_like_reduction, name="reduction", unless=(instructions.uses_shuffles,)
        ): "Reduce within warps by shuffles (__shfl_xor_sync) and across warps once, or use "
        "cub::BlockReduce{here}; let each thread add several items first.",
        when(on_chip.stages_through_shared, origin.has_async_copy, name="async_tiles"): "Keep two "
        "or more tiles in shared memory and copy the next one with cp.async while the current one "
        "is used{here}: one barrier per step is enough then, and it seldom waits.",
        when(on_chip.stages_through_shared, name="tiles"): "Keep two tiles in shared memory, and "
        "load the next one into registers while the current one is used{here}: one barrier per "
        "step is enough then.",
        when(waits.sums_by_a_tree, name="tree"): "Reduce within warps by shuffles "
        "(__shfl_xor_sync) and across warps once, or use cub::BlockReduce{here}; let each thread "
        "add several items first.",
        when(waits.uneven_loops, name="uneven"): "Warps reach the barrier at different times, "
        "because their loops differ in length{here}: share the work between barriers evenly, or "
        "use smaller blocks.",
        when(grid.large_blocks, unless=(grid.fewer_blocks_than_sms,)): "Use smaller blocks, so "
        "that fewer warps wait for each other and other blocks of the SM work meanwhile{here}; do "
        "more work between barriers.",
        otherwise: "Do more work between barriers{here}, and exchange within warps by shuffles.",
    },
    edit=Edit(
        "Do more work between block barriers, or replace them by shuffles within warps",
        below=("the percentage of warp cycles spent at barriers", 3),
        needs="the percentage of warp cycles spent at barriers",
        is_answer=False,
        usual=18,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    barrier = view.stall("barrier")
    if barrier is not None and barrier.value > 0:
        text = Sentence("Warps spend {at:.0f} of their time at block-wide barriers.", at=barrier)
        waits = kept_waits(model, ("barrier",), BARRIER_WAITS * _uncovered(view))
        constants = indexed_constants(view)
        of_barriers = 1 - constants.part if constants else 1.0
        variant, effect = "", Effect({"ADU": 1 - INDIRECT * of_barriers}, waits)
        evidence: tuple[Evidence, ...] = (barrier,)
        if steps := _tree_steps(view):  # shuffles need neither the barriers nor shared memory
            units = dict.fromkeys(("issue", "ALU", "L1", "LSU", "ADU"), 1 - steps)
            others = tuple(state for state in model.waiting if state not in MEMORY_WAITS)
            waits = kept_waits(model, others, steps) | kept_waits(model, ("barrier",), MOST_REMOVED)
            effect = Effect(units, waits)
            part, label = Quantity(100 * steps, "%"), "steps of a tree in shared memory"
            share = view.ledger.derived("tree_share", part, label)
            words = "About {share:.0f} of the instructions are steps of a tree in shared memory: a "
            words += "barrier, a store, two loads and a sum. Warps spend {at:.0f} of their time at "
            words += "the barriers."
            variant, text = TREE, Sentence(words, at=barrier, share=share)
            evidence = (barrier, share)
        if lone := lone_thread(view):
            variant, effect = ONE_THREAD, _shared_out(view, model, lone)
            part, label = Quantity(100 * lone.executed, "%"), "executed by one thread per block"
            share = view.ledger.derived("lone_thread_share", part, label)
            words = "Warps spend {at:.0f} of their time at block-wide barriers, mostly while one "
            words += "thread of their block executes {share:.0f} of all instructions."
            text, evidence = Sentence(words, at=barrier, share=share), (barrier, share)
        places = partial(_lone_places, view, lone) if lone else view.barrier_places
        yield Candidate(FINDING.id, text, effect, evidence, places, "assumed", variant)


def _lone_places(view: LaunchView, lone: LoneThread) -> tuple[Place, ...]:
    """Lines by the instructions that one thread executes; without lines, the barrier."""
    if view.code is None:
        return view.barrier_places()
    program = view.code.program
    runs = {program.code[each].address: program.counts[each] for each in lone.positions}
    return view.places_by("instructions of one thread", runs) or view.barrier_places()


def _shared_out(view: LaunchView, model: TimeModel, lone: LoneThread) -> Effect:
    """All threads of the block do a part of what one of them does now."""
    kept = 1 - MOST_REMOVED * lone.executed
    gone = dict.fromkeys(lone.positions, float(MOST_REMOVED))
    waits = kept_waits_by(view, model, gone, 1 - kept)
    waits["barrier"] = 1 - MOST_REMOVED * lone.waiting
    return Effect(dict.fromkeys(WITHIN_SM, kept), waits)


def _uncovered(view: LaunchView) -> float:
    """How far other blocks of an SM do not cover the waiting at barriers, 0 to 1: they do not wait
    at the barriers of this one."""
    blocks = resident_blocks(view)
    if blocks is None:
        return 1.0
    return min(1.0, FEW_BLOCKS / float((blocks.given or blocks.fit).value))


def _tree_steps(view: LaunchView) -> float:
    """Share of the instructions that are steps of a reduction tree in shared memory: between two
    barriers, a value is stored and two are loaded, by fewer and fewer threads. 0 if it is no such
    tree."""
    barriers, stores, loads = (part_of(view, opcode) for opcode in ("BAR", "STS", "LDS"))
    is_tree = (
        MOSTLY * barriers <= stores <= barriers / MOSTLY
        and 2 * MOSTLY * stores <= loads <= 2 * stores / MOSTLY
    )
    if not is_tree or part_of(view, "SHFL") or loads_per_barrier(view) / 2 > SHORTEST_TREE:
        return 0.0
    return min(MOST_REMOVED, PER_STEP * barriers)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    if not view.stalls or view.stalls.get("barrier", 0.0) >= least_kept():
        return None
    share = view.stall("barrier")
    if share is None:
        return Sentence("No warp waits at barriers."), ()
    text = Sentence("Warps spend {share:.1f} of their time waiting at barriers.", share=share)
    return text, (share,)
