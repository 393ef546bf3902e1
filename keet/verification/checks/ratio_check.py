"""Checks multiples, changes and differences of two launches or two metrics: `5x slower than`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from keet.profile import Launch
from keet.units import Quantity
from keet.verification.number_match import agrees, is_near, same_kind
from keet.verification.text.claims import Claim
from keet.verification.text.launch_names import LaunchLookup, is_object
from keet.verification.text.metric_names_in_context import terms_in
from keet.verification.values.report_values import ReportValue, ReportValues

_UP = r"slower|longer|more|higher|larger|greater|bigger|above"
_DOWN = r"faster|shorter|less|fewer|lower|smaller|quicker|below"
_THAN = re.compile(rf"\s*(?:times\s+)?(?:as\s+\w+\s+as|(?:{_UP}|{_DOWN})\b)", re.IGNORECASE)
_FEWER = re.compile(
    rf"\s*(?:times\s+)?(?:{_DOWN}|as\s+(?:fast|quick)|the\s+speed)\b", re.IGNORECASE
)
_SPEED = re.compile(r"\b(?:slower|faster|quicker|speed-?up|longer|shorter)\b", re.IGNORECASE)
_OF_WHAT = re.compile(r"\s*(?:times\s+)?the\s+(?:speed|time|duration)\b", re.IGNORECASE)
_NOT_THESE = re.compile(
    r"\b(?:would|could|might|may|expect\w*|estimat\w*|forecast|potential|ideal\w*|than necessary"
    r"|after|before|previous\w*|baseline|original|old)\b",
    re.IGNORECASE,
)


_MOST_PAIRS = 160_000
"""Pairs of launches, at most, that are tried for a number. With more, some pair has nearly every
ratio, so the number is not found."""


class RatioCheck(NamedTuple):
    verdict: Literal["confirmed", "contradicted", "not_found"]
    report_value: ReportValue | None
    reason: str


class _Pair(NamedTuple):
    first: ReportValue
    second: ReportValue
    firm: bool
    """The sentence names both launches."""


def check_ratio(claim: Claim, facts: ReportValues, subjects: Sequence[Launch]) -> RatioCheck | None:
    """The verdict on a multiple or a difference; `None` for other numbers.

    `subjects`: launches that the text is about, if the sentence names none.
    """
    number, text = claim.number, claim.sentence.text
    behind = text[number.end : number.end + 24]
    is_change = bool(_THAN.match(behind)) and number.bound is None
    if number.unit != "x" and not is_change:
        return None
    if _OF_WHAT.match(behind) and not facts.launches.named_in(text):
        return RatioCheck("not_found", None, "the text does not say for which launch")
    down = bool(_FEWER.match(behind))
    pairs = list(_pairs(text, facts, subjects, directed=is_change))
    for pair in pairs:
        if (found := _result(claim, pair, down=down)) is not None:
            return RatioCheck("confirmed", found, str(found))
    firm = next((pair for pair in pairs if pair.firm), None)
    right = next(_results(claim, firm, down=down), None) if firm else None
    if right is None or _NOT_THESE.search(text):
        return RatioCheck(
            "not_found", None, "no two numbers of the report have this ratio or difference"
        )
    return RatioCheck("contradicted", right, str(right))


def _pairs(
    text: str, facts: ReportValues, subjects: Sequence[Launch], *, directed: bool
) -> Iterator[_Pair]:
    """Two launches under one metric, then two metrics of one launch."""
    terms = [term for term in terms_in(text) if not term.entry.weak]
    ids = [report_value for term in terms for report_value in term.metric_ids]
    if _SPEED.search(text) or not ids:
        ids = ["duration", *ids]
    ones, others = _sides(text, facts.launches, subjects)
    if len(ones) * len(others) > _MOST_PAIRS:
        others = []
    firm = len(ones) == len(others) == 1 and bool(facts.launches.named_in(text))
    for metric_id in dict.fromkeys(ids):
        for one in ones:
            for two in others:
                yield from _same_metric(facts, metric_id, one, two, firm=firm)
                if not directed:
                    yield from _same_metric(facts, metric_id, two, one, firm=False)
    for launch in ones:
        read = facts.read(ids, launch)
        yield from (_Pair(a, b, False) for a in read for b in read if a.label != b.label)


def _sides(
    text: str, launches: LaunchLookup, subjects: Sequence[Launch]
) -> tuple[list[Launch], list[Launch]]:
    """The two compared launches: the one after `than` is the second."""
    ones: list[Launch] = []
    others: list[Launch] = []
    for name in launches.named_in(text):
        (others if is_object(text, name) else ones).extend(name.launches)
    if len(set(ones)) == 2 and not others:
        ones, others = ones[:1], ones[-1:]
    ones = ones or list(subjects)
    ones = list(dict.fromkeys(ones))
    known = set(ones)
    return ones, list(dict.fromkeys(others)) or [each for each in launches if each not in known]


def _same_metric(
    facts: ReportValues, metric_id: str, one: Launch, two: Launch, *, firm: bool
) -> Iterator[_Pair]:
    if one.id == two.id:
        return
    for first, second in zip(facts.read([metric_id], one), facts.read([metric_id], two)):
        yield _Pair(first, second, firm)


def _result(claim: Claim, pair: _Pair, *, down: bool) -> ReportValue | None:
    number = claim.number
    results = _results(claim, pair, down=down)
    fitting = (
        r
        for r in results
        if agrees(number, r.quantity, rounding=r.rounding) and is_near(number, r.quantity)
    )
    return next(fitting, None)


def _results(claim: Claim, pair: _Pair, *, down: bool) -> Iterator[ReportValue]:
    """Ratio, relative change or difference of the two; the first is the larger one, or with `down`
    the smaller one."""
    first, second = (pair.second, pair.first) if down else (pair.first, pair.second)
    a, b = first.quantity.value, second.quantity.value
    if not same_kind(first.quantity.unit, second.quantity.unit):
        return
    what = f"{_name(first)} over {_name(second)}"
    off = first.rounding, second.rounding
    relative = off[0] / abs(a) + off[1] / abs(b) if a and b else 0.0
    if claim.number.unit == "x" and b:
        yield ReportValue(what, Quantity(a / b, "x"), None, None, None, relative * abs(a / b))
    elif claim.number.unit == "%" and first.quantity.unit != "%" and b:
        change = (a - b) / a if down else (a - b) / b
        slack = 100 * relative * max(abs(a / b), 1.0)
        yield ReportValue(
            f"{what}, in change", Quantity(100 * change, "%"), None, None, None, slack
        )
    elif claim.number.unit != "x":
        unit = "point" if claim.number.unit == "point" else first.quantity.unit
        less = f"{_name(first)} less {_name(second)}"
        yield ReportValue(less, Quantity(a - b, unit), None, None, None, sum(off))


def _name(report_value: ReportValue) -> str:
    return f"{report_value.label} of #{report_value.launch}"
