"""A possible cause: its evidence, and what a fix would change.

Instructions that are removed take the waiting with them that they cause.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.hardware.ceilings import MEMORY_UNITS
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, Role
from keet.analysis.parallelism.occupancy import bytes_in_flight
from keet.analysis.parallelism.resident_warps import resident_blocks
from keet.analysis.parameters import NOTABLE_PART, Parameter
from keet.analysis.time_model import INDIRECT, LEADS, SHARPNESS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence

if TYPE_CHECKING:
    from keet.analysis.machine_code.instructions.instruction import Instruction


Basis = Literal["measured", "assumed", "suspected"]
"""Basis of the effect. `measured`: an amount of waste or idle time was measured. `assumed`: the
cause was measured, and how much of it a rewrite removes is assumed. `suspected`: equal numbers that
may be a coincidence."""


class Amount(NamedTuple):
    """How much is done again, and what would be left."""

    brief: Sentence | None
    """For a headline: `x` is read 12 times."""
    floor: Sentence | None = None
    """The least time without it, as a sentence of its own; None if it is not known."""
    evidence: tuple[Evidence, ...] = ()


class Candidate(NamedTuple):
    text: Sentence
    """The measurements that show it, as a sentence."""
    effect: Effect | float
    """What a fix leaves of the work and the waiting; or the gain itself, if it does not depend on
    units (the cost of launches, data that several launches move)."""
    evidence: tuple[Evidence, ...]
    places: Callable[[], tuple[Place, ...]]
    """Computed only for candidates that are reported."""
    basis: Basis = "measured"
    variant: str = ""
    likelihood: float = 1.0
    """Likelihood that the cause is real: below 1 for suspicions."""
    doubt: float = 1.0
    """0 to 1: how much of the usual doubt in an assumed cause its evidence leaves. 0: the cause is
    there, and only the amount is assumed."""
    is_open: bool = False
    """Whether nothing in the report limits the gain: the range has no upper end."""
    most: float = math.inf
    """Times faster at most, where other work of the launch limits a gain that is no `Effect`."""
    amount: Callable[[], Amount] | None = None
    """Computed only for candidates that are reported."""
    id: str = ""
    """Of the finding that proposes it: see `FindingSpec.proposed`."""


MAX_GAIN = Parameter(30, "times faster: the largest gain measured in the casebook", "fit")

DOUBT_STEEPNESS = Parameter(3, "exponent: how fast doubt decreases with evidence", "judgement")


def chance_by(amount: float, half: float) -> float:
    """Chance that a cause is real, 0 to 1, which grows with an amount; a half at `half`."""
    size, doubt = math.pow(amount, DOUBT_STEEPNESS), math.pow(half, DOUBT_STEEPNESS)
    return size / (size + doubt) if doubt else 1.0


def doubt_if_counted(view: LaunchView) -> float:
    """0 if the report counts the instructions that a fix replaces. Without counts, a busy pipe is
    all that shows them: 1."""
    return 0.0 if view.all_executed else 1.0


MEMORY_WAITS = ("long_scoreboard", "lg_throttle", "drain")
MIO_WAITS = ("mio_throttle", "short_scoreboard")
HIDEABLE = ("long_scoreboard", "lg_throttle", "drain", "short_scoreboard", "wait", "imc_miss")
"""Warp states that other warps can hide."""


def kept_waits(model: TimeModel, states: tuple[str, ...], removed: float) -> dict[str, float]:
    """An effect on waiting: these states lose the share `removed`."""
    return {state: 1 - removed for state in states if state in model.waiting}


def covered_waits(model: TimeModel, times: float) -> dict[str, float]:
    """An effect on waiting: that of `times` as many warps. At barriers, only warps of other blocks
    help."""
    removed = 1 - 1 / times
    covered = kept_waits(model, HIDEABLE, removed)
    covered |= kept_waits(model, ("barrier",), removed * INDIRECT)
    return covered | kept_waits(model, ("long_scoreboard",), removed * (1 - needless_loads(model)))


def needless_loads(model: TimeModel) -> float:
    """Share of the waits for loads that more loads at a time would not shorten, 0 to 1: with enough
    bytes on their way to keep a busy memory busy, loads wait in a queue, and more of them lengthen
    it. A memory that is not busy is idle between the waits; so is any while the only block of each
    SM computes."""
    flight = bytes_in_flight(model.view)
    blocks = resident_blocks(model.view) if flight is not None else None
    if flight is None or (blocks is not None and blocks.fit.value <= 1):
        return 0.0
    busy = max(model.loads.get(unit, 0.0) for unit in ("DRAM", "L2"))
    return (1 - flight.shortage()) * busy


def a_unit_explains(view: LaunchView, model: TimeModel) -> bool:
    """Whether a unit limits the launch, or may because no level of memory was measured, and no warp
    states show that warps wait for anything else."""
    may_be_memory = view.ceilings.unmeasured == MEMORY_UNITS
    return not view.stalls and (may_be_memory or model.pressure >= LEADS)


LEAST_PART = Parameter(
    0.003, "share of the instructions below which they are no cause", "judgement"
)


def part_of(view: LaunchView, *opcodes: str) -> float:
    """Share of the executed warp instructions, 0 to 1."""
    every = view.all_executed
    return min(1.0, max(0.0, view.executed(*opcodes) / every)) if every else 0.0


PRODUCT_FMA = Parameter(0.7, "FMA busy over issue slots used: a matrix product", "judgement")
PRODUCT_FFMA = Parameter(0.5, "share of FFMA in the instructions: a matrix product", "judgement")
PRODUCT_LDS = Parameter(0.02, "share of LDS in the instructions: a matrix product", "judgement")


def is_matrix_product(view: LaunchView) -> bool:
    """Whether it looks like a matrix product: fused multiply-adds on tiles in shared memory, or
    tensor cores."""
    every, shares = view.all_executed, view.ceilings.share
    if (shares("tensor") or 0.0) > NOTABLE_PART:
        return True
    if not every:  # by the pipes: nearly all that is issued are fused multiply-adds
        issue, shared = shares("issue") or 0.0, view.value("shared_memory_per_block")
        return bool(issue and shared) and (shares("FMA") or 0.0) >= PRODUCT_FMA * issue
    parts = {"FFMA": PRODUCT_FFMA, "LDS": PRODUCT_LDS}
    return all(view.executed(opcode) >= part * every for opcode, part in parts.items())


BARRIER = "barrier"


def kept_waits_by(
    view: LaunchView, model: TimeModel, gone: Mapping[int, float], removed: float
) -> dict[str, float]:
    """An effect on waiting, if these shares of instructions go, by position: `removed` of all.

    A sampled wait belongs to the instruction that is waited for (a load, a conversion), or to the
    waiting one if it waits for its own unit or for its constants. Without samples, waiting for
    anything but memory decreases by a part of what is removed.
    """
    if view.code is None or not view.code.stalls:
        states = tuple(state for state in model.waiting if state not in MEMORY_WAITS)
        return kept_waits(model, states, INDIRECT * removed)
    going, every = defaultdict[str, float](float), Counter[str]()
    for wait in view.code.waits:
        every[wait.reason] += wait.samples
        cause = wait.producers[0] if wait.producers else wait.position
        going[wait.reason] += wait.samples * gone.get(cause, 0.0)
    kept = {state: 1 - going[state] / every[state] for state in model.waiting if every.get(state)}
    # Warps with fewer instructions send their next loads sooner: as far as a pipe held them up, and
    # their loads are enough to keep DRAM busy. What is left of the waiting is the queue of a busy
    # memory then, and that is its load.
    limit = max(model.loads.get(unit, 0.0) for unit in _PIPES) ** SHARPNESS
    sooner = removed * limit * needless_loads(model) if removed > 0 else 0.0
    kept |= {state: kept[state] * (1 - sooner) for state in MEMORY_WAITS if state in kept}
    return kept | _at_barriers(view, model, kept, removed)


_PIPES = ("issue", "FMA", "ALU")


def _at_barriers(
    view: LaunchView, model: TimeModel, kept: Mapping[str, float], removed: float
) -> dict[str, float]:
    """At a barrier, warps wait for what others still have to do, so this waiting decreases with the
    rest of the warps' time. Barriers that go themselves take all of their waiting with them."""
    others = {state: part for state, part in view.stalls.items() if state != BARRIER}
    if BARRIER not in model.waiting or not others:
        return {}
    left = {state: kept.get(state, 1.0) for state in model.waiting}
    rest = sum(part * left.get(state, 1 - removed) for state, part in others.items())
    return {BARRIER: left[BARRIER] * min(1.0, rest / sum(others.values()))}


_TWO_CYCLE_PRODUCTS = ("WIDE", "HI")
"""Products of 64 bits take the FMA pipe twice as long."""


def removed_part(view: LaunchView, gone: Mapping[int, float], unit: str) -> float:
    """Share of the work of the issue slots, the FMA or the ALU pipe that goes, 0 to 1. `gone`: the
    share that goes of each instruction, by position."""
    if view.code is None or not gone:
        return 0.0
    every = removed = 0.0
    for position, time in _times(view)(unit):
        every += time
        removed += time * gone.get(position, 0.0)
    return removed / every if every else 0.0


@cached_per_view
def _times(view: LaunchView) -> Callable[[str], Sequence[tuple[int, float]]]:
    """How long each instruction that ran takes a unit, with its position: for those who ask again
    and again."""
    assert view.code is not None
    program = view.code.program

    @cache
    def on(unit: str) -> Sequence[tuple[int, float]]:
        return [(at, program.counts[at] * _time_on(unit, program.code[at])) for at in program.ran]

    return on


def _time_on(unit: str, instruction: Instruction) -> int:
    is_fma = instruction.opcode in BY_PIPE["FMA"]
    if unit == "FMA":
        is_long = instruction.opcode == "IMAD" and instruction.has(*_TWO_CYCLE_PRODUCTS)
        return is_fma * (2 if is_long else 1)
    on_alu = instruction.role in (Role.INTEGER, Role.PREDICATE, Role.MOVE)
    return unit == "issue" or (on_alu and not is_fma)
