"""How much faster a fix would make the launch: likely by the time model, with a range.

The model says what a launch gains if the cause is there and goes. What rests on an assumption is
not always there, so the likely gain is the expected one: in the casebook, of assumed causes that
would gain a tenth nearly all were not there, and of those that would double the speed nearly all
were.

The range comes from the residuals of the casebook's work families: it is meant to hold in 80 % of
cases. It reaches further up than down, because who rewrites a place mends more than one flaw. The
less certain the ground that a gain stands on, the wider its range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from keet.analysis.candidates.candidate import MAX_GAIN, Basis, Candidate
from keet.analysis.findings import Forecast
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel


def possible_gain(candidate: Candidate, model: TimeModel) -> float:
    """Times faster, if this is a cause and alone is fixed; never below what any kernel takes."""
    effect = candidate.effect
    if not isinstance(effect, Effect):
        # More work per launch is still work of the units.
        counts = model.is_measured and candidate.basis == "assumed"
        busy = model.pressure * (1 - model.fixed) if counts else 0.0
        return min(MAX_GAIN, max(1.0, effect), 1 / max(busy, 1 / MAX_GAIN))
    duration = model.view.value("duration")
    most = max(1.0, duration / parameter("least_kernel_ns")) if duration else MAX_GAIN
    return min(MAX_GAIN, most, model.gain(effect))


_STEEP = 3
"""How fast doubt goes with the gain. Judgement."""


def expected_gain(candidate: Candidate, possible: float) -> float:
    """The same, times the chance that the cause is there, in logarithms."""
    return math.exp(math.log(possible) * chance(candidate, possible))


def chance(candidate: Candidate, possible: float) -> float:
    """That the cause is there, 0 to 1."""
    if candidate.basis != "assumed":
        return candidate.likelihood
    size = math.log(possible) ** _STEEP
    doubt = math.log(parameter("doubtful")) ** _STEEP
    return candidate.likelihood * size / (size + doubt)


_BASIS: Mapping[Basis, float] = {"measured": 1.0, "assumed": 0.8, "suspected": 0.4}
_UNFAMILIAR = 0.9
"""On a GPU that the parameters were not fitted on."""
_LEAST_CERTAINTY = 0.4
"""A wider range would tell nobody anything."""


def certainty(basis: Basis, unknown: float, *, is_familiar: bool) -> float:
    """0 to 1, by what the effect rests on and the share of the time that nothing explains.

    Confidence and the width of ranges both follow from it.
    """
    found = _BASIS[basis] * (1 - unknown) * (1.0 if is_familiar else _UNFAMILIAR)
    return max(_LEAST_CERTAINTY, found)


def forecast(candidate: Candidate, model: TimeModel, possible: float, sure: float) -> Forecast:
    """`sure`: the certainty, whose inverse is taken for a variance.

    A suspicion says what it gains if it is true: its text has the "if", and its range begins with
    nothing.
    """
    width = 1 / math.sqrt(sure)
    likely = expected_gain(candidate, possible)
    low = likely / 2 ** (parameter("range_below") * width)
    if candidate.basis == "suspected":
        likely, low = possible, 1.0
    above = "range_below" if candidate.basis == "suspected" else "range_above"
    high = min(MAX_GAIN, possible * 2 ** (parameter(above) * width))
    if isinstance(candidate.effect, Effect):  # other units keep their work, give or take
        high = max(likely, min(high, model.most(candidate.effect) * 2 ** parameter("range_above")))
    return Forecast(round(max(1.0, low), 2), round(likely, 2), round(high, 2))
