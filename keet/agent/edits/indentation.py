"""Gives a model's new lines the indentation of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

_TAB = 4
"""Columns per tab, as in the listing that models see."""


Pairs = Sequence[tuple[str, str]]
"""A line as the model copied it, and the line of the file."""


def indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _width(line: str) -> int:
    return len(indent(line).expandtabs(_TAB))


def reindented(new: Sequence[str], pairs: Pairs, replaced: Pairs = ()) -> list[str]:
    """Shifts new lines by the difference between the file's lines and the model's copies (`pairs`).
    `replaced`: the pairs of the replaced lines, which count first."""
    pairs = [(model, real) for model, real in (*replaced, *pairs) if model.strip()]
    if not _moves(new, pairs):
        return list(new)
    known: dict[int, str] = {}
    for model, real in pairs:
        known.setdefault(_width(model), indent(real))
    widths = [_width(line) for line in new if line.strip()]
    step = _step([*known, *widths])
    return [_moved(line, known, step) if line.strip() else line for line in new]


def _moves(new: Sequence[str], pairs: Pairs) -> bool:
    """Whether the model's lines are shifted. New lines may be right although old ones are not."""
    if all(indent(model) == indent(real) for model, real in pairs):
        return False
    models, reals = (min(_width(pair[side]) for pair in pairs) for side in (0, 1))
    own = min((_width(line) for line in new if line.strip()), default=0)
    return models == reals or own != reals


def first_indented(new: Sequence[str], pairs: Pairs) -> list[str] | None:
    """The lines, if only the first one lost its indentation (stripped text); otherwise None."""
    rest = pairs[1:]
    if not rest or indent(pairs[0][0]) or not indent(pairs[0][1]):
        return None
    if any(indent(model) != indent(real) for model, real in rest if model.strip()):
        return None
    return [indent(pairs[0][1]) + new[0], *new[1:]] if new and not indent(new[0]) else list(new)


def _step(widths: Sequence[int]) -> int:
    """Columns per level in the model's lines."""
    levels = sorted(set(widths))
    return min((b - a for a, b in pairwise(levels)), default=_TAB)


def _moved(line: str, known: Mapping[int, str], step: int) -> str:
    width = _width(line)
    body = line.lstrip()
    if width in known:
        return known[width] + body
    below = [other for other in known if other < width]
    if below:
        base = max(below)
        return known[base] + _deeper(width - base, known, step) + body
    base = min(known)
    return _shallower(known[base], base - width, step) + body


def _deeper(columns: int, known: Mapping[int, str], step: int) -> str:
    if any("\t" in real for real in known.values()):
        return "\t" * max(round(columns / step), 1)
    return " " * round(columns * _scale(known))


def _scale(known: Mapping[int, str]) -> float:
    """Columns of indentation in the file per column in the model's lines."""
    low, high = min(known), max(known)
    grown = len(known[high]) - len(known[low])
    return grown / (high - low) if high > low and grown > 0 else 1.0


def _shallower(real: str, columns: int, step: int) -> str:
    if "\t" in real:
        return real[: -max(round(columns / step), 1)]
    return real[: max(len(real) - columns, 0)]


def indented_like(new: Sequence[str], texts: Sequence[str], at: int) -> list[str]:
    """New lines to insert before line `at` (from 0). Without indentation of their own, they get
    that of the next line or, at the end of a block, of the previous line."""
    written = [line for line in new if line.strip()]
    after = next((text for text in texts[at:] if text.strip()), "")
    before = next((text for text in reversed(texts[:at]) if text.strip()), "")
    like = before if after.lstrip().startswith("}") and not before.endswith("{") else after
    if any(indent(line) for line in written[:1]) or written[0].startswith("#"):
        return list(new)
    return [indent(like) + line if line.strip() else line for line in new]
