"""Instruction fetch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import Candidate, kept_waits
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.parameters import SHORT_KERNEL_NS
from keet.analysis.remedy_conditions import instructions, origin, waits
from keet.analysis.time_model import MOST_REMOVED, Effect, TimeModel
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

FINDING = FindingSpec(
    id="instruction_fetch",
    family="instructions",
    label="instruction fetch",
    meaning="Warps wait for instructions to be fetched, mostly because the code in use is larger "
    "than the instruction caches.",
    how="The share of warp time spent waiting for instructions. Every kernel starts with empty "
    "instruction caches, so that a part of it is kept for short kernels.",
    rules=("CPIStall",),
    credited_rules=("CPIStall",),
    parameters=(SHORT_KERNEL_NS,),
    claims=("waiting",),
    rests_on=("fetch",),
    unlike={
        "launch_bound": "Short kernels fetch their instructions once; that belongs to launching.",
        "latency_bound": "Waiting for data, not for instructions.",
    },
    remedies={
        when(origin.library): "Choose another algorithm or tile size of {library} for this call: "
        "the size of its code can't be changed.",
        when(origin.triton): "Unroll less{here}: range instead of tl.static_range, and fewer "
        "elements per program.",
        when(instructions.runs_once, name="straight"): "The code is long and runs once per "
        "warp{here}: write repeated parts as a loop over a table of coefficients, and let each "
        "warp handle several items, so that it runs the same code again.",
        when(waits.loops_dominate, name="loops"): "The loop's code probably does not fit into the "
        "instruction cache{here}: unroll less (#pragma unroll with a smaller factor), split the "
        "loop, or inline less (__noinline__).",
        otherwise: "Make the hot code smaller{here}: roll loops up, read coefficients from a "
        "table, let warps run the same code at the same time.",
    },
    edit=Edit(
        "Make the unrolled code small enough for the instruction cache, by loops over a table",
        usual=26,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    stalled, duration = view.stall("no_instruction"), view.value("duration")
    if stalled is None:
        return
    text = "Warps wait {share:.0f} of their time for instructions to be fetched."
    # Every kernel starts with empty instruction caches, which matters for short ones.
    removed = max(0.0, 1 - SHORT_KERNEL_NS / duration) if duration else 0.0
    effect = Effect(waits=kept_waits(model, ("no_instruction",), removed))
    places = partial(view.waiting_places, "no_instructions", "no_instruction")
    yield Candidate(Sentence(text, share=stalled), effect, (stalled,), places)


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    stalled, share = view.stall("no_instruction"), view.stalls.get("no_instruction", 0.0)
    if not view.stalls or share >= 1 - MOST_REMOVED:
        return None
    if stalled is None:
        return absence("No warp waits for instructions to be fetched.")
    text = "Warps spend {share:.1f} of their time waiting for instructions to be fetched."
    return absence(text, share=stalled)


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines by the number of their machine instructions that ran."""
    return LeadingLines("code that ran", [(position, 1) for position in code.program.ran])
