"""How much captures of an unchanged kernel differ: standard deviation of the log of their ratio.

Measured on an H200 on 2026-11-15 with 40 kernels of the samples (docs/diff.md, `evals.noise`).
Other GPUs were not measured.
"""

from __future__ import annotations

import math


def deviation_across_days(ns: float) -> float:
    """Of captures on different days, or on different GPUs of the same kind. `ns`: of one launch."""
    return math.hypot(0.025, 400 / ns)


def deviation_within_hour(ns: float) -> float:
    """Of captures made one after the other. `ns`: of one launch."""
    return math.hypot(0.007, 250 / ns)


# Of plain runs without a profiler, which do not have the extra noise of a short launch under ncu.
# Measured on an H200 (docs/diff.md, `evals.recording_cost`): 0.0 to 0.5 % within a measurement
# session, and 0.1 to 4.7 % between three of them.
PLAIN_ACROSS_DAYS = 0.035
PLAIN_WITHIN_HOUR = 0.007
