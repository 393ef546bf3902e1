"""`Evaluation`: computes the integer values of a kernel's registers as polynomials.

One pass in the order of control flow. A value at a loop's head is first a new symbol; once the
loop's body is known, it is resolved to `start + step x iteration` if the step is the same in every
iteration. Only the low word of 64-bit addresses is computed: it determines the access pattern.
"""

from __future__ import annotations

from collections.abc import Iterable

from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import (
    Kind,
    SassProgram,
    SsaValue,
    is_ragged,
    live_inputs,
    paths_not_taken,
    trips_of,
)
from keet.analysis.machine_code.instructions.instruction import (
    Instruction,
    Operand,
    is_predicate,
)
from keet.analysis.machine_code.instructions.opcodes import IMPURE, STACK, Role
from keet.analysis.machine_code.polynomials.opcode_rules import (
    OPERATIONS,
    rebuilt,
    result_of,
    signed,
)
from keet.analysis.machine_code.polynomials.polynomial import (
    ZERO,
    LaunchShape,
    Polynomial,
    Range,
    Symbol,
    Symbols,
    add,
    multiply,
    number,
    of_symbol,
    scale,
    simplified,
)


class LoopHeads:
    """Resolves the `join` symbols of an evaluation, each once."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.program = evaluation.program
        self.symbols = evaluation.symbols
        self._resolved: dict[Symbol, Polynomial | None] = {}

    def of(self, symbol: Symbol, depth: int) -> Polynomial:
        """The value at a loop's head as start and step."""
        if symbol in self._resolved:
            resolved = self._resolved[symbol]
            return resolved if resolved is not None else self._lost(symbol)
        self._resolved[symbol] = None
        value = self.program.values.all[int(str(symbol.arguments[0]))]
        loop = self.evaluation.loop_of_header[value.block]
        start, later = self._start_and_next(value.index, loop)
        stepped = self._stepped(symbol, loop, start, later, depth) if start and later else None
        self._resolved[symbol] = stepped
        return stepped if stepped is not None else self._lost(symbol)

    def _lost(self, symbol: Symbol) -> Polynomial:
        index = int(str(symbol.arguments[0]))
        value = self.program.values.all[index]
        depends: set[str] = set(symbol.depends) | {"unknown"}
        for source in value.inputs:
            depends |= self.evaluation.polynomial(source).depends
        name, names = f"lost v{index}", self.evaluation.resolved_names(frozenset(depends))
        return of_symbol(self.symbols.make("opaque", name, depends=names, is_loose=True))

    def _start_and_next(
        self, index: int, loop: Loop
    ) -> tuple[Polynomial | None, Polynomial | None]:
        value = self.program.values.all[index]
        before: dict[object, Polynomial] = {}
        later: dict[object, Polynomial] = {}
        flow = self.program.flow
        sources = (*flow.blocks[value.block].predecessors, *flow.callers.get(value.block, ()))
        for source, input_value in zip(sources, value.inputs, strict=False):
            if (source, value.block) in self.evaluation.not_taken:
                continue
            polynomial = self.evaluation.polynomial(input_value)
            (later if source in loop.blocks else before)[polynomial.key] = polynomial
        start = next(iter(before.values())) if len(before) == 1 else None
        following = next(iter(later.values())) if len(later) == 1 else None
        if start is None and len(before) == 2:
            first, second = before.values()
            start = self.symbols.either(first, second, ("start", index), {"path"})
        return start, following

    def _stepped(
        self, symbol: Symbol, loop: Loop, start: Polynomial, later: Polynomial, depth: int
    ) -> Polynomial | None:
        step = add(later, of_symbol(symbol), -1)
        counter = of_symbol(self.evaluation.counter(loop))
        if not step.terms or self._stays(symbol, start, later):
            return start
        if any(symbol in product for product in step.terms):
            return self._rotated(symbol, loop, start, later, depth)
        step = self.evaluation.resolved(step, loop.header, depth + 1)
        varying = [inner for inner in step.symbols if self._changes(inner, loop)]
        if not varying:
            product = self.symbols.product(step, counter)
            return add(start, product) if product is not None else None
        return self._guarded_steps(loop, start, step, varying)

    def _stays(self, symbol: Symbol, start: Polynomial, later: Polynomial) -> bool:
        """Whether the value is the same after every iteration."""
        part = multiply(later.factor_of(symbol), start)
        is_linear = all(product.count(symbol) < 2 for product in later.terms)
        return part is not None and is_linear and add(later.without(symbol), part).key == start.key

    def _guarded_steps(
        self, loop: Loop, start: Polynomial, step: Polynomial, varying: list[Symbol]
    ) -> Polynomial | None:
        """A step that is taken only in some iterations, between none and all of them."""
        if len(varying) != 1 or varying[0].kind != "choice":
            return None
        choice = varying[0]
        bounds = Range(0, self.evaluation.trips(loop)[0])
        name, depends = f"times {choice.name}", choice.depends | {f"loop{loop.index}"}
        taken = self.symbols.make("opaque", name, range=bounds, depends=depends, is_loose=True)
        counter = of_symbol(self.evaluation.counter(loop))
        some = self.symbols.product(step.factor_of(choice), of_symbol(taken))
        all_times = self.symbols.product(step.without(choice), counter)
        return add(add(start, some), all_times) if some and all_times else None

    def _rotated(
        self, symbol: Symbol, loop: Loop, start: Polynomial, later: Polynomial, depth: int
    ) -> Polynomial | None:
        """A value from the iteration before, as in a pipelined loop."""
        if symbol in later.symbols:
            return None
        following = self.evaluation.resolved(later, loop.header, depth + 1)
        counter = self.evaluation.counter(loop)
        if any(p.count(counter) > 1 for p in following.terms):
            return None
        earlier = add(following, following.factor_of(counter), -1)
        first = self.evaluation.resolved(start, loop.header, depth + 1)
        return earlier if not add(earlier.without(counter), first, -1).terms else None

    def _changes(self, symbol: Symbol, loop: Loop) -> bool:
        """Whether a symbol may differ between iterations of a loop."""
        if symbol.kind in ("tid", "ctaid", "param"):
            return False
        name = f"loop{loop.index}"
        loops = self.program.flow.loops
        inner = {f"loop{other.index}" for other in loops if other.header in loop.blocks}
        return bool(symbol.depends & ({name, "data", "unknown", "path"} | inner))


class Evaluation:
    """The polynomials of all values written by integer instructions."""

    def __init__(self, program: SassProgram, shape: LaunchShape) -> None:
        self.program = program
        self.shape = shape
        self.symbols = Symbols()
        self.not_taken = paths_not_taken(program)
        self._polynomials: dict[int, Polynomial] = {}
        self._trips: dict[int, tuple[int | None, bool]] = {}
        self._final: dict[tuple[Symbol, int], Polynomial] = {}
        self.loop_of_header = {loop.header: loop for loop in program.flow.loops}
        self._heads = LoopHeads(self)
        self._known_heads: dict[int, Polynomial] = {}
        """Values at loop heads as start and step, from the first pass."""
        self._joins: dict[tuple[int, int], list[int]] = {}
        for value in program.values.all:
            if value.kind in (Kind.JOIN, Kind.GUARDED):
                self._joins.setdefault((value.block, value.position), []).append(value.index)
        self._run()
        self._known_heads = self._resolved_heads()
        if self._known_heads:
            # Second pass with bounds of loop counters: shifts and divisions need the sign.
            self._polynomials.clear()
            self._final.clear()
            self._heads = LoopHeads(self)
            self._run()

    def _resolved_heads(self) -> dict[int, Polynomial]:
        heads = {}
        for header in self.loop_of_header:
            for index in self._joins.get((header, -1), ()):
                polynomial = self.resolved(self.polynomial(index), header)
                if all(symbol.kind in _PLAIN_SYMBOLS for symbol in polynomial.symbols):
                    heads[index] = polynomial  # the second pass may resolve the others better
        return heads

    # --- the pass

    def _run(self) -> None:
        flow = self.program.flow
        for block in flow.order:
            for value in self._joins.get((block, -1), ()):
                self.polynomial(value)
            for position in flow.positions([block]):
                for register, value in self.program.values.written[position].items():
                    written = self._written(position, register)
                    self._polynomials[value] = self._limited(written, value)
                for value in self._joins.get((block, position), ()):
                    self.polynomial(value)

    def polynomial(self, value: int) -> Polynomial:
        """The value as computed in the pass: values at loop heads are symbols."""
        stack = [(value, False)] if value not in self._polynomials else []
        while stack:  # inputs first; recursion would be too deep in hostile code
            index, is_ready = stack.pop()
            if is_ready:
                self._polynomials[index] = self._limited(self._merged(index), index)
            elif index not in self._polynomials:
                self._polynomials[index] = self._unknown(index)  # breaks cycles of irreducible code
                stack.append((index, True))
                stack += [(source, False) for source in self._merges(index)]
        return self._polynomials[value]

    def _limited(self, polynomial: Polynomial, index: int) -> Polynomial:
        """The polynomial, or an unknown number if it has become too long."""
        if len(polynomial.terms) <= _MOST_TERMS and len(polynomial.depends) <= _MOST_NAMES:
            return polynomial
        names = {name for name in polynomial.depends if name[0] != "v" and name[:4] != "loop"}
        return self._unknown(index, key=("long", index), names=names)

    def _unknown(self, index: int, key: object = None, names: Iterable[str] = ()) -> Polynomial:
        key, depends = key or index, {"unknown", *names}
        return of_symbol(self.symbols.make("opaque", f"v{index}", key=key, depends=depends))

    def _merges(self, index: int) -> list[int]:
        """The inputs that a value merges; empty if it is a symbol or known from the first pass."""
        value = self.program.values.all[index]
        if self._is_head(value) or index in self._known_heads or value.kind in _OF_ELSEWHERE:
            return []
        return self._inputs(value)

    def _is_head(self, value: SsaValue) -> bool:
        return value.kind is Kind.JOIN and value.block in self.loop_of_header

    def _inputs(self, value: SsaValue) -> list[int]:
        is_join = value.kind is Kind.JOIN
        return live_inputs(self.program, value, self.not_taken) if is_join else value.inputs

    def _merged(self, index: int) -> Polynomial:
        value = self.program.values.all[index]
        if index in self._known_heads:
            return self._known_heads[index]
        if self._is_head(value):
            name = f"v{index}"
            names = {f"loop{self.loop_of_header[value.block].index}", name}
            head = self.symbols.make("join", name, key=index, depends=names, arguments=(index,))
            return of_symbol(head)
        if value.kind in _OF_ELSEWHERE or not value.inputs:
            return self._unknown(index)
        polynomials = [self._polynomials[source] for source in self._inputs(value)]
        if value.kind is Kind.GUARDED and value.guard:
            new, old = polynomials
            depends = self.predicate_dependences(value.guard[0])
            return self.symbols.either(new, old, value.guard, depends)
        unique = list({polynomial.key: polynomial for polynomial in polynomials}.values())
        if len(unique) > _MOST_PATHS:
            return self.symbols.unknown("either", tuple(unique[:4]), extra=index, depends={"path"})
        merged = unique[0]
        for other in unique[1:]:
            came = tuple(at for at, each in enumerate(polynomials) if each.key == other.key)
            merged = self.symbols.either(other, merged, ("path", value.block, came), {"path"})
        return merged

    def predicate_dependences(self, predicate: int) -> frozenset[str]:
        """The names that a predicate depends on."""
        values = self.program.values
        names = {"path"} if values.all[predicate].kind is Kind.JOIN else set[str]()
        origins = [*values.origins(predicate, 8)]
        if len(origins) >= 8 or any(origin.kind is not Kind.DEFINITION for origin in origins):
            names.add("unknown")
        for position in values.definitions(predicate, 8):
            for value in self.program.values.read[position].values():
                polynomial = self._polynomials.get(value)
                names |= polynomial.depends if polynomial else {"unknown"}
        return frozenset(names)

    # --- one instruction

    def _written(self, position: int, register: str) -> Polynomial:
        instruction = self.program.code[position]
        if instruction.role is Role.UNKNOWN or _restores_register(instruction):
            return self._opaque(position, register, {"unknown"})
        if instruction.role in (Role.LOAD, Role.ATOMIC):
            return self._opaque(position, register, {"data"})
        result: Polynomial | None = None
        if instruction.role is Role.SPECIAL:
            result = self._special(instruction)
        elif instruction.role is Role.CONSTANT:
            result = self._loaded_constant(instruction, position, register)
        elif register == instruction.result and not instruction.has("X"):
            result = result_of(self, instruction, position)
        if result is None:
            reads = self.program.values.read[position].values()
            depends = frozenset[str]().union(*(self.polynomial(value).depends for value in reads))
            return self._opaque(position, register, depends)
        return result

    def _opaque(
        self, position: int, register: str, depends: frozenset[str] | set[str]
    ) -> Polynomial:
        """A symbol for a result that no rule covers. Without dependences, an unknown constant."""
        if self.program.code[position].opcode in IMPURE:
            depends = {*depends, "unknown"}
        name = f"{register}@{position}"
        return of_symbol(self.symbols.make("opaque", name, depends=depends))

    def _special(self, instruction: Instruction) -> Polynomial:
        name = next((o.name for o in instruction.operands if o.kind == "special"), "")
        if name == "SRZ":
            return ZERO
        polynomial = self.special(name)
        if polynomial is not None:
            return polynomial
        return of_symbol(self.symbols.make("opaque", name, depends={"unknown"}))

    def special(self, name: str) -> Polynomial | None:
        of_threads = ("SR_TID.", "tid", self.shape.block)
        of_blocks = ("SR_CTAID.", "ctaid", self.shape.grid)
        for prefix, kind, sizes in (of_threads, of_blocks):
            if name.startswith(prefix) and name[-1] in "XYZ":
                axis = "XYZ".index(name[-1])
                high = sizes[axis] - 1 if sizes else None
                if high == 0:
                    return ZERO
                label = f"{kind}.{name[-1].lower()}"
                symbol = self.symbols.make(kind, label, range=Range(0, high), depends={label})
                return of_symbol(symbol)
        if name == "SR_LANEID":
            block = self.shape.block
            if block and block[1] == block[2] == 1:
                thread = self.special("SR_TID.X")
                return self.symbols.remainder(thread, 32) if thread else None
            return of_symbol(
                self.symbols.make("opaque", "lane", range=Range(0, 31), depends={"tid.x"})
            )
        return None

    def _loaded_constant(
        self, instruction: Instruction, position: int, register: str
    ) -> Polynomial:
        operand = instruction.sources[0] if instruction.sources else None
        is_narrow = instruction.has("U8", "S8", "U16", "S16")
        if operand is None or operand.kind != "constant" or is_narrow:
            return self._opaque(position, register, {"unknown"})
        words = [name for name in instruction.writes if not is_predicate(name)]
        return self._constant(operand, position, 4 * words.index(register))

    def _constant(self, operand: Operand, position: int, extra: int = 0) -> Polynomial:
        if operand.name:  # a table in constant memory
            index = self.program.values.read[position].get(operand.name)
            unknown = frozenset({"unknown"})
            depends = unknown if index is None else self.polynomial(index).depends
            return self.symbols.unknown("table", (), extra=(position, extra), depends=depends)
        offset = operand.value + extra
        if operand.bank == 0 and offset in self.shape.constants:
            return number(self.shape.constants[offset])
        name = self.parameter_name(operand.bank, offset)
        return of_symbol(self.symbols.make("param", name, arguments=(operand.bank, offset)))

    def parameter_name(self, bank: int, offset: int) -> str:
        if bank == 0 and offset >= self.shape.parameters:
            return f"param+{offset - self.shape.parameters:#x}"
        return f"c[{bank:#x}][{offset:#x}]"

    def operand(self, operand: Operand, position: int) -> Polynomial | None:
        """The value of a source operand; `None` if it is not an integer."""
        if operand.kind == "immediate":
            return number(signed(operand.value))
        if operand.kind == "constant":
            polynomial = self._constant(operand, position)
        elif operand.is_register:
            value = self.program.values.read[position].get(operand.name) if operand.name else None
            polynomial = self.polynomial(value) if value is not None else ZERO
        else:
            return None
        if operand.inverted:
            return add(number(-1), polynomial, -1)
        return scale(polynomial, -1) if operand.negated else polynomial

    # --- loops

    def resolved(self, polynomial: Polynomial, block: int, depth: int = 0) -> Polynomial:
        """The polynomial with loop heads replaced by loop counters, as seen from a block."""
        if depth > _DEEPEST_RECURSION:
            return self.symbols.unknown("deep", (polynomial,), depends={"unknown"})
        result = ZERO
        for product, coefficient in polynomial.terms.items():
            part: Polynomial | None = number(coefficient)
            for symbol in product:
                replaced = self._replaced(symbol, block, depth)
                part = self.symbols.product(part, replaced) if part is not None else None
            if part is None:
                part = self.symbols.unknown("product", (Polynomial({product: coefficient}),))
            result = add(result, part)
        return simplified(result, self.symbols)

    def _replaced(self, symbol: Symbol, block: int, depth: int) -> Polynomial:
        key = (symbol, block)
        final = self._final.get(key)
        if final is None:
            self._final[key] = of_symbol(
                self.symbols.make("opaque", f"cycle {symbol.name}", depends=symbol.depends)
            )
            final = self._final[key] = self._replace(symbol, block, depth)
        return final

    def _replace(self, symbol: Symbol, block: int, depth: int) -> Polynomial:
        if symbol.kind == "join":
            head = self._heads.of(symbol, depth)
            return self.resolved(head, block, depth + 1)
        if symbol.kind == "loop":
            return self._counter(symbol, block)
        polynomials = [part for part in symbol.arguments if isinstance(part, Polynomial)]
        if symbol.kind not in OPERATIONS or not polynomials:
            return of_symbol(self._with_resolved_names(symbol))
        renewed = [self.resolved(polynomial, block, depth + 1) for polynomial in polynomials]
        if all(a.key == b.key for a, b in zip(renewed, polynomials, strict=True)):
            return of_symbol(symbol)
        return rebuilt(self.symbols, renewed, symbol)

    def _with_resolved_names(self, symbol: Symbol) -> Symbol:
        """The symbol, with loop heads in its dependences replaced by what they depend on."""
        depends = self.resolved_names(symbol.depends)
        if depends == symbol.depends:
            return symbol
        return self.symbols.copy(symbol, depends)

    def resolved_names(self, depends: frozenset[str]) -> frozenset[str]:
        resolved: set[str] = set()
        waiting = list(depends)
        seen = set(waiting)
        while waiting:
            name = waiting.pop()
            if not name[1:].isdigit():
                resolved.add(name)
                continue
            if len(seen) > _MOST_NAMES:
                resolved.add("unknown")
                continue
            for value in self.program.values.all[int(name[1:])].inputs:
                new = self.polynomial(value).depends - seen
                seen |= new
                waiting += new
        return frozenset(resolved)

    def _counter(self, symbol: Symbol, block: int) -> Polynomial:
        """Inside its loop the counter varies; after the loop it has its last value."""
        loop = self.program.flow.loops[int(str(symbol.arguments[0]))]
        if block in loop.blocks:
            return of_symbol(symbol)
        if symbol.range.high is not None and not symbol.is_loose:
            return number(symbol.range.high)
        # Warps leave after different numbers of iterations; the average is used for all of them.
        ends, name = Range(symbol.range.high, symbol.range.high), f"last {symbol.name}"
        last = self.symbols.make("exit", name, range=ends, depends={"exit"}, is_loose=True)
        return of_symbol(last)

    def counter(self, loop: Loop) -> Symbol:
        """Iterations done so far. Loose if warps may do different numbers of iterations."""
        trips, is_even = self.trips(loop)
        name, bounds = f"loop{loop.index}", Range(0, trips - 1 if trips is not None else None)
        parts = (loop.index, not is_even and is_ragged(self.program, loop))
        return self.symbols.make(
            "loop", name, range=bounds, depends={name}, is_loose=not is_even, arguments=parts
        )

    def trips(self, loop: Loop) -> tuple[int | None, bool]:
        """Iterations per entry, and whether all warps certainly do that many."""
        if loop.index not in self._trips:
            self._trips[loop.index] = trips_of(self.program, loop)
        return self._trips[loop.index]


_PLAIN_SYMBOLS = ("tid", "ctaid", "param", "loop")
_OF_ELSEWHERE = (Kind.ENTRY, Kind.CALL)
_MOST_PATHS = 6
"""Most paths into a block whose values are distinguished."""
_DEEPEST_RECURSION = 40
"""Polynomials within polynomials: beyond this a polynomial is called unknown."""
_MOST_TERMS = 64
_MOST_NAMES = 200
"""Per polynomial. Real addresses have about ten terms; this bounds the time for hostile code."""


def _restores_register(instruction: Instruction) -> bool:
    """Whether it loads a spilled register: a fixed place on the stack. What was spilled is not
    followed; an index that was spilled is not an index that was loaded."""
    address = instruction.memory
    return instruction.opcode == "LDL" and address is not None and address.name == STACK
