"""Loops: how often they run, what an iteration does, and what of it does not depend on the loop."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from keet.analysis.code_names import line_text
from keet.analysis.hotspots.source_calls import known_constants
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import GLOBAL_READS
from keet.analysis.parameters import Parameter
from keet.analysis.remedy_conditions.on_chip import MOST_REGISTERS_PER_THREAD
from keet.documents.amounts import InvariantDocument, LoopAmounts
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence, counted
from keet.source_code.constants import evaluate
from keet.source_code.syntax import closing_bracket

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.loop_loads import RepeatedArray
    from keet.analysis.machine_code.analyses.source_loops import For, SourceLoop
    from keet.analysis.machine_code.launch_code import MachineCode
    from keet.profile import Location

Memory = Literal["registers", "shared memory"]
Enter = Callable[..., Evidence]
"""Enters a number of one loop: see `Ledger.numbers`."""
TOLD_SHARE = Parameter(
    0.02,
    "share of the instructions or of the requested bytes from which a loop is told",
    "judgement",
)
TOLD_ITERATIONS = Parameter(1.5, "iterations from which a loop is told", "judgement")
TOLD_PER_ITERATION = Parameter(
    0.05, "loads or barriers per iteration from which they are told", "judgement"
)
_FEW_LOOPS = 8
"""Of so few loops, none is left out."""


def loop_label(line: int | None) -> str:
    return "loop" if line is None else f"loop {line}"


@cached_per_view
def loops(view: LaunchView) -> tuple[LoopAmounts, ...]:
    executed, code = view.get("inst_executed"), view.code
    if code is None or executed is None or not code.program.executed:
        return ()
    told = (loop for loop in _loops_of(view) if loop.iterations >= TOLD_ITERATIONS)
    rows = [_row(view, code, loop, executed) for loop in told]
    if len(rows) > _FEW_LOOPS:
        rows = [row for row in rows if row.share_pct >= 100 * TOLD_SHARE or row.invariant]
    return tuple(sorted(rows, key=lambda row: (-row.share_pct, row.depth, row.line or 0)))


def named_loop(view: LaunchView, index: int) -> str:
    """`The loop at file.cu:12`, by the number of the machine's loop."""
    for source_loop in _loops_of(view):
        if source_loop.place is not None and any(loop.index == index for loop in source_loop.loops):
            return f"The loop at {line_text(source_loop.place)}"
    return "A loop"


@cached_per_view
def _loops_of(view: LaunchView) -> list[SourceLoop]:
    """All but those that the compiler added, for atomics by compare-and-swap."""
    from keet.analysis.machine_code.analyses.source_loops import source_loops

    code = view.code
    if code is None:
        return []
    flow = code.program.flow
    swaps = {flow.loop_of.get(flow.block_of[retry_loop.swap]) for retry_loop in code.retry_loops}
    loops = source_loops(
        code.program, code.evaluation, code.accesses, code.location, cache(partial(_for_at, view))
    )
    return [
        loop
        for loop in loops
        if loop.place is None
        or loop.loops[0].index not in swaps
        or _WAITING_LOOP.search(_text_at(view, loop.place))
    ]


# --- the source

_WAITING_LOOP = re.compile(r"\b(?:while|do)\b|\bfor\s*\([^;]*;\s*;")
"""A loop that a user wrote around a compare-and-swap."""
_LOOP_START = re.compile(r"(\w+)\s*=\s*([^=,]+)$")
_LOOP_LIMIT = re.compile(r"(\w+)\s*(<=|>=|<|>|!=)\s*([^<>=!&|]+)$")
_INCREMENT = re.compile(r"(?:\+\+|--)\s*\w+|\w+\s*(?:\+\+|--)")
_ADDITION = re.compile(r"\w+\s*[+-]=\s*([^=,]+)")
_MOST_NAMED_LINES = 3
"""Of one `for (…)`."""


def _text_at(view: LaunchView, place: Location) -> str:
    return view.text_of(Place(*place, 1.0, ""))


def _for_at(view: LaunchView, place: Location) -> For | None:
    """The `for` at a line, with the numbers that its text and constants of the source give."""
    from keet.analysis.machine_code.analyses.source_loops import For

    for first in range(place.line, place.line - _MOST_NAMED_LINES, -1):
        numbers = range(first, first + _MOST_NAMED_LINES)
        lines = [_text_at(view, place._replace(line=number)) for number in numbers]
        begin, text = re.search(r"\bfor\s*\(", lines[0]), " ".join(lines)
        end = closing_bracket(text, begin.end() - 1) if begin else 0
        header = text[begin.end() : end].split(";") if begin and end < len(text) else ()
        if len(header) == _PARTS_OF_FOR:
            return For(*_counted(view, *map(str.strip, header)))
    return None


_PARTS_OF_FOR = 3


def _counted(
    view: LaunchView, start: str, limit: str, change: str
) -> tuple[int | None, int | None]:
    """Step and iterations."""
    begins, ends = _LOOP_START.search(start), _LOOP_LIMIT.fullmatch(limit)
    changes = [part.strip() for part in change.split(",")]
    if len(changes) > 1 and begins:  # `++i, row += width`
        changes = [part for part in changes if re.search(rf"\b{begins[1]}\b", part)]
    change = changes[0] if len(changes) == 1 else ""
    more = _ADDITION.fullmatch(change)
    step = 1 if _INCREMENT.fullmatch(change) else _number(view, more[1]) if more else None
    if not step or begins is None or ends is None or begins[1] != ends[1]:
        return step, None
    low, high = _number(view, begins[2]), _number(view, ends[3])
    if low is None or high is None:
        return step, None
    span = abs(high - low) + (ends[2] in ("<=", ">="))
    return step, -(-span // step)


def _number(view: LaunchView, text: str) -> int | None:
    """The value of an integer expression of constants; `None` if it has anything else."""
    for name, size in (("blockDim", view.launch.block), ("gridDim", view.launch.grid)):
        for letter, threads in zip("xyz", size or ()):
            text = re.sub(rf"\b{name}\s*\.\s*{letter}\b", str(threads), text)
    value = evaluate(text, known_constants(view), {})
    return value if isinstance(value, int) else None


# --- one loop


_LOADS = GLOBAL_READS | {"LDL"}


def _row(view: LaunchView, code: MachineCode, loop: SourceLoop, executed: Evidence) -> LoopAmounts:
    main, place, counts = loop.loops[0], loop.place, code.program.counts
    positions = _positions(code, loop)
    inside, called = frozenset(positions), 0.0
    # Routines, such as a division, as far as the loop calls them.
    for position, calls in code.program.call_sites.items():
        called_at_all = sum(counts[call] for call in calls)
        if called_at_all and position not in inside:
            part = sum(counts[call] for call in calls if call in inside) / called_at_all
            called += part * counts[position]
    instructions = sum(counts[position] for position in positions) + called
    every = [(code.program.code[position], counts[position]) for position in positions]
    loads = sum(count for instruction, count in every if instruction.opcode in _LOADS)
    barriers = sum(count for instruction, count in every if instruction.is_barrier)
    chain = next((chains.recurrence for chains in code.chains if chains.loop == main.index), None)
    where = line_text(place) if place else None
    enter = view.ledger.numbers(f"loop{main.index}_", executed, line=where)
    invariant = (*_repeated(view, code, loop), *_computed(code, loop))
    per_run = (instructions / loop.runs, loads / loop.runs, barriers / loop.runs)
    work = (_told_invariant(enter, at, document) for at, document in enumerate(invariant))
    text = Sentence("; ").join([_told(enter, loop, *per_run), *work])
    even = loop.iterations if loop.is_even else None
    return LoopAmounts(
        text=text,
        evidence=tuple(text.evidence.values()),
        file=place.file if place else None,
        line=place.line if place else None,
        depth=main.depth,
        copies=loop.copies,
        iterations=loop.iterations,
        iterations_least=even,
        iterations_most=even,
        entries=float(loop.entries),
        instructions=per_run[0],
        loads=per_run[1],
        barriers=per_run[2],
        share_pct=100 * instructions / (sum(counts) or 1),
        chain_cycles=chain.cycles / (loop.copies or 1) if chain else None,
        invariant=invariant,
    )


def _positions(code: MachineCode, loop: SourceLoop) -> list[int]:
    """With those of inner loops."""
    blocks = code.program.flow.blocks
    return [
        position
        for machine_loop in loop.loops
        for block in machine_loop.blocks
        for position in range(blocks[block].start, blocks[block].end)
        if code.program.counts[position]
    ]


def _told(
    enter: Enter, loop: SourceLoop, instructions: float, loads: float, barriers: float
) -> Sentence:
    text = Sentence(
        "{times:count} {what}{mean} of {work:count} warp instructions",
        times=enter("iterations", loop.iterations, "iterations of the loop"),
        what="trips" if loop.copies is None else "iterations",
        mean="" if loop.is_even else " on average",
        work=enter("instructions", instructions, "warp instructions per iteration"),
    )
    parts = [text]
    if loads >= TOLD_PER_ITERATION:
        parts.append(counted(enter("loads", loads, "loads of a warp per iteration"), "load"))
    if barriers >= TOLD_PER_ITERATION:
        parts.append(counted(enter("barriers", barriers, "barriers per iteration"), "barrier"))
    said = Sentence(", ").join(parts)
    if loop.copies is not None:
        return said
    unknown = "; how many iterations of the source a trip does is not known"
    return Sentence("{said}{unknown}", said=said, unknown=unknown)


# --- what does not depend on the loop


@cached_per_view
def repeated_arrays(view: LaunchView) -> list[RepeatedArray]:
    """What loops of the source load again in every iteration, most repeated bytes first: of an
    unrolled loop, together with what its other loops and the code after them load."""
    if view.code is None:
        return []
    main_of = {machine_loop.index: loop for loop in _loops_of(view) for machine_loop in loop.loops}
    flow = view.code.program.flow
    arrays: dict[tuple[str, int], RepeatedArray] = {}
    for array in view.code.repeated_arrays:
        loop = main_of.get(array.loop)
        if loop is None:
            continue
        main = loop.loops[0]
        entered = (flow.loops[array.loop].entries or 1) / loop.entries
        whole = _with_copies(view.code, array)
        counted = array.times * loop.iterations * loop.entries / loop.runs
        times = entered * max(counted, whole.times)  # both count copies outside of the loop
        before = arrays.get((array.pointer, main.index))
        arrays[array.pointer, main.index] = _together(before, whole, main.index, times)
    return sorted(arrays.values(), key=lambda array: -array.repeated_bytes)


def _with_copies(code: MachineCode, array: RepeatedArray) -> RepeatedArray:
    """With the other copies of the loads that unrolling makes, before or after the loop: they are
    of the same source line. Copies with the same address load the same again; if data decides where
    they load, they load another part of it."""
    from keet.analysis.machine_code.analyses.reuse import form_of

    if array.block_bytes is None or array.thread_bytes is None:
        return array
    flow = code.program.flow
    parent = flow.loops[array.loop].parent
    taken = {p for repeated in code.repeated_arrays for p in repeated.positions}
    lines = {code.location(position) for position in array.positions} - {None}
    copied = {a.position: a for a in code.accesses if a.position in array.positions}
    forms = {form_of(a.offset) for a in copied.values()}
    again = other = 0.0
    for access in code.accesses:
        is_copy = access.pointer == array.pointer and access.kind == "load"
        around = {loop.index for loop in flow.loops_around(flow.block_of[access.position])}
        is_inside = parent is None or parent in around
        if access.position in taken or not is_copy or not is_inside:
            continue
        if code.location(access.position) in lines:
            if form_of(access.offset) in forms:
                again += access.requested_bytes or 0
            elif access.is_gather:
                other += access.requested_bytes or 0
    more = 1 + other / array.requested_bytes
    return array._replace(
        times=array.times * (1 + again / array.requested_bytes),
        requested_bytes=array.requested_bytes + again + other,
        repeated_bytes=array.repeated_bytes + again + other * (1 - 1 / array.times),
        block_bytes=array.block_bytes * more,
        thread_bytes=array.thread_bytes * more,
    )


def _together(
    before: RepeatedArray | None, array: RepeatedArray, loop: int, times: float
) -> RepeatedArray:
    """What several machine loops of one loop of the source load again: the loop for the rest of the
    iterations loads nothing that the loop before it did not load, so that all of it is repeated."""
    if before is None:
        return array._replace(loop=loop, times=times)

    def largest(*sizes: float | None) -> float | None:
        return None if None in sizes else max(filter(None, sizes), default=0.0)

    return before._replace(
        positions=before.positions + array.positions,
        times=before.times + times,
        requested_bytes=before.requested_bytes + array.requested_bytes,
        repeated_bytes=before.repeated_bytes + array.requested_bytes,
        block_bytes=largest(before.block_bytes, array.block_bytes),
        thread_bytes=largest(before.thread_bytes, array.thread_bytes),
    )


def _repeated(view: LaunchView, code: MachineCode, loop: SourceLoop) -> Iterator[InvariantDocument]:
    from keet.analysis.machine_code.launch_code import calling_line

    total = sum(access.requested_bytes or 0 for access in code.accesses)
    for array in repeated_arrays(view):
        is_own = array.loop == loop.loops[0].index
        if not is_own or array.requested_bytes < TOLD_SHARE * total:
            continue
        lines = (calling_line(code, position) for position in array.positions)
        yield InvariantDocument(
            kind="load",
            name=code.pointer_name(array.pointer),
            lines=tuple(dict.fromkeys(line for line in lines if line)),
            times=array.times,
            bytes_per_block=array.block_bytes,
            basis="estimate" if array.is_estimate else "bound",
            fits=tuple(fits(view, array)),
            share_pct=100 * array.requested_bytes / total,
        )


def fits(view: LaunchView, array: RepeatedArray) -> Iterator[Memory]:
    """Where a block could keep what a loop loads again, beside what it has there already."""
    threads = math.prod(view.launch.block or (0,))
    used, every = view.value("registers_per_thread"), view.value("device_registers_per_sm")
    most = view.value("device_registers_per_thread") or MOST_REGISTERS_PER_THREAD
    if array.thread_bytes is not None and used is not None and every is not None and threads:
        free = min(every / threads, most) - used
        if array.thread_bytes <= _REGISTER_BYTES * free:
            yield "registers"
    limit = view.value("device_shared_memory_per_block_optin")
    taken = view.value("shared_memory_per_block") or 0.0
    if array.block_bytes is not None and limit is not None and array.block_bytes <= limit - taken:
        yield "shared memory"


_REGISTER_BYTES = 4
"""Bytes."""


def _computed(code: MachineCode, loop: SourceLoop) -> Iterator[InvariantDocument]:
    """Arithmetic on data; compilers compute an address again on purpose."""
    from keet.analysis.machine_code.analyses.loop_loads import unchanged
    from keet.analysis.machine_code.analyses.purpose import Purpose

    indices = {machine_loop.index for machine_loop in loop.loops}
    for invariant in code.invariants:
        at, purposes = invariant.loop, code.purposes
        positions = [each for each in invariant.positions if purposes[each] is Purpose.VALUE]
        trips = code.program.flow.loops[at].trips or 1.0
        least = TOLD_SHARE / (1 - 1 / trips) if trips > 1 else math.inf
        if at not in indices or code.share(positions) < least:
            continue
        positions = unchanged(code.program, code.accesses, code.evaluation, at, positions)
        if code.share(positions) < least:
            continue
        lines = (code.location(position) for position in positions)
        yield InvariantDocument(
            kind="compute",
            name="arithmetic",
            lines=tuple(dict.fromkeys(line for line in lines if line)),
            times=loop.iterations,
            bytes_per_block=None,
            basis=None,
            fits=(),
            share_pct=100 * code.share(positions),
        )


def _told_invariant(enter: Enter, at: int, work: InvariantDocument) -> Sentence:
    share = enter(f"invariant{at}_share", work.share_pct or 0.0, "share of the launch", "%")
    if work.kind == "compute" or work.times is None:
        words = "{share:.0f} of the launch's instructions compute in it what does not depend on it"
        return Sentence(words, share=share)
    times = enter(f"invariant{at}_times", work.times, "loads of each byte")
    parts = [Sentence("{share:.0f} of the bytes that the launch requests", share=share)]
    if (size := work.bytes_per_block) is not None:
        kept = enter(f"invariant{at}_bytes", size, "bytes for one block", "byte")
        about = "about" if work.basis == "estimate" else "at most"
        parts.append(Sentence("{about} {kept} per block", about=about, kept=kept))
    if work.fits:
        parts.append(Sentence("fits into {memory}", memory=" or ".join(work.fits)))
    return Sentence(
        "it loads the same part of `{array}` {times:count} times ({parts})",
        array=work.name,
        times=times,
        parts=Sentence(", ").join(parts),
    )
