"""Times that a launch can't fall below, each with its assumption.

A unit that was busy for 60 % of the elapsed cycles needs 60 % of the launch's time for its work at
its peak, and proportionally less for less work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.amounts.arrays import arrays
from keet.analysis.hardware.ceilings import PIPES
from keet.analysis.hardware.stages import measured_stage
from keet.analysis.instruction_removal import removed_part
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import MAJORITY, NEARLY_ALL, NEGLIGIBLE
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.documents.amounts import BoundDocument
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

_NEEDED_PURPOSES = ("value",)
"""Purposes of instructions that compute with data."""


@cached_per_view
def bounds(view: LaunchView) -> tuple[BoundDocument, ...]:
    return tuple(_bounds(view))


class Floor(NamedTuple):
    """A bound as the last sentence of a finding."""

    text: Sentence | None
    evidence: tuple[Evidence, ...]


_FLOORS = {
    "bytes_once": "If each byte were moved once, DRAM would need at least",
    "arithmetic": "The arithmetic on data alone would need at least",
}


def floor(view: LaunchView, *names: str) -> Floor:
    """Of the first of these bounds that is known. Empty if none is, or if it is nearly all of the
    time."""
    by_id = {bound.id: bound for bound in bounds(view)}
    bound = next((by_id[name] for name in names if name in by_id), None)
    if bound is None:
        return Floor(None, ())
    time, _, duration = bound.evidence
    if float(time.value) * 1e3 > NEARLY_ALL * float(duration.value):
        return Floor(None, ())
    text = Sentence(
        "{said} {time:base} of the {duration:base}.",
        said=_FLOORS[bound.id],
        time=time,
        duration=duration,
    )
    return Floor(text, (time, duration))


def _bounds(view: LaunchView) -> Iterator[BoundDocument]:
    dram, issue = view.ceilings.reached("DRAM"), view.ceilings.reached("issue")
    if dram is not None and dram.value > 0:
        yield from _bound(view, "same_bytes", "if the same bytes are moved", dram)
        once = _bytes_once(view)
        if once is not None:
            part, *sources = once
            said = "if each byte is moved once"
            yield from _bound(view, "bytes_once", said, dram, part, *sources)
    if issue is not None and issue.value > 0:
        said = "if the same instructions are executed"
        pipes = filter(None, map(view.ceilings.reached, PIPES))
        busiest = max((issue, *pipes), key=lambda reached: reached.value)
        yield from _bound(view, "same_instructions", said, busiest)
        if view.code is not None and view.code.program.executed:
            part = sum(
                share for purpose, share in view.code.mix if purpose.value in _NEEDED_PURPOSES
            )
            if part and _is_float(view.code):
                said = "if only the arithmetic on data is executed"
                busy, part = _busiest_of_arithmetic(view, view.code, issue, part)
                yield from _bound(view, "arithmetic", said, busy, part)


_SLOW_PIPES = {"fp64": BY_PIPE["FP64"], "tensor": frozenset[str]()}
"""Pipes beside FMA that an instruction may occupy for several cycles, with the opcodes that they
execute, all for as long; none where all that they execute is arithmetic on data."""


def _busiest_of_arithmetic(
    view: LaunchView, code: MachineCode, issue: Evidence, part: float
) -> tuple[Evidence, float]:
    """What the arithmetic on data keeps busy longest, and its part of that unit's work: the issue
    slots, of which it has `part`, or a slow pipe."""
    units = [(issue, part)]
    if (fma := measured_stage(view.ledger, "fma")) is not None:
        values = [
            position
            for position in code.program.ran
            if code.purposes[position].value in _NEEDED_PURPOSES
        ]
        units.append((fma.busy, removed_part(view, dict.fromkeys(values, 1.0), "FMA")))
    for pipe, opcodes in _SLOW_PIPES.items():
        stage = measured_stage(view.ledger, pipe)
        positions = [
            position
            for position in code.program.ran
            if code.program.code[position].opcode in opcodes
        ]
        needed = [
            position for position in positions if code.purposes[position].value in _NEEDED_PURPOSES
        ]
        if stage is not None:
            whole = float(not opcodes)
            units.append(
                (stage.busy, code.share(needed) / code.share(positions) if positions else whole)
            )
    return max(units, key=lambda unit: float(unit[0].value) * unit[1])


def _bound(
    view: LaunchView, name: str, said: str, busy: Evidence, part: float = 1.0, *sources: Evidence
) -> Iterator[BoundDocument]:
    """The time of a unit's work at its peak, or of a part of it."""
    duration = view.get("duration")
    if duration is None or not duration.value > 0:
        return
    share = min(1.0, float(busy.value) / 100) * part
    if share < NEGLIGIBLE:  # another limit is far above it
        return
    us = float(duration.value) / 1e3 * share
    time = view.ledger.derived(
        f"bound_{name}", Quantity(us, "us"), f"least time {said}", duration, busy, *sources
    )
    text = Sentence("{said}: {time:base}", said=said, time=time)
    yield BoundDocument(id=name, assumption=said, us=us, text=text, evidence=(time, busy, duration))


def _bytes_once(view: LaunchView) -> tuple[float, Evidence, Evidence] | None:
    """The share of DRAM's traffic that is left if each byte moves once: it is known only if all
    arrays are, and not more than what was moved."""
    moved = view.total("dram_bytes", "bytes of DRAM", "dram_bytes_read", "dram_bytes_written")
    every = arrays(view)
    if moved is None or not moved.value or not every:
        return None
    distinct = [
        array.distinct_bytes * (2 if array.access == "updated" else 1)  # read, then written
        for array in every
        if array.distinct_bytes is not None
    ]
    asked = sum(array.l1_bytes or 0.0 for array in every)
    bounded = sum(array.l1_bytes or 0.0 for array in every if array.distinct_bytes is not None)
    if not distinct or not asked or bounded < NEARLY_ALL * asked:
        return None
    needed = sum(distinct)
    once = view.ledger.derived(
        "bytes_once", Quantity(needed, "byte"), "distinct bytes of all arrays", moved
    )
    return min(1.0, needed / float(moved.value)), once, moved


def _is_float(code: MachineCode) -> bool:
    """Whether most of the arithmetic on data is in floats or on tensor cores: that of integers is
    hard to tell from indices and conditions, as in a random number that a condition needs."""
    positions = [
        position
        for position in code.program.ran
        if code.purposes[position].value in _NEEDED_PURPOSES
    ]
    floats = [
        position
        for position in positions
        if code.program.code[position].role.name in ("FLOAT", "TENSOR")
    ]
    return code.share(floats) >= MAJORITY * code.share(positions)
