"""Evaluates a model's claim that fewer instructions are needed: in total, or of one class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, kept_waits
from keet.analysis.decisions.double_precision import DOUBLES
from keet.analysis.hardware.ceilings import spoken_unit
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.diagnosis.claims.claim import (
    ClaimEffect,
    Refused,
    WorkClaim,
    as_claimed,
    in_unit,
    removable,
    stated_amount,
    stated_share,
    warps_launched,
)
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

PIPES: Mapping[str, tuple[str, ...]] = {
    "ADU": ("BAR", "LDC", "ULDC"),
    "FMA": ("FFMA", "FADD", "FMUL", "IMAD"),
    "ALU": (
        *("IADD", "LOP", "SHF", "ISETP", "VIMNMX", "IMNMX", "SEL", "FSEL", "FSETP", "FMNMX"),
        *("LEA", "PRMT", "IABS", "I2I", "REDUX"),
    ),
    "FP64": DOUBLES,
    "tensor": ("HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA"),
    "FP16": ("HADD", "HMUL", "HFMA", "HMNMX", "HSET"),
    "XU": ("MUFU", "I2F", "F2I", "F2F", "POPC", "FLO", "BREV"),
    "LSU": ("LD", "ST", "ATOM", "RED"),
}
"""Opcodes by pipe; the first match counts: `LDC` is not a load of the LSU, and `REDUX` not an
atomic."""
_PURPOSES = {
    "value": "arithmetic on data",
    "memory": "loads and stores",
    "address": "addresses and indices",
    "control": "conditions and loops",
    "conversion": "conversions",
    "move": "moves and shuffles",
    "sync": "synchronisation",
}
_PURPOSE_PIPES = {
    "value": ("FMA", "FP64", "FP16", "XU", "tensor"),
    "memory": ("LSU", "L1"),
    "sync": ("ADU",),
}
"""Units with mainly one purpose; the ALU and FMA pipes are shared."""
_WITHIN_SM = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1", "tensor")
_WAITS_OF_ALL = ("wait", "dispatch_stall", "branch_resolving", "no_instruction", "no_instructions")
"""Warp states that occur with every instruction."""
_OPERATIONS = {"inst": 1.0, "op": 32.0, "flop": 64.0}
"""Operations of threads per warp instruction, by unit of the amount."""


class _Class(NamedTuple):
    """A class of instructions."""

    name: str
    spoken: str
    executed: Evidence
    """Warp instructions."""
    part: float
    """Of all executed instructions, 0 to 1."""
    pipes: Mapping[str, float]
    """By unit: the share of its work that belongs to this class, 0 to 1."""


def instruction_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    view = model.view
    kind = _class_named(claim.of.strip(), view)
    executed = kind.executed
    if not executed.value:
        raise Refused("The launch executes no {of}.", of=kind.spoken, executed=executed)
    launch = Sentence("The launch executes {executed}", executed=executed)
    if kind.name != "all":
        launch = Sentence("{launch} ({of})", launch=launch, of=kind.spoken)
    if claim.needed is None:
        share = claim.share()
        shown = stated_share(view, kind.spoken, share, executed)
        removed = removable(share)
        said = Sentence("{shown:.0f} of them are not needed", shown=shown)
    else:
        base = in_unit(claim.needed, *_OPERATIONS)
        amount = Quantity(float(base.value) / _OPERATIONS[base.unit], "inst")
        shown = stated_amount(view, kind.spoken, amount, executed)
        if not shown.value >= (warps_launched(view) if kind.name == "all" else 0.0):
            raise Refused("{n} is less than an instruction per warp of the launch.", n=shown)
        if shown.value >= executed.value:
            text = "{launch}, and {shown} are said to be needed: nothing can be saved."
            raise Refused(text, launch=launch, executed=executed, shown=shown)
        removed = removable(1 - float(shown.value) / float(executed.value))
        said = Sentence("{shown} are needed", shown=shown)
    unit = max(kind.pipes, key=lambda pipe: model.loads.get(pipe, 0.0), default="issue")
    reached = view.ceilings.reached(unit)
    return ClaimEffect(
        as_claimed(launch, said),
        _effect(model, kind, removed),
        (executed, shown, *((reached,) if reached else ())),
        unit,
        1 - removed * kind.pipes.get(unit, kind.part),
    )


def _class_named(name: str, view: LaunchView) -> _Class:
    """Finds the class by pipe, purpose or opcode."""
    lower = name.lower()
    if lower in ("all", ""):
        executed = view.get("inst_executed") or view.get("inst_executed_total")
        if executed is None:
            raise Refused("The report does not say how many instructions were executed.")
        return _Class("all", "instructions", executed, 1.0, dict.fromkeys(_WITHIN_SM, 1.0))
    if not view.all_executed:
        raise Refused("The report does not count instructions by opcode.")
    if lower in _PURPOSES:
        if view.code is None:
            raise Refused("What instructions are for is not known without the machine code.")
        part = sum(share for purpose, share in view.code.mix if purpose.value == lower)
        # On the integer pipes, in proportion to all that is executed.
        shared = dict.fromkeys(("ALU", "FMA"), part)
        pipes = dict.fromkeys(_PURPOSE_PIPES.get(lower, ()), 1.0) or shared
        spoken = f"instructions for {_PURPOSES[lower]}"
        executed = _count(view, f"for_{lower}", spoken, part * view.all_executed)
        return _Class(lower, spoken, executed, part, pipes)
    known = {pipe.lower(): (pipe, f"instructions of {spoken_unit(pipe)}") for pipe in PIPES}
    known |= dict.fromkeys(("atomic", "atomics"), ("atomics", "atomic instructions"))
    if lower in known:
        return _by_opcode(view, *known[lower], ("ATOM", "RED"))
    if name.isupper() and view.executed(name):
        return _by_opcode(view, name, f"{name} instructions", (name,))
    names = ", ".join((*_PURPOSES, "atomics", *PIPES))
    raise Refused("Instructions are claimed of all, an executed opcode, {names}.", names=names)


def _by_opcode(view: LaunchView, name: str, spoken: str, opcodes: tuple[str, ...]) -> _Class:
    """The opcodes of the pipe `name`, or these if it is no pipe."""
    own, every = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for opcode, count in view.opcodes.items():
        pipe = next((pipe for pipe, names in PIPES.items() if opcode.startswith(names)), None)
        every[pipe] += count
        if pipe == name or (name not in PIPES and opcode.startswith(opcodes)):
            own[pipe] += count
    if name == "atomics":
        own = defaultdict(float, {"LSU": own["LSU"]})
    pipes = {pipe: count / every[pipe] for pipe, count in own.items() if pipe and count}
    if "LSU" in pipes:
        pipes["L1"] = pipes["LSU"]
    total = sum(own.values())
    executed = _count(view, name, spoken, total)
    return _Class(name, spoken, executed, min(1.0, total / view.all_executed), pipes)


def _count(view: LaunchView, name: str, spoken: str, count: float) -> Evidence:
    amount, total = Quantity(count, "inst"), view.get("inst_by_opcode")
    sources = (total,) if total is not None else ()
    return view.ledger.derived(f"instructions.{name}", amount, f"executed {spoken}", *sources)


def _effect(model: TimeModel, kind: _Class, removed: float) -> Effect:
    """Shortens the waiting that these instructions cause, and that every instruction causes."""
    if kind.name == "all":
        return Effect(dict.fromkeys(_WITHIN_SM, 1 - removed), every_wait=1 - removed)
    pipes = kind.pipes
    units = {pipe: 1 - removed * share for pipe, share in pipes.items()}
    units["issue"] = 1 - removed * kind.part
    waits = kept_waits(model, _WAITS_OF_ALL, removed * kind.part)
    if pipes.keys() & {"FMA", "ALU", "FP64", "FP16", "tensor"}:
        waits |= kept_waits(model, ("math_pipe_throttle",), removed * max(pipes.values()))
    if "XU" in pipes:  # it has a part of the MIO queues, by how busy it is
        loads = [model.loads.get(unit, 0.0) for unit in ("XU", "LSU", "L1")]
        part = loads[0] / max(*loads, 1e-9)
        waits |= kept_waits(model, MIO_WAITS, removed * pipes["XU"] * part)
    in_lsu = removed * pipes.get("LSU", 0.0)
    if in_lsu:
        waits |= kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), in_lsu)
    if kind.name == "atomics":  # atomics queue for few addresses
        units[HOT_LINE] = 1 - removed
        queued = removed * model.loads.get(HOT_LINE, 0.0)
        waits |= kept_waits(model, MEMORY_WAITS, max(queued, in_lsu))
    if kind.name in ("sync", "BAR"):
        waits |= kept_waits(model, ("barrier",), removed)
    return Effect(units, waits)
