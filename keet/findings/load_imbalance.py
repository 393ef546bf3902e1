"""Load imbalance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.analysis.candidate import DOUBT_STEEPNESS, MAX_GAIN, Candidate
from keet.analysis.decisions.occupancy import USUAL_ACHIEVED
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.parallelism.resident_warps import (
    BALANCED,
    EQUAL_BLOCKS,
    UNEVEN_INSTRUCTIONS,
    among_those_with_blocks,
    blocks_differ,
    evenness,
    grid_shape,
    least_kept,
    resident,
    unequal_work,
)
from keet.analysis.parameters import MAJORITY, SHORT_KERNEL_NS
from keet.analysis.remedy_conditions import grid, origin, waits
from keet.analysis.time_model import MOST_REMOVED, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

FINDING = FindingSpec(
    id="load_imbalance",
    family="parallelism",
    label="load imbalance",
    meaning="Some blocks, warps or SMs have far more work than others, and the others wait for "
    "them.",
    how="The active cycles of the average SM are compared with those of the SM that is active "
    "longest; SMs that get no block are left out. If the number of waves explains the difference, "
    "it is a tail effect, unless SMs hold far fewer warps than they would if all blocks took "
    "equally long, and loops run for different numbers of iterations. "
    "SMs that execute as many instructions as others have the same work, and only their speed "
    "differs. "
    "Without a value for each SM, it is assumed where the average SM is active for only a part of "
    "a long launch.",
    rules=("WorkloadImbalance",),
    credited_rules=("IssueSlotUtilization", "CPIStall", "AchievedOccupancy", "WorkloadImbalance"),
    parameters=(BALANCED, EQUAL_BLOCKS, UNEVEN_INSTRUCTIONS, SHORT_KERNEL_NS, MOST_REMOVED),
    claims=("parallelism", "waiting"),
    rests_on=("balance", "barriers"),
    has_long_blocks=True,
    headline="idle",
    unlike={
        "tail_effect": "Blocks of equal length that do not fill the last wave are a tail effect.",
        "small_grid": "SMs that never get a block are a small grid.",
        "warp_divergence": "Uneven work within a warp shows as inactive threads, not as idle SMs.",
    },
    remedies={
        when(origin.library_communication, name="communication"): "A collective waits for its "
        "slowest participant: make all GPUs reach it at the same time, or overlap it with "
        "computation.",
        when(origin.library): "Give {library} inputs of equal size: group or pad items by length, "
        "or use a routine for ragged or grouped inputs.",
        when(origin.looks_like_sparse, name="sparse"): "Rows have very different lengths{here}: "
        "cut long rows into pieces of one size (merge-based, or a warp per piece), sort rows by "
        "length, or call cuSPARSE.",
        when(grid.few_sms_active, name="few_work"): "A few SMs do nearly all of the work{here}: "
        "cut the work of the longest blocks into pieces that other blocks take over. A larger "
        "grid alone does not help.",
        when(waits.uneven_loops, name="loops"): "Loops run for different numbers of "
        "iterations{here}: cut long items into pieces of one size, start with the longest, or let "
        "blocks that are done fetch the next item from a counter (atomicAdd).",
        otherwise: "Give every block the same amount of work{here}: cut long items (rows, lists) "
        "into pieces of one size, or let idle blocks fetch work from a counter.",
    },
    edit=Edit(
        "Cut the few very long work items into pieces, so that all blocks end together", usual=17
    ),
)


def candidates(view: LaunchView, _: TimeModel) -> Iterator[Candidate]:
    even, shape = evenness(view), grid_shape(view)
    expected = shape.expected if shape else 1.0
    if even is not None:
        if shape is not None and shape.spread < 1:  # the rest of the SMs is a small grid's
            even, expected = among_those_with_blocks(view, even, shape.spread), 1.0
        ratio, unequal = float(even.ratio.value) / BALANCED, unequal_work(view, even)
        left, of_any_length = _left(ratio, expected) ** unequal, _left(ratio, 1.0) ** unequal
        held = blocks_differ(view, even) if left > math.pow(of_any_length, MAJORITY) else None
        by_loops = held is not None and bool(waits.uneven_loops.test(view))
        left = of_any_length if by_loops else left
        effect = Effect(longest_sm=max(left, 1 / MAX_GAIN), every_wait=resident(view) ** (1 - left))
        evidence = (even.share, even.ratio, *((shape.waves,) if shape and shape.waves else ()))
        text = Sentence("SMs have unequal work: {even}.", even=even.text)
        made = Candidate(text, effect, evidence, view.sampled_places)
        if held is not None and by_loops:  # the number of waves would explain it, too
            words = "{said} They hold {held:.0f} of the warps that they would hold if all blocks "
            words += "took equally long."
            text = Sentence(words, said=text, held=held)
            made = made._replace(text=text, evidence=(*evidence, held), basis="assumed")
        yield made
        return
    # Without a value per SM: only in long launches, where launch and drain do not matter.
    active, elapsed = view.get("sm_active_cycles"), view.get("elapsed_cycles")
    duration = view.value("duration")
    if active is None or elapsed is None or not duration or view.get("sm_active_cycles_max"):
        return
    share = view.percent("sm_active_share", "of the time the average SM is active", active, elapsed)
    if share is not None:
        start = SHORT_KERNEL_NS / duration
        left = (float(share.value) / 100 + start) / expected / BALANCED
        effect = Effect(longest_sm=max(min(1.0, left), 1 / MAX_GAIN))
        words = (
            "The average SM is active for {share:.0f} of the time, although every SM could have a "
            "block: probably few blocks do most of the work."
        )
        text, evidence = Sentence(words, share=share), (share, active, elapsed)
        yield Candidate(text, effect, evidence, view.sampled_places, basis="assumed")


def _left(even: float, expected: float) -> float:
    """What is left of the longest SM's work. Blocks that are cut into pieces fill all SMs, so that
    the waves of today do not limit it; but where these explain the unevenness, blocks are equal."""
    if even >= 1:
        return 1.0
    explained = min(1.0, math.log(expected) / math.log(even))
    return math.pow(even, 1 - explained**DOUBT_STEEPNESS)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    """Uneven warps of a block wait at barriers or exit early."""
    even, barrier = evenness(view), view.stalls.get("barrier", 0.0)
    reached, possible = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    if even is None or not even.is_balanced or not view.stalls or barrier >= least_kept():
        return None
    if reached is None or possible is None or reached.value < USUAL_ACHIEVED * possible.value:
        return None
    evidence = (even.share, even.ratio, reached, possible)
    return Sentence("SMs are active about equally long: {even}.", even=even.text), evidence


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines that exit loops after different numbers of iterations, by the work in those loops."""
    from keet.analysis.machine_code.flow.program import uneven_exits

    program, flow = code.program, code.program.flow
    exits: list[tuple[int, int]] = []
    for loop in flow.loops:
        if loop.trips is not None and loop.trips > 1:
            blocks = [flow.blocks[index] for index in loop.blocks]
            work = sum(sum(program.counts[block.start : block.end]) for block in blocks)
            exits += [(position, work) for position in uneven_exits(program, loop)]
    return LeadingLines("work in uneven loops", exits)
