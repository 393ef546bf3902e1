"""Diagnoses a launch: causes ranked by the time that a fix would save.

A fix makes the launch faster by a likely gain within a range, and removes so much of each part of
the account.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.account import KINDS, Account, TimePart, account_of, slug
from keet.analysis.archetype import called_part, is_debug_build
from keet.analysis.candidate import MAX_GAIN, Candidate, chance_by
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import OF_RUN, Ledger, scope_in
from keet.analysis.parallelism.resident_warps import does_nothing
from keet.analysis.parameters import LEAST_KERNEL_NS, MAJORITY, POSSIBLE, SAVED_PART, Parameter
from keet.analysis.remedy_conditions.grid import cold_start
from keet.analysis.remedy_conditions.waits import waits_for_queue
from keet.analysis.time_model import (
    BEYOND_SMS,
    BLOCK_STARTS,
    LEADS,
    LEAST_TIME,
    WORTH,
    Effect,
    TimeModel,
    joined,
)
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.finding import CauseCertainty, Forecast, Place
from keet.evidence import Sentence
from keet.findings import findings
from keet.profile import Launch

if TYPE_CHECKING:
    from keet.documents.explain import CrossLaunchDocument


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
    derived, label = model.view.derived, "times faster if fixed"
    causes = (worth[0], other)
    own, their = (derived(f"possible.{x.candidate.id}", x.possible, label) for x in causes)
    return Sentence(
        "Ranked before {other}, which takes a larger part of the time ({share:.0f} {part}), "
        "because {reason}: {own:.1f}x against {their:.1f}x.",
        other=findings()[most].label,
        share=part.percent,
        part=part.part,
        own=own,
        their=their,
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


MAX_FINDINGS = 5
"""Most findings per launch."""


class Diagnosis(NamedTuple):
    """What limits one launch. A debug build has no findings: keet estimates no gains of its
    code."""

    view: LaunchView
    model: TimeModel
    account: Account
    findings: tuple[Finding, ...]
    all_fixed: Forecast | None
    """If all findings were fixed, those left out that are only possible; None where there are fewer
    than two."""
    order_reason: Sentence | None
    """Why the first finding comes before one that takes a larger part of the account."""
    minor: tuple[Finding, ...]
    """Causes that are not expected to gain 10 %."""
    healthy: str | None
    """`at_dram_roofline` or `at_compute_roofline`, if no cause is expected to gain 10 % and a unit
    limits the launch by needed work; else None."""
    judged_by: frozenset[str]
    """Metrics that the candidates used, by ncu's names."""
    in_any_build: Finding | None = None
    """Of a debug build: a cause that does not depend on the code, but on the launch shape or on how
    the work is divided."""


def diagnose(
    launch: Launch,
    beside: Sequence[Launch] = (),
    *,
    report_scope: str = "",
    reads_code: bool = True,
    together: CrossLaunchFindings | None = None,
) -> Diagnosis:
    """`beside`: the other launches of the report. `together`: the findings across launches, if
    already computed. `report_scope`: see `scope_in`."""
    view = LaunchView(launch, report_scope, reads_code=reads_code)
    model = TimeModel(view)
    if together is None and beside:
        together = cross_launch_findings([*beside, launch], Ledger(scope_in(report_scope, OF_RUN)))
    view.shared_traffic = together.shared.get(launch.id) if together else None
    made = [*_causes(view, model)]
    view.results[causes] = _worth(made)
    ranked = ranked_candidates(view, model, made)
    measured = frozenset([e.metric for e in view.ledger if not e.derived_from and not e.line])
    account = account_of(view, model)
    unknown = account.unknown_while_active
    # What a build without -G would take, the time of debug code does not say: but for SMs without a
    # block or with less work than others, and lanes without a thread.
    worth_it = filter(is_worth, ranked)
    of_shape = (x for x in worth_it if (x.candidate.id, x.candidate.basis) in _OF_SHAPE)
    by_shape = next(of_shape, None) if is_debug_build(view) else None
    ranked = [] if is_debug_build(view) or does_nothing(view) else ranked
    by_advice: dict[str, tuple[Finding, RankedCandidate]] = {}
    for cause in ranked:
        if is_worth(cause) and len(by_advice) < MAX_FINDINGS:
            finding = _finding(cause, model, unknown)
            # One with the same advice as an earlier one is another symptom of the same cause.
            by_advice.setdefault(finding.advice.text if finding.advice else "", (finding, cause))
    reported = tuple(finding for finding, _ in by_advice.values())
    worth = tuple(cause for _, cause in by_advice.values())
    rest = [cause for cause in ranked if not is_worth(cause)]
    rest.sort(key=lambda cause: not _wastes_the_busiest(cause, model))
    wasteful = any(_wastes_the_busiest(cause, model) for cause in ranked)
    gains = any(cause.gain >= WORTH and cause.candidate.basis != "suspected" for cause in worth)
    limits = (spec.id for spec in findings().values() if spec.is_reached(model))
    is_open = gains or wasteful or is_debug_build(view)
    is_doubtful = bool(reported) and reported[0].cause_certainty == "possible"
    return Diagnosis(
        view=view,
        model=model,
        account=account,
        findings=reported,
        all_fixed=_all_fixed(worth, model, unknown),
        order_reason=order_reason(worth, model, account, is_doubtful=is_doubtful),
        minor=tuple(_outline(cause, model, unknown) for cause in rest),
        healthy=None if is_open else next(limits, None),
        judged_by=measured,
        in_any_build=_finding(by_shape, model, unknown) if by_shape else None,
    )


_OF_SHAPE = (
    *(("small_grid", "measured"), ("warp_divergence", "measured")),
    *(("load_imbalance", "measured"), ("load_imbalance", "assumed")),
)
"""Causes that do not depend on the code, with their basis."""


def is_worth(cause: RankedCandidate) -> bool:
    """Whether a cause is a finding: it gains 10 % if it is there, and half of that is expected."""
    return cause.possible >= WORTH and cause.gain >= 1 + SAVED_PART


def _all_fixed(
    worth: Sequence[RankedCandidate], model: TimeModel, unknown: float
) -> Forecast | None:
    sure = [
        cause.candidate
        for cause in worth
        if cause_certainty(cause.candidate, model.view, unknown, cause.gain) != "possible"
        and cause.candidate.variant not in findings()[cause.candidate.id].open_gains
    ]
    effects = [candidate.effect for candidate in sure if isinstance(candidate.effect, Effect)]
    if len(effects) < 2:
        return None
    of_all = sure[0]._replace(effect=joined(effects), basis="assumed", likelihood=1.0)
    most_alone = max(cause.possible for cause in worth)
    gain = max(most_alone, possible_gain(of_all, model))
    return forecast(of_all, model, gain, unknown)


def _nearly_as_much(cause: RankedCandidate, other: RankedCandidate) -> bool:
    return math.log(cause.possible) >= EXPLAINS * math.log(other.possible)


class CrossLaunchFindings(NamedTuple):
    """Findings about several launches of a report."""

    documents: tuple[CrossLaunchDocument, ...]
    shared: Mapping[int, CrossLaunchDocument]
    """By launch: see `shared_traffic`."""


def cross_launch_findings(launches: Sequence[Launch], ledger: Ledger) -> CrossLaunchFindings:
    from keet.analysis.several_launches.cross_launch import find_cross_launch, shared_traffic

    each_once = dict(sorted({launch.id: launch for launch in launches}.items()))
    documents = find_cross_launch([*each_once.values()], ledger)
    return CrossLaunchFindings(documents, shared_traffic(documents))


class Cause(NamedTuple):
    """A cause that would be a finding, for those who ask after the diagnosis. A candidate has the
    view, which can't have it in turn: reports are freed at once if nothing leads in a circle."""

    id: str
    variant: str
    possible: float
    """Times faster if it is there and fixed."""


def causes(view: LaunchView) -> tuple[Cause, ...]:
    """Those that `diagnose` found, if it was called for this view."""
    known: tuple[Cause, ...] | None = view.results.get(causes)
    return _worth(_causes(view, TimeModel(view))) if known is None else known


def _worth(made: Iterable[RankedCandidate]) -> tuple[Cause, ...]:
    return tuple(
        Cause(cause.candidate.id, cause.candidate.variant, cause.possible)
        for cause in made
        if is_worth(cause) and cause.candidate.basis != "suspected"
    )


def _causes(view: LaunchView, model: TimeModel) -> Iterator[RankedCandidate]:
    for spec in findings().values():
        for candidate in spec.proposed(view, model):
            possible = possible_gain(candidate, model)
            yield RankedCandidate(candidate, possible, expected_gain(candidate, possible))


def ranked_candidates(
    view: LaunchView, model: TimeModel, made: Iterable[RankedCandidate] | None = None
) -> list[RankedCandidate]:
    """The best candidate per finding id, sorted by expected gain. `made`: all of them, if they are
    known."""
    best: dict[str, RankedCandidate] = {}
    for cause in _causes(view, model) if made is None else made:
        best_so_far = best.get(cause.candidate.id)
        # Measured waste of the busiest unit saves no time while another unit is equally busy.
        matters = cause.possible > 1 or _wastes_the_busiest(cause, model)
        if matters and (best_so_far is None or cause.gain > best_so_far.gain):
            best[cause.candidate.id] = cause
    # Of gains that are limited, the one with more idle SMs or lanes comes first; of equal ones, the
    # more usual cause.

    def order(cause: RankedCandidate) -> tuple[float, float, int]:
        effect, spec = cause.candidate.effect, findings()[cause.candidate.id]
        longest = effect.longest_sm if isinstance(effect, Effect) else 1.0
        return -cause.gain, longest, spec.edit.usual

    ranked = sorted(best.values(), key=order)
    ranked = _said_once(_idle_sms_first(_empty_lanes_first(_own_causes_first(ranked))), view)
    return [cause for cause in ranked if not _is_explained(cause, ranked, model)]


def _own_causes_first(ranked: list[RankedCandidate]) -> list[RankedCandidate]:
    """What launches only may share, as equal amounts of bytes hint, comes after causes that the
    launch itself shows."""

    def is_hint(cause: RankedCandidate) -> bool:
        candidate = cause.candidate
        return candidate.variant in BETWEEN_LAUNCHES and candidate.likelihood <= POSSIBLE

    def is_shown(cause: RankedCandidate) -> bool:
        is_sure = cause.candidate.basis != "suspected" and not is_hint(cause)
        return is_sure and cause.gain >= WORTH

    last = max((at for at, cause in enumerate(ranked, 1) if is_shown(cause)), default=0)
    return [*sorted(ranked[:last], key=is_hint), *ranked[last:]]


def _measured_cause(
    ranked: Sequence[RankedCandidate], shows: Callable[[RankedCandidate, Effect], bool]
) -> RankedCandidate | None:
    """The first cause that was measured, is worth a fix and whose effect shows something."""
    for cause in ranked:
        effect = cause.candidate.effect
        is_sure = cause.candidate.basis == "measured" and cause.gain >= WORTH
        if is_sure and isinstance(effect, Effect) and shows(cause, effect):
            return cause
    return None


def _moved(
    ranked: list[RankedCandidate],
    moved: RankedCandidate,
    is_behind: Callable[[RankedCandidate], bool],
) -> list[RankedCandidate]:
    """With this one before the first that has to be behind it."""
    place = next(at for at, cause in enumerate(ranked) if cause is moved or is_behind(cause))
    others = [cause for cause in ranked if cause is not moved]
    return [*others[:place], moved, *others[place:]]


def _empty_lanes_first(ranked: list[RankedCandidate]) -> list[RankedCandidate]:
    """Where blocks leave most lanes of their warps empty, how warps access memory follows from it:
    that comes after it, unless it gains clearly more."""

    def are_empty(cause: RankedCandidate, effect: Effect) -> bool:
        is_lanes = cause.candidate.id == "warp_divergence"
        return is_lanes and effect.units.get("issue", 1.0) <= MAJORITY

    empty = _measured_cause(ranked, are_empty)
    return _moved(ranked, empty, lambda x: _nearly_as_much(empty, x)) if empty else ranked


def _idle_sms_first(ranked: list[RankedCandidate]) -> list[RankedCandidate]:
    """Work for SMs that are idle for most of the time or of a warp, or for more than one thread per
    block, comes before causes that concern only what the few SMs with work do. Units that all SMs
    share may limit the launch also if every SM has work."""
    idle = _measured_cause(ranked, lambda _, effect: effect.longest_sm <= MAJORITY)

    def is_within_sms(cause: RankedCandidate) -> bool:
        effect = cause.candidate.effect
        return isinstance(effect, Effect) and not BEYOND_SMS & {*effect.units, *effect.moved}

    return _moved(ranked, idle, is_within_sms) if idle else ranked


_TOO_LITTLE_WORK = ("small_grid", "launch_bound", "latency_bound")
"""What a launch of a few threads shows: all of them say that it has too little work."""


def _said_once(ranked: list[RankedCandidate], view: LaunchView) -> list[RankedCandidate]:
    """Of a launch of a few threads, only the first cause that says so. Where a kernel is too short,
    its waiting is that of its start, so that what was not measured to be waste saves nothing; where
    contended atomics fill the queue of memory instructions, the waiting is that of the atomics."""
    of_all = [cause for cause in ranked if cause.candidate.id in _TOO_LITTLE_WORK]
    again = of_all[1:] if any(cause.candidate.variant == "tiny" for cause in of_all) else []
    is_start = of_all and of_all[0].candidate.id == "launch_bound" and cold_start.test(view)
    is_atomic = ranked and ranked[0].candidate.id == "atomic_contention"
    if is_start:
        behind = ranked[ranked.index(of_all[0]) + 1 :]
        again += [cause for cause in behind if cause.candidate.basis == "assumed"]
    elif is_atomic and waits_for_queue.test(view):
        again += [cause for cause in of_all if cause.candidate.id == "latency_bound"]
    return [cause for cause in ranked if cause not in again]


WASTEFUL = Parameter(0.8, "kept share of the busiest unit's work: the rest is waste", "judgement")


def _wastes_the_busiest(cause: RankedCandidate, model: TimeModel) -> bool:
    """Whether a notable part of the busiest unit's work is measured waste."""
    effect = cause.candidate.effect
    if cause.candidate.basis != "measured" or not isinstance(effect, Effect):
        return False
    return effect.units.get(model.busiest or "", 1.0) <= WASTEFUL


EXPLAINS = Parameter(0.7, "ln(gain) of a cause over that of a symptom it explains", "judgement")


def _is_explained(
    cause: RankedCandidate, ranked: Sequence[RankedCandidate], model: TimeModel
) -> bool:
    """Whether a more specific cause relieves the same saturated unit, which is measured, or removes
    nearly as much time."""
    is_last_resort = findings()[cause.candidate.id].is_last_resort
    if not is_last_resort or cause.possible <= 1 or model.busiest is None:
        return False

    def explains(other: RankedCandidate) -> bool:
        effect, is_measured = other.candidate.effect, other.candidate.basis == "measured"
        if not isinstance(effect, Effect) or effect.units.get(model.busiest or "", 1.0) >= 1:
            return False
        return (is_measured and other.gain >= WORTH) or _nearly_as_much(other, cause)

    return any(explains(other) for other in ranked if other is not cause)


def _finding(cause: RankedCandidate, model: TimeModel, unknown: float) -> Finding:
    from keet.diagnosis.advice import advice_for

    candidate, view = cause.candidate, model.view
    spec = findings()[candidate.id]
    places = view.led_places(spec.leading_lines, candidate.places())
    here = view.here(spec.memory, places)
    finding = _outline(cause, model, unknown, places, here)
    if candidate.amount is not None:
        amount = candidate.amount()
        sentences = filter(None, (finding.text, amount.floor))
        finding = replace(
            finding,
            text=Sentence(" ").join(sentences),
            evidence=tuple(dict.fromkeys((*finding.evidence, *amount.evidence))),
            brief=amount.brief,
        )
    return replace(finding, advice=advice_for(finding, view))


def _outline(
    cause: RankedCandidate,
    model: TimeModel,
    unknown: float,
    places: tuple[Place, ...] = (),
    here: str = "",
) -> Finding:
    """A finding without advice. A minor one has no places either, since they are not shown.
    `unknown`: the unexplained share of the time while SMs have blocks."""
    candidate, relieves = cause.candidate, None
    amount = forecast(candidate, model, cause.possible, unknown)
    if isinstance(candidate.effect, Effect):
        left = model.loads_after(candidate.effect)
        relieves = {
            unit: 1 - left[unit] / load for unit, load in model.loads.items() if left[unit] < load
        }
    return Finding(
        id=candidate.id,
        cause_certainty=cause_certainty(candidate, model.view, unknown, cause.gain, amount.low),
        text=candidate.text,
        forecast=amount,
        evidence=candidate.evidence,
        locations=places,
        variant=candidate.variant,
        here=here,
        expected=cause.gain,
        relieves=relieves,
    )


MOSTLY_UNKNOWN = Parameter(
    0.2,
    "share of the time that the account leaves open: an assumed cause is only possible",
    "judgement",
)


def cause_certainty(
    candidate: Candidate, view: LaunchView, unknown: float, expected: float, low: float = math.inf
) -> CauseCertainty:
    """A release build may have other causes; without a measured unit, the load is assumed. Below an
    expected gain of 10 %, the cause is more often not there than it is. What may gain nothing
    (`low`: the least gain) is not certain to take time."""
    is_weak = is_debug_build(view) or not view.ceilings.ranked or candidate.likelihood < 1
    if is_weak or candidate.basis == "suspected":
        return "possible"
    if candidate.basis == "measured":
        return "certain" if low > 1 else "likely"
    return "possible" if unknown >= MOSTLY_UNKNOWN or expected < WORTH else "likely"
