"""Adjusts verdicts of numbers that depend on others: shares, factors, both sides of a change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from keet.documents.verify import RelationDocument
from keet.units import Quantity
from keet.verification.number_match import agrees, same_kind
from keet.verification.values.report_values import ReportValue
from keet.verification.verdicts import CheckedNumber, CheckedSentence


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
