"""Names of functions that the compiler expands (see `sass.analyses.expansions`), and the bytes of a
word. They are here so that facts and findings need not import the analysis of machine code."""

from __future__ import annotations

DIVISION = "integer division or remainder"
LONG_DIVISION = "64-bit integer division or remainder"
INTEGER_DIVISIONS = (DIVISION, LONG_DIVISION)
POWER = "powf"
LARGE_ANGLES = "the slow path of sinf, cosf or tanf for large angles"
SLOW_DIVISION = "the slow path of divisions of floats"
BYTES = 4
"""Bytes in a word: packed instructions compute with all of them at a time."""
