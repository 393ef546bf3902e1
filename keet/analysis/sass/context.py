"""What rules and loop heads may ask of the evaluation that they are a part of."""

from __future__ import annotations

from typing import Protocol

from keet.analysis.sass.flow import Loop
from keet.analysis.sass.forms import Form, Symbol
from keet.analysis.sass.operands import Operand
from keet.analysis.sass.program import Program
from keet.analysis.sass.symbols import Symbols


class Context(Protocol):
    """An evaluation under way: see `Evaluation`, which is one."""

    program: Program
    symbols: Symbols
    loop_of_header: dict[int, Loop]

    def form(self, value: int) -> Form: ...

    def operand(self, operand: Operand, position: int) -> Form | None: ...

    def deciding(self, predicate: int) -> frozenset[str]: ...

    def resolved(self, form: Form, block: int, depth: int = 0) -> Form: ...

    def settled_names(self, depends: frozenset[str]) -> frozenset[str]: ...

    def counter(self, loop: Loop) -> Symbol: ...

    def trips(self, loop: Loop) -> tuple[int | None, bool]: ...
