"""Brackets in source text, and what commas separate outside of them. Light: the analysis of every
launch imports it."""

from __future__ import annotations

import re

BRACKET = re.compile(r"[()\[\]{}]")
_MOST_IN_ANGLES = 2000
"""Characters."""


def split_commas(text: str, *, angles: bool = False) -> list[str]:
    """The parts between commas outside of brackets; with `angles`, outside of `<>` as well."""
    pieces, depth, start = [], 0, 0
    opening, closing = ("([{<", ")]}>") if angles else ("([{", ")]}")
    for at, sign in enumerate(text):
        depth += (sign in opening) - (sign in closing)
        if sign == "," and depth <= 0:
            pieces.append(text[start:at])
            start = at + 1
    return [piece.strip() for piece in (*pieces, text[start:]) if piece.strip()]


def closing_bracket(text: str, at: int) -> int:
    """Position of the bracket that closes the one at `at`; the end of the text if none does."""
    depth = 0
    for match in BRACKET.finditer(text, at):
        depth += 1 if match[0] in "([{" else -1
        if depth <= 0:
            return match.start()
    return len(text)


def after_angles(text: str, at: int) -> int:
    """Position after the template arguments that open at `at`; `at` itself if none do."""
    depth = nested = 0
    for index in range(at, min(len(text), at + _MOST_IN_ANGLES)):
        sign = text[index]
        nested += (sign in "([{") - (sign in ")]}")
        if nested < 0 or sign == ";" or (index == at and sign != "<"):
            return at
        depth += ((sign == "<") - (sign == ">" and text[index - 1] != "-")) if nested == 0 else 0
        if depth == 0:
            return index + 1
    return at
