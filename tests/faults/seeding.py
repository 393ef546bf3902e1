"""Small faults in keet's functions, of the kinds that people make: a comparison, a sign, a
condition, a constant, a result that is missing."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


class Fault(NamedTuple):
    """`before`, which stands in the function, is replaced by `after`."""

    file: str
    function: str
    occurrence: int
    """Of `before` in the text of the function, from 0."""
    before: str
    after: str


class Place(NamedTuple):
    """Where a fault is now."""

    start: int
    stop: int
    first_line: int
    last_line: int


def seeded(count: int, seed: int) -> list[Fault]:
    every = [fault for path in sorted((ROOT / "keet").rglob("*.py")) for fault in _faults(path)]
    return sorted(random.Random(seed).sample(every, count))


def place_of(fault: Fault) -> Place | None:
    """None: the code has changed since."""
    path = ROOT / fault.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, function in _functions(ast.parse(text)):
        start, stop = _span(text, function)
        at = start
        for _ in range(fault.occurrence + 1 if name == fault.function else 0):
            at = text.find(fault.before, at + 1, stop)
        if at > start:
            line = text.count("\n", 0, at) + 1
            last = line + fault.before.count("\n")
            return Place(at, at + len(fault.before), line, last)
    return None


def _faults(path: Path) -> Iterator[Fault]:
    text = path.read_text(encoding="utf-8")
    for name, function in _functions(ast.parse(text)):
        start, _ = _span(text, function)
        for node in (node for part in function.body for node in ast.walk(part)):
            after = _changed(node)
            if after is None:
                continue
            at, stop = _span(text, node)
            before = text[at:stop]
            occurrence = _count(text, before, start, at)
            yield Fault(str(path.relative_to(ROOT)), name, occurrence, before, after)


def _count(text: str, part: str, start: int, at: int) -> int:
    """How often the part stands between the two, overlapping ones, too."""
    count, found = 0, text.find(part, start + 1)
    while found < at:
        count, found = count + 1, text.find(part, found + 1)
    return count


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """With the names around them; not those inside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _span(text: str, node: ast.AST) -> tuple[int, int]:
    lines = text.splitlines(keepends=True)
    ends = []
    for line, column in (
        (node.lineno, node.col_offset),  # type: ignore[attr-defined]
        (node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    ):
        inside = lines[line - 1].encode()[:column].decode()
        ends.append(sum(map(len, lines[: line - 1])) + len(inside))
    return ends[0], ends[1]


def _changed(node: ast.AST) -> str | None:  # noqa: PLR0911 - one per kind
    """The text of the node with a fault; None: keet has no fault of this kind there."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
            other = _COMPARISONS[type(operator)]()
            return ast.unparse(ast.Compare(left, [other], [right]))
        case ast.BoolOp(operator, values):
            opposite = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return f"({ast.unparse(ast.BoolOp(opposite, values))})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"({ast.unparse(operand)})"
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return f"({ast.unparse(ast.BinOp(left, _OPERATORS[type(operator)](), right))})"
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            return repr(value + 1)
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            return "return None"
    return None
