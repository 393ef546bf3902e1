"""Evaluates a model's claim that fewer instructions are needed: its effect on time, or a refusal.

Instructions in total, or of one class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, kept_waits
from keet.analysis.hardware.ceilings import spoken_unit
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.diagnosis.claims.claim import WorkClaim
from keet.diagnosis.claims.claim_effect import (
    ClaimEffect,
    Refusal,
    claimed,
    claimed_share,
    in_unit,
    removable,
    share_problem,
    warps_launched,
)
from keet.evidence import Evidence
from keet.records import NamedTuple
from keet.units import Quantity

PIPES: Mapping[str, tuple[str, ...]] = {
    "ADU": ("BAR", "LDC", "ULDC"),
    "FMA": ("FFMA", "FADD", "FMUL", "IMAD"),
    "ALU": (
        *("IADD", "LOP", "SHF", "ISETP", "VIMNMX", "IMNMX", "SEL", "FSEL", "FSETP", "FMNMX"),
        *("LEA", "PRMT", "IABS", "I2I", "REDUX"),
    ),
    "FP64": ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX"),
    "tensor": ("HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA"),
    "FP16": ("HADD", "HMUL", "HFMA", "HMNMX", "HSET"),
    "XU": ("MUFU", "I2F", "F2I", "F2F", "POPC", "FLO", "BREV"),
    "LSU": ("LD", "ST", "ATOM", "RED"),
}
"""Opcodes by pipe; the first match counts: `LDC` is not a load of the LSU, and `REDUX` not an
atomic."""
_PURPOSES = ("value", "memory", "address", "control", "conversion", "move", "sync")
_WITHIN_SM = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1", "tensor")
_FIXED = ("wait", "dispatch_stall", "branch_resolving", "no_instruction", "no_instructions")
"""Warp states that occur with every instruction."""


class Class(NamedTuple):
    """A class of instructions."""

    name: str
    spoken: str
    executed: Evidence
    """Warp instructions."""
    part: float
    """Of all executed instructions, 0 to 1."""
    pipes: Mapping[str, float]
    """By unit: the share of its work that belongs to this class, 0 to 1."""


def instruction_claim(
    claim: WorkClaim, view: LaunchView, model: TimeModel
) -> ClaimEffect | Refusal:
    found = class_named(claim.of, view)
    if isinstance(found, Refusal):
        return found
    if not found.executed.value:
        return Refusal(f"The launch executes no {found.spoken}.", (found.executed,))
    if claim.needed is None:
        problem = share_problem(claim.removed)
        return problem or _by_share(claim, view, model, found)
    needed = _warp_instructions(claim.needed)
    if isinstance(needed, Refusal):
        return needed
    shown = claimed(view, found.spoken, needed, found.executed)
    problem = _amount_problem(view, found, shown)
    return problem or _by_amount(view, model, found, shown)


def _warp_instructions(amount: Quantity) -> Quantity | Refusal:
    base = in_unit(amount, *_PER_INSTRUCTION)
    if isinstance(base, Refusal):
        return base
    return Quantity(float(base.value) / _PER_INSTRUCTION[base.unit], "inst")


_PER_INSTRUCTION = {"inst": 1.0, "op": 32.0, "flop": 64.0}
"""Thread operations per warp instruction, by unit."""


def _amount_problem(view: LaunchView, found: Class, shown: Evidence) -> Refusal | None:
    least = warps_launched(view) if found.name == "all" else 0.0
    if not shown.value >= least:
        return Refusal(f"{shown} is less than an instruction per warp of the launch.", (shown,))
    if shown.value >= found.executed.value:
        reason = f"The launch executes {_executed(found)}"
        both = (found.executed, shown)
        return Refusal(f"{reason}, and {shown} are said to be needed: nothing can be saved.", both)
    return None


def _by_amount(view: LaunchView, model: TimeModel, found: Class, shown: Evidence) -> ClaimEffect:
    removed = removable(1 - float(shown.value) / float(found.executed.value))
    text = (
        f"The launch executes {_executed(found)}; by the model's reading of the source, {shown} "
        "are needed."
    )
    return _draft(view, model, found, removed, text, shown)


def _by_share(claim: WorkClaim, view: LaunchView, model: TimeModel, found: Class) -> ClaimEffect:
    share = claimed_share(view, found.spoken, claim.removed or 0.0, found.executed)
    text = (
        f"The launch executes {_executed(found)}; by the model's reading of the source, "
        f"{share:.0f} of them are not needed."
    )
    return _draft(view, model, found, removable(claim.removed or 0.0), text, share)


def _executed(found: Class) -> str:
    return f"{found.executed}" if found.name == "all" else f"{found.executed} ({found.spoken})"


def _draft(  # noqa: PLR0913, PLR0917 - what a draft is made of
    view: LaunchView, model: TimeModel, found: Class, removed: float, text: str, shown: Evidence
) -> ClaimEffect:
    unit = max(found.pipes, key=lambda pipe: model.loads.get(pipe, 0.0), default="issue")
    reached = view.ceilings.reached(unit)
    evidence = (found.executed, shown, *((reached,) if reached else ()))
    kept = 1 - removed * found.pipes.get(unit, found.part)
    return ClaimEffect(text, _effect(model, found, removed), evidence, unit, kept)


# --- classes


def class_named(of: str, view: LaunchView) -> Class | Refusal:
    """Finds the class by pipe, purpose or opcode; refuses if the report does not say."""
    name = of.strip()
    if name.lower() in ("all", ""):
        return _everything(view)
    if not view.all_executed:
        return Refusal("The report does not count instructions by opcode.")
    if name.lower() in _PURPOSES:
        return _by_purpose(name.lower(), view)
    spoken = {pipe.lower(): (pipe, f"instructions of {spoken_unit(pipe)}") for pipe in PIPES}
    spoken |= dict.fromkeys(("atomic", "atomics"), ("atomics", "atomic instructions"))
    if name.lower() in spoken:
        return _counted(view, *spoken[name.lower()], ("ATOM", "RED"))
    if name.isupper() and view.executed(name):
        return _counted(view, name, f"{name} instructions", (name,))
    known = (*_PURPOSES, "atomics", *PIPES)
    return Refusal(f"Instructions are claimed of all, an executed opcode, {', '.join(known)}.")


def _everything(view: LaunchView) -> Class | Refusal:
    executed = view.get("inst_executed") or view.get("inst_executed_total")
    if executed is None:
        return Refusal("The report does not say how many instructions were executed.")
    return Class("all", "instructions", executed, 1.0, dict.fromkeys(_WITHIN_SM, 1.0))


def _pipe_of(opcode: str) -> str | None:
    return next((pipe for pipe, names in PIPES.items() if opcode.startswith(names)), None)


def _counted(view: LaunchView, name: str, spoken: str, opcodes: tuple[str, ...]) -> Class:
    """A class by opcodes; `name` may be a pipe."""
    own, every = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for opcode, count in view.opcodes.items():
        pipe = _pipe_of(opcode)
        every[pipe] += count
        if pipe == name or (name not in PIPES and opcode.startswith(opcodes)):
            own[pipe] += count
    if name == "atomics":
        own = defaultdict(float, {"LSU": own["LSU"]})
    pipes = {pipe: count / every[pipe] for pipe, count in own.items() if pipe and count}
    if "LSU" in pipes:
        pipes["L1"] = pipes["LSU"]
    total = sum(own.values())
    shown = _count(view, name, spoken, total)
    return Class(name, spoken, shown, min(1.0, total / view.all_executed), pipes)


def _count(view: LaunchView, name: str, spoken: str, count: float) -> Evidence:
    amount, total = Quantity(count, "inst"), view.get("inst_by_opcode")
    sources = (total,) if total is not None else ()
    return view.ledger.derived(f"instructions.{name}", amount, f"executed {spoken}", *sources)


_PURPOSE_PIPES = {
    "value": ("FMA", "FP64", "FP16", "XU", "tensor"),
    "memory": ("LSU", "L1"),
    "sync": ("ADU",),
}
"""Units with mainly one purpose; the ALU and FMA pipes are shared."""


def _by_purpose(name: str, view: LaunchView) -> Class | Refusal:
    if view.code is None:
        return Refusal("What instructions are for is not known without the machine code.")
    part = sum(share for purpose, share in view.code.mix if purpose.value == name)
    spoken = f"instructions for {_SPOKEN[name]}"
    pipes = dict.fromkeys(_PURPOSE_PIPES.get(name, ()), 1.0)
    if not pipes:  # on the integer pipes, in proportion to all that is executed
        pipes = dict.fromkeys(("ALU", "FMA"), part)
    executed = _count(view, f"for_{name}", spoken, part * view.all_executed)
    return Class(name, spoken, executed, part, pipes)


_SPOKEN = {
    "value": "arithmetic on data",
    "memory": "loads and stores",
    "address": "addresses and indices",
    "control": "conditions and loops",
    "conversion": "conversions",
    "move": "moves and shuffles",
    "sync": "synchronisation",
}


# --- effects


def _effect(model: TimeModel, found: Class, removed: float) -> Effect:
    if found.name == "all":
        return Effect(dict.fromkeys(_WITHIN_SM, 1 - removed), every_wait=1 - removed)
    units = {pipe: 1 - removed * share for pipe, share in found.pipes.items()}
    units["issue"] = 1 - removed * found.part
    if found.name == "atomics":  # atomics queue for few addresses
        units[HOT_LINE] = 1 - removed
    return Effect(units, _waits(model, found, removed))


def _waits(model: TimeModel, found: Class, removed: float) -> dict[str, float]:
    """Warp states caused by these instructions, and by every instruction."""
    waits = kept_waits(model, _FIXED, removed * found.part)
    busiest = max(found.pipes.values(), default=0.0)
    math = {pipe for pipe in found.pipes if pipe in ("FMA", "ALU", "FP64", "FP16", "tensor")}
    if math:
        waits |= kept_waits(model, ("math_pipe_throttle",), removed * busiest)
    if "XU" in found.pipes:
        waits |= kept_waits(model, MIO_WAITS, removed * found.pipes["XU"] * _own_part(model, "XU"))
    share = removed * found.pipes.get("LSU", 0.0)
    if share:
        waits |= kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), share)
    if found.name == "atomics":
        queued = removed * model.loads.get(HOT_LINE, 0.0)
        waits |= kept_waits(model, MEMORY_WAITS, max(queued, share))
    if found.name in ("sync", "BAR"):
        waits |= kept_waits(model, ("barrier",), removed)
    return waits


def _own_part(model: TimeModel, unit: str) -> float:
    """The unit's share of the MIO queues, by how busy it is."""
    loads = [model.loads.get(each, 0.0) for each in ("XU", "LSU", "L1")]
    return model.loads.get(unit, 0.0) / max(*loads, 1e-9)
