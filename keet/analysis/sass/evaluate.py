"""Forms of the integer values of a kernel: what each register holds, as a polynomial.

One pass in the order of control flow. A value at a loop's head is first a symbol of its own; once
the loop's body is known it is resolved to `start + step x iteration` where the step is the same in
every iteration. Only the low word of 64-bit addresses is followed: the high word adds nothing.
"""

from __future__ import annotations

from keet.analysis.sass.flow import Loop
from keet.analysis.sass.forms import (
    ZERO,
    Form,
    Range,
    Symbol,
    add,
    number,
    of_symbol,
    scale,
)
from keet.analysis.sass.instruction import Instruction
from keet.analysis.sass.launched import Launched
from keet.analysis.sass.opcodes import Role
from keet.analysis.sass.operands import Operand
from keet.analysis.sass.program import Program
from keet.analysis.sass.rules import REBUILD, RULES, signed
from keet.analysis.sass.symbols import Symbols, simplified
from keet.analysis.sass.trips import trips_of
from keet.analysis.sass.values import Kind


class Evaluation:
    """The forms of all values that integer instructions write."""

    def __init__(self, program: Program, shape: Launched) -> None:
        self.program = program
        self.shape = shape
        self.symbols = Symbols()
        self._forms: dict[int, Form] = {}
        self._trips: dict[int, tuple[int | None, bool]] = {}
        self._resolved: dict[Symbol, Form | None] = {}
        self._final: dict[tuple[Symbol, int], Form] = {}
        self._loop_of_header = {loop.header: loop for loop in program.flow.loops}
        self._joins: dict[tuple[int, int], list[int]] = {}
        for value in program.values.all:
            if value.kind in (Kind.JOIN, Kind.GUARDED):
                self._joins.setdefault((value.block, value.position), []).append(value.index)
        self._run()

    # --- the pass

    def _run(self) -> None:
        flow = self.program.flow
        for block in flow.order:
            for value in self._joins.get((block, -1), ()):
                self.form(value)
            for position in range(flow.blocks[block].start, flow.blocks[block].end):
                for register, value in self.program.values.written[position].items():
                    self._forms[value] = self._written(position, register)
                for value in self._joins.get((block, position), ()):
                    self.form(value)

    def form(self, value: int) -> Form:
        """As far as it was found out in the pass: values at loop heads are symbols."""
        found = self._forms.get(value)
        if found is None:
            found = self._forms[value] = self._merged(value)
        return found

    def _merged(self, index: int) -> Form:
        value = self.program.values.all[index]
        opaque = of_symbol(self.symbols.make("opaque", f"v{index}", key=index, depends={"unknown"}))
        if value.kind is Kind.JOIN and value.block in self._loop_of_header:
            loop = self._loop_of_header[value.block]
            return of_symbol(
                self.symbols.make(
                    "join",
                    f"v{index}",
                    key=index,
                    depends={f"loop{loop.index}"},
                    arguments=(index,),
                )
            )
        if value.kind in (Kind.ENTRY, Kind.CALL) or not value.inputs:
            return opaque
        self._forms[index] = opaque  # ends cycles of code that is not reducible
        forms = [self.form(each) for each in value.inputs]
        if value.kind is Kind.GUARDED and value.guard:
            return self.symbols.chosen(
                forms[0], forms[1], value.guard, self.deciding(value.guard[0])
            )
        unique = list({each.key: each for each in forms}.values())
        if len(unique) == 1:
            return unique[0]
        if len(unique) == 2:
            return self.symbols.chosen(unique[1], unique[0], ("path", value.block), {"path"})
        return self.symbols.unknown("either", tuple(unique[:4]), extra=index, depends={"path"})

    def deciding(self, predicate: int) -> frozenset[str]:
        """What a predicate depends on."""
        found: set[str] = set()
        for position in self.program.values.definitions(predicate, 8):
            for each in self.program.values.read[position].values():
                known = self._forms.get(each)
                found |= known.depends if known else {"unknown"}
        return frozenset(found)

    # --- one instruction

    def _written(self, position: int, register: str) -> Form:
        each = self.program.code[position]
        if each.role in (Role.LOAD, Role.ATOMIC):
            return self._opaque(position, register, {"data"})
        found: Form | None = None
        if each.role is Role.SPECIAL:
            found = self._special(each)
        elif each.role is Role.CONSTANT:
            found = self._loaded_constant(each, position, register)
        elif "P" not in register and register == next(r for r in each.writes if "P" not in r):
            rule = RULES.get(each.opcode.removeprefix("U"))
            found = rule(self, each, position) if rule and not each.has("X") else None
        if found is None:
            return self._opaque(position, register, self._read_depends(position))
        return found

    def _opaque(self, position: int, register: str, depends: frozenset[str] | set[str]) -> Form:
        """What no rule covers. Made of parameters alone it is one more unknown constant."""
        name = f"{register}@{position}"
        return of_symbol(self.symbols.make("opaque", name, depends=depends))

    def _read_depends(self, position: int) -> frozenset[str]:
        found: set[str] = set()
        for value in self.program.values.read[position].values():
            found |= self.form(value).depends
        return frozenset(found)

    def _special(self, each: Instruction) -> Form:
        name = next((o.name for o in each.operands if o.kind == "special"), "")
        if name == "SRZ":
            return ZERO
        found = self.special(name)
        if found is not None:
            return found
        return of_symbol(self.symbols.make("opaque", name, depends={"unknown"}))

    def special(self, name: str) -> Form | None:
        for prefix, kind, sizes in (
            ("SR_TID.", "tid", self.shape.block),
            ("SR_CTAID.", "ctaid", self.shape.grid),
        ):
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

    def _loaded_constant(self, each: Instruction, position: int, register: str) -> Form:
        operand = each.sources[0] if each.sources else None
        if operand is None or operand.kind != "constant":
            return self._opaque(position, register, {"unknown"})
        words = [r for r in each.writes if "P" not in r]
        return self._constant(operand, position, 4 * words.index(register))

    def _constant(self, operand: Operand, position: int, extra: int = 0) -> Form:
        if operand.name:  # a table in constant memory
            index = self.program.values.read[position].get(operand.name)
            depends = self.form(index).depends if index is not None else frozenset({"unknown"})
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

    def operand(self, operand: Operand, position: int) -> Form | None:
        """The form of a source; `None` for what is not a whole number."""
        if operand.kind == "immediate":
            return number(signed(operand.value))
        if operand.kind == "constant":
            form: Form | None = self._constant(operand, position)
        elif operand.is_register:
            value = self.program.values.read[position].get(operand.name) if operand.name else None
            form = self.form(value) if value is not None else ZERO
        else:
            return None
        if form is None:
            return None
        if operand.inverted:
            return add(number(-1), form, -1)
        return scale(form, -1) if operand.negated else form

    # --- loops

    def resolved(self, form: Form, block: int, depth: int = 0) -> Form:
        """The form with loop heads written by loop counters, as seen from a block."""
        if depth > _DEEPEST:
            return self.symbols.unknown("deep", (form,), depends={"unknown"})
        result = ZERO
        for product, coefficient in form.terms.items():
            part: Form | None = number(coefficient)
            for symbol in product:
                replaced = self._replaced(symbol, block, depth)
                part = self.symbols.product(part, replaced) if part is not None else None
            if part is None:
                part = self.symbols.unknown("product", (Form({product: coefficient}),))
            result = add(result, part)
        return simplified(result, self.symbols)

    def _replaced(self, symbol: Symbol, block: int, depth: int) -> Form:
        key = (symbol, block)
        found = self._final.get(key)
        if found is None:
            self._final[key] = of_symbol(
                self.symbols.make("opaque", f"cycle {symbol.name}", depends=symbol.depends)
            )
            found = self._final[key] = self._replace(symbol, block, depth)
        return found

    def _replace(self, symbol: Symbol, block: int, depth: int) -> Form:
        if symbol.kind == "join":
            head = self._head(symbol, depth)
            return self.resolved(head, block, depth + 1)
        if symbol.kind == "loop":
            return self._counter(symbol, block)
        rebuild = REBUILD.get(symbol.kind)
        forms = [each for each in symbol.arguments if isinstance(each, Form)]
        if rebuild is None or not forms:
            return of_symbol(symbol)
        renewed = tuple(self.resolved(each, block, depth + 1) for each in forms)
        if all(a.key == b.key for a, b in zip(renewed, forms, strict=True)):
            return of_symbol(symbol)
        return rebuild(self.symbols, renewed, symbol)

    def _counter(self, symbol: Symbol, block: int) -> Form:
        """Inside its loop the counter varies; behind the loop it stands at its last value."""
        loop = self.program.flow.loops[int(str(symbol.arguments[0]))]
        if block in loop.blocks:
            return of_symbol(symbol)
        if symbol.range.high is not None and not symbol.is_loose:
            return number(symbol.range.high)
        return of_symbol(
            self.symbols.make(
                "opaque",
                f"last {symbol.name}",
                range=symbol.range,
                depends={"unknown"},
                is_loose=True,
            )
        )

    def counter(self, loop: Loop) -> Symbol:
        """Iterations done so far. Loose where not every warp does the same number."""
        trips, is_even = self.trips(loop)
        name = f"loop{loop.index}"
        return self.symbols.make(
            "loop",
            name,
            range=Range(0, trips - 1 if trips is not None else None),
            depends={name},
            is_loose=not is_even,
            arguments=(loop.index,),
        )

    def trips(self, loop: Loop) -> tuple[int | None, bool]:
        """Iterations per entry, and whether all warps surely do that many."""
        if loop.index not in self._trips:
            self._trips[loop.index] = trips_of(self.program, loop)
        return self._trips[loop.index]

    def _head(self, symbol: Symbol, depth: int) -> Form:
        """A value at a loop's head, by start and step."""
        if symbol in self._resolved:
            known = self._resolved[symbol]
            return known if known is not None else self._lost(symbol)
        self._resolved[symbol] = None
        value = self.program.values.all[int(str(symbol.arguments[0]))]
        loop = self._loop_of_header[value.block]
        start, later = self._start_and_next(value.index, loop)
        found = self._stepped(symbol, loop, start, later, depth) if start and later else None
        self._resolved[symbol] = found
        return found if found is not None else self._lost(symbol)

    def _lost(self, symbol: Symbol) -> Form:
        index = int(str(symbol.arguments[0]))
        value = self.program.values.all[index]
        depends: set[str] = set(symbol.depends) | {"unknown"}
        for each in value.inputs:
            depends |= self.form(each).depends
        return of_symbol(
            self.symbols.make("opaque", f"lost v{index}", depends=depends, is_loose=True)
        )

    def _start_and_next(self, index: int, loop: Loop) -> tuple[Form | None, Form | None]:
        value = self.program.values.all[index]
        before: dict[object, Form] = {}
        later: dict[object, Form] = {}
        flow = self.program.flow
        sources = list(flow.blocks[value.block].predecessors)
        sources += flow.callers.get(value.block, ())
        for source, each in zip(sources, value.inputs, strict=False):
            form = self.form(each)
            (later if source in loop.blocks else before)[form.key] = form
        start = next(iter(before.values())) if len(before) == 1 else None
        following = next(iter(later.values())) if len(later) == 1 else None
        if start is None and len(before) == 2:
            first, second = before.values()
            start = self.symbols.chosen(first, second, ("start", index), {"path"})
        return start, following

    def _stepped(
        self, symbol: Symbol, loop: Loop, start: Form, later: Form, depth: int
    ) -> Form | None:
        step = add(later, of_symbol(symbol), -1)
        counter = of_symbol(self.counter(loop))
        if not step.terms:
            return start
        if any(symbol in product for product in step.terms):
            return self._rotated(symbol, loop, start, later, depth)
        inside = next(iter(loop.blocks))
        step = self.resolved(step, loop.header if loop.header in loop.blocks else inside, depth + 1)
        varying = [each for each in step.symbols if self._changes(each, loop)]
        if not varying:
            product = self.symbols.product(step, counter)
            return add(start, product) if product is not None else None
        return self._guarded_steps(loop, start, step, varying)

    def _guarded_steps(
        self, loop: Loop, start: Form, step: Form, varying: list[Symbol]
    ) -> Form | None:
        """A step that is only taken in some iterations: between none and all of them."""
        if len(varying) != 1 or varying[0].kind != "choice":
            return None
        choice = varying[0]
        with_choice = {p: c for p, c in step.terms.items() if choice in p}
        always = Form({p: c for p, c in step.terms.items() if choice not in p})
        each_time = Form(
            {tuple(s for s in p if s is not choice): c for p, c in with_choice.items()}
        )
        trips, _ = self.trips(loop)
        taken = self.symbols.make(
            "opaque",
            f"times {choice.name}",
            range=Range(0, trips),
            depends=choice.depends | {f"loop{loop.index}"},
            is_loose=True,
        )
        some = self.symbols.product(each_time, of_symbol(taken))
        all_times = self.symbols.product(always, of_symbol(self.counter(loop)))
        if some is None or all_times is None:
            return None
        return add(add(start, some), all_times)

    def _rotated(
        self, symbol: Symbol, loop: Loop, start: Form, later: Form, depth: int
    ) -> Form | None:
        """A value taken over from the iteration before, as in a pipelined loop."""
        if symbol in later.symbols:
            return None
        following = self.resolved(later, loop.header, depth + 1)
        counter = self.counter(loop)
        per_trip = {p: c for p, c in following.terms.items() if counter in p}
        if any(p.count(counter) > 1 for p in per_trip):
            return None
        back = Form({tuple(s for s in p if s is not counter): c for p, c in per_trip.items()})
        earlier = add(following, back, -1)
        at_start = Form({p: c for p, c in earlier.terms.items() if counter not in p})
        if add(at_start, self.resolved(start, loop.header, depth + 1), -1).terms:
            return None
        return earlier

    def _changes(self, symbol: Symbol, loop: Loop) -> bool:
        """Whether a symbol may differ between iterations of a loop."""
        if symbol.kind in ("tid", "ctaid", "param"):
            return False
        name = f"loop{loop.index}"
        inner = {
            f"loop{other.index}" for other in self.program.flow.loops if other.header in loop.blocks
        }
        return bool(symbol.depends & ({name, "data", "unknown", "path"} | inner))


_DEEPEST = 40
"""Forms within forms: beyond this a form is called unknown."""
