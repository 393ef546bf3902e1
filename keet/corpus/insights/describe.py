"""Sentences about numbers: joins, times, and what a change is called."""

from __future__ import annotations

from collections.abc import Sequence

from keet.evidence import Evidence
from keet.units import base_unit, format_number

_SPOKEN = {
    "issue": "the issue slots",
    "LSU": "the LSU pipe",
    "FMA": "the FMA pipe",
    "ALU": "the ALU pipe",
    "FP64": "the FP64 pipe",
    "FP16": "the FP16 pipe",
    "XU": "the XU pipe",
    "tensor": "the tensor cores",
    "ADU": "the ADU pipe",
    "latency": "latency (no unit is near its peak)",
}


def spoken(limiter: str) -> str:
    """A limiter as in a sentence."""
    return _SPOKEN.get(limiter, limiter)


def joined(words: Sequence[str]) -> str:
    """`a, b and c`"""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def plural(count: int, word: str, many: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def amount(piece: Evidence) -> str:
    """A number beside its label, which names what is counted."""
    head = base_unit(piece.unit).partition("/")[0]
    scaled = head in ("%", "ns", "byte", "hz", "bit", "flop", "op")
    return str(piece) if scaled else format_number(float(piece.value))
