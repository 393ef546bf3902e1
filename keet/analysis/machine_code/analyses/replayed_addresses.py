"""Addresses that are computed for every thread: the integer part of a kernel runs again, here.

The closed forms of `footprints` stop at indices that wrap, are clamped on both sides or are guarded
by their own conditions. What makes an address is a handful of integer instructions; they are run
with the indices of all threads as tables. Parameters have the values that the number of executed
threads leaves for them (`executed_box`); others stay unknown factors, such as a pitch.

Nothing is believed that the counters do not confirm: an access counts only if as many threads ran
it here as in the launch.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, takewhile
from typing import NamedTuple, cast

from keet.analysis.machine_code.analyses.conditions import RunConditions
from keet.analysis.machine_code.analyses.index_tables import (
    ALWAYS,
    NEVER,
    Condition,
    Factor,
    Number,
    Rows,
    Spans,
    Tables,
    TooLargeError,
    TooMuchError,
    constant,
)
from keet.analysis.machine_code.analyses.reuse import Access
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import Kind, SsaValue
from keet.analysis.machine_code.instructions.instruction import (
    Instruction,
    Operand,
    is_predicate,
    is_zero,
)
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.polynomials.opcode_rules import is_packed, signed, truth_table
from keet.analysis.machine_code.polynomials.polynomial import WORD, Polynomial

_MOST_ITERATIONS = 4096
_INSTRUCTION_COST = 100
"""An instruction costs as much as so many entries of a table, however small its table is."""
_UNKNOWN_DISTANCE = 1 << 40
"""Stands for a distance that is not known: rows do not overlap."""
_RELATIONS = {
    "LT": lambda value: value < 0,
    "LE": lambda value: value <= 0,
    "GT": lambda value: value > 0,
    "GE": lambda value: value >= 0,
    "EQ": lambda value: value == 0,
    "NE": lambda value: value != 0,
}
_PLAIN_SYMBOLS = ("tid", "ctaid", "param")

Value = Number | Condition | None
"""Of a register, or of a predicate; None: not known."""
Mask = tuple[Condition, ...] | None
"""Conditions of which all hold where a block runs; None: not known."""


@dataclass
class Touched:
    """The bytes that one access touches."""

    threads: int = 0
    rows: dict[Rows, Spans] = field(default_factory=dict)
    distances: set[str] = field(default_factory=set)
    """Parameters that are the distance of rows."""
    length: float = 0
    """Bytes from the first to the last of a row; 0 without unknown distances, infinite if there are
    planes."""
    is_known: bool = True


class Guess(NamedTuple):
    """Values of parameters, by name."""

    parameters: Mapping[str, int]
    guessed: Mapping[str, int]
    """Values that are tried, because the counters only bound them."""
    is_check: bool = False
    """Whether to end as soon as they are refuted."""


class Replayed(NamedTuple):
    """What one choice of parameters leads to."""

    touched: Mapping[int, Touched]
    """By position, as far as that is certain."""
    excess: int = 0
    """Threads of accesses beyond those of the launch."""
    is_refuted: bool = False
    """Whether an access has other threads than in the launch: parameters have other values."""
    uses_bits: bool = False
    """Whether single bits of a value that is tried matter: neighbours of it may differ much."""


def replayed(
    accesses: Sequence[Access],
    pointers: Collection[str],
    conditions: RunConditions,
    tables: Tables,
    guess: Guess,
) -> Replayed:
    """`pointers`: those that it is about. It ends as soon as none of them can be known."""
    run = _Replay(accesses, pointers, conditions, tables, guess)
    try:
        run.level(None)
    except _RefutedError:
        return Replayed({}, 0, True, run.uses_bits)
    except TooMuchError:
        return Replayed({})
    certain = {position: ran for position, ran in run.ran.items() if ran.is_known}
    more = [ran.threads - (run.wanted[position].threads or 0) for position, ran in certain.items()]
    return Replayed(certain, sum(more), any(more), run.uses_bits)


_GROWTH = 4
_MOST_STEPS = 24


def fitting(run: Callable[[int, bool], Replayed], low: int) -> dict[int, Replayed]:
    """Values of a parameter that the counters do not refute, from the least one on: a single one
    if its neighbours are refuted, or the least and a large one if neither is. More threads run the
    larger it is. Empty if that does not decide it. `run`: for a value, and whether it is a check
    alone."""
    tried: dict[int, Replayed] = {}

    def at(value: int, *, is_check: bool = False) -> Replayed:
        if value not in tried:
            tried[value] = run(value, is_check)
        return tried[value]

    high = _GROWTH * low
    if at(low).is_refuted:
        while at(high).excess < 0 and len(tried) < _MOST_STEPS:
            low, high = high, _GROWTH * high
        while high - low > 1 and at(high).is_refuted and len(tried) < _MOST_STEPS:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle).excess < 0 else (low, middle)
        low, high = high, _GROWTH * high
        if at(low).is_refuted or not at(low - 1).is_refuted:
            return {}
    if not at(high, is_check=True).is_refuted:
        uses_bits = at(low).uses_bits or at(high).uses_bits
        return {} if uses_bits else {low: at(low), high: at(high)}
    return {low: at(low)} if at(low + 1, is_check=True).is_refuted else {}


class _RefutedError(Exception):
    """More threads ran an access than in the launch."""


class _Replay:
    """One run. Values and masks of blocks within a loop are those of the current iteration."""

    def __init__(
        self,
        accesses: Sequence[Access],
        pointers: Collection[str],
        conditions: RunConditions,
        tables: Tables,
        guess: Guess,
    ) -> None:
        self.parameters, self.guessed, self.is_check = guess
        self.uses_bits = False
        self.wanted = {access.position: access for access in accesses}
        self.pointers = {*pointers}
        self.evaluation = conditions.evaluation
        self.conditions = conditions
        self.program = conditions.program
        self.flow = self.program.flow
        self.all = self.program.values.all
        self.tables = tables
        self.known: dict[int, Value] = {}
        self.masks: dict[int, Mask] = {}
        self.edges: dict[tuple[int, int], Mask] = {}
        self.ran = {position: Touched() for position in self.wanted}
        self._read_at = (*self.wanted, *(block.end - 1 for block in self.flow.blocks))
        self.needed = self._slice()
        self.merges: dict[tuple[int, int], list[SsaValue]] = {}
        for index in sorted(self.needed):
            value = self.all[index]
            if value.kind in (Kind.JOIN, Kind.GUARDED):
                self.merges.setdefault((value.block, value.position), []).append(value)
        self.outside = {block for blocks in self.flow.routines.values() for block in blocks}
        self.loops = {loop.header: loop for loop in self.flow.loops}
        self._own: dict[int, tuple[list[int], list[int]]] = {}
        self._places: dict[Factor, int] = {}

    def _slice(self) -> set[int]:
        """The values that addresses and branches are made of."""
        read, starts = self.program.values.read, list[int]()
        for position, access in self.wanted.items():
            if access.pointer in self.pointers:
                starts += self.program.address_values(position)
        for block in self.flow.blocks:
            starts += read[block.end - 1].values() if len(block.successors) > 1 else ()
        for position in self._read_at:
            guard = self.program.code[position].guard
            starts += [read[position][guard[0]]] if guard else []

        def following(index: int) -> Iterable[int]:
            value = self.all[index]
            if value.kind is not Kind.DEFINITION:
                is_call = value.kind is Kind.CALL
                return () if is_call else self.program.values.behind(value, with_guard=True)
            place = self._joined_signs(value.position)
            instruction = self.program.code[value.position]
            is_followed = instruction.role in _FOLLOWED or instruction.opcode in _RECIPROCAL
            sources = read[value.position].values() if is_followed else ()
            if place < 0:
                return sources
            others = (source for source in sources if self.all[source].position != place)
            return [*others, *read[place].values()]

        return set(reached(starts, following))

    # --- control flow

    def level(self, loop: Loop | None) -> None:
        """Runs the blocks of a loop once, or of the kernel."""
        index = loop.index if loop is not None else None
        for block in self.flow.order:
            if block in self.outside:
                continue
            inner = self.loops.get(block)
            if inner is not None and inner is not loop and inner.parent == index:
                self._loop(inner)
            elif self.flow.loop_of.get(block) == index:
                if inner is None:
                    self.masks[block] = self._entered(block)
                self._block(block)

    def _loop(self, loop: Loop) -> None:
        entered = self._entered(loop.header, loop.blocks)
        heads = self.merges.get((loop.header, -1), ())
        before = {*self.flow.blocks[loop.header].predecessors} - loop.blocks
        values = {value.index: self._merged(value, before) for value in heads}
        of_loop, outlive = self._values_of(loop)
        last: dict[int, Value] = {}
        exits: dict[tuple[int, int], Condition | None] = {}
        active: Condition | None = ALWAYS if entered is not None else None
        trips, is_even = self.evaluation.trips(loop)
        left_before = self.tables.left
        for iteration in range(_MOST_ITERATIONS):
            for index in of_loop:
                self.known.pop(index, None)
            self.known |= values
            self.masks[loop.header] = _and(entered, active)
            self.level(loop)
            for index in outlive:  # threads that have left keep theirs
                now = self.known.get(index)
                is_kept = iteration and active != ALWAYS
                last[index] = self._chosen(index, active, now, last[index]) if is_kept else now
            for edge in self._exits(loop):
                left = self._relative(self._edge(*edge), entered)
                exits[edge] = self.tables.either(exits.get(edge, NEVER), left)
            if (left_before - self.tables.left) * (trips or 1) > (iteration + 1) * left_before:
                raise TooMuchError  # there will be too much for all iterations
            following = self._following(loop, entered)
            if following is None and is_even and trips is not None and active == ALWAYS:
                following = ALWAYS if iteration + 1 < trips else NEVER
            if following is None or entered is None:
                self._lose(loop, of_loop)
                return
            if self.tables.all_of((*entered, following)) == NEVER:
                break
            values = {value.index: self._merged(value, loop.blocks) for value in heads}
            active = following
        else:
            raise TooMuchError
        self.known |= last
        self.edges |= {edge: _and(entered, left) for edge, left in exits.items()}

    def _values_of(self, loop: Loop) -> tuple[list[int], list[int]]:
        """The values of a loop, and those that are read after it."""
        if loop.index not in self._own:
            of_loop = [i for i in self.needed if self.all[i].block in loop.blocks]
            values, outside = self.program.values, self.needed.difference(of_loop)
            read = {e for i in outside for e in values.behind(self.all[i], with_guard=True)}
            for position in self._read_at:
                if self.flow.block_of[position] not in loop.blocks:
                    read |= {*values.read[position].values()}
            self._own[loop.index] = of_loop, [index for index in of_loop if index in read]
        return self._own[loop.index]

    def _exits(self, loop: Loop) -> list[tuple[int, int]]:
        return [
            (source, target)
            for source in loop.blocks
            for target in self.flow.blocks[source].successors
            if target not in loop.blocks
        ]

    def _following(self, loop: Loop, entered: Mask) -> Condition | None:
        edges = (self._edge(latch, loop.header) for latch in loop.latches)
        return self.tables.any_of(self._relative(e, entered) for e in edges)

    def _lose(self, loop: Loop, values: Iterable[int]) -> None:
        """Nothing is known of a loop whose iterations are not."""
        self.known |= dict.fromkeys(values)
        for position, ran in self.ran.items():
            if self.flow.block_of[position] in loop.blocks:
                self._give_up(ran, self.wanted[position])
        for source in loop.blocks:
            self.masks[source] = None
            for target in self.flow.blocks[source].successors:
                self.edges[source, target] = None

    def _relative(self, mask: Mask, outer: Mask) -> Condition | None:
        """What holds in addition to the conditions of another mask that it begins with."""
        if mask is None or outer is None:
            return None
        return self.tables.all_of(mask[_common(mask, outer) :])

    def _entered(self, block: int, without: Collection[int] = ()) -> Mask:
        """The mask of a block: of the ways that lead to it, except from some blocks."""
        if block == 0:
            return ()
        if block in self.flow.entries:
            return None
        around = self.flow.loops_around(block)[1 if without else 0 :]
        dominators = islice(self.flow.above(block), 1, None)
        above = next((b for b in dominators if self.flow.loops_around(b) == around), -1)
        count = self.conditions.active(block)
        if not without and count is not None and count == self.conditions.active(above):
            return self.masks.get(above)  # all threads come together again
        sources = [s for s in self.flow.blocks[block].predecessors if s not in without]
        edges = [self._edge(source, block) for source in sources]
        if len(edges) == 1:
            return edges[0]
        outer = self.masks.get(above)
        return _and(outer, self.tables.any_of(self._relative(e, outer) for e in edges))

    def _edge(self, source: int, target: int) -> Mask:
        """The threads that go from a block to another."""
        if (source, target) in self.evaluation.not_taken:
            return (NEVER,)
        if (source, target) in self.edges:
            return self.edges[source, target]
        return _and(self.masks.get(source), self._taken(source, target))

    def _guard(self, position: int) -> Condition | None:
        """Which threads of its block run an instruction. The counts tell it if all or none do."""
        instruction = self.program.code[position]
        if instruction.guard is None:
            return ALWAYS
        count = self.conditions.threads.get(instruction.address)
        if count == 0:
            return NEVER
        if count is not None and count == self.conditions.active(self.flow.block_of[position]):
            return ALWAYS
        return self.flag(instruction.guard[0], position, is_negated=instruction.guard[1])

    def _taken(self, source: int, target: int) -> Condition | None:
        block = self.flow.blocks[source]
        last = block.end - 1
        instruction = self.program.code[last]
        is_one_way = instruction.guard is None and len(block.successors) == 1
        if instruction.role is not Role.BRANCH or is_one_way:
            return ALWAYS
        if instruction.opcode not in ("BRA", "EXIT") or instruction.has("DIV", "CONV"):
            return None
        holds = self._guard(last)
        for operand in instruction.sources:
            if operand.kind == "predicate":
                more = self.flag(operand.name, last, is_negated=operand.negated)
                holds = self.tables.both(holds, more)
        start = self.program.code[self.flow.blocks[target].start].address
        if instruction.opcode == "EXIT" or start != instruction.target:
            return self.tables.opposite(holds)
        return holds if instruction.address + 16 != instruction.target else ALWAYS

    # --- one block

    def _block(self, block: int) -> None:
        if self.loops.get(block) is None:
            before = {*self.flow.blocks[block].predecessors}
            for value in self.merges.get((block, -1), ()):
                self.known[value.index] = self._merged(value, before)
        for position in self.flow.positions([block]):
            if position in self.wanted:
                try:
                    self._access(position, block)
                except TooLargeError:
                    self._give_up(self.ran[position], self.wanted[position])
            for register, index in self.program.values.written[position].items():
                if index in self.needed:
                    self.known[index] = self._written(position, register, self.all[index])
            for value in self.merges.get((block, position), ()):
                assert value.guard is not None
                holds = cast("Condition | None", self.known.get(value.guard[0]))
                if value.guard[1]:
                    holds = self.tables.opposite(holds)
                new, old = map(self.known.get, value.inputs)
                self.known[value.index] = self._chosen(value.index, holds, new, old)

    def _chosen(self, index: int, holds: Condition | None, yes: Value, no: Value) -> Value:
        """One of two values, for a value that is a flag or a number."""
        tables = self.tables
        if not is_predicate(self.all[index].register):
            return tables.choose(holds, yes, no)  # type: ignore[arg-type]
        if yes == no:
            return yes
        if_holds = tables.both(holds, yes)  # type: ignore[arg-type]
        return tables.either(if_holds, tables.both(tables.opposite(holds), no))  # type: ignore[arg-type]

    def _merged(self, value: SsaValue, sources: Collection[int]) -> Value:
        """The value of the way that a thread takes into a block, from some blocks before it."""
        before = self.flow.blocks[value.block].predecessors
        if len(value.inputs) != len(before):
            return None
        ways = [
            way
            for way in zip(before, value.inputs, strict=True)
            if way[0] in sources and (way[0], value.block) not in self.evaluation.not_taken
        ]
        if not ways:
            return None
        chosen = self.known.get(ways[0][1])
        if all(self.known.get(index) == chosen for _, index in ways[1:]):
            return chosen
        edges = [self._edge(source, value.block) for source, _ in ways]
        known = [edge or () for edge in edges]
        shared = known[0][: min(_common(known[0], edge) for edge in known)]
        for (_, index), edge in zip(ways[1:], edges[1:], strict=True):
            holds = self._relative(edge, shared)
            chosen = self._chosen(value.index, holds, self.known.get(index), chosen)
        return chosen

    def _access(self, position: int, block: int) -> None:
        ran, access = self.ran[position], self.wanted[position]
        self.tables.spend(_INSTRUCTION_COST)
        memory = self.program.code[position].memory
        where = self.tables.both(self._relative(self.masks.get(block), ()), self._guard(position))
        if where == NEVER:
            return
        if where is not None and ran.is_known:
            ran.threads += self.tables.count(where)
            if self.is_check and ran.threads > (access.threads or 0):
                raise _RefutedError
            if access.pointer not in self.pointers:
                return  # its threads alone matter
        address: Number | None = constant(memory.value) if memory else None
        read = self.program.values.read[position]
        for name, factor in memory.summands if memory else ():
            if name in read:
                more = cast("Number | None", self.known.get(read[name]))
                address = self.tables.add(address, self.tables.scale(more, factor))
        if address is None or where is None or not ran.is_known:
            self._give_up(ran, access)
        else:
            self._touch(ran, access, address, where)

    def _give_up(self, ran: Touched, access: Access) -> None:
        ran.is_known = False
        self.pointers.discard(access.pointer)
        if not self.pointers:
            raise TooMuchError

    def _touch(self, ran: Touched, access: Access, address: Number, where: Condition) -> None:
        rest = dict(self.resolved(address) or {})
        if rest.pop((access.pointer,), None) != {(): [1]}:
            self._give_up(ran, access)
            return
        whole = rest.pop((), {})
        by_rows = self.tables.rows(whole, where, access.width)
        low = min(rows[0] + min(spans)[0] for rows, spans in by_rows.items())
        high = max(rows[-1] + max(end for _, end in spans) for rows, spans in by_rows.items())
        if low < -WORD // 2 or high > WORD // 2:  # the low word of an address does not tell
            self._give_up(ran, access)
            return
        for factor, part in rest.items():
            ran.distances |= {*factor}
            place = self._places.setdefault(factor, len(self._places) + 1)
            apart = self.tables.scaled({(): part}, _UNKNOWN_DISTANCE**place)
            whole = self.tables.sum({(): whole}, apart)[()]
        if rest:
            has_planes = any(len(factor) > 1 for factor in rest)
            ran.length = math.inf if has_planes else max(ran.length, high - low)
            by_rows = self.tables.rows(whole, where, access.width)
        for rows, spans in by_rows.items():
            ran.rows.setdefault(rows, []).extend(spans)
            self.tables.spend(len(spans))

    # --- one instruction

    def flag(self, name: str, position: int, *, is_negated: bool) -> Condition | None:
        if not name:
            return NEVER if is_negated else ALWAYS
        index = self.program.values.read[position].get(name, -1)
        condition = cast("Condition | None", self.known.get(index))
        return self.tables.opposite(condition) if is_negated else condition

    def operand(self, operand: Operand, position: int) -> Number | None:
        number: Number | None
        if operand.is_register and operand.name:
            index = self.program.values.read[position].get(operand.name, -1)
            number = cast("Number | None", self.known.get(index))
        else:
            plain = operand._replace(negated=False, inverted=False)
            polynomial = self.evaluation.operand(plain, position)
            number = self._plain(polynomial) if polynomial is not None else None
        if operand.inverted:
            return self.tables.add(constant(-1), self.tables.scale(number, -1))
        return self.tables.scale(number, -1) if operand.negated else number

    def high_word(self, operand: Operand, position: int) -> Number | None:
        """Of a number in two registers."""
        name = f"R{int(operand.name[1:]) + 1}" if re.fullmatch(r"R\d+", operand.name) else ""
        return self.operand(operand._replace(name=name), position) if name else None

    def _plain(self, polynomial: Polynomial) -> Number | None:
        """A polynomial of indices and parameters as a number."""
        if any(symbol.kind not in _PLAIN_SYMBOLS for symbol in polynomial.symbols):
            return None
        result: Number = {}
        for product, coefficient in polynomial.terms.items():
            part = constant(coefficient)
            for symbol in product:
                factor: Number
                if symbol.kind == "param":
                    value = self.parameters.get(symbol.name)
                    factor = {(symbol.name,): {(): [1]}} if value is None else constant(value)
                else:
                    group = self.tables.union([(symbol.name,)])  # not too large
                    factor = {(): {group: [*range(self.tables.extents[symbol.name])]}}
                part = self.tables.multiply(part, factor)
            result = self.tables.sum(result, part)
        return result

    def _written(self, position: int, register: str, value: SsaValue) -> Value:
        instruction = self.program.code[position]
        self.tables.spend(_INSTRUCTION_COST)
        try:
            if is_predicate(value.register):
                return self._compared(instruction, position, register)
            plain = self._plain(self.evaluation.polynomial(value.index))
            is_result = register == instruction.result and not instruction.has("X")
            is_computed = plain is None and is_result
            return self._computed(instruction, position) if is_computed else plain
        except TooLargeError:
            return None

    def _computed(self, instruction: Instruction, position: int) -> Number | None:
        """By the rule of its opcode."""
        count, rule = _RULES.get(instruction.base, (0, None))
        operands = instruction.numbers[:count]
        if rule is None or len(operands) < (count or 0):
            return None
        step = _Step(self, instruction, position)
        return rule(step, *(self.operand(operand, position) for operand in operands))

    def _compared(self, instruction: Instruction, position: int, register: str) -> Condition | None:
        if register != next(filter(is_predicate, instruction.writes)):
            return None
        if instruction.base == "LOP3":
            return self.tables.compare(_RELATIONS["NE"], self._computed(instruction, position))
        if instruction.base == "PLOP3":
            return self._of_flags(instruction, position)
        relation = next((name for name in instruction.modifiers if name in _RELATIONS), "")
        if instruction.base != "ISETP" or instruction.has("EX", "64") or not relation:
            return None
        condition = self._signs(position, relation)
        if condition is None:
            sides = (self.operand(operand, position) for operand in instruction.sources[:2])
            left, right = (self.word(side, is_signed=not instruction.has("U32")) for side in sides)
            difference = self.tables.add(left, self.tables.scale(right, -1))
            condition = self.tables.compare(_RELATIONS[relation], difference)
        return self._joined(instruction, position, condition)

    def _joined_signs(self, position: int) -> int:
        """`(a | b) < 0`, so the compiler joins tests of two borders: the position of the `or`; -1
        if it is something else."""
        instruction = self.program.code[position]
        is_sign = instruction.has("LT", "GE") and not instruction.has("U32", "EX")
        if instruction.opcode != "ISETP" or not is_sign:
            return -1
        first, second = instruction.sources[:2]
        index = self.program.values.read[position].get(first.name) if first.name else None
        if index is None or first.negated or not is_zero(second):
            return -1
        source = self.program.writer(index)
        if source is None or source.opcode != "LOP3" or len(source.numbers) < 4:
            return -1
        return self.all[index].position if source.numbers[3].value in (0xFC, 0xFE) else -1

    def _signs(self, position: int, relation: str) -> Condition | None:
        """Whether one of several numbers is below 0, or none."""
        place = self._joined_signs(position)
        if place < 0:
            return None
        operands = self.program.code[place].numbers
        count = 2 if operands[3].value == 0xFC else 3
        words = (self.word(self.operand(operand, place)) for operand in operands[:count])
        below = (self.tables.compare(_RELATIONS["LT"], word) for word in words)
        condition = self.tables.any_of(below)
        return condition if relation == "LT" else self.tables.opposite(condition)

    def _joined(
        self, instruction: Instruction, position: int, condition: Condition | None
    ) -> Condition | None:
        """A comparison with the predicate that it is joined with."""
        other = instruction.predicate
        if other is None:
            return condition
        joined_with = self.flag(other.name, position, is_negated=other.negated)
        if instruction.has("OR"):
            return self.tables.either(condition, joined_with)
        return self.tables.both(condition, joined_with) if instruction.has("AND") else None

    def resolved(self, number: Number | None) -> Number | None:
        """A number with the values that are tried."""
        if number is None or not any(name in self.guessed for factor in number for name in factor):
            return number
        result: Number = {}
        for factor, part in number.items():
            rest = tuple(name for name in factor if name not in self.guessed)
            times = math.prod(self.guessed.get(name, 1) for name in factor)
            result = self.tables.sum(result, self.tables.scaled({rest: part}, times))
        return result

    def bits(self, number: Number | None, *, is_signed: bool = True) -> Number | None:
        """The same, where single bits of it matter."""
        resolved = self.resolved(number)
        self.uses_bits = self.uses_bits or resolved is not number
        return self.word(resolved, is_signed=is_signed)

    def product_side(self, number: Number | None, *, is_signed: bool) -> Number | None:
        """A factor: parameters that are tried stay symbols."""
        return number if number and set(number) - {()} else self.word(number, is_signed=is_signed)

    def word(self, number: Number | None, *, is_signed: bool = True) -> Number | None:
        """A number as the 32 bits of a register have it."""
        number = self.resolved(number)
        if number is None or set(number) - {()}:
            return number
        tables = number.get((), {}).values()
        low, high = sum(map(min, tables)), sum(map(max, tables))
        first = -WORD // 2 if is_signed else 0
        if first <= low and high < first + WORD:
            return number
        return self.tables.apply(signed if is_signed else lambda value: value % WORD, number)

    def _of_flags(self, instruction: Instruction, position: int) -> Condition | None:
        inputs = [operand for operand in instruction.sources if operand.kind == "predicate"]
        if len(inputs) != 3 or not instruction.immediates:
            return None
        table, tables = instruction.immediates[0], self.tables
        flags = (self.flag(each.name, position, is_negated=each.negated) for each in inputs)
        ways = [(tables.opposite(flag), flag) for flag in flags]
        return tables.any_of(
            tables.all_of(ways[at][row >> 2 - at & 1] for at in range(3))
            for row in range(8)
            if table >> row & 1
        )


_RECIPROCAL = ("I2F", "MUFU", "F2I")
"""What a division by a number that is no constant begins with."""
_FOLLOWED = (Role.INTEGER, Role.PREDICATE, Role.MOVE, Role.CONSTANT, Role.SPECIAL)


def _and(mask: Mask, condition: Condition | None) -> Mask:
    return None if mask is None or condition is None else (*mask, condition)


def _common(mask: Sequence[Condition], other: Sequence[Condition]) -> int:
    """How many conditions two masks begin with together."""
    pairs = zip(mask, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


# --- opcodes


class _Step(NamedTuple):
    """An instruction in its place."""

    run: _Replay
    instruction: Instruction
    position: int


def _product(
    step: _Step, first: Number | None, second: Number | None, third: Number | None
) -> Number | None:
    run, instruction, tables = step.run, step.instruction, step.run.tables
    if first is None or second is None:
        return None
    is_signed = not instruction.has("U32")
    if instruction.has("HI"):  # the high word of a * b + c, where c has two registers
        high = third if third == {} else None
        if high == {} and instruction.numbers[2].name:
            high = run.high_word(instruction.numbers[2], step.position)
        left, right = (run.bits(side, is_signed=is_signed) for side in (first, second))
        return tables.apply(lambda a, b, c: (a * b >> 32) + c, left, right, high)
    left, right = (run.product_side(side, is_signed=is_signed) for side in (first, second))
    if left is None or right is None or third is None:
        return None
    return tables.add(tables.multiply(left, right), third)


def _shifted_sum(step: _Step, *numbers: Number | None) -> Number | None:
    """LEA: `(a << s) + b`; LEA.HI: `(c:a >> (32 - s)) + b`."""
    run, instruction, tables = step.run, step.instruction, step.run.tables
    if len(numbers) < 3 or instruction.numbers[-1].kind != "immediate":
        return None
    first, second, *high_word, _ = numbers
    amount = instruction.numbers[-1].value & 31
    if first is None or second is None:
        return None
    if not instruction.has("HI"):
        return tables.add(tables.scale(first, 1 << amount), second)
    if high_word and high_word[0] != {}:
        return None
    whole = run.bits(first, is_signed=instruction.has("SX32"))
    return tables.add(tables.apply(lambda a: a >> (32 - amount), whole), second)


def _shift(
    step: _Step, low: Number | None, by: Number | None, high: Number | None
) -> Number | None:
    run, instruction = step.run, step.instruction
    if by is None or instruction.has("U64", "S64", "W"):
        return None
    if instruction.has("L") and not instruction.has("HI"):
        amount = by.get((), {}).get((), [0])[0]
        is_number = by == constant(amount) and 0 <= amount < 32
        return run.tables.scale(low, 1 << amount) if is_number else None
    if not instruction.has("R") or not instruction.has("HI") or low != {}:
        return None
    whole = run.bits(high, is_signed=instruction.has("S32"))
    return run.tables.apply(lambda a, s: a >> min(s % WORD, 32), whole, run.bits(by))


def _logic(step: _Step, *numbers: Number | None) -> Number | None:
    """What the table does not depend on need not be known."""
    if len(numbers) < 4 or step.instruction.numbers[3].kind != "immediate":
        return None
    used, function = truth_table(step.instruction.numbers[3].value)
    if not used:
        return constant(function())
    return step.run.tables.apply(function, *(step.run.bits(numbers[place]) for place in used))


def _extreme(step: _Step, *numbers: Number | None) -> Number | None:
    run, instruction = step.run, step.instruction
    which = [operand for operand in instruction.sources if operand.kind == "predicate"]
    if None in numbers or len(which) != 1 or which[0].name or is_packed(instruction):
        return None
    *summed, last = numbers
    sides = reduce(run.tables.add, summed), last
    words = (run.word(side, is_signed=not instruction.has("U32")) for side in sides)
    return run.tables.apply(max if which[0].negated else min, *words)


def _select(step: _Step, first: Number | None, second: Number | None) -> Number | None:
    which = step.instruction.predicate
    if which is None:
        return None
    holds = step.run.flag(which.name, step.position, is_negated=which.negated)
    return step.run.tables.choose(holds, first, second)


def _packed_flags(step: _Step) -> Number | None:
    """P2R: one bit per predicate."""
    run, position = step.run, step.position
    first, before, mask = (*step.instruction.sources, None, None, None)[:3]
    total = run.operand(before, position) if before is not None else None
    if first is None or first.name != "PR" or total != {} or mask is None:
        return None
    for bit in range(7):
        if mask.value >> bit & 1:
            flag = run.flag(f"P{bit}", position, is_negated=False)
            total = run.tables.add(total, run.tables.choose(flag, constant(1 << bit), {}))
    return total


def _reciprocal(step: _Step, number: Number | None) -> Number | None:
    """The first steps of a division, as bits of numbers in single precision. Its further steps
    correct the last digits, so that rounding does not matter."""
    run, instruction = step.run, step.instruction
    function = _FLOATS.get((instruction.opcode, *sorted(instruction.modifiers)))
    if function is None:
        return None
    try:
        return run.tables.apply(function, run.bits(number, is_signed=not instruction.has("U32")))
    except (OverflowError, ValueError):  # infinite, or not a number
        return None


def _bits_of(value: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def _float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", signed(bits)))[0])


def _rounded_up(value: int) -> int:
    bits = _bits_of(value)
    is_below = _float_of(bits) < value
    return bits + (1 if bits >= 0 else -1) if is_below else bits


_FLOATS: Mapping[tuple[str, ...], Callable[[int], int]] = {
    ("I2F", "RP"): _rounded_up,
    ("I2F", "RP", "U32"): _rounded_up,
    ("MUFU", "RCP"): lambda bits: _bits_of(1 / (_float_of(bits) or math.inf)),
    ("F2I", "FTZ", "NTZ", "TRUNC", "U32"): lambda bits: min(max(0, int(_float_of(bits))), WORD - 1),
}


_RULES: Mapping[str, tuple[int | None, Callable[..., Number | None]]] = {
    **dict.fromkeys(
        ("IADD3", "IADD", "VIADD", "IADD2"),
        (None, lambda step, *all_: reduce(step.run.tables.add, all_)),
    ),
    "IMAD": (3, _product),
    "LEA": (None, _shifted_sum),
    "SHF": (3, _shift),
    "LOP3": (None, _logic),
    **dict.fromkeys(("VIMNMX", "IMNMX"), (2, _extreme)),
    "VIADDMNMX": (3, _extreme),
    "SEL": (2, _select),
    **dict.fromkeys(("MOV", "R2UR"), (1, lambda _, number: number)),
    "IABS": (1, lambda step, number: step.run.tables.apply(abs, step.run.bits(number))),
    "P2R": (0, _packed_flags),
    **dict.fromkeys(_RECIPROCAL, (1, _reciprocal)),
}
"""How many numbers an opcode computes with (None: all of them), and its rule."""
