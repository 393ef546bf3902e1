"""The issue slots as the busiest unit: which instructions are not arithmetic on data.

The slots limit the number of instructions. Near their peak, fewer instructions beside the
arithmetic help: addresses, conditions, conversions, moves, and loads that could be wider. If other
threads load the same values, several results per thread take fewer loads, and less of everything
that goes with a load.
"""

from __future__ import annotations

from functools import partial

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.rooflines import issue_limited
from keet.analysis.decisions.saturated import PIPE_WORK
from keet.analysis.decisions.tiles import tiled
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.instruction_removal import kept_waits_without
from keet.analysis.kernel.opcode_mix import PURPOSES, opcode_mix
from keet.analysis.kernel.register_tiles import less_work_likelihood, loads_left
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import NOTABLE_PART
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import SHARPNESS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.formatting import capitalized
from keet.units import Quantity

_ARITHMETIC = ("FMA", "tensor", "FP16", "FP64", "XU")
"""Pipes for arithmetic on data. The ALU mostly compares, selects and shifts."""
INTEGER_KERNEL = Parameter(
    0.5, "busiest pipe for floats over the ALU, below which integers are the data", "judgement"
)
_NEEDED = ("memory", "sync")
_NAMED = 3
"""Purposes named in the sentence."""
_FLOATS = ("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "HFMA2", "HADD2", "HMUL2")


def issue_candidate(finding: str, view: LaunchView, model: TimeModel) -> Candidate | None:
    """None unless the issue slots are the busiest unit, with no arithmetic pipe at its ceiling."""
    slots = view.ceilings.get(model.busiest or "")
    if slots is None or not issue_limited(model):
        return None
    pipe = max(
        (each for unit in _ARITHMETIC if (each := view.ceilings.get(unit)) is not None),
        key=lambda each: model.loads[each.name],
        default=None,
    )
    mix = _mix(view)
    beside = sum(part for part, _ in mix) if mix else _by_pipes(slots, pipe)
    left = loads_left(view)
    effect = (
        _with_wide_loads(view, model, beside) if left is None else tiled(view, model, beside, left)
    )
    leads = all(each.share <= slots.share for each in view.ceilings.ranked)
    said = Sentence(
        "{unit} {verb} {rank}: busy for {busy:.0f} of the time",
        unit=capitalized(slots.spoken),
        verb=slots.verb,
        rank="the busiest unit" if leads else "among the busiest units",
        busy=slots.reached,
    )
    whole, pipe = _whole(view, mix) if mix else None, _named_pipe(view, pipe)
    text = Sentence("{said}{pipes}.{mix}", said=said, pipes=_pipes(pipe), mix=_named(mix, whole))
    if left is not None and left <= 1 - NOTABLE_PART:
        text = Sentence("{text} Several threads load the same values.", text=text)
    shown = [slots.reached, *(each for _, each in mix)]
    shown += [each for each in (pipe.reached if pipe else None, whole) if each is not None]
    return Candidate(
        finding,
        text,
        effect,
        tuple(shown),
        partial(_places, view),
        "assumed",
        "issue",
        less_work_likelihood(view),
    )


def _with_wide_loads(view: LaunchView, model: TimeModel, beside: float) -> Effect:
    """A part of the instructions beside the arithmetic goes. Loads bring the same data, and warps
    wait for them as before. Waiting for others decreases as far as the slots are the limit."""
    limit = model.pressure**SHARPNESS
    removed, gone = (1 - PIPE_WORK) * beside, (1 - PIPE_WORK) * limit
    waits = kept_waits_without(view, model, _beside(view, *_NEEDED), gone, removed * limit)
    return Effect(dict.fromkeys(("issue", "ALU", "ADU"), 1 - removed), waits)


def _named_pipe(view: LaunchView, pipe: Ceiling | None) -> Ceiling | None:
    """The pipe to compare with in words. A kernel that hardly uses the pipes for floats computes on
    integers: on the ALU."""
    alu = view.ceilings.get("ALU")
    if pipe is None or alu is None or pipe.share >= INTEGER_KERNEL * alu.share:
        return pipe
    return alu


def _pipes(pipe: Ceiling | None) -> Sentence:
    if pipe is None:
        return Sentence()
    words = ", while {pipe} {verb} at {reached:.0f} of peak"
    return Sentence(words, reached=pipe.reached, pipe=pipe.spoken, verb=pipe.verb)


def _whole(view: LaunchView, mix: list[tuple[float, Evidence]]) -> Evidence:
    return view.ledger.derived(
        "instructions_beside",
        Quantity(100 * sum(part for part, _ in mix), "%"),
        "of the executed instructions are not arithmetic on data",
        *(evidence for _, evidence in mix),
    )


def _named(mix: list[tuple[float, Evidence]], whole: Evidence | None) -> Sentence:
    if whole is None:
        return Sentence(
            " This limits the number of instructions, not the arithmetic. The report does not say "
            "what the instructions are for."
        )
    parts = Sentence(", ").join(
        Sentence("{share:.0f} {purpose}", share=each, purpose=each.label)
        for _, each in mix[:_NAMED]
    )
    words = " {whole:.0f} of the instructions are not arithmetic on data: {parts}."
    return Sentence(words, whole=whole, parts=parts)


def _mix(view: LaunchView) -> list[tuple[float, Evidence]]:
    """Shares of the purposes that are not arithmetic on data, largest first; by opcode without the
    machine code. Empty: not known."""
    executed = view.get("inst_executed")
    if executed is None:
        return []
    if view.code is not None and any(view.code.program.counts):
        known = [(kind.value, PURPOSES[kind.value], share) for kind, share in view.code.mix]
        data: tuple[str, ...] = ("value", "unknown")
    elif view.opcodes:
        known = opcode_mix(view)
        # Integers of a kernel that computes with floats are mostly indices.
        data = ("value",) if view.executed(*_FLOATS) else ("value", "integer")
    else:
        return []
    return [
        (share, view.ledger.derived(f"beside.{kind}", Quantity(100 * share, "%"), label, executed))
        for kind, label, share in known
        if kind not in data
    ]


def _by_pipes(slots: Ceiling, pipe: Ceiling | None) -> float:
    """Issue slots that the busiest arithmetic pipe can't have used; each instruction takes a slot
    and occupies its pipe for a cycle at least."""
    if pipe is None or not slots.share:
        return 1.0
    return max(0.0, 1 - pipe.share / slots.share)


def _beside(view: LaunchView, *needed: str) -> list[int]:
    """Positions of the executed instructions that are not arithmetic on data, nor for one of these
    purposes."""
    if view.code is None:
        return []
    purposes, kept = view.code.purposes, ("value", *needed)
    return [each for each in view.code.program.ran if purposes[each].value not in kept]


def _places(view: LaunchView) -> tuple[Place, ...]:
    of = "executed instructions"
    if view.code is None:
        return view.column_places(of, "inst_executed")
    program = view.code.program
    costs = {program.code[each].address: program.counts[each] for each in _beside(view)}
    return view.places_by("instructions beside the arithmetic", costs)
