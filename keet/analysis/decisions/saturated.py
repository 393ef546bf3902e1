"""The unit of the SM that is the busiest, and what its work is: reloads, special functions,
conversions, other.

No other candidate calls this work waste; less of it helps.

Conversions keep the XU pipe busy. A value that many threads read from shared memory, and convert
after that, is converted as often as it is read. Converted before it is stored, once per value
would do.

The cache of indexed constants serves one address at a time, so that a load whose threads use
different indices takes far more cycles than one of all threads for one address. It keeps the ADU
pipe busy, as barriers do: the cache's own counter tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.candidate import Candidate, kept_waits, part_of
from keet.analysis.hardware.ceilings import WHOLE
from keet.analysis.hardware.stages import share_of, sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.analysis.parallelism.register_tiles import (
    LOADS,
    loads_fragments,
    loads_left,
    mostly_hits,
    packable,
    tiled,
)
from keet.analysis.parameters import MAJORITY, Parameter
from keet.analysis.remedy_conditions.instructions import CONVERSIONS, mostly_conversions
from keet.analysis.time_model import DEVICE_WIDE, INDIRECT, SHARPNESS, Effect, TimeModel, attainable
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.formatting import capitalized

if TYPE_CHECKING:
    from keet.analysis.machine_code.flow.program import SassProgram
    from keet.analysis.machine_code.launch_code import MachineCode

_UNPACKING_OPCODES = ("PRMT", "SHF", "LOP3", "SGXT", "I2I")
"""What takes a small value out of a word before it is converted."""
_SCALING_OPCODES = ("FMUL", "FADD")
"""What multiplies the result of a conversion by a factor, or adds an offset."""
_SEVERAL_TIMES = 2


class Conversions(NamedTuple):
    names: str
    """Opcodes, the most frequent first."""
    left: float | None = None
    """Share of the XU pipe's work that is left if values of shared memory are converted before they
    are stored; None: they are converted once, or not known."""
    times: Evidence | None = None
    """How often each value is converted."""
    gone: float = 0.0
    """Share of all executed instructions that would go: repeated conversions, and the scaling of
    their results."""

    @property
    def why(self) -> Sentence:
        """Follows how busy the pipe is."""
        text = Sentence("; most of its instructions are conversions ({names})", names=self.names)
        if self.times is None:
            return text
        more = "{text}, and values from shared memory are converted {times:.0f} times each"
        return Sentence(more, text=text, times=self.times)


def conversions(view: LaunchView) -> Conversions | None:
    """None if the XU pipe mostly computes special functions, or conversions that are a part of
    them (powers, sines)."""
    if not mostly_conversions.test(view) or _are_of_functions(view):
        return None
    ran = sorted((-view.count(name), name) for name in CONVERSIONS if view.count(name))
    named = " and ".join(name for _, name in ran[:_SEVERAL_TIMES])
    code, executed = view.code, view.get("inst_executed")
    times = _reads_per_store(code.program) if code else 0.0
    if code is None or executed is None or times < _SEVERAL_TIMES:
        return Conversions(named)
    program = code.program
    converting = [at for at in code.with_opcodes(CONVERSIONS) if _is_from_shared(program, at)]
    converted, again = sum(program.counts[at] for at in converting), 1 - 1 / times
    if not converted:
        return Conversions(named)
    results = {value for at in converting for value in program.values.written[at].values()}
    scaled = sum(
        program.counts[at]
        for at in code.with_opcodes(_SCALING_OPCODES)
        if not results.isdisjoint(program.values.read[at].values())
    )
    label = "times that a value of shared memory is converted, by loads per store"
    shown = view.derived("converted_again", times, label, executed)
    gone = again * (converted + scaled) / sum(program.counts)
    return Conversions(named, 1 - again * converted / view.count(*BY_PIPE["XU"]), shown, gone)


def _are_of_functions(view: LaunchView) -> bool:
    """Whether most of the XU pipe's instructions belong to functions of floats that the compiler
    expands, which round and convert their arguments."""
    if view.code is None:
        return False
    on_xu = view.code.with_opcodes(BY_PIPE["XU"])
    of_functions = set(on_xu).intersection(float_functions(view.code))
    return view.code.share(of_functions) >= MAJORITY * view.code.share(on_xu) > 0


def float_functions(code: MachineCode) -> list[int]:
    """Positions of the functions of floats that the compiler expanded."""
    return code.expanded(*float_names(code))


def float_names(code: MachineCode) -> set[str]:
    return {expansion.name for expansion in code.expansions if expansion.is_of_floats}


def _reads_per_store(program: SassProgram) -> float:
    """Bytes that are loaded from shared memory per byte that is stored there; 0: none are."""
    moved = {"LDS": 0.0, "STS": 0.0}
    for position in program.ran:
        instruction = program.code[position]
        if instruction.opcode in moved:
            moved[instruction.opcode] += program.counts[position] * instruction.width
    return moved["LDS"] / moved["STS"] if moved["STS"] else 0.0


def _is_from_shared(program: SassProgram, position: int) -> bool:
    """Whether a conversion is of a value that was loaded from shared memory."""
    waiting, seen = [position], {position}
    while waiting:
        for value in program.values.read[waiting.pop()].values():
            for source in program.values.definitions(value):
                opcode = program.code[source].opcode
                if opcode == "LDS":
                    return True
                if opcode in _UNPACKING_OPCODES and source not in seen:
                    seen.add(source)
                    waiting.append(source)
    return False


PIPE_WORK = Parameter(
    0.6, "share of a saturated pipe's work that is left after reuse in registers", "fit"
)
NEAR_BUSIEST = Parameter(0.9, "share of the largest load: a unit may limit too", "judgement")
RELIEVED_TOO = Parameter(0.8, "the same: a unit has less work with a relieved pipe", "judgement")
FADE_IN = Parameter(10, "how fast a unit starts to count beyond such a share", "judgement")


Work = Literal["reloads", "special functions", "conversions", "other"]
_LEFT_OUT = (*DEVICE_WIDE, "FMA", "tensor", "FP16", "FP64", "issue", *WHOLE)
"""Near the peak of an arithmetic pipe, a kernel is at a roofline. Whether the work is needed is
checked by other candidates."""


class SaturatedUnit(NamedTuple):
    name: str
    work: Work
    """`reloads`: mostly global loads that hit L1: values should be reused from registers or shared
    memory."""
    reached: Evidence
    text: Sentence
    """How busy it is, as a sentence without its full stop."""
    effect: Effect
    """Of less work, by reuse."""
    places: Callable[[], tuple[Place, ...]]

    def candidate(self, why: str = "", *evidence: Evidence) -> Candidate:
        text, shown = Sentence("{text}{why}.", text=self.text, why=why), (self.reached, *evidence)
        return Candidate(text, self.effect, shown, self.places, basis="assumed", variant=self.name)


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
    if unit in ("L1", "LSU"):
        return access_places(view, "memory instructions", BY_PIPE["LSU"])
    return access_places(view, f"instructions of the {unit} pipe", BY_PIPE.get(unit, ()))


def access_places(view: LaunchView, of: str, opcodes: Collection[str]) -> tuple[Place, ...]:
    """Lines by executions of these opcodes; sampled lines without the machine code."""
    code = view.code
    executed = code.executions(code.with_opcodes(opcodes)) if code is not None else {}
    return view.places_by(of, executed) or view.sampled_places()


def while_active(view: LaunchView, model: TimeModel) -> Evidence | None:
    """How busy the busiest unit is while SMs are active. None where most SMs work, and for units
    that all SMs share."""
    busiest, active = view.ceilings.get(model.busiest or ""), model.balance.active
    if busiest is None or not 0 < active < MAJORITY or busiest.name in (*DEVICE_WIDE, *WHOLE):
        return None
    issuing = view.get("one_or_more_eligible_pct")
    if busiest.name == "issue" and issuing is not None:
        return issuing
    share, reached = min(100.0, float(busiest.reached.value) / active), busiest.reached
    label = f"{busiest.name} busy while SMs are active"
    return view.derived(f"{busiest.id}_while_active", share, label, reached, unit="%")


ONE_ADDRESS = 2.0
"""Cycles in which the cache serves a load of one address for a whole warp: 2.00 to 2.13 in all but
one of the public reports whose loads seem to be all of this kind."""


class IndexedConstants(NamedTuple):
    busy: Evidence
    """How long the cache serves requests, as a share of the elapsed cycles."""
    part: float
    """Its share of the ADU pipe's work, 0 to 1. The rest is mostly barriers."""
    cycles: Evidence
    """Cycles of the cache that a load takes, on average."""
    loads: float
    """Loads per cycle of an SM."""

    @property
    def removed(self) -> float:
        """Share of the ADU pipe's work that goes if all loads are of one address."""
        return self.part * (1 - ONE_ADDRESS / max(ONE_ADDRESS, float(self.cycles.value)))


@cached_per_view
def indexed_constants(view: LaunchView) -> IndexedConstants | None:
    """None if the counter or the number of loads is not known."""
    busy, reached = view.get("sol_idc_requests_pct"), view.ceilings.reached("ADU")
    cycles, sms = sm_elapsed_cycles(view.ledger), view.launch.device.sm_count
    loads = view.count("LDC")
    if busy is None or reached is None or not reached.value or not busy.value:
        return None
    if cycles is None or not cycles.value or not sms or not loads:
        return None
    per_cycle = loads / (float(cycles.value) * sms)
    label = "cycles of the cache of indexed constants per load"
    per_load = share_of(busy) / per_cycle
    taken = view.derived("cycles_per_constant", per_load, label, busy)
    part = min(1.0, float(busy.value) / float(reached.value))
    return IndexedConstants(busy, part, taken, per_cycle)


def less_indexing(model: TimeModel, constants: IndexedConstants) -> Candidate:
    """The loads go through L1 instead."""
    text = (
        "The cache of indexed constants is busy for {busy:.0f} of the time: a load from constant "
        "memory takes {cycles:.0f} cycles on average, because the threads of a warp use different "
        "indices. One that is the same for all of them takes two cycles."
    )
    busy, cycles = constants.busy, constants.cycles
    queued = constants.removed * model.loads.get("ADU", 0.0) ** SHARPNESS
    waits = less_queueing(model, "ADU", constants.removed)
    waits |= kept_waits(model, ("barrier",), INDIRECT * queued)  # for warps that wait in the queue
    l1 = min(1.0, model.loads.get("L1", 0.0) + constants.loads / attainable("L1"))
    effect = Effect({"ADU": 1 - constants.removed}, waits, moved={"L1": l1})
    said, places = Sentence(text, busy=busy, cycles=cycles), partial(constant_places, model.view)
    return Candidate(said, effect, (busy, cycles), places, variant="ADU/constants")


def constant_places(view: LaunchView) -> tuple[Place, ...]:
    """Lines of loads from constant memory with an index; without the machine code, those where
    warps wait for short operations."""
    if view.code is None:
        return view.waiting_places("short_scoreboard")
    read = view.code.program.values.read
    indexed = [at for at in view.code.with_opcodes(["LDC"]) if read[at]]
    return view.places_by("loads of indexed constants", view.code.executions(indexed))
