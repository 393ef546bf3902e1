"""Numbers that nobody measures: what every GPU has, this device has, and a launch asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from keet.profile import Launch
from keet.verification.numbers import SaidNumber

HARDWARE = {
    "thread": {32},
    "lane": {32},
    "bank": {32},
    "byte": {1, 2, 4, 8, 16, 32, 64, 128},
    "bit": {8, 16, 32, 64, 128},
    "scheduler": {4},
    "": {*range(13), 32, 2**31 - 1, 2**31, 2**32 - 1, 2**32},
}
"""Sizes of warps, banks, lines, sectors and words: the same on every GPU that ncu knows. Without a
unit, what is counted up to a dozen (`3 loads`), and where the integers of a language end."""
WIDTHS = {1, 2, 4, 8, 16}
"""Bytes that one thread accesses at a time."""
_OF_DEVICES = {"register", "byte", "warp", "block", "thread", "SM"}
_LIMIT = re.compile(
    r"\b(?:limit\w*|at most|maxim\w+|max|slots?|capacity|offers|(?:SM|GPU|device)s?\s+ha(?:s|ve))\b"
)
"""How a sentence speaks of what a device has, not of what was used."""
_OF_AN_SM = re.compile(r"\bSMs?\b|\bregister files?\b", re.IGNORECASE)
_MOST_OF_A_THREAD = 255
"""Registers; more of them are those of an SM."""
_POWER = re.compile(r"(?<![\w.])2\s?(?:\^|\*\*)\s?\d{1,2}(?![\w.]*\d)(?!\s?%)")


def is_of_device(sentence: str, number: SaidNumber, device: set[int]) -> bool:
    """Whether it is one of the device's attributes, as what there is, not as what is used."""
    head, *per = number.unit.split("/")
    if number.value not in device or head not in _OF_DEVICES:
        return False
    whole = head == "register" and "thread" not in per and number.value > _MOST_OF_A_THREAD
    return bool(_LIMIT.search(sentence) or (whole and _OF_AN_SM.search(sentence)))


def is_power(sentence: str, number: SaidNumber) -> bool:
    """`2^31`: read as two numbers, and neither of them is an amount."""
    return any(
        power.start() <= number.start < power.end() and not number.unit
        for power in _POWER.finditer(sentence)
    )


def sizes(launch: Launch) -> Iterator[int]:
    """Of grid and block, and the warps that they make."""
    grid, block = launch.grid or (), launch.block or ()
    yield from (*grid, *block)
    if grid and block:
        warps = -(-math.prod(block) // 32)
        yield from (warps, warps * math.prod(grid))


def attributes(launch: Launch) -> Iterator[int]:
    """What the device has of everything: constants, though the report has them as metrics."""
    for name in launch.metric_names():
        if name.startswith("device__attribute_"):
            found = launch.metric(name)
            if found is not None and isinstance(found.value, int | float):
                yield int(found.value)
