"""Numbers about one of several launches: they must be true of the same launch, a bound of each.

Also shapes: a grid, block or cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from itertools import pairwise

from keet.evidence import Sentence
from keet.profile import Launch
from keet.verification.claims import Claim
from keet.verification.numbers import TextNumber
from keet.verification.report_values import ReportValue
from keet.verification.sentences import CLAUSE_END
from keet.verification.subjects import LaunchName
from keet.verification.verdicts import CheckedNumber, agrees_with_report, not_found

_Readings = Callable[[Claim, Launch], Sequence[ReportValue]]
_NEGATED = re.compile(r"\b(?:not|no|never|cannot|nor|hardly|without)\b|n['’]t\b", re.IGNORECASE)
_AGAINST = re.compile(r"\b(?:no|not)\s+\w+\s+than\s+(?:the\s+)?\Z", re.IGNORECASE)
"""`no more than`: the bound of the number is the right one already."""
_CHANGE = re.compile(r"\s*(?:\bto\b|→|->)\s*")
NOT_CHECKED = "not checked: "
NO_SUCH_LAUNCH = f"{NOT_CHECKED}the launch with this number is of another kernel"
_NEGATION = f"{NOT_CHECKED}a bound with a negation"
_NO_LAUNCH = f"{NOT_CHECKED}no single launch of these has all values of the sentence"


def not_of_each(claim: Claim, values: Sequence[ReportValue]) -> CheckedNumber | None:
    """`The occupancy is above 70 %` is not confirmed by one launch if another one has less; nor is
    `it never exceeds 70 %`.

    `values`: of the metric, for each launch that the claim may be about.
    """
    number = claim.number
    if number.bound is None or not any(agrees_with_report(number, value) for value in values):
        return None
    before = _AGAINST.sub("", claim.sentence.text[: number.start])
    if _NEGATED.search(CLAUSE_END.split(before)[-1]):
        return not_found(number, _NEGATION)
    likeliest = [value for value in values if value.label == values[0].label]
    others = [value for value in likeliest if not agrees_with_report(number, value)]
    if not others or len({value.launch for value in values}) == 1:
        return None
    reason = Sentence("; ").join([f"{NOT_CHECKED}it is not true of each launch", str(others[0])])
    return not_found(number, reason)


def of_same_launch(
    checks: Sequence[CheckedNumber],
    claims: Sequence[Claim],
    subjects: Callable[[Claim], Sequence[Launch]],
    readings: _Readings,
    second: Set[Launch],
) -> list[CheckedNumber]:
    """`normalise with 256 blocks takes 6.4 us`: only if one of its launches has both values.

    `second`: the launches of AFTER, if there are two reports; then only the order of both sides of
    a change is checked.
    """
    groups: dict[LaunchName | None, list[Claim]] = {}
    named = {claim.subject for claim in claims if claim.subject}
    only = next(iter(named)) if len(named) == 1 else None
    confirmed = {check.number for check in checks if check.verdict == "confirmed"}
    for claim in claims:
        if claim.number in confirmed and claim.place is None:
            groups.setdefault(claim.subject or only, []).append(claim)
    apart: set[TextNumber] = set()
    for group in groups.values():
        launches = subjects(group[-1])
        if len(group) > 1 and len(launches) > 1:
            owners = [_owners(claim, launches, readings) for claim in group]
            known = [
                owner for owner in owners if owner
            ]  # a number that no launch has is of several
            are_apart = len(known) > 1 and not set.intersection(*known)
            wrong = _are_swapped(group, owners, second) if second else are_apart
            if wrong and (second or not _are_in_order(group, owners, launches)):
                apart.update(claim.number for claim in group)
    return [not_found(c.number, _NO_LAUNCH) if c.number in apart else c for c in checks]


def _are_in_order(
    claims: Sequence[Claim], owners: Sequence[set[Launch]], launches: Sequence[Launch]
) -> bool:
    """`normalise takes 14.91 us and 6.37 us`: one number for each launch."""
    if len(claims) != len(launches) or len({claim.number.unit for claim in claims}) > 1:
        return False
    return all(launch in of for launch, of in zip(launches, owners, strict=True))


def _are_swapped(
    claims: Sequence[Claim], owners: Sequence[set[Launch]], second: Set[Launch]
) -> bool:
    """`from 17 us to 32 us`, but 17 us was measured in AFTER only."""
    for (one, before), (two, after) in pairwise(zip(claims, owners, strict=True)):
        joined = _CHANGE.fullmatch(one.sentence.text, one.number.end, two.number.start)
        if joined and before and after and (before <= second or not after & second):
            return True
    return False


def _owners(claim: Claim, launches: Sequence[Launch], readings: _Readings) -> set[Launch]:
    if claim.number.shape:
        right = "confirmed"
        return {each for each in launches if check_shape(claim, [each]).verdict is right}
    return {
        launch
        for launch in launches
        if any(agrees_with_report(claim.number, value) for value in readings(claim, launch))
    }


def check_shape(claim: Claim, launches: Sequence[Launch]) -> CheckedNumber:
    """A grid, block or cluster, by the word before it; any of them without such a word."""
    number = claim.number
    before = claim.sentence.text[: number.start].lower()
    wanted = [word for word in ("grid", "block", "cluster") if word in before[-40:]]
    wanted.sort(key=before.rfind, reverse=True)
    if counted := re.match(r"\s*(threads|blocks)\b", claim.sentence.text[number.end :]):
        wanted = ["block" if counted[1] == "threads" else "grid"]
    shapes: dict[str, tuple[int, ...]] = {}
    for launch in launches:
        every = {"grid": launch.grid, "block": launch.block, "cluster": launch.cluster}
        for word in wanted[:1] or every:
            if shape := every[word]:
                said = number.shape or ()
                if said + (1,) * (3 - len(said)) == shape:
                    return CheckedNumber(number, "confirmed", None, f"the {word} of #{launch.id}")
                shapes[word] = shape
    if not wanted or not shapes:
        return not_found(number, "no grid or block of that shape")
    word, right = next(iter(shapes.items()))
    size = "x".join(map(str, right)).removesuffix("x1")
    return CheckedNumber(number, "contradicted", None, f"the {word} is {size}")
