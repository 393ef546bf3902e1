"""A measured defect that would gain little: large enough that readers look for it."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Finding
from keet.evidence import Sentence
from keet.units import Quantity

_LABEL = "gain from which on a cause is a finding"


def minor_defect(view: LaunchView, minor: Sequence[Finding]) -> Sentence | None:
    """The first of them, and why fixing it gains little. None if none of them is more than half of
    the accesses that it is about, or if it gains nothing at all."""
    found = next((each for each in minor if _is_large(each) and each.forecast.likely > 1), None)
    if found is None:
        return None
    text = "{text} Fixing only that would gain less than {least:.0f}{why}."
    least = Quantity(round(100 * (WORTH - 1), 6), "%")
    return Sentence(
        text,
        text=found.text,
        least=view.ledger.derived("least_gain", least, _LABEL),
        why=_why(found, view.ceilings.ranked),
    )


def _is_large(finding: Finding) -> bool:
    shares = [float(each.value) for each in finding.evidence if each.unit == "%"]
    is_access = finding.spec.looks_good is not None and finding.cause_certainty == "certain"
    return is_access and max(shares, default=0.0) > 100 * MAJORITY


def _why(finding: Finding, ceilings: Sequence[Ceiling]) -> Sentence:
    """The busiest unit that keeps its work."""
    others = [each for each in ceilings if each.name not in (finding.relieves or ())]
    if not others:
        return Sentence()
    busiest = max(others, key=lambda each: each.share)
    text = ": {unit} would stay at {busy:.0f} of its peak"
    return Sentence(text, unit=busiest.spoken, busy=busiest.reached)
