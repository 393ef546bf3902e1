"""Loads from constant memory whose threads use different indices.

The cache of indexed constants serves one address at a time, so that such a load takes far more
cycles than one of all threads for one address. It keeps the ADU pipe busy, as barriers do: the
cache's own counter tells them apart.
"""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.candidate import kept_waits
from keet.analysis.decisions.saturated import less_queueing
from keet.analysis.hardware.stages import share_of, sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.time_model import INDIRECT, SHARPNESS, Effect, TimeModel, attainable
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

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
    each = view.ledger.derived(
        "cycles_per_constant",
        Quantity(share_of(busy) / per_cycle, ""),
        "cycles of the cache of indexed constants per load",
        busy,
    )
    part = min(1.0, float(busy.value) / float(reached.value))
    return IndexedConstants(busy, part, each, per_cycle)


def shown_constants(
    model: TimeModel, found: IndexedConstants
) -> tuple[Sentence, Effect, tuple[Evidence, ...]]:
    """Text, effect and evidence of a candidate: the loads go through L1 instead."""
    text = Sentence(
        "The cache of indexed constants is busy for {busy:.0f} of the time: a load from constant "
        "memory takes {cycles:.0f} cycles on average, because the threads of a warp use different "
        "indices. One that is the same for all of them takes two cycles.",
        busy=found.busy,
        cycles=found.cycles,
    )
    queued = found.removed * model.loads.get("ADU", 0.0) ** SHARPNESS
    waits = less_queueing(model, "ADU", found.removed)
    waits |= kept_waits(model, ("barrier",), INDIRECT * queued)  # for warps that wait in the queue
    l1 = min(1.0, model.loads.get("L1", 0.0) + found.loads / attainable("L1"))
    effect = Effect({"ADU": 1 - found.removed}, waits, moved={"L1": l1})
    return text, effect, (found.busy, found.cycles)


def constant_places(view: LaunchView) -> tuple[Place, ...]:
    """Lines of loads from constant memory with an index; without the machine code, those where
    warps wait for short operations."""
    if view.code is None:
        return view.waiting_places("short_scoreboard")
    program = view.code.program
    runs = {
        program.code[at].address: program.counts[at]
        for at in program.ran
        if program.code[at].opcode == "LDC" and program.values.read[at]
    }
    return view.places_by("loads of indexed constants", runs)
