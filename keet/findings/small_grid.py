"""Grid too small."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import (
    HIDEABLE,
    MAX_GAIN,
    Basis,
    Candidate,
    is_matrix_product,
    kept_waits,
)
from keet.analysis.facts import grid, origin, waits
from keet.analysis.kernel.grid_use import (
    LEAST_KERNEL_NS,
    SHORT_KERNEL_NS,
    grid_shape,
    least_kept,
    shortness,
)
from keet.analysis.kernel.work_per_warp import chain_share, working_part
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when
from keet.units import Quantity

PARTIAL_WAVE = Parameter(
    0.4, "exponent: how waiting decreases when a grid below one wave gets more blocks", "fit"
)
SPLIT_SMS = Parameter(0.25, "share of the SMs with a block: its work can be split", "judgement")
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
    headline="idle",
    unlike={
        "tail_effect": "With more than one wave of blocks, SMs that idle at the end are a tail "
        "effect.",
        "load_imbalance": "Enough blocks that take unequal time are load imbalance.",
        "launch_bound": "A kernel that ends right after it starts is too short; a larger grid "
        "would not help.",
    },
    remedies={
        when(origin.library_product): "Give {library} more parallel work: batch several products "
        "into one call, or choose an algorithm that splits the inner dimension over blocks "
        "(split-K, listed by cublasLtMatmulAlgoGetHeuristic).",
        when(origin.library_launch, name="library"): "Give {library} more work per call (a batch "
        "instead of single items), or let independent calls overlap in several streams.",
        when(origin.triton): "Launch more programs: fewer elements per program, or the reduced "
        "axis split over several programs whose partial results are added (tl.atomic_add, or a "
        "second kernel).",
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
        "runs{here} do not depend on each other, split them over more threads and blocks, and "
        "combine their partial results. Else handle several problems in one launch.",
        when(grid.large_blocks, grid.fewer_blocks_than_sms): "Use smaller blocks, if their "
        "threads do not need each other's results: the same number of threads is then spread over "
        "more SMs. If that is not enough, split the work further.",
        otherwise: "Split the work further: several blocks per item, or fewer items per thread. "
        "Where this kernel is launched many times one after the other, handle several problems in "
        "one launch.",
    },
    edit=Edit(
        "Split the work over more blocks, so that every SM of the GPU has some of it",
        above=("the number of waves", 2.5),
        unlike=("latency_bound",),
        usual=11,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    shape = grid_shape(view)
    if shape is None:
        return
    waves = float(shape.waves.value) if shape.waves else 1.0
    basis: Basis = "assumed"
    if shape.spread < 1:
        within = max(min(1.0, waves / shape.spread), least_kept())
        if is_matrix_product(view):  # more blocks per SM have smaller tiles and reuse less
            within = 1.0
        part = working_part(view)  # more blocks need work that can be done at the same time
        effect = Effect(
            waits=kept_waits(model, HIDEABLE, 1 - within**part),
            longest_sm=max(shape.spread, 1 / MAX_GAIN) ** part,
            least=chain_share(view),
        )
        # The launch shows SMs without a block, but not whether a block's work can be split, or
        # whether more blocks on an SM would help.
        if view.stalls and model.gain(effect._replace(waits={})) ** IDLE_GAIN >= model.gain(effect):
            basis = "measured"
    elif waves < 1:  # every SM has a block and could hold more
        times = 1 / max(waves**PARTIAL_WAVE, least_kept())
        # Barriers stay, here and above: smaller blocks have as many of them.
        effect = Effect(waits=kept_waits(model, HIDEABLE, 1 - 1 / times), least=chain_share(view))
    else:
        return
    sms = view.ledger.derived("sm_count", Quantity(shape.sms, ""), "SMs of the GPU")
    if shape.spread < 1:
        rest = Sentence("does not fill a GPU of {sms:.0f} SMs", sms=sms)
    else:
        rest = Sentence("is smaller than what {sms:.0f} SMs can hold at a time", sms=sms)
    if shape.waves:
        rest = Sentence("{rest} (waves per SM: {waves:.2f})", rest=rest, waves=shape.waves)
    plural = "" if shape.grid.value == 1 else "s"
    text = Sentence("A grid of {grid:.0f}{s} {rest}.", grid=shape.grid, s=plural, rest=rest)
    evidence = (shape.grid, sms, shape.waves) if shape.waves else (shape.grid, sms)
    # A very short kernel mostly waits for its first data; more blocks would wait too.
    likelihood = 1 - INDIRECT * shortness(view, model)
    if not view.stalls:
        # A chain of dependent steps, which can't be split, then looks like a loop over independent
        # items. Work that already uses a part of the SMs can be split further.
        likelihood *= max(INDIRECT, min(1.0, shape.spread / SPLIT_SMS))
    places = view.launch_places
    yield Candidate(FINDING.id, text, effect, evidence, places, basis, likelihood=likelihood)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    shape = grid_shape(view)
    if shape is None or shape.spread < 1 or shape.waves is None or shape.waves.value < 1:
        return None
    text = "The grid has {grid:.0f}s and fills all SMs: waves per SM {waves:.2f}."
    return Sentence(text, grid=shape.grid, waves=shape.waves), (shape.grid, shape.waves)
