"""Numbers that belong together: shares of two others, and the two sides of a change."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.units import Quantity
from keet.verification.checked import Check, CheckedSentence, Verdict
from keet.verification.matching import agrees, same_kind
from keet.verification.readings import Reading


def shares(checks: list[Check], text: str) -> list[Check]:
    """`8 of 32 MB (25 %)`, `94 % of the total`: the share that two numbers beside it give."""
    known = [c.reading for c in checks if c.verdict is Verdict.CONFIRMED and c.reading]
    return [_as_share(check, known, text) for check in checks]


def _as_share(check: Check, known: Sequence[Reading], text: str) -> Check:
    number = check.number
    behind = re.match(r"\s*(?:of\b|\))", text[number.end :])
    if check.verdict is not Verdict.NOT_FOUND or number.unit != "%" or not behind:
        return check
    for part in known:
        for whole in known:
            share = _share(part, whole)
            if share and agrees(number, share.quantity):
                return Check(number, Verdict.CONFIRMED, share, str(share))
    return check


def _share(part: Reading, whole: Reading) -> Reading | None:
    if part.label == whole.label or not same_kind(part.quantity.unit, whole.quantity.unit):
        return None
    if not whole.quantity.value or part.quantity.unit == "%":
        return None
    value = Quantity(100 * part.quantity.value / whole.quantity.value, "%")
    return Reading(f"{part.label} over {whole.label}", value, None, part.launch)


_COMPARES = re.compile(r"\d\S*(?: \S+)? (?:→|->)|\bbefore\b.*\bafter\b", re.DOTALL)
_OTHER_SIDE = "one side of a comparison: name both reports (--report BEFORE --report AFTER)"


def unknown_sides(checked: CheckedSentence) -> CheckedSentence:
    """`16 → 26`: one report has one side of a change, and the other is not wrong for that."""
    if not _COMPARES.search(checked.sentence.text):
        return checked
    return checked._replace(checks=tuple(map(_unknown_side, checked.checks)))


def _unknown_side(check: Check) -> Check:
    if check.verdict is not Verdict.CONTRADICTED:
        return check
    return Check(check.number, Verdict.NOT_FOUND, None, _OTHER_SIDE)
