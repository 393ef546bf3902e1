"""Everything that the analysis knows about the instructions of one source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from keet.analysis.sass import MachineCode
from keet.analysis.sass.atomics import Atomic
from keet.analysis.sass.blame import Wait
from keet.analysis.sass.chains import LoopChains
from keet.analysis.sass.flow import Loop
from keet.analysis.sass.invariant import Invariant
from keet.analysis.sass.purpose import Purpose
from keet.analysis.sass.reuse import Access
from keet.analysis.sass.widths import Merge, lane_stride
from keet.catalog import stalls
from keet.profile import Location
from keet.render.code_rows import executed_share, shares


class InstructionFacts(NamedTuple):
    position: int
    purpose: Purpose
    executed: int
    samples: int
    """Of all reasons, those of warps that issue included."""
    waits: list[Wait]
    """Most samples first."""


class Awaited(NamedTuple):
    """Samples at another line that wait for this one."""

    line: Location | None
    reason: str
    samples: int


class LoopFacts(NamedTuple):
    loop: Loop
    line: Location | None
    """Of the first instruction of the loop's header."""
    chains: LoopChains | None
    """`None` for a loop that ran once per entry."""


class LineFacts(NamedTuple):
    line: Location
    instructions: list[InstructionFacts]
    """In the order of the code; those of a routine that only this line calls are included."""
    executed_share: float
    purposes: list[tuple[Purpose, float]]
    awaited: list[Awaited]
    accesses: list[Access]
    merges: list[Merge]
    atomics: list[Atomic]
    loops: list[LoopFacts]
    """Loops around the instructions of the line, outermost first."""
    invariants: list[Invariant]
    """Cut down to the positions of the line; shares are those of the cut."""


def line_facts(code: MachineCode, line: Location) -> LineFacts:
    own = [each for each in code.program.ran if code.location(each) == line]
    inside = set(own)
    counted: Counter[Purpose] = Counter()
    for position in own:
        counted[code.purposes[position]] += code.program.counts[position]
    return LineFacts(
        line,
        _instructions(code, own),
        executed_share(code, own),
        shares(counted),
        _awaited(code, line),
        [access for access in code.accesses if access.position in inside],
        [merge for merge in code.merges if inside.intersection(merge.positions)],
        [atomic for atomic in code.atomics if atomic.position in inside],
        _loops(code, own),
        _invariants(code, inside),
    )


def _instructions(code: MachineCode, own: Iterable[int]) -> list[InstructionFacts]:
    waits: dict[int, list[Wait]] = {}
    for wait in code.waits:
        waits.setdefault(wait.position, []).append(wait)
    known = stalls()
    return [
        InstructionFacts(
            position,
            code.purposes[position],
            code.program.counts[position],
            sum(wait.samples for wait in waits.get(position, ())),
            [
                wait
                for wait in waits.get(position, ())
                if wait.reason in known and known[wait.reason].counts_as_stall
            ],
        )
        for position in own
    ]


def _awaited(code: MachineCode, line: Location) -> list[Awaited]:
    known = stalls()
    sums: Counter[tuple[Location | None, str]] = Counter()
    for wait in code.waits:
        if not wait.producers or not known[wait.reason].counts_as_stall:
            continue
        waiting = code.location(wait.position)
        if waiting != line and code.location(wait.producers[0]) == line:
            sums[waiting, wait.reason] += wait.samples
    return [Awaited(where, reason, count) for (where, reason), count in sums.most_common()]


def _loops(code: MachineCode, own: Iterable[int]) -> list[LoopFacts]:
    flow, program = code.program.flow, code.program
    chains = {each.loop: each for each in code.chains}
    around: dict[int, Loop] = {}
    for position in own:
        for loop in flow.loops_around(flow.block_of[position]):
            around[loop.index] = loop
    ordered = sorted(around.values(), key=lambda loop: (loop.depth, loop.index))
    return [
        LoopFacts(
            loop,
            code.locations.get(program.code[flow.blocks[loop.header].start].address),
            chains.get(loop.index),
        )
        for loop in ordered
    ]


def _invariants(code: MachineCode, inside: set[int]) -> list[Invariant]:
    found = []
    for each in code.invariants:
        own = tuple(position for position in each.positions if position in inside)
        trips = code.program.flow.loops[each.loop].trips
        if not own or not trips:
            continue
        loads = sum(position in {a.position for a in code.accesses} for position in own)
        share = executed_share(code, own) * (1 - 1 / trips)
        found.append(Invariant(each.loop, own, share, loads))
    return found


_UNSETTLED = frozenset(("data", "path", "unknown"))
"""What may differ between the lanes of a warp in a way that the form does not show."""


def known_stride(access: Access) -> int | None:
    """Bytes between the accesses of neighbouring threads; `None` where that is not known."""
    if access.shape is None or access.form.depends & _UNSETTLED:
        return None
    return lane_stride(access.form)
