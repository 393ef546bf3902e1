"""Grid too small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import (
    MAX_GAIN,
    Basis,
    Candidate,
    a_unit_explains,
    covered_waits,
    is_matrix_product,
)
from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.inactive_threads import WARP, empty_lanes
from keet.analysis.parallelism.resident_warps import (
    GridShape,
    chain_share,
    few_warps,
    grid_shape,
    least_kept,
    shortness,
    working_part,
)
from keet.analysis.parameters import LEAST_KERNEL_NS, LIKELY, MAJORITY, SHORT_KERNEL_NS, Parameter
from keet.analysis.remedy_conditions import grid, origin, waits
from keet.analysis.remedy_conditions.fact import total
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, WITHIN_SM, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when
from keet.findings.launch_bound import LAUNCH_GAP_NS

PARTIAL_WAVE = Parameter(
    0.7,
    "exponent: how waiting decreases with more blocks per SM, which take longer to start and "
    "share what they load less",
    "fit",
)
LOOP_FREE_NS = Parameter(
    100_000.0, "nanoseconds by which a thread that repeats nothing ends", "judgement"
)
IDLE_GAIN = Parameter(2, "ln(gain) over that by SMs without a block: it is measured", "judgement")

FINDING = FindingSpec(
    id="small_grid",
    family="parallelism",
    label="grid too small",
    meaning="There are fewer blocks than the GPU can run at a time, so SMs are idle or hold fewer "
    "warps than they could.",
    how="The number of blocks is compared with the number of SMs, and with the blocks that all SMs "
    "hold at a time. The gain is limited by chains of dependent instructions, which more blocks do "
    "not shorten.",
    rules=("LaunchConfiguration",),
    rule_titles=("Small Grid",),
    titles_of_variant={"one_thread": ("Block Size",), "few_threads": ("Block Size",)},
    credited_rules=(
        "SOLBottleneck",
        "HighPipeUtilization",
        "CPIStall",
        "LaunchConfiguration",
        "AchievedOccupancy",
        "WorkloadImbalance",
    ),
    parameters=(PARTIAL_WAVE, INDIRECT, MOST_REMOVED, LEAST_KERNEL_NS, SHORT_KERNEL_NS),
    claims=("parallelism",),
    rests_on=("grid", "waves", "occupancy", "balance"),
    without_cases=("few_threads", "tiny"),
    labels={
        "one_thread": "one thread does all the work",
        "few_threads": "too few threads: few blocks of partial warps",
        "tiny": "too few threads",
    },
    more_work=("tiny",),
    headline="idle",
    unlike={
        "tail_effect": "With more than one wave of blocks, SMs that idle at the end are a tail "
        "effect.",
        "load_imbalance": "Enough blocks that take unequal time are load imbalance.",
        "launch_bound": "A kernel that ends right after it starts is too short; a larger grid "
        "would not help.",
    },
    remedies={
        when(origin.library_template): "Choose a smaller thread-block tile in the template "
        "arguments of {library}, or split the inner dimension over blocks (split-K, stream-K), so "
        "that every SM has a block; or batch several products into one call.",
        when(origin.library_product): "Give {library} more parallel work: batch several products "
        "into one call, or choose an algorithm that splits the inner dimension over blocks "
        "(split-K, listed by cublasLtMatmulAlgoGetHeuristic).",
        when(origin.library_launch, name="library"): "Give {library} more work per call (a batch "
        "instead of single items), or let independent calls overlap in several streams.",
        when(origin.triton): "Launch more programs: fewer elements per program, or the reduced "
        "axis split over several programs whose partial results are added (tl.atomic_add, or a "
        "second kernel).",
        when(
            grid.one_thread_blocks
        ): "Use many blocks of several whole warps, such as four, and let each thread do a part "
        "of the work (index blockIdx.x * blockDim.x + threadIdx.x). If the steps depend on each "
        "other, run several independent problems at a time, one per thread.",
        when(grid.one_block, origin.looks_like_reduction, name="one_block_reduction"): "Spread "
        "the work of the single block over many: partial results go to global memory, and the "
        "last block to finish, or a second launch, combines them.",
        when(grid.one_block): "Spread the work of the single block over many blocks. If its steps "
        "depend on each other, so that it can't be split, let one launch handle several "
        "independent problems, one block per problem.",
        when(origin.looks_like_gemm, grid.small_blocks, name="product_small_blocks"): "Batch "
        "several products into one launch, or split the inner dimension of the product over "
        "several blocks (split-K) and add their partial results.",
        when(origin.looks_like_gemm, name="product"): "Split the inner dimension of the product "
        "over several blocks (split-K) and add their partial results, or use smaller output tiles "
        "per block.",
        when(origin.looks_like_reduction, name="reduction"): "Let several blocks work on each row "
        "or segment, and combine their partial results by one atomic per block or in a second "
        "launch.",
        when(waits.loops_dominate, name="loops"): "If the iterations of the loop that each thread "
        "runs do not depend on each other, split them over more threads and blocks, and "
        "combine their partial results. Else handle several problems in one launch.",
        when(grid.large_blocks, grid.fewer_blocks_than_sms): "Use smaller blocks, if their "
        "threads do not need each other's results: the same number of threads is then spread over "
        "more SMs. If that is not enough, split the work further.",
        otherwise: "Split the work further: several blocks per item, or fewer items per thread. "
        "Where this kernel is launched many times one after the other, handle several problems in "
        "one launch.",
    },
    edit=Edit(
        "Split the work over more blocks, so that every SM of the GPU has some of it", usual=11
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """One formula for all grids: SMs without a block get work, so the account's idle share goes;
    SMs that could hold more blocks hide more of the waiting that the report shows."""
    shape = grid_shape(view)
    empty = empty_lanes(view)
    if shape is None:
        return
    waves = float(shape.waves.value) if shape.waves else 1.0
    if shape.spread >= 1 and waves >= 1:
        return
    part = working_part(view)  # more blocks need work that can be done at the same time
    # How much more the GPU can do than one SM, memory decides, if the report has it.
    least = 0.0 if "DRAM" in model.loads else 1 / MAX_GAIN
    idle = Effect(
        longest_sm=max(shape.spread, least) ** part,
        least=chain_share(view),
        added=_joining(view) * (1 - shape.spread),
    )
    variant = ""
    if empty is not None and shape.spread < 1:  # idle lanes and idle SMs are one cause
        variant = "few_threads"
        idle = idle._replace(units=dict.fromkeys(WITHIN_SM, empty.filled))
        if empty.block.value == 1:  # serial code: each thread gets a part of its steps
            variant = "one_thread" if shape.grid.value == 1 else variant
            idle = idle._replace(units={}, longest_sm=shape.spread * empty.filled)
    if variant != "one_thread" and _is_tiny(view, shape):
        variant = "tiny"
    filled = idle._replace(waits=covered_waits(model, _unhidden(model, shape, waves) ** -part))
    sms = view.derived("sm_count", shape.sms, "SMs of the GPU")
    if shape.spread < 1:
        rest = Sentence("does not fill a GPU of {sms:.0f} SMs", sms=sms)
    else:
        rest = Sentence("is smaller than what {sms:.0f} SMs can hold at a time", sms=sms)
    if shape.waves:
        rest = Sentence("{rest} (waves per SM: {waves:.2f})", rest=rest, waves=shape.waves)
    plural = "" if shape.grid.value == 1 else "s"
    text = Sentence("A grid of {grid:.0f}{s} {rest}.", grid=shape.grid, s=plural, rest=rest)
    evidence = (shape.grid, sms, shape.waves) if shape.waves else (shape.grid, sms)
    if empty is not None:
        text, evidence = Sentence(" ").join((text, empty.text)), (*evidence, empty.block)
    if (few := few_warps(view)) is not None:
        text, evidence = Sentence(" ").join((text, few[0])), (*evidence, *few[1])
    # A very short kernel mostly waits for its first data; more blocks would wait too.
    likelihood = 1 - INDIRECT * shortness(view, model)
    # The launch shows SMs without a block, but not whether more blocks on an SM would help.
    is_idle = model.gain(idle) ** IDLE_GAIN >= model.gain(filled)
    for effect, is_measured in ((idle, True), (filled, is_idle)):
        basis: Basis = "measured" if is_measured else "assumed"
        yield Candidate(
            text,
            effect,
            evidence,
            partial(launch_places, view),
            basis=basis,
            variant=variant,
            likelihood=likelihood if is_measured or view.stalls else likelihood * LIKELY,
        )


def _is_tiny(view: LaunchView, shape: GridShape) -> bool:
    """Whether the whole launch is less than a warp per SM, and threads end so early that they
    repeat nothing that could be split: then the GPU can do more in the time, not the same faster.
    """
    threads, duration = view.value("threads"), view.value("duration")
    if threads is None or duration is None or threads >= WARP * shape.sms:
        return False
    return duration <= LOOP_FREE_NS and not waits.loops_dominate.test(view)


def _unhidden(model: TimeModel, shape: GridShape, waves: float) -> float:
    """Share of the waiting that stays if SMs hold as many blocks as fit; 1 if a unit may explain
    it. Without warp states, only where most SMs have a block: else their idleness is what the
    report shows."""
    view = model.view
    if is_matrix_product(view):  # its smaller tiles would reuse less
        return 1.0
    if not view.stalls and (shape.spread <= MAJORITY or a_unit_explains(view, model)):
        return 1.0
    return max(math.pow(min(1.0, waves / shape.spread), PARTIAL_WAVE), least_kept())


_JOINED = ("global_reduction_inst", "global_atomic_inst")
"""Atomics join what several blocks computed in the same launch."""
_BULK = ("UTMASTG", "UTMAREDG", "UBLKRED")


def _joining(view: LaunchView) -> float:
    """Time of the launch that joins partial results, as a share of this one's, as far as blocks
    have one result: then their warps do not all store. Results that no store writes are joined
    already, atomics join without a launch, and a bulk copy stores for a whole block."""
    duration, stores = view.value("duration"), view.value("global_store_requests")
    warps = (view.value("threads") or 0.0) / WARP
    if not duration or not stores or not warps:
        return 0.0
    others = total(view, *_JOINED) + view.executed(*_BULK)
    plain = stores / (stores + others)
    return plain * max(0.0, 1 - stores / warps) * (LEAST_KERNEL_NS + LAUNCH_GAP_NS) / duration


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    shape = grid_shape(view)
    if shape is None or shape.spread < 1 or shape.waves is None or shape.waves.value < 1:
        return None
    text = "The grid has {grid:.0f}s and fills all SMs: waves per SM {waves:.2f}."
    return absence(text, grid=shape.grid, waves=shape.waves)
