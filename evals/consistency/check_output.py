"""Checks the numbers of printed texts with `keet verify`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, get_args

from evals.consistency.command_output import Printed
from keet.documents.verify import ClaimVerdict
from keet.verification.verdicts import CheckedNumber
from keet.verification.verify import verify_text


class Doubt(NamedTuple):
    """A number that was not confirmed."""

    form: str
    subject: str
    number: str
    reason: str
    sentence: str


class Checked(NamedTuple):
    """The numbers of one text, and of the same text with every number changed."""

    form: str
    subject: str
    numbers: int
    confirmed: int
    by_metrics: int
    """Confirmed by the report's metrics alone, without what keet computes."""
    overruled: int
    """Confirmed, although the metrics alone would refute it: the words around it also name a
    metric."""
    refuted: tuple[Doubt, ...]
    not_found: tuple[Doubt, ...]
    changed: int
    changed_confirmed: int
    """Should be zero: a check that confirms any number is useless."""
    changed_refuted: int


def check(printed: Printed) -> Checked:
    found = verify_text(printed.text, printed.launches, known=printed.known, both_sides=True)
    doubts: dict[ClaimVerdict, list[Doubt]] = {verdict: [] for verdict in get_args(ClaimVerdict)}
    checks: list[CheckedNumber] = []
    for checked in found:
        said = " ".join(checked.sentence.text.split())
        for each in checked.checks:
            checks.append(each)
            doubts[each.verdict].append(
                Doubt(printed.form, printed.subject, each.number.text, each.reason, said)
            )
        for relation in checked.relations:
            if relation.verdict == "contradicted":
                doubts[relation.verdict].append(
                    Doubt(printed.form, printed.subject, relation.text, relation.reason, said)
                )
    after = _changed_verdicts(printed, checks)
    return Checked(
        printed.form,
        printed.subject,
        len(checks),
        len(doubts["confirmed"]),
        *_by_metrics(printed, checks),
        tuple(doubts["contradicted"]),
        tuple(doubts["not_found"]),
        len(after),
        after.count("confirmed"),
        after.count("contradicted"),
    )


def _by_metrics(printed: Printed, checks: Iterable[CheckedNumber]) -> tuple[int, int]:
    """How many are confirmed without keet's computations; how many are refuted only without
    them."""
    found = verify_text(printed.text, printed.launches, both_sides=True)
    alone = {each.number.start: each.verdict for checked in found for each in checked.checks}
    confirmed = [each.number.start for each in checks if each.verdict == "confirmed"]
    verdicts = [alone.get(start) for start in confirmed]
    return verdicts.count("confirmed"), verdicts.count("contradicted")


def _changed_verdicts(printed: Printed, checks: Iterable[CheckedNumber]) -> list[ClaimVerdict]:
    """Verdicts on the confirmed numbers with another first digit. Bounds are left out, because `at
    most 3x` stays true as `at most 6x`."""
    text, spots = printed.text, set()
    for each in checks:
        number = each.number
        digit = re.search(r"\d", number.text)
        if each.verdict == "confirmed" and digit and not number.bound:
            at = text.index(number.text[digit.start()], number.start)
            text = text[:at] + _another(text[at]) + text[at + 1 :]
            spots.add(number.start)
    found = verify_text(text, printed.launches, known=printed.known, both_sides=True)
    return [
        each.verdict for checked in found for each in checked.checks if each.number.start in spots
    ]


def _another(digit: str) -> str:
    """Far enough to differ at any rounding: 1 becomes 4, 9 becomes 3, 0 becomes 3."""
    return str(1 + (int(digit) + 2) % 9)
