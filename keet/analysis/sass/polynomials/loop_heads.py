"""Values at loop heads as `start + step x iteration`, if every iteration adds the same."""

from __future__ import annotations

from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.polynomials.evaluation_context import EvaluationContext
from keet.analysis.sass.polynomials.polynomial import (
    Polynomial,
    Range,
    Symbol,
    add,
    multiply,
    of_symbol,
)


class LoopHeads:
    """Resolves the `join` symbols of an evaluation, each once."""

    def __init__(self, evaluation: EvaluationContext) -> None:
        self.evaluation = evaluation
        self.program = evaluation.program
        self.symbols = evaluation.symbols
        self._resolved: dict[Symbol, Polynomial | None] = {}

    def of(self, symbol: Symbol, depth: int) -> Polynomial:
        """The value at a loop's head as start and step."""
        if symbol in self._resolved:
            known = self._resolved[symbol]
            return known if known is not None else self._lost(symbol)
        self._resolved[symbol] = None
        value = self.program.values.all[int(str(symbol.arguments[0]))]
        loop = self.evaluation.loop_of_header[value.block]
        start, later = self._start_and_next(value.index, loop)
        found = self._stepped(symbol, loop, start, later, depth) if start and later else None
        self._resolved[symbol] = found
        return found if found is not None else self._lost(symbol)

    def _lost(self, symbol: Symbol) -> Polynomial:
        index = int(str(symbol.arguments[0]))
        value = self.program.values.all[index]
        depends: set[str] = set(symbol.depends) | {"unknown"}
        for each in value.inputs:
            depends |= self.evaluation.polynomial(each).depends
        name, names = f"lost v{index}", self.evaluation.resolved_names(frozenset(depends))
        return of_symbol(self.symbols.make("opaque", name, depends=names, is_loose=True))

    def _start_and_next(
        self, index: int, loop: Loop
    ) -> tuple[Polynomial | None, Polynomial | None]:
        value = self.program.values.all[index]
        before: dict[object, Polynomial] = {}
        later: dict[object, Polynomial] = {}
        flow = self.program.flow
        sources = list(flow.blocks[value.block].predecessors)
        sources += flow.callers.get(value.block, ())
        for source, each in zip(sources, value.inputs, strict=False):
            polynomial = self.evaluation.polynomial(each)
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
        inside = next(iter(loop.blocks))
        step = self.evaluation.resolved(
            step, loop.header if loop.header in loop.blocks else inside, depth + 1
        )
        varying = [each for each in step.symbols if self._changes(each, loop)]
        if not varying:
            product = self.symbols.product(step, counter)
            return add(start, product) if product is not None else None
        return self._guarded_steps(loop, start, step, varying)

    def _stays(self, symbol: Symbol, start: Polynomial, later: Polynomial) -> bool:
        """Whether the value is the same after every iteration."""
        result = Polynomial({p: c for p, c in later.terms.items() if symbol not in p})
        for product, coefficient in later.terms.items():
            if symbol not in product:
                continue
            others = Polynomial(
                {tuple(each for each in product if each is not symbol): coefficient}
            )
            part = multiply(others, start) if product.count(symbol) == 1 else None
            if part is None:
                return False
            result = add(result, part)
        return result.key == start.key

    def _guarded_steps(
        self, loop: Loop, start: Polynomial, step: Polynomial, varying: list[Symbol]
    ) -> Polynomial | None:
        """A step that is taken only in some iterations, between none and all of them."""
        if len(varying) != 1 or varying[0].kind != "choice":
            return None
        choice = varying[0]
        with_choice = {p: c for p, c in step.terms.items() if choice in p}
        always = Polynomial({p: c for p, c in step.terms.items() if choice not in p})
        each_time = Polynomial(
            {tuple(s for s in p if s is not choice): c for p, c in with_choice.items()}
        )
        trips, _ = self.evaluation.trips(loop)
        taken = self.symbols.make(
            "opaque",
            f"times {choice.name}",
            range=Range(0, trips),
            depends=choice.depends | {f"loop{loop.index}"},
            is_loose=True,
        )
        some = self.symbols.product(each_time, of_symbol(taken))
        all_times = self.symbols.product(always, of_symbol(self.evaluation.counter(loop)))
        if some is None or all_times is None:
            return None
        return add(add(start, some), all_times)

    def _rotated(
        self, symbol: Symbol, loop: Loop, start: Polynomial, later: Polynomial, depth: int
    ) -> Polynomial | None:
        """A value from the iteration before, as in a pipelined loop."""
        if symbol in later.symbols:
            return None
        following = self.evaluation.resolved(later, loop.header, depth + 1)
        counter = self.evaluation.counter(loop)
        per_trip = {p: c for p, c in following.terms.items() if counter in p}
        if any(p.count(counter) > 1 for p in per_trip):
            return None
        back = Polynomial({tuple(s for s in p if s is not counter): c for p, c in per_trip.items()})
        earlier = add(following, back, -1)
        at_start = Polynomial({p: c for p, c in earlier.terms.items() if counter not in p})
        if add(at_start, self.evaluation.resolved(start, loop.header, depth + 1), -1).terms:
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
