"""How hot a line is: a step from its share of the samples, the same on every page."""

from __future__ import annotations

from bisect import bisect_right

STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares from which a line has the next step: about twice each. A judgement: equal colours mean
equal shares, in all launches and pages."""


def heat_step(share: float | None) -> int:
    """From 0 (nothing to see) to 8."""
    return bisect_right(STEPS, share or 0.0)


def heat_class(share: float | None) -> str | None:
    step = heat_step(share)
    return f"heat-{step}" if step else None
