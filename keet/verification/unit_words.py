"""How people write units behind a number, in keet's spelling."""

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
"""`TFLOPS`: a rate that hides its second."""

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
    """What may be one of these words. One pattern of them all takes long to compile, so that plain
    words are looked up afterwards."""
    composed = [word for word in words if not word.isalpha()]
    longest_first = sorted(composed, key=len, reverse=True)
    return "|".join([*map(re.escape, longest_first), r"\w+"])


_SCALE = re.compile(r"\s?(million|billion|thousand|trillion|bn|[kKMGT])(?![\w/])")
_RATE = re.compile(r"[\s-]?([KMGT](?:FL)?OPS)(?!\w)")
_HEAD = re.compile(rf"[\s\u00a0\u202f]?({_spelled(_SPELLINGS)})(?![\w])")
_SYMBOL = re.compile(r"[\s\u00a0\u202f]?(% points|%-points|%)")
_WRAPPED = re.compile(r"\n\s+([nuµm]?s|[kKMGT]?i?B)(?![\w])")
"""In a row of a table that was cut before the unit; no noun, with which another row may begin."""
_DENOMINATOR = re.compile(rf"(?:\s?/\s?|\s+(?:per|a|an|each)\s+)({_spelled(_PER)})(?![\w/])")
_NOUN_BETWEEN = re.compile(
    r"\s(?:warp|thread|memory|bank|active|eligible|excess(?:ive)?|executed)(?=\s)"
)


def unit_at(text: str, position: int) -> tuple[str, int, int]:
    """The unit written at `position`, where it ends, and a power of ten (`14.7 M sectors`)."""
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
    unit, end = _SPELLINGS[head[1]], head.end()
    while (part := _DENOMINATOR.match(text, end)) and part[1] in _PER:
        unit, end = f"{unit}/{_PER[part[1]]}", part.end()
    return unit, end, power


def _head_at(text: str, position: int) -> re.Match[str] | None:
    found = _HEAD.match(text, position)
    return found if found and found[1] in _SPELLINGS else None
