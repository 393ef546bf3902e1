"""Recognizes capacities of the hardware: the 32 in `4 of 32 bytes per sector`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from keet.verification.text.numbers import TextNumber

_OF = re.compile(r"\b(?:of|than)\s+(?:(?:the|its|all)\s+)?\Z")
_HOLDS = (
    ("byte", 32, "sector", "a sector has 32 bytes"),
    ("thread", 32, "warp", "a warp has 32 threads"),
    ("lane", 32, "warp", "a warp has 32 lanes"),
    ("", 32, "warp", "a warp has 32 threads"),
)


def capacity(text: str, number: TextNumber) -> str | None:
    """The statement if the number is a capacity after `of`; else None."""
    if number.shape or not _OF.search(text[max(0, number.start - 12) : number.start]):
        return None
    for unit, size, holder, said in _HOLDS:
        whose = rf"(?:\s+(?:per|of|in)\s+(?:an?|the|each|every)?\s*(?:full\s+)?{holder}s?\b)"
        named = f"/{holder}" in number.unit or re.match(whose, text[number.end :])
        if named and number.unit.split("/")[0] == unit and number.value == size:
            return said
    return None


def with_capacity_units(text: str, numbers: Sequence[TextNumber]) -> list[TextNumber]:
    """`4 of the 32 bytes`: the unit of the 4 is bytes too."""
    pairs = [(this, other) for this, other in pairwise(numbers) if capacity(text, other)]
    surely = {this: this._replace(alone=None) for this, _ in pairs}
    return [surely.get(number, number) for number in numbers]
