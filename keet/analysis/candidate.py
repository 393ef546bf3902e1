"""A possible cause: its evidence, and what a fix would change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from keet.analysis.hardware.ceilings import MEMORY_UNITS
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import NOTABLE_PART
from keet.analysis.parallelism.bytes_in_flight import bytes_in_flight
from keet.analysis.parallelism.resident_warps import resident_blocks
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, LEADS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence

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
