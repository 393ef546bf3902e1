"""Thresholds: which differences between captures are more than noise."""

from __future__ import annotations

import math

from keet.comparison.timing import pair_timing

TIED = 2.0
"""Two times are equal up to so many standard deviations."""
BEYOND = 3.0
"""A spread of several times is more than noise from so many standard deviations on."""
OUTLYING = 5.0
"""Standard deviations of an outlier: none by chance among thousands of launches."""
WORTH_TELLING = 1.2
"""Smallest factor over the median of its peers."""
FEW_PEERS = 10
WORTH_TELLING_OF_FEW = 1.5
"""The same among fewer than `FEW_PEERS` launches, whose spread is hardly known."""


def between_sessions(duration_us: float) -> float:
    """Standard deviation of ln(ratio) of two captures in different sessions."""
    return pair_timing.deviation_across_days(1000 * duration_us)


def within_session(duration_us: float) -> float:
    return pair_timing.deviation_within_hour(1000 * duration_us)


def differs(one_us: float, other_us: float, deviations: float = TIED) -> bool:
    """Whether two captures of different sessions differ by more than noise."""
    sd = between_sessions(min(one_us, other_us))
    return abs(math.log(one_us / other_us)) > deviations * sd
