"""Texts of `keet finding` in all formats."""

from __future__ import annotations

from keet.analysis.parameters import Source
from keet.analysis.time_model import WORTH
from keet.catalog.measured_cases import precedents
from keet.documents.cases import FindingReferenceDocument
from keet.evidence import Sentence, constant
from keet.explanation.finding_notes import measured_text
from keet.findings import Family, FindingSpec, findings

VARIANTS = "keet prints the first of these that applies:"
GAIN_EXAMPLES = "Examples (from the families that keet was developed on):"
_LEAST_GAIN = constant(100 * (WORTH - 1), "%", "least gain of a finding")
LOOKALIKE_EXAMPLES = Sentence(
    "Look-alikes (from the same families), whose fix gained less than {gain:.0f}:",
    gain=constant(10, "%", "least gain of a case"),
)
SOURCES: dict[Source, str] = {
    "documentation": "from documentation",
    "fit": "fitted on the casebook",
    "judgement": "a judgement",
}
"""Where the value of a parameter comes from, in words."""


FAMILIES: dict[Family, str] = {
    "memory": "Memory access",
    "parallelism": "Latency and parallelism",
    "instructions": "Instructions",
    "healthy": "Healthy ends",
}


def reported_text(reference: FindingReferenceDocument) -> Sentence:
    """The gain from which on it is reported."""
    form = "It is reported where fixing it could gain {gain:.0f} or more."
    if reference.family == "healthy":
        form = "It is reported only where no cause is expected to gain {gain:.0f} or more."
    return Sentence(form, gain=_LEAST_GAIN)


def code_text(reference: FindingReferenceDocument) -> str:
    """Which code computes its gain; empty if no gain is computed."""
    return f"Code: {', '.join(reference.checks)}." if reference.checks else ""


def cases_text(reference: FindingReferenceDocument) -> str:
    """What its fix gained in measured cases."""
    measured = precedents().get(reference.id)
    return measured_text(measured) if measured else "The casebook has no measured case of it."


def rules_text(reference: FindingReferenceDocument) -> str:
    """Empty if Nsight Compute has no rule for it."""
    rules = ", ".join(reference.rules)
    return f"Rules of Nsight Compute on it: {rules}." if rules else ""


def findings_of(family: str) -> list[FindingSpec]:
    return [spec for spec in findings().values() if spec.family == family]
