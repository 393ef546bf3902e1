"""What counts as more than the noise of captures."""

from __future__ import annotations

import math

from keet.comparison.timing import noise_model

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
    return noise_model.deviation_across_days(1000 * duration_us)


def within_session(duration_us: float) -> float:
    return noise_model.deviation_within_hour(1000 * duration_us)


def differs(one_us: float, other_us: float, deviations: float = TIED) -> bool:
    """Whether two captures of different sessions differ by more than captures do anyway."""
    sd = between_sessions(min(one_us, other_us))
    return abs(math.log(one_us / other_us)) > deviations * sd
