"""Occupancy limited by the block size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from keet.analysis.candidate import Candidate, covered_waits
from keet.analysis.decisions.occupancy import USUAL_ACHIEVED, limited_occupancy, not_limited_by
from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.resident_warps import (
    MOST_OCCUPANCY,
    grid_shape,
    instructions_per_warp,
    shortness,
)
from keet.analysis.parameters import MAJORITY, Parameter
from keet.analysis.remedy_conditions import grid, origin
from keet.analysis.time_model import (
    BLOCK_RATE,
    BLOCK_STARTS,
    INDIRECT,
    LEADS,
    MOST_REMOVED,
    Effect,
    TimeModel,
)
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

SHORT_LIVED = Parameter(256, "instructions per warp: starting a block matters", "judgement")
# Where starting blocks is far from the GPU's rate, the place of a short block is empty for 200 to
# 450 cycles in the public reports.
BLOCK_START = Parameter(
    500.0, "cycles from the end of a block to the start of the next in its place", "judgement"
)
ENOUGH_WAVES = Parameter(2, "waves from which new blocks replace those that end", "judgement")

FINDING = FindingSpec(
    id="occupancy_limited_block",
    family="parallelism",
    label="occupancy limited by the block size",
    meaning="The SM's limit on blocks, or blocks that are too short or do not fill it evenly, "
    "leave too few warps to hide latency.",
    how="The number of blocks that an SM can hold lets fewer warps onto it than fit; or warps are "
    "so short that blocks end about as fast as new ones start, so that the achieved occupancy "
    "stays below the theoretical one, or that the rate at which the GPU starts blocks is the "
    "limit; or most warps of a block end long before the block does, which holds its place until "
    "the last one ends. The gain is that of covering the same waiting with more warps.",
    rules=("TheoreticalOccupancy", "Occupancy"),
    rule_titles=("Block Size",),
    credited_rules=(
        "HighPipeUtilization",
        "IssueSlotUtilization",
        "CPIStall",
        "LaunchConfiguration",
        "TheoreticalOccupancy",
    ),
    parameters=(MOST_OCCUPANCY, INDIRECT, LEADS, BLOCK_RATE, BLOCK_START),
    claims=("parallelism",),
    rests_on=("occupancy",),
    labels={
        grid.SHORT_BLOCKS: "occupancy limited by short blocks",
        grid.EARLY_WARPS: "occupancy limited by warps that end early",
    },
    without_cases=(grid.SHORT_BLOCKS, grid.EARLY_WARPS),
    unlike={
        "small_grid": "There are not enough blocks in the grid at all.",
        "load_imbalance": "Achieved occupancy is also low if few SMs work longer than the others.",
        "occupancy_limited_registers": "The limiter is registers per thread.",
    },
    remedies={
        when(origin.library_template): "Choose a thread-block tile of more warps in the template "
        "arguments of {library}.",
        when(origin.library_launch, name="library"): "Choose another algorithm or problem "
        "size of {library} for this call: its block size can't be changed.",
        when(origin.triton): "Raise num_warps, so that each program brings more warps to its SM, "
        "and let a program handle more elements.",
        when(grid.early_warps): "Choose a block shape in which all warps have about as much to "
        "do{here}: where threads lie outside of the data, blocks that fit its extents, or elements "
        "numbered in one dimension; else smaller blocks, which free their place as soon as their "
        "own warps end.",
        when(
            grid.short_blocks, grid.large_blocks, name="short_large"
        ): "Start fewer blocks{here}, with several items "
        "per thread (a grid-stride loop): these end about as fast as new ones start.",
        when(grid.short_blocks): "Start fewer blocks{here}, with several items per thread (a "
        "grid-stride loop) or more threads per block: these end about as fast as new ones start.",
        when(grid.warps_limit, name="uneven"): "Use smaller blocks: blocks of this size do not "
        "divide the SM's warps evenly, so some stay unused.",
        when(grid.small_blocks, name="small"): "Use larger blocks, of four to eight warps: the "
        "SM's limit on blocks is reached before that on warps.",
        otherwise: "Choose a block size that fills the SM: larger blocks where its limit on "
        "blocks is reached first, smaller ones where whole blocks leave a part of its warps "
        "unused.",
    },
    edit=Edit("Put more warps into each block, since an SM holds no more than 32 blocks", usual=27),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    yield from limited_occupancy(model, "sm", partial(launch_places, view))
    # Blocks that end about as fast as new ones start: few are on an SM, although more fit.
    reached, possible = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    waves, per_warp = view.get("waves_per_sm"), instructions_per_warp(view)
    if reached is None or possible is None or waves is None or per_warp is None:
        return
    are_short = per_warp.value <= SHORT_LIVED and waves.value > ENOUGH_WAVES
    if not are_short or not 0 < reached.value < possible.value:
        return
    # Uneven SMs have low occupancy for another reason.
    even = model.balance.evenness if model.balance.longest else 1.0
    times = even * USUAL_ACHIEVED * float(possible.value) / float(reached.value)
    lives = _lives(view, float(reached.value) / float(possible.value))
    # In a very short kernel, SMs are still being filled when it ends, whatever its blocks do.
    times = min(max(times, 1.0), MOST_OCCUPANCY) ** (1 - shortness(view, model))
    effect = Effect({BLOCK_STARTS: 1 - MOST_REMOVED}, covered_waits(model, times))
    if lives is not None and not _is_start(model, lives):
        has_several = (view.value("block_size") or 0) > WARP
        if has_several and lives.warp.value < MAJORITY * lives.block.value:
            yield _early_warps(view, reached, possible, lives, effect)
        return
    text = (
        "Achieved occupancy is {reached:.0f}, and {possible:.0f} is possible. There are enough "
        "blocks (waves per SM: {waves:.1f}), but a warp ends after {per_warp:.0f} instructions, "
        "about as fast as new blocks start."
    )
    said = Sentence(text, reached=reached, possible=possible, waves=waves, per_warp=per_warp)
    evidence: tuple[Evidence, ...] = (reached, possible, waves, per_warp)
    if model.block_starts is not None and model.busiest == BLOCK_STARTS:
        words = "{said} The GPU starts {rate:.2f} blocks per cycle, about as many as it can."
        said = Sentence(words, said=said, rate=model.block_starts)
        evidence = (*evidence, model.block_starts)
    yield Candidate(
        said,
        effect,
        evidence,
        partial(launch_places, view),
        basis="assumed",
        variant=grid.SHORT_BLOCKS,
    )


class _Lives(NamedTuple):
    """Cycles on average, if the places for blocks on an SM are always taken."""

    block: Evidence
    """From a block's start to the start of the next one in its place."""
    warp: Evidence


def _lives(view: LaunchView, held: float) -> _Lives | None:
    """`held`: resident warps over those that fit. None where the report lacks a part of it."""
    shape, active, waves = grid_shape(view), view.get("sm_active_cycles"), view.get("waves_per_sm")
    if shape is None or active is None or waves is None or not waves.value:
        return None
    sources = (active, shape.grid, waves)
    cycles = float(active.value) / float(waves.value)
    return _Lives(
        view.derived("block_life", cycles, "a block's place is taken", *sources, unit="cycle"),
        view.derived("warp_life", held * cycles, "a warp is resident", *sources, unit="cycle"),
    )


def _is_start(model: TimeModel, lives: _Lives) -> bool:
    """Whether starting blocks explains most of the time for which a place has no warp."""
    empty = float(lives.block.value) - float(lives.warp.value)
    by_rate = model.loads.get(BLOCK_STARTS, 0.0)
    return max(by_rate, BLOCK_START / empty if empty > 0 else 1.0) >= MAJORITY


def _early_warps(
    view: LaunchView, reached: Evidence, possible: Evidence, lives: _Lives, effect: Effect
) -> Candidate:
    text = (
        "Achieved occupancy is {reached:.0f}, and {possible:.0f} is possible. A block holds its "
        "place for about {block:.0f}s, but its warps end after about {warp:.0f}s on average: most "
        "of them have little or nothing to do."
    )
    block, warp = lives
    said = Sentence(text, reached=reached, possible=possible, block=block, warp=warp)
    shown = (reached, possible, block, warp)
    return Candidate(
        said, effect, shown, partial(launch_places, view), basis="assumed", variant=grid.EARLY_WARPS
    )


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    """Where another resource limits the blocks per SM, their size still matters to that limit."""
    reached, possible = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    if reached is None or possible is None or possible.value < 100:
        return None
    return not_limited_by(view, "sm") if reached.value >= USUAL_ACHIEVED * 100 else None
