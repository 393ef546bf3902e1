"""How the time of a block splits into loading, computing and storing.

Said only of code in which these follow each other: all loads from global memory stand before the
arithmetic, and all stores after it, with a barrier or the end of a loop between. Storing begins
behind the last barrier, unless there is arithmetic behind it. A loop around them
that has barriers of its own may repeat them. Where loads of the next step are issued before this
one is computed, or one loop does all, nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.code_names import line_text
from keet.analysis.hotspots.source_lines import LEAST_SAMPLES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import (
    GLOBAL_ATOMICS,
    GLOBAL_READS,
    GLOBAL_STORES,
    STORES_APART,
    TEXTURES,
)
from keet.analysis.parallelism.resident_warps import resident_blocks
from keet.analysis.parameters import FEW, MAJORITY, NEGLIGIBLE, NOTABLE_PART
from keet.documents.amounts import PhaseDocument, PhasesDocument
from keet.evidence import Sentence
from keet.profile import Location
from keet.profile.launch import file_name

if TYPE_CHECKING:
    from keet.analysis.machine_code.flow.control_flow import Loop
    from keet.analysis.machine_code.launch_code import MachineCode

Phase = Literal["load", "compute", "store"]
_LOADS = GLOBAL_READS | TEXTURES | {"SULD"}
_STORES = GLOBAL_STORES | GLOBAL_ATOMICS | STORES_APART


class _Split(NamedTuple):
    phase: Mapping[int, Phase]
    """By position."""
    around: int | None
    """The loop that repeats the phases."""


@cached_per_view
def phases(view: LaunchView) -> PhasesDocument | None:
    if view.code is None:
        return None
    code = view.code
    every = sum(wait.samples for wait in code.waits)
    split = _split(code) if every >= LEAST_SAMPLES else None
    if split is None:
        return None
    samples = _samples(code, split.phase)
    shares = {phase: 100 * samples[phase] / every for phase in _WORDS if samples[phase]}
    if sorted(shares.values())[-2:-1] < [100 * NOTABLE_PART]:  # one phase is nearly all
        return None
    numbers = {
        phase: view.ledger.derived(
            f"phase_{phase}", share, f"of the samples are in the {phase} phase", unit="%"
        )
        for phase, share in shares.items()
    }
    rows = tuple(_row(code, split, phase, share) for phase, share in shares.items())
    named = Sentence(", ").join(
        Sentence(
            "{word} {part:.0f}{at}", word=_WORDS[row.phase], part=numbers[row.phase], at=_at(row)
        )
        for row in rows
    )
    resident = resident_blocks(view)
    blocks = resident.resident if resident is not None else None
    again = ""
    if split.around is not None:
        from keet.analysis.machine_code.launch_code import loop_line

        line = loop_line(code, code.program.flow.loops[split.around])
        again = f", in turn in the loop at {line_text(line)}" if line else ", in a loop"
    text = Sentence("{named} of the samples{again}", named=named, again=again)
    if blocks is not None:
        words = "{n:.0f} block per SM, whose phases overlap with those of no other block"
        if blocks.value != 1:
            words = "phases of up to {n:.0f} blocks per SM can overlap"
        text = Sentence("; ").join((text, Sentence(words, n=blocks)))
    return PhasesDocument(
        text=text,
        evidence=(*numbers.values(), *((blocks,) if blocks is not None else ())),
        phases=rows,
        blocks_per_sm=float(blocks.value) if blocks is not None else None,
    )


_WORDS: Mapping[Phase, str] = {"load": "loading", "compute": "computing", "store": "storing"}


def _at(row: PhaseDocument) -> str:
    if row.file is None or row.first_line is None:
        return ""
    first, last = (f"{file_name(row.file)}:{line}" for line in (row.first_line, row.last_line))
    return f" ({first})" if first == last else f" ({first} to {last})"


def _row(code: MachineCode, split: _Split, phase: Phase, share: float) -> PhaseDocument:
    lines = Counter[Location]()
    for wait in code.waits:  # not by executions: the compiler moves the arithmetic of other lines
        line = code.location(wait.position) if split.phase.get(wait.position) == phase else None
        if line is not None:
            lines[line] += wait.samples
    files = Counter[str]()
    for line, count in lines.items():
        files[line.file] += count
    file = next((name for name, _ in files.most_common(1)), None)
    least = NEGLIGIBLE * lines.total()
    own_lines = [line.line for line, n in lines.items() if line.file == file and n >= least]
    return PhaseDocument(
        phase=phase,
        file=file if own_lines else None,
        first_line=min(own_lines, default=None),
        last_line=max(own_lines, default=None),
        samples_pct=share,
    )


def _samples(code: MachineCode, phase: Mapping[int, Phase]) -> Counter[Phase]:
    """A wait for a load counts where the load is, and one at a barrier where the barrier is."""
    samples = Counter[Phase]()
    for wait in code.waits:
        position = wait.position
        if wait.reason in ("long_scoreboard", "barrier", "drain") and wait.producers:
            position = wait.producers[0]
        if position in phase:
            samples[phase[position]] += wait.samples
    return samples


# --- the split


def _split(code: MachineCode) -> _Split | None:
    program, flow = code.program, code.program.flow
    order = [position for position in _ordered(code) if program.counts[position]]
    loads = [n for n, position in enumerate(order) if program.code[position].opcode in _LOADS]
    stores = [n for n, position in enumerate(order) if program.code[position].opcode in _STORES]
    if not loads or not stores:
        return None
    around = _repeated(code)
    inside = [
        {loop.index for loop in flow.loops_around(flow.block_of[position]) if loop != around}
        - {loop.index for loop in (flow.loops_around(around.header) if around else [])}
        for position in order
    ]
    end, start = loads[-1], stores[0]
    while end + 1 < len(order) and inside[end + 1] & inside[loads[-1]]:
        end += 1
    while start and inside[start - 1] & inside[stores[0]]:
        start -= 1
    barriers = [n for n in range(end, start) if program.code[order[n]].is_barrier and not inside[n]]
    is_loop_end = bool(inside[loads[-1]])
    if end >= start or not (barriers or is_loop_end):
        return None
    end = barriers[0] if barriers else end
    for first in (*(n + 1 for n in barriers[:0:-1]), start):  # the last barrier ends the arithmetic
        phases: dict[int, Phase] = {
            position: "load" if place <= end else "compute" if place < first else "store"
            for place, position in enumerate(order)
        }
        if _is_clear(code, phases):
            return _Split(phases, around.index if around else None)
    return None


def _ordered(code: MachineCode) -> Iterator[int]:
    """Positions in the order of the control flow, without called routines; each loop in one
    piece."""
    flow = code.program.flow
    called = {block for blocks in flow.routines.values() for block in blocks}
    done: set[int] = set()

    def of(blocks: Sequence[int], depth: int) -> Iterator[int]:
        for block in blocks:
            if block in done or block in called:
                continue
            inner = [loop for loop in flow.loops_around(block) if loop.depth == depth + 1]
            if inner:
                inside = sorted(inner[0].blocks, key=code.program.flow_rank.__getitem__)
                yield from of(inside, depth + 1)
                continue
            done.add(block)
            yield from range(flow.blocks[block].start, flow.blocks[block].end)

    yield from of(flow.order, 0)


def _repeated(code: MachineCode) -> Loop | None:
    """The loop that repeats the phases: outermost, with most instructions, with loads from global
    memory and a barrier of its own, or an inner loop and a barrier."""
    program, flow = code.program, code.program.flow
    whole = sum(program.counts) or 1
    for loop in flow.loops:
        if loop.depth > 1 or (loop.trips or 1.0) <= 1:
            continue
        spans = [flow.blocks[block] for block in loop.blocks]
        positions = [position for span in spans for position in range(span.start, span.end)]
        ran = [position for position in positions if program.counts[position]]
        opcodes = {program.code[position].opcode for position in ran}
        meets = any(
            program.code[at].is_barrier and flow.loop_of[flow.block_of[at]] == loop.index
            for at in ran
        )
        share = sum(program.counts[position] for position in ran) / whole
        if meets and opcodes & _LOADS and share >= MAJORITY:
            return loop
    return None


def _is_clear(code: MachineCode, phase: Mapping[int, Phase]) -> bool:
    """Whether nearly all arithmetic on data is in the compute phase."""
    work = Counter[Phase]()
    for position, phase_of_position in phase.items():
        if code.purposes[position].value == "value":
            work[phase_of_position] += code.program.counts[position]
    whole = work.total()
    return bool(whole) and work["load"] <= NOTABLE_PART * whole and work["store"] <= FEW * whole
