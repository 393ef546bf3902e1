"""How much faster a fix would make the launch: likely by the time model, with a range.

The range comes from the residuals of the casebook's work families: it is meant to hold in 80 % of
cases. It reaches further up than down, because who rewrites a place mends more than one flaw.
"""

from __future__ import annotations

from keet.analysis.candidates.candidate import MOST, Candidate
from keet.analysis.findings import Forecast
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel


def gain_of(candidate: Candidate, model: TimeModel) -> float:
    """Times faster, if this alone were fixed; never below what any kernel takes."""
    effect = candidate.effect
    if not isinstance(effect, Effect):
        return min(MOST, max(1.0, effect))
    duration = model.view.value("duration")
    most = max(1.0, duration / parameter("least_kernel_ns")) if duration else MOST
    return min(MOST, most, model.gain(effect))


def forecast(gain: float) -> Forecast:
    low = max(1.0, gain / 2 ** parameter("range_below"))
    high = min(MOST, gain * 2 ** parameter("range_above"))
    return Forecast(round(low, 2), round(gain, 2), round(high, 2))
