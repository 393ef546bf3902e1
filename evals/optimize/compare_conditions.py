"""Compares conditions over the same samples, and says where nothing can be concluded.

Attempts are averaged within a sample and condition first. The compared value is log2 of the
speed-up, so that twice and half as fast have the same weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean

from evals.bootstrap import Interval, paired
from evals.optimize.metrics import ENOUGH, mean_log2
from evals.optimize.summary import (
    Attempts,
    ConditionSummary,
    by_sample,
    conditions_of,
    groups_of,
    in_group,
    level,
    models_of,
    pass_rate,
    powers,
)
from evals.runs import Condition, Record

SURE = 0.95
"""The share that has to pass before a condition counts as saturated."""
FEW = 5
"""Minimum number of samples for an interval."""
MOST_UNSCORED = 0.1
"""Share of unscored attempts above which nothing is compared, because they could change every
comparison."""
TIE = math.log2(1.05)
"""Differences between two conditions on one sample that are within the variation of rounds and
compilers."""


class Difference(Record):
    """Two conditions of one model over the samples that both were scored on."""

    model: str
    group: str
    condition: Condition
    than: Condition
    samples: int
    log2: Interval
    """Mean log2 of the speed-up minus that of `than`; failures count as 1x."""
    passed: float
    """Difference of pass@1."""
    better: int
    worse: int
    where_both_passed: Interval | None
    """The same for passed attempts only, over the samples where both conditions have one. None:
    there is no such sample."""
    samples_passed: int

    @property
    def ratio(self) -> Interval:
        return powers(self.log2)

    @property
    def shown(self) -> bool:
        """Both intervals exclude zero on the same side, over enough samples."""
        there = self.where_both_passed
        return (
            self.apart
            and there is not None
            and self.samples_passed >= FEW
            and _leaves_out_zero(there)
            and there.mean * self.log2.mean > 0
        )

    @property
    def apart(self) -> bool:
        """With failures as 1x; the difference may come from failures only."""
        return self.samples >= FEW and _leaves_out_zero(self.log2)


def _leaves_out_zero(log2: Interval) -> bool:
    return not log2.low <= 0 <= log2.high


class Saturation(Record):
    """Whether a group of samples can show a difference, in words."""

    model: str
    group: str
    saturated: bool
    words: str


def differences(scores: Attempts) -> list[Difference]:
    return [
        difference
        for group in groups_of(scores)
        for model in models_of(scores)
        for than, condition in combinations(conditions_of(scores), 2)
        if (difference := _difference(scores, model, group, condition, than))
    ]


def _difference(
    scores: Attempts, model: str, group: str, condition: Condition, than: Condition
) -> Difference | None:
    """None: no sample was scored under both."""
    own = [score for score in in_group(scores, group) if score.model == model]
    after = by_sample(s for s in own if s.condition == condition)
    before = by_sample(s for s in own if s.condition == than)
    both = [name for name in after if name in before]
    if not both:
        return None
    pairs = [(level(after[name]), level(before[name])) for name in both]
    gaps = [one - other for one, other in pairs]
    of_passed = [
        (mean_log2(one), mean_log2(other))
        for name in both
        if (one := _passed(after[name])) and (other := _passed(before[name]))
    ]
    return Difference(
        model=model,
        group=group,
        condition=condition,
        than=than,
        samples=len(both),
        log2=paired([[pair] for pair in pairs]).difference,
        passed=fmean(pass_rate(after[name], 1) - pass_rate(before[name], 1) for name in both),
        better=sum(gap > TIE for gap in gaps),
        worse=sum(gap < -TIE for gap in gaps),
        where_both_passed=paired([[pair] for pair in of_passed]).difference if of_passed else None,
        samples_passed=len(of_passed),
    )


def _passed(cell: Attempts) -> list[float]:
    return [score.speedup for score in cell if score.speedup is not None]


# --- what cannot be shown


def saturations(
    summaries: Sequence[ConditionSummary], found: Sequence[Difference]
) -> list[Saturation]:
    keys = dict.fromkeys((summary.group, summary.model) for summary in summaries)
    return [_saturation(model, group, summaries, found) for group, model in keys]


def _saturation(
    model: str,
    group: str,
    summaries: Sequence[ConditionSummary],
    found: Sequence[Difference],
) -> Saturation:
    own = [s for s in summaries if (s.group, s.model) == (group, model)]
    own_differences = [d for d in found if (d.group, d.model) == (group, model)]
    plain = next((s for s in own if s.condition == "none"), None)
    if missing := _missing_words(own):
        return Saturation(model=model, group=group, saturated=False, words=missing)
    full = plain is not None and is_saturated(plain)
    words = _saturated_words(plain) if plain and full else _difference_words(own_differences)
    return Saturation(model=model, group=group, saturated=full, words=words)


def _missing_words(own: Sequence[ConditionSummary]) -> str | None:
    unscored = sum(s.unscored for s in own)
    asked = unscored + sum(s.scored for s in own)
    if unscored <= MOST_UNSCORED * asked:
        return None
    return (
        f"{unscored} of {asked} attempts are not scored: no comparison is made before nine tenths "
        "are, and the tables are of a part"
    )


def is_saturated(plain: ConditionSummary) -> bool:
    """Without context, nearly all programs pass and nearly reach the best known speed."""
    share, passed = plain.share_of_best, plain.pass_at_1
    if share is None or passed is None:  # nothing of it was scored
        return False
    return share >= ENOUGH and passed >= SURE


def _saturated_words(plain: ConditionSummary) -> str:
    return (
        f"saturated: with the source alone {plain.pass_at_1:.0%} pass and reach "
        f"{plain.share_of_best:.0%} of the best known; no context can show a difference here"
    )


def _difference_words(found: Sequence[Difference]) -> str:
    if not found:
        return "one condition only: nothing to compare"
    if max(difference.samples for difference in found) < FEW:
        return f"fewer than {FEW} samples: too few to tell conditions apart"
    pairs = f"{len(found)} pair{'s' if len(found) > 1 else ''}"
    if said := [_apart_words(difference) for difference in found if difference.apart]:
        return f"of {pairs}: " + "; ".join(said)
    held = ", ".join(_held(found))
    return f"no difference is shown: of {pairs} every interval holds 1x ({held})"


def _apart_words(difference: Difference) -> str:
    word = "faster" if difference.log2.mean > 0 else "slower"
    one, pair = difference.condition, f"{word} than {difference.than}"
    if difference.shown:
        return f"{one} is {pair}: {_range(difference.log2)}"
    whole = f"{_range(difference.log2)} with failures as 1x"
    there, count = difference.where_both_passed, difference.samples_passed
    if there is None or count < FEW:
        return f"{one} is {pair}: {whole}, and where both passed too few samples ({count}) to tell"
    over = f"{_range(there)} over the {count} samples where both passed"
    return f"{one} is shown {pair} only because of failures: {whole}, {over}"


def _range(log2: Interval) -> str:
    ratio = powers(log2)
    return f"{ratio.mean:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"


def _held(found: Sequence[Difference]) -> Iterator[str]:
    for difference in found:
        ratio = difference.ratio
        pair = f"{difference.condition} against {difference.than}"
        yield f"{pair} {ratio.low:.2f} to {ratio.high:.2f}"
