"""Evaluates integer constants as source code writes them: `TILE + 1`, `4 * WARP`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

_DEEPEST = 8
"""Most nested constants that are resolved."""


def integer(text: str, constants: Mapping[str, str], depth: int = 0) -> int | None:
    """The value, or None. `constants`: definitions of other names."""
    if depth > _DEEPEST or len(text) > 80:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _evaluated(tree, constants, depth)


def _evaluated(node: ast.expr, constants: Mapping[str, str], depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name):
        known = constants.get(node.id)
        return None if known is None else integer(known, constants, depth + 1)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = (_evaluated(part, constants, depth) for part in (node.left, node.right))
    if left is None or right is None or max(abs(left), abs(right)) > _LARGEST:
        return None
    return _computed(node.op, left, right)


_LARGEST = 2**32


def _computed(sign: ast.operator, left: int, right: int) -> int | None:
    if isinstance(sign, ast.Add):
        return left + right
    if isinstance(sign, ast.Sub):
        return left - right
    if isinstance(sign, ast.Mult):
        return left * right
    return left // right if isinstance(sign, ast.Div) and right else None
