"""Numbers with their source, and sentences whose numbers all come from them.

Imported by every part that analyses or prints; imports units and formatting only.
"""

from keet.evidence.evidence import (
    CONTRADICTED,
    MEASURED_SPEEDUPS,
    UNCHECKED,
    Confidence,
    Evidence,
    Prose,
    Reference,
    Sentence,
    constant,
    counted,
    finite,
    ids_of,
    of_quantity,
    report_number,
    slug_of,
)

__all__ = [
    "CONTRADICTED",
    "MEASURED_SPEEDUPS",
    "UNCHECKED",
    "Confidence",
    "Evidence",
    "Prose",
    "Reference",
    "Sentence",
    "constant",
    "counted",
    "finite",
    "ids_of",
    "of_quantity",
    "report_number",
    "slug_of",
]
