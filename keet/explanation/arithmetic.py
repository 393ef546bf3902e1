"""Computations that a sentence shows: `8 * 17 = 136`, `48,400 [E171] / 4 = 12,100`."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from keet.evidence import Evidence

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_TERM = (
    rf"\(*{_NUMBER}(?:\s?%|\s(?!mod\b|x\b|and\b|or\b|of\b)[A-Za-z]{{1,12}}(?:/[A-Za-z]+)?)?"
    r"(?:\s?\[E\d+\])?\)*"
)
_EXPRESSION = rf"{_TERM}(?:\s*(?:[*×+/−-]|\bx\b|\bmod\b)\s*{_TERM}){{1,6}}"
_EQUATION = re.compile(
    rf"(?P<left>{_EXPRESSION})\s*[=≈]\s*(?:about\s+)?(?P<result>{_NUMBER})\s?(?P<percent>%)?"
    rf"|(?P<first>{_NUMBER})\s?(?P<share>%)?[^=≈.;]{{0,24}}[=≈]\s*(?P<right>{_EXPRESSION})"
)
_ID = re.compile(r"\[(E\d+)\]")
_OPERAND = re.compile(rf"({_NUMBER})(?:[^\d\[]*?\[(E\d+)\])?")
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_LARGEST = 2**24
_MOST = 160
"""Constants that are put together: a source with more says nothing by any one of them."""


class Equation(NamedTuple):
    start: int
    end: int
    cites: bool
    """It rests on evidence, not on constants alone."""


class Arithmetic:
    """What follows from constants and evidence."""

    def __init__(self, constants: Collection[float], pieces: Mapping[str, Evidence]) -> None:
        self._constants = constants
        self._pieces = pieces

    @cached_property
    def one_step(self) -> set[float]:
        """What one operation makes of two constants."""
        known = sorted(n for n in self._constants if 0 < n < _LARGEST)[:_MOST]
        pairs = [(a, b) for a in known for b in known]
        return {
            *known,
            *(float(result) for a, b in pairs for result in (a * b, a / b, a + b, a - b)),
            *(float(int(a).bit_length() - 1) for a in known),
        }

    def equations(self, sentence: str) -> Iterator[Equation]:
        """Those that hold, and whose terms are known."""
        for match in _EQUATION.finditer(sentence):
            expression = match["left"] or match["right"]
            result = match["result"] or match["first"]
            percent = match["percent"] or match["share"]
            if self._holds(expression, result, percent=bool(percent)):
                yield Equation(match.start(), match.end(), bool(_ID.search(expression)))

    def _holds(self, expression: str, result: str, *, percent: bool) -> bool:
        if not all(self._is_known(*term) for term in _OPERAND.findall(_without_units(expression))):
            return False
        expected = _evaluated(expression) * (100 if percent else 1)
        digits = len(result.partition(".")[2])
        return abs(expected - _value(result)) <= 0.5 * 10.0**-digits

    def _is_known(self, number: str, found: str) -> bool:
        piece = self._pieces.get(found)
        if piece is not None:
            return math.isclose(_value(number), piece.value, rel_tol=5e-3)
        return _value(number) in self.one_step


def _without_units(expression: str) -> str:
    return re.sub(
        r"(?<=\d)\s?(?:%|(?!mod\b|x\b)[A-Za-z]+(?:/[A-Za-z]+)?)(?=\s|\)|$)", "", expression
    )


def _evaluated(expression: str) -> float:
    """NaN for what is no computation of numbers."""
    plain = re.sub(r"\[E\d+\]|,", "", _without_units(expression))
    plain = re.sub(r"\bmod\b", "%", re.sub(r"[×]|\bx\b", "*", plain)).replace("−", "-")
    plain = ")".join(plain.split(")")[: plain.count("(") + 1])
    try:
        return _computed(ast.parse(plain.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return math.nan


def _computed(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and (operation := _OPERATIONS.get(type(node.op))):
        return operation(_computed(node.left), _computed(node.right))
    raise ValueError("no computation of numbers")


def _value(text: str) -> float:
    return float(text.replace(",", ""))
