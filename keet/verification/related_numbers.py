"""Numbers that depend on others: multiples, changes, shares, and the cause of a wrong number.

Multiples and differences are of two launches or two metrics: `5x slower than`. A contradicted
number is explained by the right value, and by where the wrong one may come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

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
from keet.verification.subjects import TextPlace, is_object
from keet.verification.verdicts import (
    CheckedNumber,
    CheckedSentence,
    agrees,
    amounts,
    confirmed,
    is_near,
    not_found,
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

_Pair = tuple[ReportValue, ReportValue]


def check_ratio(
    claim: Claim, facts: ReportValues, subjects: Sequence[Launch]
) -> CheckedNumber | None:
    """The verdict on a multiple or a difference; `None` for other numbers.

    `subjects`: launches that the text is about, if the sentence names none.
    """
    number, text = claim.number, claim.sentence.text
    behind = text[number.end : number.end + 24]
    is_change = bool(_THAN.match(behind)) and number.bound is None
    if number.unit != "x" and not is_change:
        return None
    named = facts.launches.named_in(text)
    if _OF_WHAT.match(behind) and not named:
        return not_found(number, "the text does not say for which launch")
    down = bool(_FEWER.match(behind))
    ones, others = _sides(text, facts, subjects)
    pairs = list(_pairs(text, facts, ones, others, directed=is_change))
    for pair in pairs:
        for result in _results(number, pair, down=down):
            exact = agrees(number, result.quantity, rounding=result.rounding)
            if exact and is_near(number, result.quantity):
                return confirmed(number, result)
    right = None
    is_clear = named and len(ones) == len(others) == 1 and not _NOT_THESE.search(text)
    if is_clear and pairs and pairs[0][0].launch != pairs[0][1].launch:
        right = next(_results(number, pairs[0], down=down), None)
    if right is None:
        return not_found(number, "no two numbers of the report have this ratio or difference")
    return CheckedNumber(number, "contradicted", right, str(right))


def _sides(
    text: str, facts: ReportValues, subjects: Sequence[Launch]
) -> tuple[list[Launch], list[Launch]]:
    """The two compared launches: the one after `than` is the second."""
    ones: list[Launch] = []
    others: list[Launch] = []
    for name in facts.launches.named_in(text):
        (others if is_object(text, name) else ones).extend(name.launches)
    if len(set(ones)) == 2 and not others:
        ones, others = ones[:1], ones[-1:]
    ones = list(dict.fromkeys(ones or subjects))
    known = set(ones)
    others = list(dict.fromkeys(others)) or [x for x in facts.launches if x not in known]
    return ones, others if len(ones) * len(others) <= _MOST_PAIRS else []


def _pairs(
    text: str,
    facts: ReportValues,
    ones: Sequence[Launch],
    others: Sequence[Launch],
    *,
    directed: bool,
) -> Iterator[_Pair]:
    """Two launches under one metric, then two metrics of one launch."""
    ids = [id_ for term in terms_in(text) if not term.entry.weak for id_ in term.metric_ids]
    if _SPEED.search(text) or not ids:
        ids = ["duration", *ids]
    for metric_id in dict.fromkeys(ids):
        for one, two in product(ones, others):
            if one.id != two.id:
                sides = [facts.read([metric_id], launch) for launch in (one, two)]
                yield from zip(*sides)
                if not directed:
                    yield from zip(*sides[::-1])
    for launch in ones:
        values = facts.read(ids, launch)
        yield from ((a, b) for a, b in product(values, values) if a.label != b.label)


def _results(number: TextNumber, pair: _Pair, *, down: bool) -> Iterator[ReportValue]:
    """Ratio, relative change or difference of the two; the first is the larger one, or with `down`
    the smaller one."""
    first, second = pair[::-1] if down else pair
    a, b = first.quantity.value, second.quantity.value
    if not same_kind(first.quantity.unit, second.quantity.unit):
        return
    one, other = (f"{value.label} of #{value.launch}" for value in (first, second))
    relative = first.rounding / abs(a) + second.rounding / abs(b) if a and b else 0.0
    if number.unit == "x" and b:
        yield _computed(f"{one} over {other}", a / b, "x", relative * abs(a / b))
    elif number.unit == "%" and first.quantity.unit != "%" and b and (a or not down):
        change = (a - b) / a if down else (a - b) / b
        slack = 100 * relative * max(abs(a / b), 1.0)
        yield _computed(f"{one} over {other}, in change", 100 * change, "%", slack)
    elif number.unit != "x":
        unit = "point" if number.unit == "point" else first.quantity.unit
        yield _computed(f"{one} less {other}", a - b, unit, first.rounding + second.rounding)


def _computed(label: str, value: float, unit: str, rounding: float) -> ReportValue:
    return ReportValue(label, Quantity(value, unit), None, None, None, rounding)


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
    for part, whole in product(known, known) if behind or apposed else ():
        share = _share(part, whole)
        if share and agrees(number, share.quantity):
            return confirmed(number, share)
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
    for relation in relations:
        inside = relation.start <= check.number.start < relation.end
        if inside and relation.verdict != "not_found":
            return CheckedNumber(check.number, relation.verdict, None, relation.reason)
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
    return checked.unchecked(_OTHER_SIDE, only=("contradicted",))


_ROUNDED_TOO_FAR = 0.1
"""Relative error up to which a number counts as rounded too far."""


def explain_mistake(
    claim: Claim, claims: Sequence[Claim], values: Sequence[ReportValue], facts: ReportValues
) -> str:
    """The right value, and where the wrong one may come from. `values`: the right ones, the
    likeliest first."""
    several = 1 if claim.term and claim.term.entry.part else 3
    right = Sentence("; ").join(dict.fromkeys(map(str, values[:several])))
    own = [launch for launch in facts.launches if launch.id == values[0].launch]
    guesses = chain(
        _other_launches(claim, values, facts),
        _other_names(claim, claims, values, own, facts),
        _wrong_powers(claim.number, values[0]),
        _other_lines(claim, values[0], own, facts),
        _other_metrics(claim.number, values[0], own, facts),
        _too_rounded(claim.number, values[0]),
    )
    guess = next(guesses, None)
    return Sentence("; ").join([right, guess]) if guess else right


def _other_launches(
    claim: Claim, values: Sequence[ReportValue], facts: ReportValues
) -> Iterator[str]:
    term, tried = claim.term, {value.launch for value in values}
    if term is None or claim.place or len(facts.launches) > MAX_DECODED:
        return
    for launch in facts.launches:
        if launch.id not in tried:
            others = facts.read(term.metric_ids, launch, complement=term.entry.complement)
            if any(agrees(claim.number, value.quantity) for value in others):
                yield f"{claim.number.text} is the value of launch {launch.id}"


def _other_names(
    claim: Claim,
    claims: Sequence[Claim],
    values: Sequence[ReportValue],
    own: Sequence[Launch],
    facts: ReportValues,
) -> Iterator[str]:
    """The number belongs to another metric of the same sentence."""
    labels = {value.label for value in values}
    terms = [other.term for other in claims if other.term and other.term != claim.term]
    for value in (value for term in terms for value in facts.read_each(term.metric_ids, own)):
        if value.label not in labels and agrees(claim.number, value.quantity):
            yield f"{claim.number.text} is {value.label}"


def _other_lines(
    claim: Claim, right: ReportValue, own: Sequence[Launch], facts: ReportValues
) -> Iterator[str]:
    ids = claim.term.metric_ids if claim.term else ()
    for launch in own if claim.place and right.line is not None else ():
        hotspots = facts.hotspots(launch)
        locations = [spot.location for spot in hotspots.rows] if hotspots else []
        for file, line in filter(None, locations):
            for value in facts.read_line(ids, launch, TextPlace(0, 0, file, line)):
                if value.label == right.label and agrees(claim.number, value.quantity):
                    yield f"{claim.number.text} is the value of {value.line}"


def _other_metrics(
    number: TextNumber, right: ReportValue, own: Sequence[Launch], facts: ReportValues
) -> Iterator[str]:
    if alike := same_value(number, facts, own, right.label):
        yield f"{number.text} is {alike.label}"


def _too_rounded(number: TextNumber, right: ReportValue) -> Iterator[str]:
    for value, _ in amounts(number, right.quantity.unit, lenient=True):
        if right.quantity.value and abs(value / right.quantity.value - 1) <= _ROUNDED_TOO_FAR:
            yield "rounded too far"


def _wrong_powers(number: TextNumber, right: ReportValue) -> Iterator[str]:
    """Wrong by a unit prefix, or a fraction written as a percentage."""
    for value, half in amounts(number, right.quantity.unit, lenient=True):
        for factor in (1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9, 100.0, 0.01):
            if abs(value * factor - right.quantity.value) <= half * factor and value:
                size = round(max(factor, 1 / factor))
                yield Sentence("wrong by a factor of {n}", n=constant(size, "", "factor"))


def same_value(
    number: TextNumber, facts: ReportValues, launches: Sequence[Launch], label: str = ""
) -> ReportValue | None:
    """A key metric of the catalog with this value and unit, under another label; None for small
    counts."""
    small = number.value.is_integer() and number.value < 100
    # With many launches, some metric of some launch has nearly every value.
    if not number.unit or number.bound or small or len(launches) > MAX_DECODED:
        return None
    keys = [spec.id for spec in metrics().values() if spec.key]
    alike = (v for v in facts.read_each(keys, launches) if agrees(number, v.quantity))
    return next((value for value in alike if value.label != label), None)
