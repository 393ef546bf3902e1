"""Gains in words, the same in every list, table and sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.candidate import MAX_GAIN
from keet.diagnosis.finding import BETWEEN_LAUNCHES
from keet.findings import findings
from keet.formatting import times_text

if TYPE_CHECKING:
    from keet.diagnosis.finding import Finding


OPEN_GAIN = "gain not known"


def forecast_text(finding: Finding) -> str:
    """`2.1x faster (1.6x to 3.9x)`, `27x faster (21x or more)`."""
    return range_text(finding.id, *finding.forecast, variant=finding.variant)


def range_text(
    finding: str | None, low: float, likely: float, high: float, *, variant: str = ""
) -> str:
    """A launch that is too short does not become faster by batching: it does more in its time. The
    gain of launches that share data is that of all of them."""
    spec = findings().get(finding or "")
    if spec is not None and variant in spec.open_gains:
        return OPEN_GAIN
    does_more = spec is not None and (spec.of_launches or variant in spec.more_work)
    what = "the work in the same time" if does_more else "faster"
    what += " together" if variant in BETWEEN_LAUNCHES else ""
    highest = "or more" if high >= MAX_GAIN else f"to {times_text(high)}"
    return f"{times_text(likely)} {what} ({times_text(low)} {highest})"
