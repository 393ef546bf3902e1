"""Tail effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import Candidate
from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import (
    BALANCED,
    EQUAL_BLOCKS,
    blocks_differ,
    evenness,
    grid_shape,
    shortness,
)
from keet.analysis.parameters import POSSIBLE
from keet.analysis.remedy_conditions import grid, origin
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

FINDING = FindingSpec(
    id="tail_effect",
    family="parallelism",
    label="tail effect",
    meaning="The last wave of blocks fills only a part of the GPU but takes as long as a full one.",
    how="The number of waves says which part of the SMs the last wave uses. The loss is at most "
    "the idle time that was measured: 1 minus the active cycles of the average SM over those of "
    "the SM that is active longest. Where SMs hold far fewer warps than they would if all blocks "
    "took equally long, a few long blocks or warps look the same, and it is only possible.",
    rules=("LaunchConfiguration",),
    rule_titles=("Tail Effect",),
    credited_rules=("LaunchConfiguration", "AchievedOccupancy", "WorkloadImbalance"),
    parameters=(BALANCED, EQUAL_BLOCKS),
    claims=("parallelism",),
    rests_on=("waves", "balance"),
    headline="idle",
    unlike={
        "load_imbalance": "Idle time beyond what the number of waves explains means that blocks "
        "take unequal time.",
        "small_grid": "Less than one wave of blocks is a small grid.",
    },
    remedies={
        when(origin.library_template): "Choose another thread-block tile, a persistent kernel or "
        "stream-K in the template arguments of {library}, so that tiles fill whole waves.",
        when(origin.library_product): "Choose a shape or an algorithm of {library} whose tiles "
        "fill whole waves: another tile size or stream-K (cublasLtMatmulAlgoGetHeuristic lists "
        "alternatives), or dimensions padded or batched differently.",
        when(origin.library_launch, name="library"): "Change the problem size per call of "
        "{library} (larger batches, or two calls in one), so that the last wave matters less.",
        when(origin.triton): "Launch as many programs as fit on the GPU at a time and let each "
        "loop over several tiles (persistent programs), or choose block sizes that give whole "
        "waves.",
        when(grid.blocks_of_any_length, name="unequal"): "Let the longest blocks start first, or "
        "cut their work into pieces; only where all blocks take about the same time does it help "
        "to choose a grid of whole waves.",
        when(grid.waves_just_over, name="just_over"): "Only a few blocks are left over for the "
        "last wave: give each block slightly more work so that the grid fits into whole waves.",
        when(grid.large_blocks): "Use smaller blocks with smaller tiles, so that the last wave is "
        "a smaller part of the work, or let as many blocks as fit share all tiles (persistent "
        "blocks, stream-K).",
        otherwise: "Choose tiles so that the blocks fill whole waves, or let as many blocks as "
        "fit share all tiles (persistent blocks, stream-K).",
    },
    edit=Edit(
        "Deal out the tiles evenly, so that no last partial wave leaves most SMs idle", usual=9
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    shape, even = grid_shape(view), evenness(view)
    if even is None or shape is None or shape.spread < 1:
        return
    waves = shape.waves
    if waves is not None and waves.value > 1:
        text = "Waves per SM: {waves:.2f}. The last wave leaves SMs idle: {even}."
        said = Sentence(text, waves=waves, even=even.text)
        left = max(float(even.ratio.value), shape.expected) / BALANCED
        # In a very short kernel, SMs differ because blocks start one after the other.
        kept = min(1.0, left) ** (1 - shortness(view, model))
        effect, evidence = Effect(longest_sm=kept), (waves, even.share, even.ratio)
        made = Candidate(said, effect, evidence, partial(launch_places, view))
        if (held := blocks_differ(view, even)) is not None:
            text = (
                "Waves per SM: {waves:.2f}, and {even}. But SMs hold {held:.0f} of the warps that "
                "they would hold if all blocks took equally long: SMs may be idle because of a few "
                "long blocks or warps."
            )
            said, shown = Sentence(text, waves=waves, even=even.text, held=held), (*evidence, held)
            made = made._replace(text=said, evidence=shown, likelihood=POSSIBLE)
            made = made._replace(variant=grid.ANY_LENGTH)
        yield made


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    shape, even = grid_shape(view), evenness(view)
    if shape is not None and shape.spread < 1:
        return absence("The grid has {grid:.0f}s: some SMs get none at all.", grid=shape.grid)
    if even is None or not even.is_balanced:
        return None
    text = Sentence("SMs are active about equally long: {even}.", even=even.text)
    return text, (even.share, even.ratio)
