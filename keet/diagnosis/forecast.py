"""How much faster a fix would make the launch: a likely gain and a range.

The time model computes the gain if the cause is real and is removed. A cause that rests on an
assumption may not be real, so the likely gain is an expected value: in the casebook, nearly all
assumed causes with a gain of 10 % turned out not to be real, and nearly all with a gain of 2x were.

The range comes from the residuals of the casebook's work families and is meant to hold in 80 % of
cases. It reaches further up than down, because a rewrite usually fixes more than one flaw. The less
certain the basis of a gain, the wider its range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from keet.analysis.candidate import MAX_GAIN, Basis, Candidate
from keet.analysis.kernel.grid_use import LEAST_KERNEL_NS
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.finding import Forecast


def possible_gain(candidate: Candidate, model: TimeModel) -> float:
    """Times faster, if the cause is real and only it is fixed; no kernel gets shorter than
    `least_kernel_ns`."""
    effect = candidate.effect
    if not isinstance(effect, Effect):
        # With more work per launch, the units still do all of it.
        counts = model.is_measured and candidate.basis == "assumed"
        busy = model.pressure * (1 - model.fixed) if counts else 0.0
        return min(MAX_GAIN, max(1.0, effect), 1 / max(busy, 1 / MAX_GAIN))
    duration = model.view.value("duration")
    most = max(1.0, duration / LEAST_KERNEL_NS) if duration else MAX_GAIN
    return min(MAX_GAIN, most, model.gain(effect))


DOUBTFUL = Parameter(1.35, "gain at which half of the assumed causes are real", "fit")
DOUBT_STEEPNESS = Parameter(3, "exponent: how fast doubt decreases with the gain", "judgement")


def expected_gain(candidate: Candidate, possible: float) -> float:
    """The possible gain (its logarithm) times the chance that the cause is real."""
    return math.exp(math.log(possible) * chance(candidate, possible))


def chance(candidate: Candidate, possible: float) -> float:
    """Chance that the cause is real, 0 to 1."""
    if candidate.basis != "assumed":
        return candidate.likelihood
    size = math.pow(math.log(possible), DOUBT_STEEPNESS)
    doubt = math.pow(math.log(DOUBTFUL), DOUBT_STEEPNESS)
    return candidate.likelihood * size / (size + doubt)


ASSUMED_CERTAINTY = Parameter(0.8, "certainty of an assumed cause (measured: 1)", "judgement")
SUSPECTED_CERTAINTY = Parameter(0.4, "certainty of a suspected cause", "judgement")
UNFITTED_GPU = Parameter(0.9, "factor of certainty on other GPUs than that of the fit", "judgement")
LEAST_CERTAINTY = Parameter(0.4, "least certainty: ranges would be too wide otherwise", "judgement")


def certainty(basis: Basis, unknown: float, *, is_familiar: bool) -> float:
    """0 to 1, from the basis of the effect and the share of the time that is unexplained.
    Confidence and the width of ranges follow from it."""
    by_basis: Mapping[Basis, float] = {
        "measured": 1.0,
        "assumed": ASSUMED_CERTAINTY,
        "suspected": SUSPECTED_CERTAINTY,
    }
    found = by_basis[basis] * (1 - unknown) * (1.0 if is_familiar else UNFITTED_GPU)
    return max(LEAST_CERTAINTY, found)


RANGE_BELOW = Parameter(0.4, "log2 of likely over low gain", "fit")
RANGE_ABOVE = Parameter(0.9, "log2 of high over likely gain", "fit")


def forecast(candidate: Candidate, model: TimeModel, possible: float, sure: float) -> Forecast:
    """`sure`: the certainty; its inverse is used as a variance. The gain of a suspicion holds only
    if it is true, which its text says; its range starts at no gain."""
    width = 1 / math.sqrt(sure)
    likely = expected_gain(candidate, possible)
    low = likely / 2 ** (RANGE_BELOW * width)
    if candidate.basis == "suspected":
        likely, low = possible, 1.0
    above = RANGE_BELOW if candidate.basis == "suspected" else RANGE_ABOVE
    high = min(MAX_GAIN, possible * 2 ** (above * width))
    if isinstance(candidate.effect, Effect):  # other units keep about the same work
        high = max(likely, min(high, model.most(candidate.effect) * 2**RANGE_ABOVE))
    return Forecast(round(max(1.0, low), 2), round(likely, 2), round(high, 2))
