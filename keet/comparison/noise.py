"""What two captures of one unchanged kernel differ by, as a standard deviation of the logarithm of
their ratio.

Measured on an H200 on 2026-11-15 with 40 kernels of the samples (docs/diff.md, `evals.noise`).
Other GPUs were not measured.
"""

from __future__ import annotations

import math


def between_sessions(ns: float) -> float:
    """Of captures on another day, or on another GPU of the same kind."""
    return math.hypot(0.025, 400 / ns)


def within_session(ns: float) -> float:
    """Of captures one after the other."""
    return math.hypot(0.007, 250 / ns)
