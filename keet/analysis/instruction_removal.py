"""What instructions take with them when they are removed: the waiting that they cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from keet.analysis.candidate import MEMORY_WAITS, kept_waits, needless_loads
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, Role
from keet.analysis.time_model import INDIRECT, SHARPNESS, TimeModel

if TYPE_CHECKING:
    from keet.analysis.machine_code.instructions.instruction import Instruction


BARRIER = "barrier"


def kept_waits_without(
    view: LaunchView, model: TimeModel, positions: Iterable[int], gone: float, removed: float
) -> dict[str, float]:
    """An effect on waiting: the share `gone` of these instructions goes, which is the share
    `removed` of all instructions."""
    return kept_waits_by(view, model, dict.fromkeys(positions, gone), removed)


def kept_waits_by(
    view: LaunchView, model: TimeModel, gone: Mapping[int, float], removed: float
) -> dict[str, float]:
    """The same with the share that goes of each instruction, by position.

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
        return is_fma * (
            2 if instruction.opcode == "IMAD" and instruction.has(*_TWO_CYCLE_PRODUCTS) else 1
        )
    return unit == "issue" or (
        instruction.role in (Role.INTEGER, Role.PREDICATE, Role.MOVE) and not is_fma
    )
