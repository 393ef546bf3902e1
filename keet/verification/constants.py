"""The integers that a source has: written out, or named and computed from such."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

_LITERAL = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]{1,16}|\d{1,18})(?![\w.]*\.\d)(?=[uUlLfF]*\b)")
_NAMED = re.compile(
    r"#define[ \t]+(\w+)[ \t]+(?:\(?)([^\n;]+)"
    r"|\b(?:constexpr|const|static|enum)\b[^=\n;]{0,200}?\b(\w+)[ \t]*=[ \t]*([^;,\n{}]+)"
    r"|^[ \t]*([A-Z][A-Z0-9_]*)(?:[ \t]*:[^=\n]+)?[ \t]*=[ \t]*([^\n#]+)",
    re.MULTILINE,
)
"""C's defines and constants, and Python's names in capitals."""
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << min(b, 64),
}
_DECIMAL = re.compile(r"(?<![\w.])\d{1,12}\.\d{1,12}(?=[fF]?\b)")
_LARGEST = 2**64


def constants(code: str) -> set[int]:
    found = {int(text, 0) if text[:2].lower() == "0x" else int(text) for text in literals(code)}
    return found | set(_named(code))


def literals(code: str) -> Iterator[str]:
    return (match[0] for match in _LITERAL.finditer(code))


def decimals(code: str) -> Iterator[float]:
    """`1.4f`"""
    return (float(match[0]) for match in _DECIMAL.finditer(code))


def _named(code: str) -> Iterator[int]:
    """In the order of the source: a constant is made of those above it, and may be made anew."""
    known: dict[str, int] = {}
    for match in _NAMED.finditer(code):
        names = [group for group in match.groups() if group is not None]
        value = _evaluate(names[1], known) if len(names) == 2 else None
        if value is not None and 0 <= value < _LARGEST:
            known[names[0]] = value
            yield value


def _evaluate(expression: str, known: dict[str, int]) -> int | None:
    text = re.sub(r"//.*|/\*.*?\*/", "", expression).strip().rstrip(")")
    text += ")" * (text.count("(") - text.count(")"))
    try:
        return _value(ast.parse(re.sub(r"(?<=\d)[uUlL]+\b", "", text), mode="eval").body, known)
    except (SyntaxError, ValueError, ZeroDivisionError, KeyError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, known: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.BinOp) and (operation := _OPERATIONS.get(type(node.op))):
        result = operation(_value(node.left, known), _value(node.right, known))
        if abs(result) < _LARGEST:
            return result
    raise ValueError("not a constant of integers")
