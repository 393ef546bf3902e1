"""The interface of `Evaluation` for opcode rules and loop heads, which it uses itself."""

from __future__ import annotations

from typing import Protocol

from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.operands import Operand
from keet.analysis.sass.polynomials.polynomial import Polynomial, Symbol
from keet.analysis.sass.polynomials.symbols import Symbols


class EvaluationContext(Protocol):
    """An evaluation in progress; `Evaluation` implements it."""

    program: SassProgram
    symbols: Symbols
    loop_of_header: dict[int, Loop]

    def polynomial(self, value: int) -> Polynomial: ...

    def operand(self, operand: Operand, position: int) -> Polynomial | None: ...

    def predicate_dependences(self, predicate: int) -> frozenset[str]: ...

    def resolved(self, polynomial: Polynomial, block: int, depth: int = 0) -> Polynomial: ...

    def resolved_names(self, depends: frozenset[str]) -> frozenset[str]: ...

    def counter(self, loop: Loop) -> Symbol: ...

    def trips(self, loop: Loop) -> tuple[int | None, bool]: ...
