"""Numbers with their source, and sentences whose numbers all come from them.

Imported by every part that analyses or prints; imports units and formatting only.
"""

from keet.evidence.evidence import MEASURED_SPEEDUPS, Confidence, Evidence, constant, slug_of
from keet.evidence.prose import UNCHECKED, Prose, ids_of
from keet.evidence.sentence import Reference, Sentence

__all__ = [
    "MEASURED_SPEEDUPS",
    "UNCHECKED",
    "Confidence",
    "Evidence",
    "Prose",
    "Reference",
    "Sentence",
    "constant",
    "ids_of",
    "slug_of",
]
