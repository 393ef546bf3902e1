"""Numbers that depend on others: multiples, changes, shares, and the cause of a wrong number.

Multiples and differences are of two launches or two metrics: `5x slower than`. A contradicted
number is explained by the right value, and by where the wrong one may come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.catalog import metrics
from keet.documents.verify import RelationDocument
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.profile.launch_sequences import MAX_DECODED
from keet.units import Quantity
from keet.verification.claims import Claim
from keet.verification.metric_names import terms_in
from keet.verification.numbers import TextNumber
from keet.verification.report_values import ReportValue, ReportValues
from keet.verification.subjects import LaunchLookup, TextPlace, is_object
from keet.verification.verdicts import (
    CheckedNumber,
    CheckedSentence,
    agrees,
    amounts,
    is_near,
    same_kind,
)

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


def with_shares(checks: list[CheckedNumber], text: str) -> list[CheckedNumber]:
    """Confirms shares of two other numbers: `8 of 32 MB (25 %)`, `94 % of the total`."""
    known = [c.report_value for c in checks if c.verdict == "confirmed" and c.report_value]
    return [_as_share(check, known, text) for check in checks]


def _as_share(check: CheckedNumber, known: Sequence[ReportValue], text: str) -> CheckedNumber:
    number = check.number
    if check.verdict != "not_found" or number.unit != "%":
        return check
    behind = re.match(r"\s*(?:of\b|\))", text[number.end :])
    apposed = re.search(r"\bof\b.*,\s*(?:or\s+|i\.e\.\s+)?\Z", text[: number.start])
    if not (behind or apposed):
        return check
    for part in known:
        for whole in known:
            share = _share(part, whole)
            if share and agrees(number, share.quantity):
                return CheckedNumber(number, "confirmed", share, str(share))
    return check


def _share(part: ReportValue, whole: ReportValue) -> ReportValue | None:
    if part.label == whole.label or not same_kind(part.quantity.unit, whole.quantity.unit):
        return None
    if not whole.quantity.value or part.quantity.unit == "%":
        return None
    value = Quantity(100 * part.quantity.value / whole.quantity.value, "%")
    return ReportValue(f"{part.label} over {whole.label}", value, None, part.launch)


def with_factors(
    checks: Sequence[CheckedNumber], relations: Sequence[RelationDocument]
) -> tuple[list[CheckedNumber], list[RelationDocument]]:
    """A comparison and its factor (`36 times as much as`) get the same verdict."""
    related = [_of_number(relation, checks) for relation in relations]
    return [_of_relation(check, related) for check in checks], related


def _of_relation(check: CheckedNumber, relations: Sequence[RelationDocument]) -> CheckedNumber:
    """`36 times as much as`: the 36 gets the verdict of the comparison."""
    for each in relations:
        inside = each.start <= check.number.start < each.end
        if inside and each.verdict != "not_found":
            return CheckedNumber(check.number, each.verdict, None, each.reason)
    return check


def _of_number(relation: RelationDocument, checks: Sequence[CheckedNumber]) -> RelationDocument:
    """`looks up 1.6 times the sectors of`: a confirmed factor confirms the comparison."""
    for check in checks:
        inside = relation.start <= check.number.start < relation.end
        known = check.verdict == "confirmed" and relation.verdict == "not_found"
        if inside and known and check.number.unit == "x":
            return replace(relation, verdict="confirmed", reason=check.reason)
    return relation


_COMPARES = re.compile(r"\d\S{0,30}(?: \S{1,30})? (?:→|->)|\bbefore\b.*\bafter\b", re.DOTALL)
_OTHER_SIDE = "one side of a comparison: name both reports (--report BEFORE --report AFTER)"


def without_unknown_sides(checked: CheckedSentence) -> CheckedSentence:
    """`16 → 26`: with one report, the other side of the change is not found, not contradicted."""
    if not _COMPARES.search(checked.sentence.text):
        return checked
    relations = tuple(
        replace(each, verdict="not_found", reason=_OTHER_SIDE)
        if each.verdict == "contradicted"
        else each
        for each in checked.relations
    )
    checks = tuple(map(_unknown_side, checked.checks))
    return checked._replace(checks=checks, relations=relations)


def _unknown_side(check: CheckedNumber) -> CheckedNumber:
    if check.verdict != "contradicted":
        return check
    return CheckedNumber(check.number, "not_found", None, _OTHER_SIDE)


_NEAR = 0.1
"""Relative error up to which a number counts as rounded too far."""


def explain_mistake(
    claim: Claim,
    claims: Sequence[Claim],
    report_values: Sequence[ReportValue],
    facts: ReportValues,
    launches: Sequence[Launch],
) -> str:
    """The right value, and where the wrong one may come from."""
    right = Sentence("; ").join(
        dict.fromkeys(map(str, report_values[: 1 if claim.term and claim.term.entry.part else 3]))
    )
    number = claim.number
    for guess in (
        _other_launch(claim, report_values, facts, launches),
        _swapped(claim, claims, report_values, facts, launches),
        _power(number, report_values[0]),
        _other_line(claim, report_values, facts, launches),
        _other_metric(number, report_values[0], facts, launches),
        _rounded(number, report_values[0]),
    ):
        if guess:
            return Sentence("; ").join([right, guess])
    return right


def _other_launch(
    claim: Claim,
    report_values: Sequence[ReportValue],
    facts: ReportValues,
    launches: Sequence[Launch],
) -> str | None:
    tried = {report_value.launch for report_value in report_values}
    for launch in launches if len(launches) <= MAX_DECODED else ():
        if claim.term is None or claim.place or launch.id in tried:
            continue
        for other in facts.read(
            claim.term.metric_ids, launch, complement=claim.term.entry.complement
        ):
            if agrees(claim.number, other.quantity):
                return f"{claim.number.text} is the value of launch {launch.id}"
    return None


def _swapped(
    claim: Claim,
    claims: Sequence[Claim],
    report_values: Sequence[ReportValue],
    facts: ReportValues,
    launches: Sequence[Launch],
) -> str | None:
    """The number belongs to another metric of the same sentence."""
    own = {report_value.label for report_value in report_values}
    mine = [launch for launch in launches if launch.id == report_values[0].launch]
    for other in claims:
        if other.term is None or other.term == claim.term:
            continue
        for launch in mine:
            for found in facts.read(other.term.metric_ids, launch):
                if found.label not in own and agrees(claim.number, found.quantity):
                    return f"{claim.number.text} is {found.label}"
    return None


def _power(number: TextNumber, report_value: ReportValue) -> str | None:
    """Wrong by a unit prefix, or a fraction written as a percentage."""
    for value, half in amounts(number, report_value.quantity.unit, lenient=True):
        for factor in (1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9, 100.0, 0.01):
            if abs(value * factor - report_value.quantity.value) <= half * factor and value:
                size = round(max(factor, 1 / factor))
                return Sentence("wrong by a factor of {n}", n=constant(size, "", "factor"))
    return None


def _other_line(
    claim: Claim,
    report_values: Sequence[ReportValue],
    facts: ReportValues,
    launches: Sequence[Launch],
) -> str | None:
    if claim.place is None or report_values[0].line is None:
        return None
    ids = claim.term.metric_ids if claim.term else ()
    for launch in launches:
        hotspots = facts.hotspots(launch) if launch.id == report_values[0].launch else None
        for spot in hotspots.rows if hotspots else ():
            if spot.location is None:
                continue
            where = TextPlace(0, 0, spot.location.file, spot.location.line)
            for found in facts.read_line(ids, launch, where):
                if found.label == report_values[0].label and agrees(claim.number, found.quantity):
                    return f"{claim.number.text} is the value of {found.line}"
    return None


def _other_metric(
    number: TextNumber, report_value: ReportValue, facts: ReportValues, launches: Sequence[Launch]
) -> str | None:
    mine = [launch for launch in launches if launch.id == report_value.launch]
    found = same_value(number, facts, mine, report_value.label)
    return f"{number.text} is {found.label}" if found else None


def _rounded(number: TextNumber, report_value: ReportValue) -> str | None:
    for value, _ in amounts(number, report_value.quantity.unit, lenient=True):
        if report_value.quantity.value and abs(value / report_value.quantity.value - 1) <= _NEAR:
            return "rounded too far"
    return None


def same_value(
    number: TextNumber, facts: ReportValues, launches: Sequence[Launch], label: str = ""
) -> ReportValue | None:
    """A key metric of the catalog with this value and unit; None for small counts."""
    small = number.value.is_integer() and number.value < 100
    # With many launches, some metric of some launch has nearly every value.
    if not number.unit or number.bound or small or len(launches) > MAX_DECODED:
        return None
    return next(_alike(number, facts, launches, label), None)


def _alike(
    number: TextNumber, facts: ReportValues, launches: Sequence[Launch], label: str
) -> Iterator[ReportValue]:
    keys = tuple(spec.id for spec in metrics().values() if spec.key)
    for launch in launches:
        for report_value in facts.read(keys, launch):
            if report_value.label != label and agrees(number, report_value.quantity):
                yield report_value
