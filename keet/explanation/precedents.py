"""What the same fix gained in measured cases, as a sentence below a finding."""

from __future__ import annotations

from keet.analysis.parameters import Parameter
from keet.catalog.precedents import Precedents, precedents
from keet.diagnosis.finding import Finding
from keet.formatting import count_noun, times_text

MEASURED_ON = "H200"
SIMILAR_GAINS = Parameter(1.1, "factor between similar gains, and between launches", "judgement")


def precedents_of(finding: Finding) -> Precedents | None:
    """None if the casebook has no measured gain for this finding."""
    return None if finding.variant in _NOT_MEASURED else precedents().get(finding.id)


_NOT_MEASURED = ("block_size", "outside")
"""Reasons for inactive threads that no case has: in the measured cases, threads take different
branches."""


def precedents_text(finding: Finding) -> str:
    """Empty if no measured case gained about as much."""
    found = precedents_of(finding)
    if found is None or not _is_alike(found, finding.forecast.likely):
        return ""
    return measured_text(found)


def measured_text(found: Precedents) -> str:
    """What fixing a finding gained in the casebook."""
    cases = "1 measured case" if found.cases == 1 else f"{found.cases} measured cases"
    gained = times_text(found.high)
    if found.cases > 1:
        gained = f"{times_text(found.low)} to {gained}"
    text = f"In {cases} with this cause ({MEASURED_ON}), fixing it gained {gained}."
    return f"{text}{_lookalikes_text(found.lookalikes)}"


def _is_alike(found: Precedents, likely: float) -> bool:
    """Whether the measured gains include the forecast: cases that all gained much more, or much
    less, say nothing about this launch."""
    return found.low <= SIMILAR_GAINS * likely and likely <= SIMILAR_GAINS * found.high


def _lookalikes_text(count: int) -> str:
    """About cases that have the symptom but not the cause."""
    if not count:
        return ""
    return f" In {count_noun(count, 'look-alike')}, the fix gained less than 10%."
