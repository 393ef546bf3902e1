"""Addresses that are computed for every thread: the integer part of a kernel runs again, here.

The closed forms of `footprints` stop at indices that wrap, are clamped on both sides or are guarded
by their own conditions. What makes an address is a handful of integer instructions; they are run
with the indices of all threads as tables. Parameters have the values that the number of executed
threads leaves for them (`executed_boxes`); others stay unknown factors, such as a pitch.

Nothing is believed that the counters do not confirm: an access counts only if as many threads ran
it here as in the launch.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from keet.analysis.sass.analyses.conditions import RunConditions
from keet.analysis.sass.analyses.index_tables import (
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
from keet.analysis.sass.analyses.reuse import Access
from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.values import Kind, SsaValue
from keet.analysis.sass.instructions.instruction import Instruction, is_zero
from keet.analysis.sass.instructions.opcodes import Role
from keet.analysis.sass.instructions.operands import Operand
from keet.analysis.sass.polynomials.opcode_rules import signed
from keet.analysis.sass.polynomials.polynomial import WORD, Polynomial

_MOST_ITERATIONS = 4096
_COST = 100
"""An instruction costs as much as so many entries of a table, however small its table is."""
_APART = 1 << 40
"""Stands for a distance that is not known: rows do not overlap."""
_RELATIONS = {
    "LT": lambda each: each < 0,
    "LE": lambda each: each <= 0,
    "GT": lambda each: each > 0,
    "GE": lambda each: each >= 0,
    "EQ": lambda each: each == 0,
    "NE": lambda each: each != 0,
}
_PLAIN = ("tid", "ctaid", "param")

Mask = tuple[Condition, ...] | None
"""Conditions of which all hold where a block runs; None: not known."""


class Touched(NamedTuple):
    """The bytes that one access touches."""

    rows: Mapping[Rows, Spans]
    distances: frozenset[str]
    """Parameters that are the distance of rows."""
    length: float
    """Bytes from the first to the last of a row; 0 without unknown distances, infinite if there are
    planes."""


@dataclass
class _Ran:
    """What an access did so far."""

    threads: int = 0
    rows: dict[Rows, Spans] = field(default_factory=dict)
    distances: set[str] = field(default_factory=set)
    length: float = 0
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
    known = {position: ran for position, ran in run.ran.items() if ran.is_known}
    more = [ran.threads - (run.wanted[position].threads or 0) for position, ran in known.items()]
    touched = {
        position: Touched(ran.rows, frozenset(ran.distances), ran.length)
        for position, ran in known.items()
    }
    return Replayed(touched, sum(more), any(more), run.uses_bits)


_LARGE = 4
_MOST_STEPS = 24


def fitting(run: Callable[[int, bool], Replayed], low: int) -> dict[int, Replayed]:
    """Values of a parameter that the counters do not refute, from the least one on: a single one
    if its neighbours are refuted, or the least and a large one if neither is. More threads run the
    larger it is. Empty if that does not decide it. `run`: for a value, and whether it is a check
    alone."""
    known: dict[int, Replayed] = {}

    def at(value: int, *, is_check: bool = False) -> Replayed:
        if value not in known:
            known[value] = run(value, is_check)
        return known[value]

    high = _LARGE * low
    if at(low).is_refuted:
        while at(high).excess < 0 and len(known) < _MOST_STEPS:
            low, high = high, _LARGE * high
        while high - low > 1 and at(high).is_refuted and len(known) < _MOST_STEPS:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle).excess < 0 else (low, middle)
        low, high = high, _LARGE * high
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
        self.wanted = {each.position: each for each in accesses}
        self.pointers = {*pointers}
        self.evaluation = conditions.evaluation
        self.conditions = conditions
        self.program = conditions.program
        self.flow = self.program.flow
        self.all = self.program.values.all
        self.tables = tables
        self.numbers: dict[int, Number | None] = {}
        self.flags: dict[int, Condition | None] = {}
        self.masks: dict[int, Mask] = {}
        self.edges: dict[tuple[int, int], Mask] = {}
        self.ran = {position: _Ran() for position in self.wanted}
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
        read, waiting = self.program.values.read, list[int]()
        for position, access in self.wanted.items():
            memory = self.program.code[access.position].memory
            is_asked = memory is not None and access.pointer in self.pointers
            names = (memory.name, memory.uniform) if memory and is_asked else ()
            guard = self.program.code[position].guard
            waiting += [
                read[position][name]
                for name in (*names, guard[0] if guard else "")
                if name in read[position]
            ]
        for block in self.flow.blocks:
            waiting += read[block.end - 1].values() if len(block.successors) > 1 else ()
            guard = self.program.code[block.end - 1].guard
            waiting += [read[block.end - 1][guard[0]]] if guard else []
        found: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index in found:
                continue
            found.add(index)
            value = self.all[index]
            if value.kind is Kind.DEFINITION:
                place = self._joined_signs(value.position)
                each = self.program.code[value.position]
                if each.role in _FOLLOWED or each.opcode in _RECIPROCAL:
                    waiting += [
                        each
                        for each in read[value.position].values()
                        if place < 0 or self.all[each].position != place
                    ]
                waiting += read[place].values() if place >= 0 else ()
            elif value.kind is not Kind.CALL:
                waiting += value.inputs
                waiting += [value.guard[0]] if value.guard else []
        return found

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
        own, outlive = self._values_of(loop)
        last: dict[int, Number | Condition | None] = {}
        exits: dict[tuple[int, int], Condition | None] = {}
        active: Condition | None = ALWAYS if entered is not None else None
        trips, is_even = self.evaluation.trips(loop)
        left_before = self.tables.left
        for iteration in range(_MOST_ITERATIONS):
            for index in own:
                self.numbers.pop(index, None)
                self.flags.pop(index, None)
            for value in heads:
                self._set(value, values[value.index])
            self.masks[loop.header] = (
                None if entered is None or active is None else (*entered, active)
            )
            self.level(loop)
            for index in outlive:  # threads that have left keep theirs
                now = self._of(index)
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
                self._lose(loop, own)
                return
            if self._is_empty((*entered, following)):
                break
            values = {value.index: self._merged(value, loop.blocks) for value in heads}
            active = following
        else:
            raise TooMuchError
        for index in outlive:
            self._set(self.all[index], last[index])
        for edge, left in exits.items():
            self.edges[edge] = None if left is None else (*entered, left)

    def _values_of(self, loop: Loop) -> tuple[list[int], list[int]]:
        """The values of a loop, and those that are read after it."""
        if loop.index not in self._own:
            own = [i for i in self.needed if self.all[i].block in loop.blocks]
            read: set[int] = set()
            for index in self.needed:
                value = self.all[index]
                if value.block not in loop.blocks:
                    read |= {*value.inputs, *([value.guard[0]] if value.guard else [])}
                    if value.kind is Kind.DEFINITION:
                        read |= {*self.program.values.read[value.position].values()}
            for position in (*self.wanted, *(block.end - 1 for block in self.flow.blocks)):
                if self.flow.block_of[position] not in loop.blocks:
                    read |= {*self.program.values.read[position].values()}
            self._own[loop.index] = own, [index for index in own if index in read]
        return self._own[loop.index]

    def _exits(self, loop: Loop) -> list[tuple[int, int]]:
        return [
            (source, target)
            for source in loop.blocks
            for target in self.flow.blocks[source].successors
            if target not in loop.blocks
        ]

    def _following(self, loop: Loop, entered: Mask) -> Condition | None:
        found: Condition | None = NEVER
        for latch in loop.latches:
            edge = self._relative(self._edge(latch, loop.header), entered)
            found = self.tables.either(found, edge)
        return found

    def _lose(self, loop: Loop, own: Iterable[int]) -> None:
        """Nothing is known of a loop whose iterations are not."""
        for index in own:
            self._set(self.all[index], None)
        for position, ran in self.ran.items():
            if self.flow.block_of[position] in loop.blocks:
                self._give_up(ran, self.wanted[position])
        for source in loop.blocks:
            self.masks[source] = None
            for target in self.flow.blocks[source].successors:
                self.edges[source, target] = None

    def _is_empty(self, mask: Sequence[Condition]) -> bool:
        found: Condition | None = ALWAYS
        for each in mask:
            found = self.tables.both(found, each)
        return found == NEVER

    def _relative(self, mask: Mask, outer: Mask) -> Condition | None:
        """What holds in addition to the conditions of another mask that it begins with."""
        if mask is None or outer is None:
            return None
        found: Condition | None = ALWAYS
        for each in mask[_common(mask, outer) :]:
            found = self.tables.both(found, each)
        return found

    def _entered(self, block: int, without: Collection[int] = ()) -> Mask:
        """The mask of a block: of the ways that lead to it, except from some blocks."""
        if block == 0:
            return ()
        if block in self.flow.entries:
            return None
        above = self.flow.dominators.get(block, -1)
        around = self.flow.loops_around(block)[1 if without else 0 :]
        while above >= 0 and self.flow.loops_around(above) != around:
            above = self.flow.dominators.get(above, -1)
        count = self.conditions.active(block)
        if not without and count is not None and count == self.conditions.active(above):
            return self.masks.get(above)  # all threads come together again
        sources = [s for s in self.flow.blocks[block].predecessors if s not in without]
        edges = [self._edge(source, block) for source in sources]
        if len(edges) == 1:
            return edges[0]
        outer = self.masks.get(above)
        found: Condition | None = NEVER
        for edge in edges:
            found = self.tables.either(found, self._relative(edge, outer))
        return None if found is None or outer is None else (*outer, found)

    def _edge(self, source: int, target: int) -> Mask:
        """The threads that go from a block to another."""
        if (source, target) in self.evaluation.not_taken:
            return (NEVER,)
        if (source, target) in self.edges:
            return self.edges[source, target]
        mask = self.masks.get(source)
        taken = self._taken(source, target)
        return None if mask is None or taken is None else (*mask, taken)

    def _guard(self, position: int) -> Condition | None:
        """Which threads of its block run an instruction. The counts tell it if all or none do."""
        each = self.program.code[position]
        if each.guard is None:
            return ALWAYS
        count = self.conditions.threads.get(each.address)
        if count == 0:
            return NEVER
        if count is not None and count == self.conditions.active(self.flow.block_of[position]):
            return ALWAYS
        return self.flag(each.guard[0], position, is_negated=each.guard[1])

    def _taken(self, source: int, target: int) -> Condition | None:
        found = self.flow.blocks[source]
        last = found.end - 1
        each = self.program.code[last]
        if each.role is not Role.BRANCH or (each.guard is None and len(found.successors) == 1):
            return ALWAYS
        if each.opcode not in ("BRA", "EXIT") or each.has("DIV", "CONV"):
            return None
        holds = self._guard(last)
        for one in each.sources:
            if one.kind == "predicate":
                more = self.flag(one.name, last, is_negated=one.negated)
                holds = self.tables.both(holds, more)
        start = self.program.code[self.flow.blocks[target].start].address
        if each.opcode == "EXIT" or start != each.target:
            return self.tables.opposite(holds)
        return holds if each.address + 16 != each.target else ALWAYS

    # --- one block

    def _block(self, block: int) -> None:
        if self.loops.get(block) is None:
            before = {*self.flow.blocks[block].predecessors}
            for value in self.merges.get((block, -1), ()):
                self._set(value, self._merged(value, before))
        for position in self.flow.positions([block]):
            if position in self.wanted:
                try:
                    self._access(position, block)
                except TooLargeError:
                    self._give_up(self.ran[position], self.wanted[position])
            for register, index in self.program.values.written[position].items():
                if index in self.needed:
                    self._write(position, register, self.all[index])
            for value in self.merges.get((block, position), ()):
                assert value.guard is not None
                holds = self.flags.get(value.guard[0])
                if value.guard[1]:
                    holds = self.tables.opposite(holds)
                both = map(self._of, value.inputs)
                self._set(value, self._chosen(value.index, holds, *both))

    def _set(self, value: SsaValue, found: Number | Condition | None) -> None:
        if _is_flag(value):
            self.flags[value.index] = found  # type: ignore[assignment]
        else:
            self.numbers[value.index] = found  # type: ignore[assignment]

    def _of(self, index: int) -> Number | Condition | None:
        return (self.flags if _is_flag(self.all[index]) else self.numbers).get(index)

    def _chosen(
        self,
        index: int,
        holds: Condition | None,
        yes: Number | Condition | None,
        no: Number | Condition | None,
    ) -> Number | Condition | None:
        """One of two values, for a value that is a flag or a number."""
        tables = self.tables
        if not _is_flag(self.all[index]):
            return tables.choose(holds, yes, no)  # type: ignore[arg-type]
        if yes == no:
            return yes
        one = tables.both(holds, yes)  # type: ignore[arg-type]
        return tables.either(one, tables.both(tables.opposite(holds), no))  # type: ignore[arg-type]

    def _merged(self, value: SsaValue, sources: Collection[int]) -> Number | Condition | None:
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
        found = self._of(ways[0][1])
        if all(self._of(index) == found for _, index in ways[1:]):
            return found
        edges = [self._edge(source, value.block) for source, _ in ways]
        shared = min((e for e in edges if e is not None), key=len, default=())
        for edge in edges:
            shared = shared[: _common(shared, edge or ())]
        for (_, index), edge in zip(ways[1:], edges[1:], strict=True):
            holds = self._relative(edge, shared)
            found = self._chosen(value.index, holds, self._of(index), found)
        return found

    def _access(self, position: int, block: int) -> None:
        ran, access = self.ran[position], self.wanted[position]
        self.tables.spend(_COST)
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
        for name, factor in ((memory.name, memory.scale), (memory.uniform, 1)) if memory else ():
            if name and name in read:
                more = self.numbers.get(read[name])
                if address is not None and more is not None:
                    address = self.tables.add(address, self.tables.scale(more, factor))
                else:
                    address = None
        if address is None or where is None or not ran.is_known:
            self._give_up(ran, access)
            return
        self._touch(ran, access, address, where)

    def _give_up(self, ran: _Ran, access: Access) -> None:
        ran.is_known = False
        self.pointers.discard(access.pointer)
        if not self.pointers:
            raise TooMuchError

    def _touch(self, ran: _Ran, access: Access, address: Number, where: Condition) -> None:
        rest = dict(self.resolved(address) or {})
        if rest.pop((access.pointer,), None) != {(): [1]}:
            self._give_up(ran, access)
            return
        whole = rest.pop((), {})
        found = self.tables.rows(whole, where, access.width)
        low = min(rows[0] + min(spans)[0] for rows, spans in found.items())
        high = max(rows[-1] + max(end for _, end in spans) for rows, spans in found.items())
        if low < -WORD // 2 or high > WORD // 2:
            self._give_up(ran, access)  # the low word of an address does not tell
            return
        for factor, part in rest.items():
            ran.distances |= {*factor}
            place = self._places.setdefault(factor, len(self._places) + 1)
            apart = self.tables.scale({(): part}, _APART**place)
            whole = self.tables.add({(): whole}, apart)[()]
        if rest:
            has_planes = any(len(factor) > 1 for factor in rest)
            ran.length = math.inf if has_planes else max(ran.length, high - low)
            found = self.tables.rows(whole, where, access.width)
        for rows, spans in found.items():
            ran.rows.setdefault(rows, []).extend(spans)
            self.tables.spend(len(spans))

    # --- one instruction

    def flag(self, name: str, position: int, *, is_negated: bool) -> Condition | None:
        if not name:
            return NEVER if is_negated else ALWAYS
        index = self.program.values.read[position].get(name)
        found = self.flags.get(index) if index is not None else None
        return self.tables.opposite(found) if is_negated else found

    def operand(self, operand: Operand, position: int) -> Number | None:
        if operand.is_register and operand.name:
            index = self.program.values.read[position].get(operand.name)
            found = self.numbers.get(index) if index is not None else None
        else:
            plain = operand._replace(negated=False, inverted=False)
            polynomial = self.evaluation.operand(plain, position)
            found = self._plain(polynomial) if polynomial is not None else None
        if found is None:
            return None
        if operand.inverted:
            return self.tables.add(constant(-1), self.tables.scale(found, -1))
        return self.tables.scale(found, -1) if operand.negated else found

    def high_word(self, operand: Operand, position: int) -> Number | None:
        """Of a number in two registers."""
        name = f"R{int(operand.name[1:]) + 1}" if re.fullmatch(r"R\d+", operand.name) else ""
        return self.operand(operand._replace(name=name), position) if name else None

    def _plain(self, polynomial: Polynomial) -> Number | None:
        """A polynomial of indices and parameters as a number."""
        if any(symbol.kind not in _PLAIN for symbol in polynomial.symbols):
            return None
        result: Number = {}
        for product, coefficient in polynomial.terms.items():
            part = constant(coefficient)
            for symbol in product:
                own: Number
                if symbol.kind == "param":
                    known = self.parameters.get(symbol.name)
                    own = {(symbol.name,): {(): [1]}} if known is None else constant(known)
                else:
                    group = self.tables.union([(symbol.name,)])  # not too large
                    own = {(): {group: [*range(self.tables.extents[symbol.name])]}}
                part = self.tables.multiply(part, own)
            result = self.tables.add(result, part)
        return result

    def _write(self, position: int, register: str, value: SsaValue) -> None:
        each = self.program.code[position]
        found: Number | Condition | None = None
        self.tables.spend(_COST)
        try:
            if _is_flag(value):
                found = self._compared(each, position, register)
            else:
                found = self._plain(self.evaluation.polynomial(value.index))
                first = next((name for name in each.writes if "P" not in name), "")
                if found is None and register == first and not each.has("X"):
                    rule = _RULES.get(each.opcode.removeprefix("U"))
                    found = rule(self, each, position) if rule is not None else None
        except TooLargeError:
            found = None
        self._set(value, found)

    def _compared(self, each: Instruction, position: int, register: str) -> Condition | None:
        opcode = each.opcode.removeprefix("U")
        flags = [name for name in each.writes if "P" in name]
        if register != flags[0]:
            return None
        if opcode == "LOP3":
            return self.tables.compare(_RELATIONS["NE"], _logic(self, each, position))
        if opcode == "PLOP3":
            return self._of_flags(each, position)
        relation = next((name for name in each.modifiers if name in _RELATIONS), "")
        if opcode != "ISETP" or each.has("EX", "64") or not relation:
            return None
        found = self._signs(position, relation)
        if found is not None:
            return self._joined(each, position, found)
        sides = [self.operand(one, position) for one in each.sources[:2]]
        sides = [self.word(side, is_signed=not each.has("U32")) for side in sides]
        if sides[0] is not None and sides[1] is not None:
            difference = self.tables.add(sides[0], self.tables.scale(sides[1], -1))
            found = self.tables.compare(_RELATIONS[relation], difference)
        return self._joined(each, position, found)

    def _joined_signs(self, position: int) -> int:
        """`(a | b) < 0`, so the compiler joins tests of two borders: the position of the `or`; -1
        if it is something else."""
        each = self.program.code[position]
        if each.opcode != "ISETP" or not each.has("LT", "GE") or each.has("U32", "EX"):
            return -1
        one, other = each.sources[:2]
        index = self.program.values.read[position].get(one.name) if one.name else None
        if index is None or one.negated or not is_zero(other):
            return -1
        value = self.all[index]
        source = self.program.code[value.position]
        if value.kind is not Kind.DEFINITION or source.opcode != "LOP3":
            return -1
        operands = [each for each in source.sources if each.kind != "predicate"]
        is_or = len(operands) > 3 and operands[3].value in (0xFC, 0xFE)
        return value.position if is_or else -1

    def _signs(self, position: int, relation: str) -> Condition | None:
        """Whether one of several numbers is below 0, or none."""
        place = self._joined_signs(position)
        if place < 0:
            return None
        found: Condition | None = NEVER
        operands = [each for each in self.program.code[place].sources if each.kind != "predicate"]
        for operand in operands[: 2 if operands[3].value == 0xFC else 3]:
            number = self.word(self.operand(operand, place))
            found = self.tables.either(found, self.tables.compare(_RELATIONS["LT"], number))
        return found if relation == "LT" else self.tables.opposite(found)

    def _joined(
        self, each: Instruction, position: int, found: Condition | None
    ) -> Condition | None:
        """A comparison with the predicate that it is joined with."""
        other = next((one for one in each.sources[2:] if one.kind == "predicate"), None)
        if other is None:
            return found
        joined_with = self.flag(other.name, position, is_negated=other.negated)
        if each.has("OR"):
            return self.tables.either(found, joined_with)
        return self.tables.both(found, joined_with) if each.has("AND") else None

    def resolved(self, number: Number | None) -> Number | None:
        """A number with the values that are tried."""
        if number is None or not any(name in self.guessed for each in number for name in each):
            return number
        result: Number = {}
        for factor, part in number.items():
            rest = tuple(name for name in factor if name not in self.guessed)
            times = math.prod(self.guessed.get(name, 1) for name in factor)
            result = self.tables.add(result, self.tables.scale({rest: part}, times))
        return result

    def bits(self, number: Number | None, *, is_signed: bool = True) -> Number | None:
        """The same, where single bits of it matter."""
        found = self.resolved(number)
        self.uses_bits = self.uses_bits or found is not number
        return self.word(found, is_signed=is_signed)

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
        return self.tables.apply(signed if is_signed else _unsigned, number)

    def _of_flags(self, each: Instruction, position: int) -> Condition | None:
        inputs = [one for one in each.sources if one.kind == "predicate"]
        numbers = [one for one in each.sources if one.kind == "immediate"]
        if len(inputs) != 3 or not numbers:
            return None
        table, tables = numbers[0].value, self.tables
        flags = [self.flag(one.name, position, is_negated=one.negated) for one in inputs]
        found: Condition | None = NEVER
        for row in range(8):
            if table >> row & 1:
                part: Condition | None = ALWAYS
                for flag, bit in zip(flags, (4, 2, 1), strict=True):
                    part = tables.both(part, flag if row & bit else tables.opposite(flag))
                found = tables.either(found, part)
        return found


_RECIPROCAL = ("I2F", "MUFU", "F2I")
"""What a division by a number that is no constant begins with."""
_FOLLOWED = (Role.INTEGER, Role.PREDICATE, Role.MOVE, Role.CONSTANT, Role.SPECIAL)


def _is_flag(value: SsaValue) -> bool:
    return "P" in value.register


def _common(one: Sequence[Condition], other: Sequence[Condition]) -> int:
    """How many conditions two masks begin with together."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first is not second:
            break
        count += 1
    return count


# --- opcodes


def _sources(
    run: _Replay, each: Instruction, position: int, count: int
) -> list[Number | None] | None:
    found = [one for one in each.sources if one.kind != "predicate"]
    if len(found) < count:
        return None
    return [run.operand(one, position) for one in found[:count]]


def _sum(run: _Replay, each: Instruction, position: int) -> Number | None:
    total: Number | None = {}
    for operand in each.sources:
        more = run.operand(operand, position) if operand.kind != "predicate" else {}
        total = None if total is None or more is None else run.tables.add(total, more)
    return total


def _product(run: _Replay, each: Instruction, position: int) -> Number | None:
    found = _sources(run, each, position, 3)
    if found is None or None in found[:2]:
        return None
    is_signed = not each.has("U32")
    if each.has("HI"):  # the high word of a * b + c, where c has two registers
        high: Number | None = {}
        if found[2] != {} or each.sources[2].name:
            high = run.high_word(each.sources[2], position) if found[2] == {} else None
        one, other = (run.bits(side, is_signed=is_signed) for side in found[:2])
        return run.tables.apply(lambda a, b, c: (a * b >> 32) + c, one, other, high)
    one, other = (run.product_side(side, is_signed=is_signed) for side in found[:2])
    more = found[2]
    if one is None or other is None or more is None:
        return None
    return run.tables.add(run.tables.multiply(one, other), more)


def _shifted_sum(run: _Replay, each: Instruction, position: int) -> Number | None:
    """LEA: `(a << s) + b`; LEA.HI: `(c:a >> (32 - s)) + b`."""
    found = _sources(run, each, position, 3)
    last = [one for one in each.sources if one.kind != "predicate"][-1:]
    if found is None or not last or last[0].kind != "immediate" or found[0] is None:
        return None
    amount = last[0].value & 31
    if found[1] is None:
        return None
    if not each.has("HI"):
        return run.tables.add(run.tables.scale(found[0], 1 << amount), found[1])
    has_high = len([one for one in each.sources if one.kind != "predicate"]) > 3
    if has_high and found[2] != {}:
        return None
    whole = run.bits(found[0], is_signed=each.has("SX32"))
    moved = run.tables.apply(lambda a: a >> (32 - amount), whole)
    return None if moved is None else run.tables.add(moved, found[1])


def _shift(run: _Replay, each: Instruction, position: int) -> Number | None:
    found = _sources(run, each, position, 3)
    if found is None or found[1] is None or each.has("U64", "S64", "W"):
        return None
    if each.has("L") and not each.has("HI"):
        amount = found[1].get((), {}).get((), [0])
        if found[0] is not None and found[1] in ({}, constant(amount[0])) and 0 <= amount[0] < 32:
            return run.tables.scale(found[0], 1 << amount[0])
        return None
    if not each.has("R") or not each.has("HI") or found[0] != {}:
        return None
    whole = run.bits(found[2], is_signed=each.has("S32"))
    return run.tables.apply(lambda a, s: a >> min(s % WORD, 32), whole, run.bits(found[1]))


def _logic(run: _Replay, each: Instruction, position: int) -> Number | None:
    """LOP3: bit i of the result is bit abc of a table, where a, b and c are the bits i."""
    operands = [one for one in each.sources if one.kind != "predicate"]
    found = _sources(run, each, position, 3)
    if found is None or len(operands) < 4 or operands[3].kind != "immediate":
        return None
    ones = [row for row in range(8) if operands[3].value >> row & 1]
    # What the table does not depend on need not be known.
    used = [place for place in (4, 2, 1) if {row ^ place for row in ones} != {*ones}]
    ones = [row for row in ones if not row & ~sum(used)]

    def function(*values: int) -> int:
        result = 0
        for row in ones:
            bits = -1
            for value, place in zip(values, used, strict=True):
                bits &= value if row & place else ~value
            result |= bits
        return result

    if not used:
        return constant(-1 if ones else 0)
    by_place = dict(zip((4, 2, 1), found, strict=True))
    return run.tables.apply(function, *(run.bits(by_place[place]) for place in used))


def _extreme(run: _Replay, each: Instruction, position: int) -> Number | None:
    count = 3 if each.opcode.endswith("ADDMNMX") else 2
    found = _sources(run, each, position, count)
    which = [one for one in each.sources if one.kind == "predicate"]
    is_packed = any("x2" in modifier or modifier == "RELU" for modifier in each.modifiers)
    if found is None or None in found or len(which) != 1 or which[0].name or is_packed:
        return None
    if count == 3 and found[0] is not None and found[1] is not None:
        found = [run.tables.add(found[0], found[1]), found[2]]
    sides = [run.word(side, is_signed=not each.has("U32")) for side in found]
    return run.tables.apply(max if which[0].negated else min, *sides)


def _select(run: _Replay, each: Instruction, position: int) -> Number | None:
    found = _sources(run, each, position, 2)
    which = next((one for one in each.sources if one.kind == "predicate"), None)
    if found is None or which is None:
        return None
    holds = run.flag(which.name, position, is_negated=which.negated)
    return run.tables.choose(holds, found[0], found[1])


def _move(run: _Replay, each: Instruction, position: int) -> Number | None:
    found = _sources(run, each, position, 1)
    return found[0] if found else None


def _absolute(run: _Replay, each: Instruction, position: int) -> Number | None:
    found = _sources(run, each, position, 1)
    return run.tables.apply(abs, run.bits(found[0])) if found else None


def _packed_flags(run: _Replay, each: Instruction, position: int) -> Number | None:
    """P2R: one bit per predicate."""
    first, before, mask = (*each.sources, None, None, None)[:3]
    total = run.operand(before, position) if before is not None else None
    if first is None or first.name != "PR" or total != {} or mask is None:
        return None
    for bit in range(7):
        if mask.value >> bit & 1:
            flag = run.flag(f"P{bit}", position, is_negated=False)
            more = run.tables.choose(flag, constant(1 << bit), {})
            total = None if total is None or more is None else run.tables.add(total, more)
    return total


def _unsigned(value: int) -> int:
    return value % WORD


def _reciprocal(run: _Replay, each: Instruction, position: int) -> Number | None:
    """The first steps of a division, as bits of numbers in single precision. Its further steps
    correct the last digits, so that rounding does not matter."""
    found = _sources(run, each, position, 1)
    function = _FLOATS.get((each.opcode, *sorted(each.modifiers)))
    if not found or function is None:
        return None
    try:
        return run.tables.apply(function, run.bits(found[0], is_signed=not each.has("U32")))
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


_RULES: Mapping[str, Callable[[_Replay, Instruction, int], Number | None]] = {
    "IADD3": _sum,
    "IADD": _sum,
    "VIADD": _sum,
    "IADD2": _sum,
    "IMAD": _product,
    "LEA": _shifted_sum,
    "SHF": _shift,
    "LOP3": _logic,
    "VIMNMX": _extreme,
    "IMNMX": _extreme,
    "VIADDMNMX": _extreme,
    "SEL": _select,
    "MOV": _move,
    "R2UR": _move,
    "IABS": _absolute,
    "P2R": _packed_flags,
    **dict.fromkeys(_RECIPROCAL, _reciprocal),
}
