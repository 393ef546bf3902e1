"""Recognizes units after a number in the spellings that people use."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SYMBOLS = {
    "ns": ("nsec", "nsecond", "nseconds", "nanosecond", "nanoseconds"),
    "us": ("µs", "μs", "usec", "usecond", "useconds", "microsecond", "microseconds"),
    "ms": ("msec", "msecond", "mseconds", "millisecond", "milliseconds"),
    "s": ("sec", "second", "seconds"),
    "byte": ("B", "Byte", "bytes", "Bytes"),
    "Kbyte": ("kB", "Kbytes", "kilobytes"),
    "Mbyte": ("Mbytes", "megabytes"),
    "Gbyte": ("Gbytes", "gigabytes"),
    "Tbyte": ("TB", "Tbytes", "terabytes"),
    "hz": ("Hz",),
    "Khz": ("kHz", "KHz", "khz"),
    "Mhz": ("MHz",),
    "Ghz": ("GHz",),
    "%": ("percent", "per cent", "pct"),
    "point": ("points", "percentage points", "percentage point", "% points", "%-points", "pp"),
    "x": ("×", "times", "X", "-fold", "fold"),
    "way": ("-way", " - way"),
    "bit": ("bits",),
    "branch": ("branches",),
    "pass": ("passes",),
    "launch": ("launches",),
    "inst": ("insts", "instruction", "instructions", "warp instruction", "warp instructions"),
    "register": ("registers", "reg", "regs"),
    "block": ("blocks", "CTA", "CTAs", "thread blocks"),
    "SM": ("SMs",),
    "flop": ("flops", "FLOP"),
    "Kflop": ("kFLOP", "KFLOP"),
    "Mflop": ("MFLOP",),
    "Gflop": ("GFLOP",),
    "Tflop": ("TFLOP",),
    "op": ("ops",),
    "Kop": ("kop",),
    "Mop": (),
    "Gop": ("GOP",),
    "Top": ("TOP",),
    "Kbyte*": ("KB",),
    "Mbyte*": ("MB",),
    "Gbyte*": ("GB",),
}
_PLURALS = (
    "sector",
    "warp",
    "cycle",
    "thread",
    "request",
    "sample",
    "wavefront",
    "conflict",
    "cluster",
    "wave",
)
_SPELLINGS = {word: unit for unit, words in _SYMBOLS.items() for word in (unit, *words)}
_SPELLINGS |= {word: noun for noun in _PLURALS for word in (noun, f"{noun}s")}
_SPELLINGS = {
    word: {"Kbyte*": "KB", "Mbyte*": "MB", "Gbyte*": "GB"}.get(unit, unit)
    for word, unit in _SPELLINGS.items()
    if not word.endswith("*")
}

FACTORS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Bytes in the units that are powers of two."""
_SPELLINGS |= {word: word for word in FACTORS}
_RATES = {
    f"{p}{word}S": f"{p}{unit}/s" for p in "KMGT" for word, unit in (("FLOP", "flop"), ("OP", "op"))
}
"""`TFLOPS`: a rate without `/s`."""

_SCALES = {
    "k": 3,
    "K": 3,
    "thousand": 3,
    "M": 6,
    "million": 6,
    "G": 9,
    "billion": 9,
    "bn": 9,
    "T": 12,
    "trillion": 12,
}
_PER = {
    **{word: unit for word, unit in _SPELLINGS.items() if not word.startswith(("%", "-"))},
    **{word: word for word in ("scheduler", "kernel", "line", "issue", "SMSP", "lane")},
    "multiprocessor": "SM",
    "clock": "cycle",
}


def _spelled(words: Mapping[str, str]) -> str:
    """Pattern for one of these words. Plain words match `\\w+` and are looked up afterwards,
    because a pattern of all words is slow to compile."""
    composed = [word for word in words if not word.isalpha()]
    longest_first = sorted(composed, key=len, reverse=True)
    return "|".join([*map(re.escape, longest_first), r"\w+"])


_SCALE = re.compile(r"\s?(million|billion|thousand|trillion|bn|[kKMGT])(?![\w/])")
_RATE = re.compile(r"[\s-]?([KMGT](?:FL)?OPS)(?!\w)")
_HEAD = re.compile(rf"[\s\u00a0\u202f]?({_spelled(_SPELLINGS)})(?![\w])")
_SYMBOL = re.compile(r"[\s\u00a0\u202f]?(% points|%-points|%)")
_WRAPPED = re.compile(r"\n\s+([nuµm]?s|[kKMGT]?i?B)(?![\w])")
"""A unit on the next line, if a table row was wrapped; not nouns, which may begin another row."""
_DENOMINATOR = re.compile(rf"(?:\s?/\s?|\s+(?:per|a|an|each)\s+)({_spelled(_PER)})(?![\w/])")
_NOUN_BETWEEN = re.compile(
    r"\s(?:warp|thread|memory|bank|active|eligible|excess(?:ive)?|executed)(?=\s)"
)


_WORD = re.compile(r"\w+")
_BETWEEN = frozenset(
    ("warp", "thread", "memory", "bank", "active", "eligible", "excess", "excessive", "executed")
)
_NOT_PLAIN = {word.split()[0] for word in _SPELLINGS if " " in word and word[0].isalpha()}
_NOT_PLAIN |= {*_SCALES, *_RATES, *_BETWEEN}
"""Words after which the unit may continue or begin."""
_NO_UNIT = frozenset(",.;:)]")
"""Characters after a number with which no unit begins."""
_EACH = frozenset({"per", "a", "an", "each"})


def unit_at(text: str, position: int) -> tuple[str, int, int]:
    """The unit written at `position`, where it ends, and a power of ten (`14.7 M sectors`)."""
    return _plain_at(text, position) or _any_at(text, position)


def _plain_at(text: str, position: int) -> tuple[str, int, int] | None:
    """The result of `_any_at` for a unit of one word, `%` or none, without its patterns, which are
    slow to compile. None: use `_any_at`."""
    first = text[position : position + 1]
    if not first or first in _NO_UNIT:
        return "", position, 0
    if first == "%":
        more = text.startswith((" points", "-points"), position + 1)
        return None if more else (*_divided("%", text, position + 1), 0)
    word = _WORD.match(text, position + 1 if first == " " else position)
    if word is None or word[0] in _NOT_PLAIN:
        return None
    if word[0] not in _SPELLINGS:
        return "", position, 0
    return *_divided(_SPELLINGS[word[0]], text, word.end()), 0


def _any_at(text: str, position: int) -> tuple[str, int, int]:
    power, start = 0, position
    if scale := _SCALE.match(text, position):
        power, start = _SCALES[scale[1]], scale.end()
    if rate := _RATE.match(text, start):
        return _RATES[rate[1]], rate.end(), power
    head = _SYMBOL.match(text, start) or _head_at(text, start) or _WRAPPED.match(text, start)
    if head is None:
        between = _NOUN_BETWEEN.match(text, start)
        head = _head_at(text, between.end()) if between else None
    if head is None:
        return "", start, power
    return *_divided(_SPELLINGS[head[1]], text, head.end()), power


def _divided(unit: str, text: str, end: int) -> tuple[str, int]:
    """The unit with its denominators."""
    while _may_divide(text, end) and (part := _DENOMINATOR.match(text, end)) and part[1] in _PER:
        unit, end = f"{unit}/{_PER[part[1]]}", part.end()
    return unit, end


def _may_divide(text: str, end: int) -> bool:
    """Whether a denominator may follow: a fast test before the pattern."""
    first, second = text[end : end + 1], text[end + 1 : end + 2]
    if first == "/" or not first.isspace():
        return first == "/"
    word = _WORD.match(text, end + 1)
    return second == "/" or second.isspace() or (word is not None and word[0] in _EACH)


def _head_at(text: str, position: int) -> re.Match[str] | None:
    found = _HEAD.match(text, position)
    return found if found and found[1] in _SPELLINGS else None
