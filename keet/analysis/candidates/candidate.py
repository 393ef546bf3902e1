"""A possible cause: what shows it, and what the launch would look like without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from keet.analysis.findings import Place
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Evidence
from keet.records import NamedTuple

Basis = Literal["measured", "assumed", "suspected"]
"""Of the effect: a measured amount of waste or idle time; a measured cause with an assumption on
how much of it a rewrite removes; equal numbers that may be a coincidence."""


class Candidate(NamedTuple):
    id: str
    text: str
    """How we know."""
    effect: Effect | float
    """What a fix leaves of the work and the waiting; or the gain itself, where it is no matter of
    units (the cost of launches, data that several launches move)."""
    evidence: tuple[Evidence, ...]
    places: Callable[[], tuple[Place, ...]]
    """Looked up for candidates that are told."""
    basis: Basis = "measured"
    variant: str = ""
    likelihood: float = 1.0
    """That it is true at all: below 1 for what is only suspected."""


MAX_GAIN = 30.0
"""Times faster: the largest gain that was measured in the casebook."""

Maker = Callable[[LaunchView, TimeModel], Iterator[Candidate]]

MEMORY_WAITS = ("long_scoreboard", "lg_throttle", "drain")
MIO_WAITS = ("mio_throttle", "short_scoreboard")
HIDEABLE = ("long_scoreboard", "lg_throttle", "drain", "short_scoreboard", "wait", "imc_miss")
"""Waits that other warps cover, if there are any."""


def kept_waits(model: TimeModel, states: tuple[str, ...], removed: float) -> dict[str, float]:
    """An effect on waiting: these states lose this share."""
    return {state: 1 - removed for state in states if state in model.waiting}


LEAST_PART = 0.003
"""Of the executed instructions: below, they are no cause of anything."""


def part_of(view: LaunchView, *opcodes: str) -> float:
    """Of the executed warp instructions, 0 to 1."""
    every = view.all_executed
    return min(1.0, max(0.0, view.executed(*opcodes) / every)) if every else 0.0


def shared_part(view: LaunchView) -> float | None:
    """Of L1's work, that of shared memory, 0 to 1; None: not known."""
    shared, whole = view.value("shared_wavefronts_pct"), view.ceilings.share("L1")
    return None if shared is None or not whole else min(1.0, shared / 100 / whole)


def is_matrix_product(view: LaunchView) -> bool:
    """By its instructions: fused multiply-adds on tiles in shared memory, or tensor cores."""
    every = view.all_executed
    if (view.ceilings.share("tensor") or 0.0) > 0.1:
        return True
    if not every:  # by the pipes: nearly all that is issued are fused multiply-adds
        issue, shared = view.ceilings.share("issue"), view.value("shared_memory_per_block")
        return bool(issue and shared) and (view.ceilings.share("FMA") or 0.0) >= 0.7 * (issue or 1)
    return view.executed("FFMA") >= 0.5 * every and view.executed("LDS") >= 0.02 * every
