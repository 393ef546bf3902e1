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

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_TERM = (
    rf"\(*{_NUMBER}(?:\s?%|\s(?!mod\b|x\b|and\b|or\b|of\b)[A-Za-z]{{1,12}}(?:/[A-Za-z]+)?)?"
    r"(?:\s?\[E\d+\])?\)*"
)
_EXPRESSION = rf"{_TERM}(?:\s*(?:[*×+/−-]|\bx\b|\bmod\b)\s*{_TERM}){{1,6}}"
_EQUATION = re.compile(
    rf"(?P<left>{_EXPRESSION})\s*[=≈]\s*(?:about\s+)?(?P<result>{_NUMBER})\s?(?P<percent>%)?"
    rf"|(?P<first>{_NUMBER})\s?(?P<share>%)?[^=≈.;]{{0,24}}[=≈]\s*(?P<right>{_EXPRESSION})"
)
_SCALED = re.compile(r"\s?[kKMGT]i?B?\b")
"""`= 1 MiB`: in another unit than its terms."""
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
        self.learnt: set[float] = set()
        """Results of computations that were shown."""

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

    def learn(self, text: str) -> None:
        """What one sentence computes, another may use."""
        for match in _EQUATION.finditer(text):
            result = match["result"] or match["first"]
            percent = bool(match["percent"] or match["share"])
            if not percent and self._holds(match["left"] or match["right"], result, percent=False):
                self.learnt.add(_value(result))

    def equations(self, sentence: str) -> Iterator[Equation]:
        """Those that hold, and whose terms are known."""
        for match in _EQUATION.finditer(sentence):
            expression = match["left"] or match["right"]
            result = match["result"] or match["first"]
            percent = match["percent"] or match["share"]
            if self._holds(expression, result, percent=bool(percent)):
                yield Equation(match.start(), match.end(), bool(_ID.search(expression)))

    @staticmethod
    def mistake(sentence: str) -> str | None:
        """A computation that comes out otherwise; whole results of divisions may be rounded."""
        for match in _EQUATION.finditer(sentence):
            expression, result = match["left"], match["result"]
            if not expression or _SCALED.match(sentence, match.end()):
                continue
            percent = bool(match["percent"]) and "%" not in expression
            expected = _evaluated(expression) * (100 if percent else 1)
            about = "≈" in match[0] or "about" in match[0]
            whole = "/" in expression and "." not in result
            slack = 0.05 * abs(expected) if about else 1.0 if whole else _half(result)
            if abs(expected - _value(result)) > slack:
                return match[0].strip()
        return None

    def _holds(self, expression: str, result: str, *, percent: bool) -> bool:
        if not all(self._is_known(*term) for term in _OPERAND.findall(_without_units(expression))):
            return False
        # Shares that are added up stay shares; a ratio of amounts becomes one.
        expected = _evaluated(expression) * (100 if percent and "%" not in expression else 1)
        return abs(expected - _value(result)) <= _half(result)

    def _is_known(self, number: str, found: str) -> bool:
        piece = self._pieces.get(found)
        if piece is not None:
            return abs(_value(number) - piece.value) <= _half(number)
        return _value(number) in self.one_step | self.learnt


def _without_units(expression: str) -> str:
    return re.sub(
        r"(?<=\d)\s?(?:%|(?!mod\b|x\b)[A-Za-z]+(?:/[A-Za-z]+)?)(?=\s|\)|$)", "", expression
    )


def _evaluated(expression: str) -> float:
    """NaN for what is no computation of numbers."""
    plain = re.sub(r"\[E\d+\]|,", "", _without_units(expression))
    plain = re.sub(r"\bmod\b", "%", re.sub(r"[×]|\bx\b", "*", plain)).replace("−", "-")
    try:
        return _computed(ast.parse(_balanced(plain.strip()), mode="eval").body)
    except (ZeroDivisionError, OverflowError):
        return math.inf
    except (SyntaxError, ValueError, RecursionError):
        return math.nan


def _balanced(text: str) -> str:
    """Brackets of the sentence around a computation are none of it."""
    while text.count("(") > text.count(")"):
        text = text.replace("(", " ", 1)
    while text.count(")") > text.count("("):
        text = text[::-1].replace(")", " ", 1)[::-1]
    return text.strip()


def _computed(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and (operation := _OPERATIONS.get(type(node.op))):
        return operation(_computed(node.left), _computed(node.right))
    raise ValueError("no computation of numbers")


def _half(text: str) -> float:
    """Of the last digit that is printed; a hair more, for what binary fractions are off by."""
    return 0.5000001 * 10.0 ** -len(text.partition(".")[2])


def _value(text: str) -> float:
    return float(text.replace(",", ""))
