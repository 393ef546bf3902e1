"""How much two captures of one kernel differ though nothing changed, and what counts as more.

Measured on an H200 on 2026-11-15, with ncu 2025.3.1: pairs of captures of the same kernel, in the
same session (one run of ncu) and in different ones. Other GPUs were not measured.
"""

from __future__ import annotations

import math

BETWEEN_SESSIONS = 0.025
"""Standard deviation of ln(one / other), for launches that are long."""
GRAIN_US = 0.4
"""What short launches add to it: this, over the duration."""
WITHIN_SESSION = ((100.0, 0.005), (20.0, 0.012), (0.0, 0.04))
"""The same within a session: from so many us on, so much."""

TIED = 2.0
"""Deviations up to which one time is not slower than another."""
BEYOND = 3.0
"""Deviations from which a spread of several times is more than noise."""
OUTLYING = 5.0
"""Deviations from which a launch is an outlier: of thousands of launches, none by chance."""
WORTH_TELLING = 1.2
"""Times as long as its peers: less is no reason to look at a single launch."""
FEW_PEERS = 10
WORTH_TELLING_OF_FEW = 1.5
"""The same among fewer launches than that: their spread is hardly known."""


def between_sessions(duration_us: float) -> float:
    """Standard deviation of ln(ratio) of two captures in different sessions."""
    return math.hypot(BETWEEN_SESSIONS, GRAIN_US / duration_us)


def within_session(duration_us: float) -> float:
    return next(sd for least, sd in WITHIN_SESSION if duration_us >= least)


def differs(one_us: float, other_us: float, deviations: float = TIED) -> bool:
    """Whether two captures of different sessions differ by more than captures do anyway."""
    sd = between_sessions(min(one_us, other_us))
    return abs(math.log(one_us / other_us)) > deviations * sd
