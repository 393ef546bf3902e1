"""Global loads that a loop repeats: their addresses and what stands there are the same in every
iteration, also where inner loops, threads and blocks load from different addresses.

A value may change from one iteration to the next if it comes from the loop's own counter or
running pointers, from memory that the launch writes, from a path that such a value chooses, or from
an instruction whose result depends on more than its operands. All else is the same in every
iteration. Unlike address polynomials, this does not need a value to be a polynomial: an index that
was loaded before the loop is the same in all iterations, too.

Stores through other pointers are why compilers leave such loads in a loop: they may alias. keet
assumes that they do not, as people do who write two parameters for two arrays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.machine_code.analyses.reuse import (
    LOADED,
    READS,
    SECTOR,
    SEVERAL,
    Access,
    bound_of,
    form_of,
    shape_of,
)
from keet.analysis.machine_code.analyses.source_loops import iterations_of
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import Kind, SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import (
    COPIES,
    LOCAL,
    SHARED,
    SHARED_LOADS,
    STORES_APART,
    TEXTURES,
    WARP,
    Role,
    words,
)
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import LaunchShape, Polynomial, Symbol


class RepeatedLoad(NamedTuple):
    """A load that does the same in every iteration of some loops around it."""

    access: Access
    loops: tuple[int, ...]
    """The outermost first."""
    times: float
    """How often a thread loads from each of its addresses because of these loops."""


_MOST_LOOPS = 100
"""Loops that are followed; it bounds the time for hostile code."""
LEAST_TIMES = 1.5
"""Below it, most threads load from each address once."""


def repeated_loads(
    program: SassProgram, accesses: Sequence[Access], evaluation: Evaluation
) -> list[RepeatedLoad]:
    """In the order of the code."""
    fixed = never_written(program, accesses)
    repetition = _Repetition(program, fixed, evaluation)
    made = ((access, *repetition.of(access.position)) for access in fixed)
    return [
        RepeatedLoad(access, tuple(loop.index for loop in loops), times)
        for access, loops, times in made
        if loops
    ]


class _Repetition:
    """Which loops repeat an access."""

    def __init__(
        self, program: SassProgram, fixed: Sequence[Access], evaluation: Evaluation
    ) -> None:
        """`fixed`: loads from memory that stays the same."""
        self.program, self.evaluation = program, evaluation
        self.fixed = {load.position for load in fixed}
        self.known: dict[int, Steadiness] = {}
        # The text does not show where control goes from an indirect jump.
        self.is_known = not program.where(_jumps)

    def of(self, position: int, *, only_address: bool = False) -> tuple[list[Loop], float]:
        """The loops that repeat it, the outermost first, and how often a thread accesses each of
        its addresses because of them."""
        repeating, times = list[Loop](), 1.0
        is_asked = self.is_known and self.program.counts[position]
        for loop in reversed(self.program.loops_at(position) if is_asked else []):
            trips = iterations_of(self.program, loop) or 0.0
            steady = self._steadiness(loop) if trips >= LEAST_TIMES else None
            part = steady.repeats(position, only_address=only_address) if steady else 0.0
            if part * trips >= LEAST_TIMES:
                repeating.append(loop)
                times *= part * trips
        return repeating, times

    def _steadiness(self, loop: Loop) -> Steadiness | None:
        if loop.index not in self.known and len(self.known) < _MOST_LOOPS:
            self.known[loop.index] = Steadiness(self.program, loop, self.fixed, self.evaluation)
        return self.known.get(loop.index)


def _jumps(instruction: Instruction) -> bool:
    return instruction.opcode in ("BRX", "BRXU", "JMX", "JMXU")


class RepeatedStore(NamedTuple):
    """A store that a loop does at the same address in every iteration: all but the last are
    overwritten."""

    access: Access
    loop: int
    """The outermost loop that repeats it."""
    times: float
    """How often a thread stores to each of its addresses because of these loops."""
    loads: tuple[int, ...]
    """Positions of the loads of the loop that read the value back: a sum in memory."""


def repeated_stores(
    program: SassProgram, accesses: Sequence[Access], evaluation: Evaluation
) -> list[RepeatedStore]:
    """In the order of the code. Left out where the loop loads from the array at other addresses:
    other threads may need each of the values."""
    repetition = _Repetition(program, never_written(program, accesses), evaluation)
    repeated = []
    for access in accesses:
        if access.kind != "store" or program.code[access.position].has(*_SEEN_BY_OTHERS):
            continue
        loops, times = repetition.of(access.position, only_address=True)
        loads = _read_back(program, accesses, access, loops[0]) if loops else None
        if loads is not None:
            repeated.append(RepeatedStore(access, loops[0].index, times, loads))
    return repeated


_SEEN_BY_OTHERS = ("STRONG", "VOLATILE", "MMIO")


def _read_back(
    program: SassProgram, accesses: Sequence[Access], store: Access, loop: Loop
) -> tuple[int, ...] | None:
    """Loads of the loop from the address that the store writes; None if others may read it."""
    form, written = (form_of(store.offset), store.width), _pointers(store)
    positions = []
    for access in accesses:
        inside = program.flow.block_of[access.position] in loop.blocks
        if not inside or access.kind == "store" or written.isdisjoint(_pointers(access)):
            continue
        is_same = access.pointer == store.pointer and (form_of(access.offset), access.width) == form
        if access.kind != "load" or not is_same or store.pointer in (LOADED, SEVERAL):
            return None
        positions.append(access.position)
    return tuple(positions)


def unchanged(
    program: SassProgram,
    accesses: Sequence[Access],
    evaluation: Evaluation,
    loop: int,
    positions: Sequence[int],
) -> list[int]:
    """Those of the instructions in a loop whose results certainly are the same in every
    iteration."""
    if program.where(_jumps):
        return []
    fixed = {load.position for load in never_written(program, accesses)}
    steady = Steadiness(program, program.flow.loops[loop], fixed, evaluation)
    return [
        position
        for position in positions
        if steady.changing.isdisjoint(program.values.written[position].values())
    ]


class RepeatedArray(NamedTuple):
    """What loops repeat of the loads through one pointer."""

    pointer: str
    loop: int
    """The outermost loop that repeats them."""
    positions: tuple[int, ...]
    times: float
    """How often a thread loads from each of its addresses for one entry of that loop."""
    requested_bytes: float
    repeated_bytes: float
    """The part of them that was loaded before."""
    block_bytes: float | None
    """Distinct bytes for one block and entry, at most; `None` without the shape of the launch."""
    thread_bytes: float | None
    """The same for one thread: its own copy, in registers."""
    is_estimate: bool
    """Whether `block_bytes` is an average over blocks whose data differs."""


def repeated_arrays(
    program: SassProgram,
    loads: Sequence[RepeatedLoad],
    shape: LaunchShape,
    sectors: Mapping[int, int] | None,
) -> list[RepeatedArray]:
    """Most repeated bytes first."""
    groups: dict[tuple[str, int], list[RepeatedLoad]] = {}
    for load in loads:
        if load.access.requested_bytes:
            groups.setdefault((load.access.pointer, load.loops[0]), []).append(load)
    arrays = [
        _array(program, pointer, loop, of_array, shape, sectors)
        for (pointer, loop), of_array in groups.items()
    ]
    return sorted(arrays, key=lambda array: (-array.repeated_bytes, array.pointer, array.loop))


def _array(  # noqa: PLR0913, PLR0917 - what it is made of
    program: SassProgram,
    pointer: str,
    loop: int,
    loads: Sequence[RepeatedLoad],
    shape: LaunchShape,
    sectors: Mapping[int, int] | None,
) -> RepeatedArray:
    requested = sum(float(load.access.requested_bytes or 0) for load in loads)
    # Two loads from the same addresses, such as two copies of the body, need one of them.
    first: dict[object, RepeatedLoad] = {}
    for load in loads:
        form = (*form_of(load.access.offset), load.access.width)
        is_cut = any(str(term).endswith("...") for term in form)
        key: object = load.access.position if is_cut else form
        first[key] = max(first.get(key, load), load, key=_once)
    once = sum(map(_once, first.values()))
    bytes_of_block = bytes_of_thread = None
    if shape.grid and shape.block:
        blocks, threads = math.prod(shape.grid), math.prod(shape.block)
        flow, asked = program.flow, first.values()
        entries = flow.loops[loop].entries or 1
        # Blocks may enter the loop several times, each time with other data.
        visits = blocks * max(1.0, entries / (blocks * -(-threads // WARP)))
        bytes_of_block = sum(_in_a_block(program, load, entries, visits, sectors) for load in asked)
        bytes_of_thread = once / threads / visits
        outer = flow.loops_around(flow.loops[loop].header)[1:]
        offsets = ((_in_one_entry(load.access.offset, outer), load.access.width) for load in asked)
        shapes = [shape_of(*offset) for offset in offsets]
        known = [shape for shape in shapes if shape is not None]
        if len(known) == len(shapes):
            bytes_of_block = min(bytes_of_block, bound_of(known).bytes)
    return RepeatedArray(
        pointer,
        loop,
        tuple(load.access.position for load in loads),
        requested / once,
        requested,
        requested - once,
        bytes_of_block,
        bytes_of_thread,
        any(load.access.is_gather for load in loads),
    )


def _once(load: RepeatedLoad) -> float:
    """Bytes that the load requests if the loops do not repeat it."""
    return (load.access.requested_bytes or 0) / load.times


def _in_a_block(
    program: SassProgram,
    load: RepeatedLoad,
    entries: int,
    visits: float,
    sectors: Mapping[int, int] | None,
) -> float:
    """Bytes that one load can touch in one entry of the loop by a block. `visits`: such entries."""
    position, access = load.access.position, load.access
    bounds = [_once(load) / visits]
    if sectors is not None:
        address = program.code[position].address
        bounds.append(SECTOR * sectors.get(address, 0) / load.times / visits)
    if access.offset.depends.isdisjoint(_THREAD_NAMES):  # all threads load from the same addresses
        bounds.append(access.width * program.counts[position] / (entries * load.times))
    return min(bounds)


_THREAD_NAMES = frozenset({"tid.x", "tid.y", "tid.z", "data", "unknown", "path"})
"""What addresses of threads of one block may differ by."""


def _in_one_entry(offset: Polynomial, loops: Sequence[Loop]) -> Polynomial:
    """Indices of the block and the counters of these loops as unknown numbers."""
    counters = {f"loop{loop.index}" for loop in loops}
    fixed = {
        symbol: Symbol("param", symbol.name, order=symbol.order)
        for symbol in offset.symbols
        if symbol.kind == "ctaid" or (symbol.kind == "loop" and symbol.name in counters)
    }
    terms = offset.terms.items()
    return Polynomial({tuple(fixed.get(s, s) for s in product): times for product, times in terms})


# --- memory that stays the same


def never_written(program: SassProgram, accesses: Sequence[Access]) -> list[Access]:
    """Loads from arrays that no instruction of the launch writes."""
    writing = (access for access in accesses if access.kind in ("store", "atomic"))
    written = {name for access in writing for name in _pointers(access)}
    if program.where(lambda instruction: instruction.opcode in _BULK_STORES):
        written.add(LOADED)  # descriptors do not show which array they write
    return [
        access
        for access in accesses
        if access.kind in READS and _keeps(program.code[access.position], access, written)
    ]


_BULK_STORES = STORES_APART | {"UBLKCP"}


def _keeps(instruction: Instruction, access: Access, written: Collection[str]) -> bool:
    if instruction.has("STRONG", "VOLATILE", "MMIO") or instruction.opcode == "LD":
        return False
    if instruction.has("CONSTANT"):
        return True  # the compiler knows that the kernel does not write it
    return LOADED not in written and _pointers(access).isdisjoint(written)


def _pointers(access: Access) -> set[str]:
    """All parameters that the address may start from; `loaded` if it may be another one."""
    if access.pointer not in (LOADED, SEVERAL):
        return {access.pointer}
    names = {symbol.name for symbol in access.offset.symbols if symbol.kind == "param"}
    return names if access.pointer == SEVERAL else names | {LOADED}


def writes_memory_of(load: Instruction, opcodes: Collection[str]) -> bool:
    """Whether code with these opcodes writes the shared or local memory that a load reads."""
    if load.opcode in SHARED:
        return not _SHARED_WRITES.isdisjoint(opcodes)
    return load.opcode in LOCAL and not _LOCAL_WRITES.isdisjoint(opcodes)


# --- what changes in a loop


class Steadiness:
    """Which values are the same in every iteration of a loop, in the same iteration of the loops in
    it."""

    def __init__(
        self, program: SassProgram, loop: Loop, fixed: Collection[int], evaluation: Evaluation
    ) -> None:
        """`fixed`: positions of loads from memory that stays the same."""
        self.program, self.loop, self.fixed = program, loop, fixed
        self.evaluation = evaluation
        self.changing: set[int] = set()
        """Values that may differ between iterations."""
        self.uneven: set[int] = set()
        """Inner loops whose number of iterations may differ between iterations."""
        flow = program.flow
        self.inner = [
            inner for inner in flow.loops if inner is not loop and inner.header in loop.blocks
        ]
        self._opcodes = {program.code[position].opcode for position in program.ran_in(loop.blocks)}
        self._decisions: dict[int, tuple[int, ...]] = {}
        self._follow()
        self.is_endless = not any(map(self._is_open, self._exits(loop)))
        """Whether no condition to leave the loop changes: it waits for what others write."""

    def repeats(self, position: int, *, only_address: bool = False) -> float:
        """The part of the iterations in which an access is done with the same address, 0 to 1, and
        with the same operands, if these are not only its address."""
        program, flow = self.program, self.program.flow
        block = flow.block_of[position]
        read = program.values.read[position].values()
        reads = program.address_values(position) if only_address else read
        if self.is_endless or any(self._changes(value, block) for value in reads):
            return 0.0
        if not any(map(self._is_open, self._conditions(block))):
            return 1.0
        runs = float(program.counts[flow.blocks[self.loop.header].start])
        for inner in self.inner:
            if block in inner.blocks:
                runs *= 0.0 if inner.index in self.uneven else inner.trips or 1.0
        part = program.counts[flow.blocks[block].start] / runs if runs else 0.0
        return min(1.0, part) if part >= _NEARLY_ALWAYS else 0.0

    def _follow(self) -> None:
        """Nothing changes at first; what must change is added until nothing more does."""
        values, rank = self.program.values, self.program.flow_rank
        merges: dict[int, list[int]] = {}
        for value in values.all:
            if value.kind is not Kind.DEFINITION and value.block in self.loop.blocks:
                merges.setdefault(value.block, []).append(value.index)
        blocks = sorted(self.loop.blocks, key=rank.__getitem__)
        before = -1
        while before != len(self.changing) + len(self.uneven):
            before = len(self.changing) + len(self.uneven)
            for block in blocks:
                self.changing.update(
                    value for value in merges.get(block, ()) if self._merge_changes(value)
                )
                for position in self.program.flow.positions([block]):
                    if values.written[position] and self._result_changes(position, block):
                        self.changing.update(values.written[position].values())
                self.changing.update(
                    value for value in merges.get(block, ()) if self._merge_changes(value)
                )
            self.uneven.update(
                inner.index for inner in self.inner if any(map(self._is_open, self._exits(inner)))
            )

    def _changes(self, value: int, block: int) -> bool:
        """Whether a value differs between iterations, as an instruction of the block sees it: after
        a loop, it is the one of the loop's last iteration."""
        if value in self.changing:
            return True
        if not self.uneven:
            return False
        made = self.program.values.all[value].block
        uneven = (inner.blocks for inner in self.inner if inner.index in self.uneven)
        return any(made in blocks and block not in blocks for blocks in uneven)

    def _merge_changes(self, index: int) -> bool:
        value = self.program.values.all[index]
        if index in self.changing or value.kind is Kind.ENTRY:
            return index in self.changing
        if value.kind is Kind.CALL:
            return True
        if value.kind is Kind.GUARDED:
            inputs = self.program.values.behind(value, with_guard=True)
            return any(self._changes(source, value.block) for source in inputs)
        if value.block == self.loop.header:
            return not self._stays(index)
        if any(self._changes(source, value.block) for source in value.inputs):
            return True
        return any(map(self._is_open, self._paths(value.block)))

    def _stays(self, index: int) -> bool:
        """Whether a value at the loop's head has the value of the first iteration in all."""
        head = self.loop.header
        resolved = self.evaluation.resolved(self.evaluation.polynomial(index), head)
        return resolved.depends.isdisjoint(
            {f"loop{self.loop.index}", "data", "unknown", "path", "exit"}
        )

    def _result_changes(self, position: int, block: int) -> bool:
        instruction = self.program.code[position]
        is_unfollowed = instruction.opcode in _UNFOLLOWED_OPCODES
        if is_unfollowed or instruction.role in (Role.ATOMIC, Role.UNKNOWN, Role.COPY):
            return True
        if instruction.role is Role.SPECIAL and not any(
            operand.name.startswith(_OF_THREAD) for operand in instruction.operands
        ):
            return True
        if instruction.role is Role.LOAD and not self._is_kept(position, instruction):
            return True
        return self._reads_change(position, block)

    def _reads_change(self, position: int, block: int) -> bool:
        reads = self.program.values.read[position].values()
        return any(self._changes(value, block) for value in reads)

    def _is_kept(self, position: int, instruction: Instruction) -> bool:
        """Whether nothing in the loop writes what a load may read."""
        in_memory_of_block = instruction.opcode in SHARED | LOCAL
        is_written = writes_memory_of(instruction, self._opcodes)
        return not is_written if in_memory_of_block else position in self.fixed

    # --- conditions

    def _is_open(self, branch: int) -> bool:
        """Whether the condition of a branch may change between iterations."""
        return self._reads_change(branch, self.program.flow.block_of[branch])

    def _exits(self, loop: Loop) -> list[int]:
        code, blocks = self.program.code, self.program.flow.blocks
        ends = (blocks[block].end - 1 for block in loop.blocks)
        ending = [end for end in ends if code[end].opcode in ("EXIT", "RET")]
        return [*self.program.flow.leaving(loop), *ending]

    def _paths(self, block: int) -> tuple[int, ...]:
        """Branches that decide by which path control comes to a block. At the head of an inner
        loop: to its first iteration."""
        if block not in self._decisions:
            flow = self.program.flow
            inner = next((loop.blocks for loop in self.inner if loop.header == block), frozenset())
            before = [other for other in flow.blocks[block].predecessors if other not in inner]
            top = flow.dominators.get(block, -1)
            leads = self._leading_to(before, end=top, without=block) if len(before) > 1 else ()
            self._decisions[block] = tuple(
                flow.blocks[lead].end - 1 for lead in leads if len(flow.blocks[lead].successors) > 1
            )
        return self._decisions[block]

    def _conditions(self, block: int) -> list[int]:
        """Branches that decide whether an iteration comes to a block, and how often. Leaving the
        loop is not one: there is no further iteration."""
        flow, head = self.program.flow, self.loop.header
        leads = self._leading_to([block], end=head)
        others = [latch for latch in self.loop.latches if latch != block]
        avoids = self._leading_to(others, end=head, without=block)
        branches = []
        for lead in leads:
            after = self.loop.blocks.intersection(flow.blocks[lead].successors)
            comes = any(successor in leads for successor in after - {head})
            misses = any(successor in avoids or successor == head for successor in after)
            if comes and misses:
                branches.append(flow.blocks[lead].end - 1)
        return branches

    def _leading_to(
        self, starts: Sequence[int], *, end: int, without: int | None = None
    ) -> Collection[int]:
        """Blocks from which control comes to one of these, without going through two others."""
        blocks = self.program.flow.blocks

        def before(block: int) -> list[int]:
            others = blocks[block].predecessors if block != end else ()
            return [other for other in others if other != without]

        return reached(starts, before)


_NEARLY_ALWAYS = 0.98
"""Part of the iterations: a load behind a condition that nearly always holds."""
_LOCAL_WRITES = words("STL ST")
_OF_THREAD = ("SR_TID", "SR_CTAID", "SR_NTID", "SR_NCTAID", "SR_LANEID", "SRZ", "SR_CgaCtaId")
"""Special registers that stay the same as long as a thread lives."""
_UNFOLLOWED_OPCODES = TEXTURES | words("B2R B2UR CS2UR BMOV PCNT SULD ELECT")
"""Results that come from a state which is not followed here."""
_SHARED_WRITES = SHARED - SHARED_LOADS | COPIES | words("STAS REDAS ST ATOM SYNCS")
