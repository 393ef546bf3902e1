"""Helpers for sentences: lists of words, names of limiters, amounts."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.hardware.ceilings import spoken_unit
from keet.evidence import Evidence
from keet.units import base_unit, format_number


def spoken(limiter: str) -> str:
    """A limiter as printed in a sentence."""
    return "latency (no unit is near its peak)" if limiter == "latency" else spoken_unit(limiter)


def joined(words: Sequence[str]) -> str:
    """`a, b and c`"""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def amount(piece: Evidence) -> str:
    """A number after its label; the unit is printed only if the label does not imply it."""
    head = base_unit(piece.unit).partition("/")[0]
    scaled = head in ("%", "ns", "byte", "hz", "bit", "flop", "op")
    return str(piece) if scaled else format_number(float(piece.value))
