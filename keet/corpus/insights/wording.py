"""Helpers for sentences: lists of words, names of limiters, amounts."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.hardware.ceilings import spoken_unit
from keet.evidence import Evidence
from keet.units import base_unit, format_number

_LATENCY = " (no unit is near its peak)"


def spoken(limiter: str) -> str:
    """A limiter as printed in a sentence."""
    return f"latency{_LATENCY}" if limiter == "latency" else spoken_unit(limiter)


def in_table_words(limiter: str) -> str:
    """A limiter as in the tables: `DRAM+L2`, `issue`."""
    return spoken(limiter) if limiter == "latency" else limiter


def be(limiter: str) -> str:
    return "are" if spoken(limiter).endswith("s") else "is"


def latency_explained_once(texts: Sequence[str]) -> list[str]:
    """Keeps only the first explanation of `latency`."""
    whole = "\n".join(texts)
    head, mark, rest = whole.partition(_LATENCY)
    return f"{head}{mark}{rest.replace(_LATENCY, '')}".split("\n")


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
