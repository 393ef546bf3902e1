"""What the same fix gained in measured cases, as a sentence below a finding."""

from __future__ import annotations

from keet.analysis.findings import Finding
from keet.catalog.precedents import Precedents, precedents


def precedents_of(finding: Finding) -> Precedents | None:
    """None where the casebook has no measured gain for this finding."""
    return precedents().get(finding.id)


def precedents_text(finding: Finding) -> str:
    """Empty where nothing was measured."""
    found = precedents_of(finding)
    if found is None:
        return ""
    if found.cases == 1:
        gained = f"This fix gained {factor_text(found.high)} in 1 measured case."
    else:
        gained = (
            f"This fix gained {factor_text(found.low)} to {factor_text(found.high)} "
            f"(median {factor_text(found.median)}) in {found.cases} measured cases."
        )
    return f"{gained}{_lookalikes_text(found.lookalikes)}"


def _lookalikes_text(count: int) -> str:
    """Cases with the symptom and without the cause."""
    if not count:
        return ""
    cases = "case that looks" if count == 1 else "cases that look"
    return f" In {count} {cases} like it, it gained less than 10%."


def factor_text(factor: float) -> str:
    """Two digits: `2.3x`, `14x`."""
    return f"{factor:.0f}x" if factor >= 9.95 else f"{factor:.1f}x"
