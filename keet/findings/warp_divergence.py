"""Warps with inactive threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import MEMORY_WAITS, Candidate
from keet.analysis.facts import grid, origin, waits, warps
from keet.analysis.kernel.inactive_threads import WARP, InactiveThreads, inactive_threads
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.place import Place
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.evidence import Sentence, constant
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

CONVERGED = Parameter(
    0.85, "exponent of the active threads' share: how much divergence can be removed", "fit"
)

FINDING = FindingSpec(
    id="warp_divergence",
    family="instructions",
    label="warps with inactive threads",
    meaning="Instructions run with only a part of a warp's threads: threads take different paths, "
    "have an index outside of the data, or the block does not fill its warps.",
    how="The average number of active threads per executed instruction is compared with the 32 of "
    "a warp. The cause is found from the machine code: threads outside of the data, blocks that "
    "do not fill a warp, or paths that differ within a warp.",
    rules=("ThreadDivergence",),
    rule_titles=("Block Size",),
    credited_rules=("CPIStall", "LaunchConfiguration", "ThreadDivergence"),
    parameters=(CONVERGED, INDIRECT),
    claims=("instructions", "redundant"),
    unlike={
        "load_imbalance": "Uneven work between warps or blocks leaves SMs idle, with full warps.",
        "uncoalesced_global": "Scattered addresses of full warps are a matter of memory, not of "
        "control flow.",
    },
    remedies={
        when(origin.library, warps.threads_outside, name="library_outside"): "Give {library} "
        "sizes that fill its tiles, or batch small problems into one call: threads whose index "
        "lies outside of the data exit at once.",
        when(origin.library): "Give {library} inputs whose neighbouring items take the same path: "
        "sort or group them by length or kind first.",
        when(origin.triton): "Group the work so that all elements of a program take the same "
        "path{here}, and mask off fewer of them: block sizes near the real extents.",
        when(warps.partial_warps, grid.warp_sized_blocks, name="small_blocks"): "Use blocks of "
        "several whole warps, such as four: a block with fewer threads than a warp still occupies "
        "a whole warp, and its other lanes stay empty.",
        when(warps.partial_warps): "Make the block size a multiple of the warp size: the last "
        "warp of each block runs with a part of its threads.",
        when(warps.threads_outside, name="outside"): "Let the blocks fit the data{here}: the "
        "index of these threads lies outside of it. Choose a block shape whose sides divide the "
        "extents, or number the elements in one dimension and compute the coordinates from that, "
        "so that only the last warp is partly filled.",
        when(origin.looks_like_sparse, name="sparse"): "Threads of a warp work on rows of "
        "different length{here}: give each row a warp or a group of lanes, or sort rows by length.",
        when(warps.inactive_in_routines, name="routines"): "Some threads take the slow path of a "
        "routine{here}, such as division or a function of a large or denormal argument: use the "
        "fast variant (__fdividef, -ftz=true), or collect the rare cases and handle them together.",
        when(waits.uneven_loops, name="loops"): "Threads leave the loop after different numbers "
        "of iterations{here}: let a warp work on one item together, group items of equal length, "
        "or let lanes that are done fetch the next item.",
        when(warps.different_paths, name="paths"): "Sort or group the work so that the threads of "
        "a warp take the same path{here}, or keep the branches short: compute what both paths "
        "share outside of them.",
        otherwise: "Let more threads of each warp work{here}: group the work so that they take "
        "the same path, and choose blocks that fit the data, so that few threads lie outside of "
        "it.",
    },
    edit=Edit(
        "Keep the threads of a warp on one path, so that no slow path runs for a few lanes",
        above=("the number of threads per instruction", 31),
        unlike=("sfu_bound",),
        usual=5,
    ),
)

_WITHIN_SM = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1")
_WHY = {
    "block_size": ": the threads of a block do not fill its last warp",
    "outside": ": most inactive threads exit at a bounds check, before anything is loaded",
    "paths": ": the threads of a warp take different paths",
}


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    threads, block = view.get("active_threads_per_warp"), view.get("block_size")
    if block is not None and block.value >= WARP:
        block = None  # it fills a warp
    threads = block if threads is None else threads
    if threads is None or not 0 < threads.value < WARP:
        return
    inactive = inactive_threads(view)
    cause = inactive.cause if inactive else ""
    on_average = "On average, {threads:.1f}s of a warp are active per instruction{why}."
    text = Sentence(on_average, threads=threads, why=_WHY.get(cause, ""))
    if block is not None:
        too_small = "A block has {block:.0f}s, fewer than the {warp} of a warp."
        text = Sentence(too_small, block=block, warp=constant(WARP, "", "threads of a warp"))
    kept = (threads.value / WARP) ** CONVERGED
    # Divergent paths run one after the other and make warps wait longer. Empty lanes do not.
    shorter = 0.0 if cause in ("block_size", "outside") else INDIRECT
    waits = 1 - shorter * (1 - kept) * (1 - model.waiting_for(*MEMORY_WAITS))
    effect = Effect(dict.fromkeys(_WITHIN_SM, kept), every_wait=waits)
    places = partial(_places, view, inactive)
    yield Candidate(FINDING.id, text, effect, (threads,), places, "assumed", cause)


def _places(view: LaunchView, inactive: InactiveThreads | None) -> tuple[Place, ...]:
    """The check at which threads exit; else the lines that run with few threads."""
    of = "inactive threads"
    if inactive is not None and inactive.cause == "block_size":
        return ()
    if inactive is not None and inactive.cause == "outside":
        check = view.launch.locate([inactive.check] if inactive.check is not None else [])
        return tuple(Place(*line, inactive.outside, of) for line in check.values())
    # Old reports count only threads whose predicate is on.
    threads = view.table.column("thread_inst_executed") or view.table.threads
    executed = view.table.executed
    if threads is None or executed is None:
        return ()
    return view.places_by(of, {at: WARP * n - threads.get(at, 0) for at, n in executed.items()})


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    threads = view.get("active_threads_per_warp")
    if threads is None or threads.value < WARP * MOST_REMOVED:
        return None
    text = "On average, {threads:.1f}s of a warp are active per instruction."
    return Sentence(text, threads=threads), (threads,)
