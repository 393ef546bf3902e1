"""The tool `diff_profiles`: what changed between two reports, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keet.catalog import MetricSpec, metrics
from keet.comparison.causes.attribution import Attribution
from keet.comparison.compare import Difference, PairDifference
from keet.comparison.sentences import basis_text, not_profiled_text, span_text
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.units import Quantity
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput, one_page, quote, shorten

_SIZE = 6
_REASONS, _KERNELS, _ATTRIBUTIONS = 3, 6, 6
_MOST = 14
_SAID = ("account.", "left.", "l2_slice_skew")
"""Prefixes of numbers that a verdict may cite besides shares of peak."""
_MOVED = math.log(1.05)
"""Two runs of one program differ by up to 5 %."""


class _Pair(NamedTuple):
    before: LaunchExplanation
    after: LaunchExplanation


def diff_profiles(  # noqa: PLR0913, PLR0917 - two launches of two reports
    tool_input: ToolInput,
    before: int = 0,
    after: int = 1,
    before_launch: int | None = None,
    after_launch: int | None = None,
    page: int = 1,
) -> Answer:
    """Compare report `before` with `after`, or a launch of each: time, and what accounts for it."""
    if before == after and (before_launch is None or before_launch == after_launch):
        raise Abstention("one report is compared with another, or two launches of one")
    difference = tool_input.difference(before, after, (before_launch, after_launch))
    pair = max(difference.pairs, key=_weight)
    say = AnswerText()
    texts = _pair_lines(pair, say, show_source=tool_input.show_source)
    summary = [*_reasons(difference), *_kernels(difference, say), *texts]
    launches = _typical(pair)
    if launches is None:
        return say.answer(*summary)
    moved = sorted(_moved(launches), key=lambda change: -change[0])[:_MOST]
    shown, more = one_page(moved, page, _SIZE) if moved or page > 1 else ([], "")
    return say.answer(*summary, *(_row(launches, spec, say) for _, spec in shown), more)


def _weight(pair: PairDifference) -> tuple[bool, float]:
    """The pair that is described: on both sides, with the largest change."""
    timing = pair.timing
    longest = max(timing.before or 0.0, timing.after or 0.0)
    return all(pair.weighted), abs(timing.saved) + longest / 1e6


def _reasons(difference: Difference) -> Iterator[str]:
    """What makes the two hard to compare."""
    severest = ("forbids", "weakens", "note")
    ranked = sorted(difference.all_caveats, key=lambda reason: severest.index(reason.severity))
    for reason in ranked[:_REASONS]:
        yield f"{reason.severity}: {quote(reason.text, 160)}"


def _kernels(difference: Difference, say: AnswerText) -> Iterator[str]:
    """All kernels, if there are several or the times need an explanation."""
    evidence = _between(difference.evidence.values())
    for about in filter(None, (basis_text(difference), span_text(difference))):
        yield say.with_names(about, evidence)
    if difference.rows == 1 and not difference.no_total:
        return
    yield f"total {say.with_names(difference.verdict.headline, evidence)}"
    if rest := not_profiled_text(difference):
        yield f"- {say.with_names(rest, evidence)}"
    if difference.rows == 1:
        return
    for pair in sorted(difference.pairs, key=_weight, reverse=True)[:_KERNELS]:
        words = say.with_names(pair.verdict.headline, evidence)
        yield f"- {quote(pair.kernel, 80)} {words}"


def _between(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Computed from both sides, not of a launch of one."""
    return [piece for piece in evidence if "-" in piece.id.partition("#")[2]]


def _pair_lines(pair: PairDifference, say: AnswerText, *, show_source: bool) -> Iterator[str]:
    words = say.with_names(pair.verdict.headline, _between(pair.cited))
    yield f"{quote(pair.kernel, 80)} {words}"
    for each in pair.attribution[:_ATTRIBUTIONS]:
        yield _attribution(each, say, show_source=show_source)
    for side, launches in zip(("before", "after"), pair.weighted, strict=True):
        for weighed in launches[:2]:
            yield f"{side}: {_verdict(weighed.explanation, say)}"
    yield _findings(pair)


def _verdict(each: LaunchExplanation, say: AnswerText) -> str:
    """It cites units, parts of the account, and what is left to gain."""
    computed = (piece for piece in each.evidence if piece.metric.startswith(_SAID))
    numbers = (*(ceiling.reached for ceiling in each.ceilings), *computed)
    return say.with_names(shorten(each.verdict.headline, 160), numbers)


def _attribution(each: Attribution, say: AnswerText, *, show_source: bool) -> str:
    share = f"{say(each.percent)} of the difference: " if each.percent else ""
    code = f" {quote(each.code, 80)}" if each.code and show_source else ""
    numbers = say.with_names(each.what.removeprefix(each.where), each.numbers)
    place = f"{quote(each.where)} " if each.where else ""
    return f"- {each.kind}: {share}{place}{numbers.strip()}{code}"


def _findings(pair: PairDifference) -> str:
    groups = {"fixed": pair.fixed, "new": pair.new, "remaining": pair.remaining}
    groups["unknown"] = pair.unknown
    texts = [f"{word} {', '.join(ids)}" for word, ids in groups.items() if ids]
    return f"findings: {'; '.join(texts) or 'none on either side'}"


def _typical(pair: PairDifference) -> _Pair | None:
    """The launches whose metrics are compared, where there is one a side."""
    before, after = pair.weighted
    alone = len(before) == len(after) == 1
    return _Pair(before[0].explanation, after[0].explanation) if alone else None


def _moved(pair: _Pair) -> Iterator[tuple[float, MetricSpec]]:
    """Key metrics of both, with how far each moved."""
    for spec in metrics().values():
        before, after = pair.before.launch.get(spec.id), pair.after.launch.get(spec.id)
        if not spec.key or before is None or after is None or spec.id == "duration":
            continue
        distance = _distance(before, after)
        if distance >= _MOVED:
            yield distance, spec


def _row(pair: _Pair, spec: MetricSpec, say: AnswerText) -> str:
    before, after = pair.before.view.get(spec.id), pair.after.view.get(spec.id)
    return f"{spec.label} {say(before)} -> {say(after)}" if before and after else ""


def _distance(before: Quantity, after: Quantity) -> float:
    """In factors; of percentages, a tenth of a point is as good as nothing."""
    floor = 0.1 if before.unit == "%" else 1e-9
    low, high = sorted((abs(before.value), abs(after.value)))
    if not math.isfinite(low + high) or high <= floor:
        return 0.0
    return math.log(high / max(low, floor))
