"""Kernel too short."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import Candidate
from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import (
    FEW_INSTRUCTIONS,
    NO_WORK,
    grid_shape,
    instructions_per_warp,
    shortness,
    start_ns,
)
from keet.analysis.parameters import (
    LEAST_KERNEL_NS,
    LIKELY,
    NOTABLE_PART,
    SHORT_KERNEL_NS,
    Parameter,
)
from keet.analysis.remedy_conditions import grid, origin
from keet.analysis.remedy_conditions.global_memory import (
    changes_what_it_reads,
    sweeps_until_unchanged,
)
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Evidence, Sentence, constant
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

LAUNCH_GAP_NS = Parameter(
    1500.0, "nanoseconds from the end of one kernel to the start of the next in a stream", "fit"
)
LOOK_NS = Parameter(
    10_000.0,
    "nanoseconds for the host to clear a flag, to copy it back and to launch again",
    "judgement",
)
SWEEPS = "sweeps"
STEP_WORK = Parameter(0.2, "least share of a short kernel's time that is its work", "judgement")

FINDING = FindingSpec(
    id="launch_bound",
    family="parallelism",
    label="kernel too short",
    meaning="Starting and ending the kernel takes a large part of its time.",
    how="The time of starting and draining a grid is compared with the kernel's duration; the gap "
    "to the next launch is added. Kernels with so few instructions that they do no work are left "
    "out.",
    rule_titles=("Small Grid",),
    credited_rules=(
        "SOLBottleneck",
        "HighPipeUtilization",
        "CPIStall",
        "LaunchConfiguration",
        "AchievedOccupancy",
    ),
    parameters=(LAUNCH_GAP_NS, LOOK_NS, LEAST_KERNEL_NS, SHORT_KERNEL_NS),
    claims=("launches",),
    rests_on=("time",),
    of_launches=True,
    labels={SWEEPS: "many launches; the host checks a flag after each"},
    unlike={
        "small_grid": "A long kernel with few blocks leaves SMs empty while it works.",
        "tail_effect": "Idle SMs in the last wave of a long kernel are a tail effect.",
    },
    remedies={
        when(origin.library_elementwise): "Fuse small operations (torch.compile), or capture the "
        'sequence in a CUDA graph (torch.cuda.graph, mode="reduce-overhead"); use larger '
        "batches.",
        when(origin.library_directives): "The runtime starts it for a directive: create arrays on "
        "the device once, outside of loops (a data region, or enter data), and initialise several "
        "arrays in one parallel loop of yours.",
        when(origin.library): "Batch several calls of {library} into one. A CUDA graph shortens "
        "only the gaps between calls.",
        when(
            sweeps_until_unchanged, name=SWEEPS
        ): "Let each block repeat its part in shared memory "
        "until nothing changes there, so that a change travels far in one launch; look at the flag "
        "only after several launches.",
        when(grid.one_block): "If this is a small step between other kernels, do it within one of "
        "them (the last block to finish does it); a CUDA graph shortens only the gaps between "
        "launches. Else give one launch more work.",
        when(grid.short_lived_warps): "Start fewer threads{here}: no threads without work, and "
        "several items per thread (a grid-stride loop). Where the kernel is launched many times, "
        "do the work of many launches in one.",
        when(
            changes_what_it_reads, name="steps"
        ): "Do several steps in one launch{here}: keep what "
        "they change in shared memory or registers, with a barrier after each step (of the grid, "
        "if one block can't hold it). A CUDA graph shortens only the gaps between launches.",
        otherwise: "Do the work of many launches in one. A CUDA graph shortens only the gaps "
        "between them.",
    },
    edit=Edit(
        "Do the work of the many short kernel launches in a single launch or a graph", usual=16
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Starting and draining a grid and the gap to the next one, which one long kernel pays only
    once."""
    duration, sweeps = view.get("duration"), bool(sweeps_until_unchanged.test(view))
    short = 1.0 if sweeps else shortness(view, model)
    per_warp = instructions_per_warp(view)
    if duration is None or not short or (per_warp is not None and per_warp.value < NO_WORK):
        return
    taken, gap = float(duration.value), LOOK_NS if sweeps else LAUNCH_GAP_NS
    # In one long kernel, a step costs only its work, not start, end and the gap to the next launch.
    work = max(taken - start_ns(view, model), STEP_WORK * taken)
    times = (taken + gap) / min(work, _beside_others(view, model) * taken)
    text = Sentence("The kernel takes {time}: about as long as launching it.", time=duration)
    evidence: tuple[Evidence, ...] = (duration,)
    longest, elapsed = view.get("sm_active_cycles_max"), view.get("elapsed_cycles")
    is_long = taken >= SHORT_KERNEL_NS
    if is_long and longest is not None and elapsed is not None and elapsed.value:
        idle = max(0.0, 1 - float(longest.value) / float(elapsed.value))
        share = view.share("launch_share", idle, "no SM is active", longest, elapsed)
        words = "For {idle:.0f} of the {time} no SM is active: the grid starts and drains."
        text, evidence = Sentence(words, idle=share, time=duration), (share, duration)
        if per_warp is not None and per_warp.value <= FEW_INSTRUCTIONS:
            warp = Sentence("A warp executes {n:.0f} instructions on average.", n=per_warp)
            text, evidence = Sentence(" ").join((text, warp)), (*evidence, per_warp)
    made = Candidate(text, times**short, evidence, partial(launch_places, view), basis="assumed")
    if sweeps:
        text = Sentence(
            "The kernel takes {time}. It changes an array by other elements of it and sets a flag: "
            "it seems to be launched until nothing changes, and after each launch the host looks "
            "at the flag, which is assumed to take {look}.",
            time=duration,
            look=constant(float(LOOK_NS), "ns", "assumed time of a look at a flag by the host"),
        )
        made = made._replace(text=text, variant=SWEEPS, likelihood=LIKELY, is_open=True)
    yield made


def _beside_others(view: LaunchView, model: TimeModel) -> float:
    """Share of the launch's time that its work takes if the blocks of other launches fill the SMs
    beside it, 0 to 1: idle SMs and warps that wait do not count. Launches that change an array by
    other elements of it are steps, which can only follow each other."""
    shape = grid_shape(view)
    if shape is None or shape.waves is None or changes_what_it_reads.test(view):
        return 1.0
    waves = min(1.0, float(shape.waves.value))
    filled = Effect(longest_sm=shape.spread, every_wait=min(1.0, waves / shape.spread))
    return max(model.time(filled) - model.fixed, NOTABLE_PART)


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    duration = view.get("duration")
    if duration is None or duration.value <= 0 or shortness(view, model) > 0:
        return None
    text = "The kernel takes {time}: launching it is a small part of that."
    return absence(text, time=duration)
