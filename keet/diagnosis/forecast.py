"""How much faster a fix would make the launch: a likely gain and a range. Also how much of each
part of the account it removes.

The time model computes the gain if the cause is real and is removed: the likely gain. A cause that
rests on an assumption may not be real: in the casebook, nearly all assumed causes with a gain of
10 % were not, and nearly all with a gain of 2x were. This doubt decides whether a cause is reported
and where it ranks (`expected_gain`), and changes nothing about how much it would gain.

The range comes from the residuals of the casebook's work families and is meant to hold in 80 % of
cases, for kernels that nothing was fitted on. It reaches further up than down, because a rewrite
usually fixes more than one flaw.

Findings are ranked by the time model. The account is what readers see, so a ranking that differs
from it is explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.account import KINDS, Account, TimePart, slug
from keet.analysis.candidate import MAX_GAIN, Candidate, chance_by
from keet.analysis.kernel_kind.executed_code import called_part
from keet.analysis.limits import LEAST_KERNEL_NS
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import (
    BEYOND_SMS,
    BLOCK_STARTS,
    LEADS,
    LEAST_TIME,
    WORTH,
    Effect,
    TimeModel,
)
from keet.documents.finding import Forecast
from keet.evidence import Sentence
from keet.findings import findings


class RankedCandidate(NamedTuple):
    """A candidate and its gain."""

    candidate: Candidate
    possible: float
    """Times faster, if the cause is real."""
    gain: float
    """Expected value of `possible`: smaller where the cause may not be real."""


def possible_gain(candidate: Candidate, model: TimeModel) -> float:
    """Times faster, if the cause is real and only it is fixed; no kernel gets shorter than
    `least_kernel_ns`."""
    effect = candidate.effect
    if not isinstance(effect, Effect):
        # With more work per launch, the units still do all of it.
        counts = model.is_measured and candidate.basis == "assumed" and not candidate.is_open
        # Fewer launches need not start as many blocks.
        loads = (load for unit, load in model.loads.items() if unit != BLOCK_STARTS)
        busy = max(loads, default=0.0) * (1 - model.fixed) if counts else 0.0
        most = min(MAX_GAIN, candidate.most)
        return min(most, max(1.0, effect), 1 / max(busy, 1 / MAX_GAIN))
    duration = model.view.value("duration")
    most = max(1.0, duration / LEAST_KERNEL_NS) if duration else MAX_GAIN
    most = min(most, 1 / model.start) if model.start else most
    gain = min(_largest_gain(candidate, model), most, model.gain(effect))
    if candidate.variant == "calls" or effect.longest_sm < 1 or BEYOND_SMS & effect.units.keys():
        return gain
    # What a change of the kernel's code saves, it saves outside of the routines that it calls.
    called = called_part(model.view)
    return 1 / (called + (1 - called) / gain)


def _largest_gain(candidate: Candidate, model: TimeModel) -> float:
    """Where the unit that takes the time is measured, and how much of its work is waste, so is what
    is left: only then is a gain above those of the casebook credible."""
    effect = candidate.effect
    if candidate.basis != "measured" or not isinstance(effect, Effect):
        return MAX_GAIN
    if effect.longest_sm * MAX_GAIN < 1:  # one thread does the work of thousands
        return 1 / LEAST_TIME
    if model.pressure < LEADS:
        return MAX_GAIN
    kept = effect.units.get(model.busiest or "", 1.0)
    return 1 / LEAST_TIME if kept <= 1 / MAX_GAIN else MAX_GAIN


DOUBTFUL = Parameter(1.35, "gain at which half of the general causes are real", "fit")
DOUBTFUL_SPECIFIC = Parameter(1.2, "the same for causes that name what is wasted", "fit")


def expected_gain(candidate: Candidate, possible: float) -> float:
    """The possible gain (its logarithm) times the chance that the cause is real: what findings are
    ranked by."""
    return math.exp(math.log(possible) * chance(candidate, possible))


def chance(candidate: Candidate, possible: float) -> float:
    """Chance that the cause is real, 0 to 1: it grows with the gain; evidence lowers the gain at
    which it is a half."""
    if candidate.basis != "assumed":
        return candidate.likelihood
    half = DOUBTFUL if findings()[candidate.id].is_general else DOUBTFUL_SPECIFIC
    doubt = candidate.doubt * math.log(half)
    return candidate.likelihood * chance_by(math.log(possible), doubt)


FITTED_ON = (9, 0)
"""Compute capability of the GPU that the parameters were fitted on."""
UNFITTED_GPU = Parameter(0.9, "factor of certainty on other GPUs than that of the fit", "judgement")
LEAST_CERTAINTY = Parameter(0.4, "least certainty: ranges would be too wide otherwise", "judgement")

# Quantiles of residuals: `python -m evals.analyst.ranges`. A forecast of 30x is off by more than
# one of 1.2x, whether its cause is measured or assumed.
BELOW = Parameter(0.3, "log2 of likely over low gain, per 1 + log2 of the likely gain", "fit")
ABOVE = Parameter(0.4, "log2 of high over likely gain, per 1 + log2 of the likely gain", "fit")


def forecast(candidate: Candidate, model: TimeModel, possible: float, unknown: float) -> Forecast:
    """The gain if the cause is there. `unknown`: the unexplained share of the time; it widens the
    range, as does a GPU that nothing was fitted on. The range of a suspicion starts at no gain."""
    is_familiar = model.view.capability == FITTED_ON
    sure = max(LEAST_CERTAINTY, (1 - unknown) * (1.0 if is_familiar else UNFITTED_GPU))
    size, width = 1 + math.log2(possible), 1 / math.sqrt(sure)
    low = 1.0 if candidate.basis == "suspected" else possible / 2 ** (BELOW * size * width)
    high = min(_largest_gain(candidate, model), possible * 2 ** (ABOVE * size * width))
    if isinstance(candidate.effect, Effect):  # other units keep about the same work
        most = model.most(candidate.effect) * 2 ** (ABOVE * size)
        high = max(possible, min(high, most, _by_needed_bytes(model, candidate.effect)))
    high = min(candidate.most, max(high, MAX_GAIN) if candidate.is_open else high)
    if isinstance(candidate.effect, Effect) and model.start:  # launch and drain stay
        high = min(high, 1 / model.start)
    return Forecast(round(max(1.0, low), 2), round(possible, 2), round(high, 2))


def _by_needed_bytes(model: TimeModel, effect: Effect) -> float:
    """Times faster at most if DRAM reads every byte once already, and the fix changes nothing about
    that."""
    view, dram = model.view, model.loads.get("DRAM", 0.0)
    is_needed = view.streaming is not None and view.streaming.verdict == "once"
    if not is_needed or "DRAM" in effect.units or not dram:
        return math.inf
    return 1 / (model.fixed + (1 - model.fixed) * dram)


def order_reason(
    worth: Sequence[RankedCandidate], model: TimeModel, account: Account, *, is_doubtful: bool
) -> Sentence | None:
    """Why the first finding comes first, if another one removes a larger part of the account.
    `is_doubtful`: the first one is only possible, so that it is no more certain than the other."""
    saved = {
        cause.candidate.id: dict(saved_parts(cause.candidate.effect, model, account))
        for cause in worth
        if isinstance(cause.candidate.effect, Effect)
    }
    if not worth or worth[0].candidate.id not in saved:
        return None
    totals = {name: sum(parts.values()) for name, parts in saved.items()}
    first, most = worth[0].candidate.id, max(totals, key=lambda name: totals[name])
    if totals[most] <= WORTH * totals[first]:
        return None
    # Both may shorten the same part: the one to name is where the other fix removes more.
    part = max(saved[most], key=lambda name: saved[most][name] - saved[first].get(name, 0.0))
    other = next(cause for cause in worth if cause.candidate.id == most)
    first_gain, other_gain = (f"{cause.possible:.1f}" for cause in (worth[0], other))
    gains_less = other.possible > worth[0].possible
    if first_gain == other_gain or (gains_less and is_doubtful):
        return None  # neither saves more, or neither is certain
    derived = model.view.ledger.derived
    gains = [
        derived(f"possible.{cause.candidate.id}", cause.possible, "times faster if fixed")
        for cause in (worth[0], other)
    ]
    return Sentence(
        "Ranked before {other}, which takes a larger part of the time ({share:.0f} {part}), "
        "because {reason}: {own:.1f}x against {their:.1f}x.",
        other=findings()[most].label,
        share=part.percent,
        part=part.part,
        own=gains[0],
        their=gains[1],
        reason="its gain is less doubtful" if gains_less else "fixing it saves more",
    )


def saved_parts(
    effect: Effect, model: TimeModel, account: Account
) -> Iterator[tuple[TimePart, float]]:
    """The parts without children, and the percent of the time that the fix removes of each."""
    for part in account.all():
        if not part.children:
            share = float(part.percent.value)
            yield part, share - max(0.0, share * _kept(part.id, share, effect, model))


def _kept(part: str, share: float, effect: Effect, model: TimeModel) -> float:
    kind = part.rpartition(".")[2]
    if part.startswith("idle"):  # the longest SM has less to do
        return 1 - min(1.0, 100 * (1 - effect.longest_sm) / share) if share else 1.0
    if part.startswith("issuing"):
        return effect.units.get("issue", 1.0)
    if ".busy." in part:
        return min([left for unit, left in effect.units.items() if slug(unit) == kind] or [1.0])
    waits = [(time, state) for state, time in model.waiting.items() if KINDS.get(state) == kind]
    every = sum(time for time, _ in waits)
    left = sum(time * effect.waits.get(state, 1.0) for time, state in waits)
    return effect.every_wait * (left / every if every else 1.0)
