"""The unit of the SM that is the busiest, and what its work is: reloads, special functions,
conversions, other.

No other candidate calls this work waste; less of it helps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from keet.analysis.candidate import Candidate, kept_waits, part_of
from keet.analysis.decisions.conversions import conversions
from keet.analysis.decisions.tiles import tiled
from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.kernel.register_tiles import (
    LOADS,
    loads_fragments,
    loads_left,
    mostly_hits,
    packable,
)
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import DEVICE_WIDE, INDIRECT, SHARPNESS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.formatting import capitalized
from keet.units import Quantity

PIPE_WORK = Parameter(
    0.6, "share of a saturated pipe's work that is left after reuse in registers", "fit"
)
NEAR_BUSIEST = Parameter(0.9, "share of the largest load: a unit may limit too", "judgement")
RELIEVED_TOO = Parameter(0.8, "the same: a unit has less work with a relieved pipe", "judgement")
FADE_IN = Parameter(10, "how fast a unit starts to count beyond such a share", "judgement")


Work = Literal["reloads", "special functions", "conversions", "other"]
_LEFT_OUT = (*DEVICE_WIDE, "FMA", "tensor", "FP16", "FP64", "issue", WHOLE_SM)
"""Near the peak of an arithmetic pipe, a kernel is at a roofline. Whether the work is needed is
checked by other candidates."""
_LOADS_AND_STORES = ("LD", "ST", "ATOM", "RED")
_OPCODES = {
    "ALU": (
        *("IADD", "LOP", "SHF", "ISETP", "VIMNMX", "IMNMX", "SEL", "FSEL", "FSETP", "FMNMX"),
        "LEA",
    ),
    "XU": ("MUFU", "I2F", "F2I", "F2F"),
    "FP64": ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX", "DMMA"),
    "LSU": _LOADS_AND_STORES,
    "L1": _LOADS_AND_STORES,
    "ADU": ("BAR", "LDC", "ULDC"),
}
"""By the unit that executes them."""


class SaturatedUnit(NamedTuple):
    unit: str
    work: Work
    """`reloads`: mostly global loads that hit L1: values should be reused from registers or shared
    memory."""
    reached: Evidence
    text: Sentence
    """How busy it is, as a sentence without its full stop."""
    effect: Effect
    """Of less work, by reuse."""
    places: Callable[[], tuple[Place, ...]]

    def candidate(self, finding: str, why: str = "", *evidence: Evidence) -> Candidate:
        text, shown = Sentence("{text}{why}.", text=self.text, why=why), (self.reached, *evidence)
        return Candidate(finding, text, self.effect, shown, self.places, "assumed", self.unit)


def saturated(view: LaunchView, model: TimeModel) -> SaturatedUnit | None:
    """None if an arithmetic pipe or a unit outside of the SMs is clearly busier."""
    loads = {unit: load for unit, load in model.loads.items() if unit not in _LEFT_OUT}
    unit = max(loads, key=loads.__getitem__, default="")
    ceiling = view.ceilings.get(unit)
    # The cause fades out if another unit is slightly busier.
    certainty = _above(NEAR_BUSIEST, loads[unit], model) if ceiling else 0.0
    if ceiling is None or not certainty:
        return None
    is_l1 = unit in ("L1", "LSU")
    is_reload = is_l1 and (mostly_hits(view) or loads_fragments(view))
    converted = conversions(view) if unit == "XU" else None
    functions: Work = "conversions" if converted else "special functions"
    work: Work = "reloads" if is_reload else functions if unit == "XU" else "other"
    rank = "the busiest unit" if unit == model.busiest else "among the busiest units"
    name, reached = capitalized(ceiling.spoken), ceiling.reached
    text = "{unit} is {rank}: it is busy for {busy:.0f} of the time"
    shown = Sentence(text, unit=name, rank=rank, busy=reached)
    left = loads_left(view) if is_l1 else converted.left if converted else None
    removed = (1 - (PIPE_WORK if left is None else left)) * certainty
    units = {
        other: 1 - removed * _above(RELIEVED_TOO, load, model) for other, load in loads.items()
    }
    units |= dict.fromkeys(("L1", "LSU") if is_l1 else (unit,), 1 - removed)
    if left is not None:  # instructions that are not executed take no issue slots
        if converted:
            units["issue"] = 1 - certainty * converted.gone
        if is_l1:  # one instruction works on several packed values
            for other, kept in tiled(view, model, part_of(view, *LOADS), 1 - removed).units.items():
                units[other] = min(kept, units.get(other, 1.0))
            packed = INDIRECT * removed * packable(view)
            for other in ("issue", "ALU", "FMA"):
                units[other] = units.get(other, 1.0) * (1 - packed)
    if work == "special functions":  # the pipe executes only a part of each division
        units |= dict.fromkeys(("issue", "ALU", "FMA"), 1 - removed * INDIRECT)
    effect = Effect(units, less_queueing(model, unit, removed))
    return SaturatedUnit(unit, work, reached, shown, effect, partial(unit_places, view, unit))


def _above(part: float, load: float, model: TimeModel) -> float:
    """Rises from 0 at `part` of the largest load to 1 at a tenth more."""
    beyond = load / model.pressure - part if model.pressure else 0.0
    return min(1.0, max(0.0, FADE_IN * beyond))


def less_queueing(model: TimeModel, unit: str, removed: float = 1 - PIPE_WORK) -> dict[str, float]:
    """Waiting for a unit decreases with its work."""
    states = ("mio_throttle", "lg_throttle", "short_scoreboard")
    if unit not in ("L1", "LSU", "ADU", "XU"):
        states = ("math_pipe_throttle", "wait", "dispatch_stall")
    queues = model.loads.get(unit, 0.0) ** SHARPNESS
    return kept_waits(model, states, removed * queues)


def unit_places(view: LaunchView, unit: str) -> tuple[Place, ...]:
    """Lines by executed instructions of the unit; sampled lines without the machine code."""
    if view.code is None or unit not in _OPCODES:
        return view.sampled_places()
    program = view.code.program
    executed = {
        program.code[position].address: program.counts[position]
        for position in program.ran
        if program.code[position].opcode.startswith(_OPCODES[unit])
    }
    of = "loads and stores" if unit in ("L1", "LSU") else f"instructions of the {unit} pipe"
    return view.places_by(of, executed) or view.sampled_places()


def while_active(view: LaunchView, model: TimeModel) -> Evidence | None:
    """How busy the busiest unit is while SMs are active. None where most SMs work, and for units
    that all SMs share."""
    busiest, active = view.ceilings.get(model.busiest or ""), model.balance.active
    if busiest is None or not 0 < active < MAJORITY or busiest.name in (*DEVICE_WIDE, WHOLE_SM):
        return None
    issuing = view.get("one_or_more_eligible_pct")
    if busiest.name == "issue" and issuing is not None:
        return issuing
    share = Quantity(min(100.0, float(busiest.reached.value) / active), "%")
    label = f"{busiest.name} busy while SMs are active"
    return view.ledger.derived(f"{busiest.id}_while_active", share, label, busiest.reached)
