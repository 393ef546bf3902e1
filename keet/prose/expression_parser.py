"""Parses expressions: `dram_bytes / (N * 4 B)`, `l2_busy > 2 * dram_busy`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from keet.lazy_regex import regex
from keet.prose.values import ValueProblem
from keet.records import NamedTuple

LONGEST = 300
"""Characters of an expression."""
_DEEPEST = 20
_MOST_TOKENS = 100
_LINE = (
    r"@(?:[\w./+-]+:\d+(?:\.\.[\w./+-]+(?::\d+)?)?"  # one line, or one before and one after
    r"|(?:fn\d+\+)?0x[0-9a-fA-F]+|\w+)"  # an instruction; no line
)
_NAME = rf"[A-Za-z_]\w*(?:[.]\w+)*(?:{_LINE})?(?:#[\w.]+(?:-\d+(?:\.\d+)?)?)?"
_NUMBER = r"0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_THOUSANDS = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|"
_REST = (
    rf"{_NUMBER})|(?P<name>{_NAME})"
    r"|(?P<op><<|>=|<=|==|!=|~=|\*\*|[-+*/()<>~≈≥≤×÷%,]))"
)
_TOKEN = regex(rf"\s*(?:(?P<number>{_THOUSANDS}{_REST}", re.ASCII)
_TOKEN_IN_BRACKETS = regex(rf"\s*(?:(?P<number>{_REST}", re.ASCII)
"""Inside calls, a comma separates arguments: `min(16,128)`."""
_SAME = {"≈": "~", "~=": "~", "≥": ">=", "≤": "<=", "×": "*", "÷": "/"}
COMPARISONS = (">", "<", ">=", "<=", "==", "!=", "~")
UNITS = {
    "B": "byte", "KB": "Kbyte", "kB": "Kbyte", "MB": "Mbyte", "GB": "Gbyte", "TB": "Tbyte",
    "byte": "byte", "bytes": "byte", "ns": "ns", "us": "us", "ms": "ms", "s": "s",
    "Hz": "hz", "MHz": "Mhz", "GHz": "Ghz", "cycles": "cycle", "cycle": "cycle",
    "inst": "inst", "instructions": "inst", "sector": "sector", "sectors": "sector",
    "request": "request", "requests": "request", "wavefront": "wavefront", "block": "block",
    "wavefronts": "wavefront", "blocks": "block", "warp": "warp", "warps": "warp",
    "thread": "thread", "threads": "thread", "sample": "sample", "samples": "sample",
    "iteration": "iteration", "iterations": "iteration",
}  # fmt: skip
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Node(NamedTuple):
    """One operation, name or number of an expression."""

    kind: str
    """`number`, `name`, `call`, or the operator."""
    text: str = ""
    parts: tuple[Node, ...] = ()


def parse(text: str) -> Node:
    """Raises ValueProblem."""
    tokens = list(_tokens(text)) if len(text) <= LONGEST else []
    if len(text) > LONGEST or len(tokens) > _MOST_TOKENS:
        raise ValueProblem("it is too long")
    return _Parser(tokens).whole()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = depth = 0
    text = text.rstrip()
    while place < len(text):
        match = (_TOKEN_IN_BRACKETS if depth else _TOKEN).match(text, place)
        if match is None:
            raise ValueProblem(f"`{text[place : place + 20].strip()}` cannot be read")
        kind = str(match.lastgroup)
        found = match[kind]
        depth += (found == "(") - (found == ")")
        yield kind, _SAME.get(found, found)
        place = match.end()


class _Parser:
    """Recursive descent; one method per level of precedence."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    def whole(self) -> Node:
        left = self._shift()
        if (operator := self._next()) in COMPARISONS:
            self._at += 1
            left = Node(operator, "", (left, self._shift()))
        if self._at < len(self._tokens):
            raise ValueProblem(f"`{self._tokens[self._at][1]}` is not expected there")
        return left

    def _shift(self) -> Node:
        return self._chain(("<<",), self._sum)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/"), self._signed)

    def _chain(self, operators: tuple[str, ...], inner: Callable[[], Node]) -> Node:
        left = inner()
        while (operator := self._next()) in operators:
            self._at += 1
            left = Node(operator, "", (left, inner()))
        return left

    def _signed(self) -> Node:
        if self._next() == "-":
            self._at += 1
            return Node("negative", "", (self._deeper(self._signed),))
        base = self._atom()
        if self._next() == "**":
            self._at += 1
            return Node("**", "", (base, self._deeper(self._signed)))
        return base

    def _deeper(self, inner: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueProblem("it is nested too deeply")
        found = inner()
        self._depth -= 1
        return found

    def _atom(self) -> Node:
        kind, text = self._take()
        if kind == "number":
            return self._with_unit(text)
        if kind == "name":
            return self._call(text) if self._next() == "(" else Node("name", text)
        if text != "(":
            raise ValueProblem(f"`{text}` is not expected there")
        inner = self._deeper(self._shift)
        self._close()
        return Node("()", "", (inner,))

    def _with_unit(self, text: str) -> Node:
        unit = self._next()
        if unit == "%" or unit in UNITS or unit in BINARY:
            self._at += 1
            return Node("number", f"{text} {unit}")
        return Node("number", text)

    def _call(self, name: str) -> Node:
        self._at += 1
        parts = [self._deeper(self._shift)]
        while self._next() == ",":
            self._at += 1
            parts.append(self._deeper(self._shift))
        self._close()
        return Node("call", name, tuple(parts))

    def _close(self) -> None:
        if self._next() != ")":
            raise ValueProblem("a closing bracket is missing")
        self._at += 1

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ValueProblem("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]
