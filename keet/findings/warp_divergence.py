"""Warps with inactive threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import (
    MEMORY_WAITS,
    MIO_WAITS,
    Candidate,
    chance_by,
    kept_waits,
    kept_waits_by,
)
from keet.analysis.decisions.atomics import beside_retries, retried
from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.parallelism.inactive_threads import (
    FOUND_OUT,
    JOINED,
    REGROUPING,
    WARP,
    InactiveThreads,
    empty_lanes,
    inactive_threads,
    lone_thread,
    short_path_part,
    uneven_trips,
)
from keet.analysis.parallelism.resident_warps import grid_shape, idle_warps, shortness
from keet.analysis.parameters import MAJORITY, NOTABLE_PART, Parameter
from keet.analysis.remedy_conditions import grid, origin, waits
from keet.analysis.remedy_conditions.waits import IDLE_WARPS
from keet.analysis.time_model import (
    BLOCK_STARTS,
    INDIRECT,
    MOST_REMOVED,
    SHARPNESS,
    WITHIN_SM,
    Effect,
    TimeModel,
)
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

CONVERGED = Parameter(
    0.85, "exponent of the active threads' share: how much divergence can be removed", "fit"
)
DIVERGED = Parameter(
    0.4, "share of inactive threads at which half of the divergent kernels can be mended", "fit"
)

FINDING = FindingSpec(
    id="warp_divergence",
    family="instructions",
    label="warps with inactive threads",
    meaning="Instructions run with only a part of a warp's threads: threads take different paths, "
    "have an index outside of the data, or the block does not fill its warps.",
    how="The average number of active threads per executed instruction is compared with the 32 of "
    "a warp. The cause is found from the machine code: threads outside of the data, blocks that "
    "do not fill a warp, or paths that differ within a warp. Of paths of few instructions, what it "
    "costs to hand their items to other threads is left. A loop that threads leave at different "
    "times takes a warp as many iterations as the thread that needs most: with equal ones, it "
    "executes less and waits less, also for memory. Warps that execute no memory access "
    "are counted by the executed instructions.",
    rules=("ThreadDivergence",),
    rule_titles=("Block Size",),
    credited_rules=("CPIStall", "LaunchConfiguration", "ThreadDivergence"),
    parameters=(CONVERGED, DIVERGED, FOUND_OUT, REGROUPING, JOINED, INDIRECT),
    claims=("instructions", "redundant"),
    rests_on=("lanes",),
    is_general=True,
    labels={"idle_warps": "warps without work"},
    without_cases=("idle_warps", "outside", "curand"),
    unlike={
        "load_imbalance": "Uneven work between warps or blocks leaves SMs idle, with full warps.",
        "uncoalesced_global": "Scattered addresses of full warps are a matter of memory, not of "
        "control flow.",
    },
    remedies={
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(origin.library, waits.threads_outside, name="library_outside"): "Give {library} "
        "sizes that fill its tiles, or batch small problems into one call: threads whose index "
        "lies outside of the data exit at once.",
        when(origin.library): "Give {library} inputs whose neighbouring items take the same path: "
        "sort or group them by length or kind first.",
        when(waits.without_work, name="idle_warps"): "Launch as many "
        "threads as there are elements{here}: most warps exit without a load or a store. Compute "
        "the grid from the size of the data, in one dimension where the data has one, and check "
        "that no element is computed by several threads.",
        when(origin.triton): "Group the work so that all elements of a program take the same "
        "path{here}, and mask off fewer of them: block sizes near the real extents.",
        when(
            grid.one_thread_blocks
        ): "Use blocks of several whole warps, such as four, and let each "
        "thread do a part of the work (index blockIdx.x * blockDim.x + threadIdx.x). If the "
        "steps depend on each other, run several independent problems at a time, one per thread.",
        when(waits.partial_warps, grid.warp_sized_blocks, name="small_blocks"): "Use blocks of "
        "several whole warps, such as four: a block with fewer threads than a warp still occupies "
        "a whole warp, and its other lanes stay empty.",
        when(waits.partial_warps): "Make the block size a multiple of the warp size: the last "
        "warp of each block runs with a part of its threads.",
        when(waits.threads_outside, name="outside"): "Let the blocks fit the data{here}: the "
        "index of these threads lies outside of it. Choose a block shape whose sides divide the "
        "extents, or number the elements in one dimension and compute the coordinates from that, "
        "so that only the last warp is partly filled.",
        when(origin.looks_like_sparse, name="sparse"): "Threads of a warp work on rows of "
        "different length{here}: give each row a warp or a group of lanes, or sort rows by length.",
        when(waits.inactive_in_routines, name="routines"): "Some threads take the slow path of a "
        "routine{here}, such as division or a function of a large or denormal argument: use the "
        "fast variant (__fdividef, -ftz=true), or collect the rare cases and handle them together.",
        when(waits.uneven_loops, name="loops"): "Threads leave the loop after different numbers "
        "of iterations{here}: let a warp work on one item together, group items of equal length, "
        "or let lanes that are done fetch the next item.",
        when(waits.different_paths, name="paths"): "Sort or group the work so that the threads of "
        "a warp take the same path{here}, or keep the branches short: compute what both paths "
        "share outside of them.",
        otherwise: "Let more threads of each warp work{here}: group the work so that they take "
        "the same path, and choose blocks that fit the data, so that few threads lie outside of "
        "it.",
    },
    edit=Edit(
        "Keep the threads of a warp on one path, so that no slow path runs for a few lanes", usual=5
    ),
)

_WORD, _SECTOR = 4, 32
"""Bytes."""
_WHY = {
    "outside": ": most inactive threads exit at a bounds check, before anything is loaded",
    "paths": ": the threads of a warp take different paths",
}


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    yield from _empty_lanes(view, model)
    yield from _idle_warps(view)
    threads = view.get("active_threads_per_warp")
    inactive = inactive_threads(view)
    cause = inactive.cause if inactive else ""
    if threads is None or not 0 < threads.value < WARP or cause == "block_size":
        return
    on_average = "On average, {threads:.1f}s of a warp are active per instruction{why}."
    text = Sentence(on_average, threads=threads, why=_WHY.get(cause, ""))
    evidence: tuple[Evidence, ...] = (threads,)
    active, share = float(threads.value), 1.0
    if beside := beside_retries(view):
        shown, share = beside.threads, beside.share
        text = Sentence(
            "{text} Without the retries of compare-and-swap loops, which contended atomics cause, "
            "{shown:.1f}s are active.",
            text=text,
            shown=shown,
        )
        evidence, active = (threads, shown), float(shown.value)
    elif (lone := lone_thread(view)) and lone.executed < 1:  # barriers are its finding
        share = 1 - lone.executed
        active = min(WARP, (active - lone.executed) / share)
        label = "threads active where not one of the block works alone"
        shown = view.derived("threads_beside_lone", active, label, unit="thread")
        words = "{text} Without the part in which one thread works while its block waits at a "
        words += "barrier, {shown:.1f}s are active."
        text, evidence = Sentence(words, text=text, shown=shown), (threads, shown)
    if cause != "outside":  # regrouping the items of short paths costs as much as it saves
        active += (WARP - active) * short_path_part(view)
    lost = 1 - active / WARP
    # More active threads per instruction, in this share of the instructions.
    trips = uneven_trips(view)
    of_paths = min(1.0, active / WARP / trips.even) ** CONVERGED
    kept, paths = 1 - share * (1 - trips.executed * of_paths), 1 - share * (1 - of_paths)
    gone = {position: 1 - left for position, left in trips.left.items()}
    waits = kept_waits_by(view, model, gone, 1 - trips.executed) if gone else {}
    every = 1 - INDIRECT * (1 - paths) * (1 - model.waiting_for(*MEMORY_WAITS))
    effect, by_loops = Effect(dict.fromkeys(WITHIN_SM, kept), waits, every), 0.0
    if cause == "outside":  # empty lanes do not make warps wait longer
        effect = Effect(effect.units)
    elif lost > 0:
        by_loops = min(1.0, (1 - uneven_trips(view).even) / lost)
        text, shown_loops = _with_loops(view, model, text, effect)
        evidence = (*evidence, *shown_loops)
    places = partial(_places, view, inactive)
    # Threads differ a little in most code. Warps that are nearly empty run a path of few threads.
    doubt = 1 - chance_by(share * lost, DIVERGED)
    doubt *= 1 - MAJORITY * by_loops  # uneven loops show it better than paths
    if cause == "outside" and inactive is not None:  # they are counted at the check
        doubt = 1 - inactive.outside
    yield Candidate(text, effect, evidence, places, basis="assumed", variant=cause, doubt=doubt)


def _with_loops(
    view: LaunchView, model: TimeModel, text: Sentence, effect: Effect
) -> tuple[Sentence, tuple[Evidence, ...]]:
    """What equal numbers of iterations would save: more than full warps alone, where warps wait in
    such loops."""
    trips = uneven_trips(view)
    executed, ideal = 1 - trips.executed, 1 - trips.even
    waiting = sum(
        part * (1 - effect.waits.get(state, 1.0)) for state, part in model.waiting.items()
    )
    if max(executed, waiting) < NOTABLE_PART:
        return text, ()
    even = view.share("loops_even", ideal, "instructions that equal numbers of iterations save")
    label = "instructions that regrouping the iterations saves"
    regrouped = view.share("loops_executed", executed, label)
    label = "waiting of warps that regrouping the iterations saves"
    waits = view.share("loops_waiting", waiting, label)
    shown: tuple[Evidence, ...] = (even, regrouped, waits)
    words = (
        "{text} They leave loops after different numbers of iterations: with equal numbers, warps "
        "would execute {even:.0f} fewer instructions"
    )
    if f"{even:.0f}" == f"{regrouped:.0f}":
        words, shown = words + " and wait {waiting:.0f} less.", (even, waits)
    else:
        words += (
            ". How long an item takes shows only in the loop: regrouping saves about "
            "{executed:.0f} of the instructions and {waiting:.0f} of the waiting."
        )
    return Sentence(words, text=text, even=even, executed=regrouped, waiting=waits), shown


def _idle_warps(view: LaunchView) -> Iterator[Candidate]:
    """Warps that end without a memory access: what they execute is waste."""
    idle = idle_warps(view)
    if idle is None:
        return
    kept = 1 - min(MOST_REMOVED, idle.wasted)
    # They neither access memory nor compute on data.
    busy = [unit for unit in WITHIN_SM if unit not in ("LSU", "L1", "FP64")]
    effect = Effect(dict.fromkeys(busy, kept), every_wait=kept)
    words = "At least {share:.0f} {what}: they have no element to work on."
    text = Sentence(words, share=idle.share, what=idle.share.label)
    shown = (idle.share,)
    yield Candidate(
        text, effect, shown, partial(launch_places, view), basis="assumed", variant=IDLE_WARPS
    )


def _empty_lanes(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Lanes without a thread: the launch shape alone shows them."""
    empty = empty_lanes(view)
    if empty is None:
        return
    block, kept = empty.block, empty.filled
    shape = grid_shape(view)
    if shape is not None and shape.spread < 1:
        return  # idle lanes and idle SMs are one finding: a grid with too few threads
    # Full warps are fewer, and so are their rounds if not all of them fit at a time.
    rounds = max(1.0, view.value("waves_per_sm") or 1.0)
    units = {**dict.fromkeys(WITHIN_SM, kept), **_fewer_requests(kept)}
    # Warps wait for the SM's units as far as these are busy, and full warps load them less.
    busy = max((model.loads.get(unit, 0.0) for unit in WITHIN_SM), default=0.0)
    queues = kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), (1 - kept) * busy**SHARPNESS)
    effect = Effect(units, queues, every_wait=max(1.0, rounds * kept) / rounds)
    if block.value == 1:
        # Serial code: with more threads, each has a part of its steps.
        effect = Effect(_fewer_requests(kept), longest_sm=kept)
    # A very short kernel mostly waits for its first data; full warps would wait too.
    likelihood = 1 - INDIRECT * shortness(view, model)
    cause, places = "block_size", partial(launch_places, view)
    yield Candidate(
        empty.text, effect, (block,), places, basis="measured", variant=cause, likelihood=likelihood
    )


def _fewer_requests(filled: float) -> dict[str, float]:
    """Full warps make fewer requests to L2, and use more of the bytes that DRAM delivers, as far
    as neighbouring threads use neighbouring words."""
    used = min(1.0, filled * WARP * _WORD / _SECTOR)
    left = {"L2": 1 - INDIRECT * (1 - filled), "DRAM": 1 - INDIRECT * (1 - used)}
    return left | {BLOCK_STARTS: filled}  # the same threads in fewer blocks


def _places(view: LaunchView, inactive: InactiveThreads | None) -> tuple[Place, ...]:
    """The check at which threads exit; else the lines that run with few threads."""
    of = "inactive threads"
    if inactive is not None and inactive.cause == "outside":
        check = view.launch.locate([inactive.check] if inactive.check is not None else [])
        return tuple(Place(*line, inactive.outside, of) for line in check.values())
    # Old reports count only threads whose predicate is on.
    threads = view.table.column("thread_inst_executed") or view.table.threads
    executed = view.table.executed
    if threads is None or executed is None:
        return ()
    lost = {at: WARP * n - threads.get(at, 0) for at, n in executed.items()}
    again = retried(view)
    left = {at: int(n * (1 - again.get(at, 0.0))) for at, n in lost.items()}
    loops = partial(_loops, view, sum(left.values()))
    return view.led_places(loops, view.places_by(of, left))


def _loops(view: LaunchView, lost: int, code: MachineCode) -> LeadingLines:
    """Where threads leave loops at different times, by the threads that these loops leave inactive,
    if that is most of them: what runs with few threads in a loop is decided there."""
    from keet.analysis.machine_code.flow.program import uneven_exits

    program, trips = code.program, uneven_trips(view)
    costs, every = Counter[int](), 0
    for loop in program.flow.loops:
        positions = [at for at, of in trips.loops.items() if of == loop.index]
        cost = sum(int(WARP * program.counts[at] * (1 - trips.left[at])) for at in positions)
        every += cost
        ends = {max(program.flow.blocks[latch].end for latch in loop.latches) - 1}
        costs.update(dict.fromkeys(ends.union(uneven_exits(program, loop)), cost))
    of = "inactive threads of uneven loops"
    return LeadingLines(of, costs.items() if every > MAJORITY * lost else ())


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    threads = view.get("active_threads_per_warp")
    if threads is None or threads.value < WARP * MOST_REMOVED or idle_warps(view):
        return None
    text = "On average, {threads:.1f}s of a warp are active per instruction."
    return absence(text, threads=threads)
