"""Checks claims that may be about several launches.

Those of a quantified sentence are checked over the launches of its scope. Other numbers of a
sentence must be true of the same launch, a bound of each. Also shapes: a grid, block or cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from keet.catalog import metric_named
from keet.documents.verify import RelationDocument
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.units import Quantity
from keet.verification.claims import Claim
from keet.verification.numbers import TextNumber
from keet.verification.report_values import ReportValue
from keet.verification.scope import Scope
from keet.verification.sentences import CLAUSE_END
from keet.verification.subjects import LaunchName
from keet.verification.verdicts import (
    CheckedNumber,
    CheckedSentence,
    agrees,
    agrees_with_report,
    confirmed,
    not_found,
)

_Readings = Callable[[Claim, Launch], Sequence[ReportValue]]
_LISTED = re.compile(r"\s*(?:,|,?\s*\b(?:and|or|to)\b|/|-|–)\s*")
_NOT_CHECKED = "not checked: keet does not know which launches the sentence is about"
_NO_SUM = "not checked: values of this metric do not add up over launches"
_NOT_MEASURED = "not checked: not all of these launches have the metric"
_EITHER = "not checked: the text may mean each launch or their sum"
_LISTS = "not checked: a list of numbers about several launches"
_RANKED = 60
"""Characters after a superlative in which the launches are named that it ranks."""
_ADDED = {"inst_executed", "thread_inst_executed", "grid_size", "threads"}
"""Metrics that add up over launches, besides those that ncu calls a sum."""
_ADDED_LABELS = ("Grid Size", "DRAM Bytes Read and Written", "Share of the time of all launches")
"""The same, for values that keet computes."""


class ScopeChecker:
    """Verdicts on the claims of one sentence."""

    def __init__(self, scope: Scope, claims: Sequence[Claim], readings: _Readings) -> None:
        self._scope = scope
        self._claims = claims
        self._readings = readings
        self._lists = list(_lists(claims))

    def checks(self) -> list[CheckedNumber]:
        checks = {c.number: self._check(c) for c in self._claims if not self._is_count(c)}
        right = all(check.verdict == "confirmed" for check in checks.values())
        return [checks.get(c.number) or self._count(c, is_right=right) for c in self._claims]

    def _is_count(self, claim: Claim) -> bool:
        """`All 4 launches`: the number belongs to the quantifier."""
        at = claim.number.start
        return any(q.start <= at < q.end for q in self._scope.quantifiers)

    def _count(self, claim: Claim, *, is_right: bool) -> CheckedNumber:
        """A wrong count leaves no set of launches, so the scope of the sentence is unclear."""
        if self._scope.how == "unclear" or not is_right:
            return not_found(claim.number, _NOT_CHECKED)
        count = constant(len(self._scope.sets[0]), "", "launches")
        reason = Sentence("{count} launches", count=count)
        return CheckedNumber(claim.number, "confirmed", None, reason)

    def _check(self, claim: Claim) -> CheckedNumber:
        if self._scope.how == "unclear" or claim.place or claim.number.unit == "x":
            return not_found(claim.number, _NOT_CHECKED)
        checks = [self._over(claim, launches) for launches in self._scope.sets]
        same = {check.verdict for check in checks} == {checks[0].verdict}
        return checks[0] if same else not_found(claim.number, _NOT_CHECKED)

    def _over(self, claim: Claim, launches: Sequence[Launch]) -> CheckedNumber:
        how = self._scope.how
        if numbers := next((each for each in self._lists if claim.number in each), None):
            # `The two launches take 69.34 us and 12.26 us`: in the order of the launches
            if how not in ("all", "every") or len(numbers) != len(launches):
                return not_found(claim.number, _LISTS)
            launches = [launches[numbers.index(claim.number)]]
        elif how in ("longest", "shortest"):
            times = [time.value for launch in launches if (time := launch.get("duration"))]
            if len(times) != len(launches):
                return not_found(claim.number, _NOT_MEASURED)
            right = max(times) if how == "longest" else min(times)
            launches = [launches[times.index(right)]]
        columns = self._columns(claim, launches)
        if not columns:
            return not_found(claim.number, _NOT_MEASURED)
        if how in ("sum", "mean"):
            return self._combined(claim, columns)
        return self._judged(claim, columns)

    def _columns(self, claim: Claim, launches: Sequence[Launch]) -> list[list[ReportValue]]:
        """The values of all launches for each meaning of the name, the likeliest first."""
        rows = [{r.label: r for r in self._readings(claim, launch)} for launch in launches]
        labels = [label for label in rows[0] if all(label in row for row in rows)]
        # The likeliest meaning counts: `occupancy` is not the theoretical one.
        if not labels or labels[0] != next(iter(rows[0])):
            return []
        return [[row[label] for row in rows] for label in labels]

    def _judged(self, claim: Claim, columns: Sequence[Sequence[ReportValue]]) -> CheckedNumber:
        """Confirmed by the likeliest meaning; contradicted only if no meaning makes it true."""
        likeliest = columns[0]
        if self._holds(claim, likeliest, strict=True):
            fitting = (r for r in likeliest if agrees_with_report(claim.number, r))
            return confirmed(claim.number, next(fitting, likeliest[0]))
        if any(self._holds(claim, column, strict=False) for column in columns) or not claim.firm:
            values = Sentence("; ").join(map(str, likeliest[:3]))
            return not_found(claim.number, Sentence("not checked: {values}", values=values))
        if self._scope.how == "all" and _agrees(claim.number, _sum(likeliest)):
            return not_found(claim.number, _EITHER)
        wrong = [r for r in likeliest if not agrees_with_report(claim.number, r)] or likeliest
        reason = Sentence("; ").join(map(str, wrong[:3]))
        return CheckedNumber(claim.number, "contradicted", wrong[0], reason)

    def _holds(  # noqa: PLR0911
        self, claim: Claim, column: Sequence[ReportValue], *, strict: bool
    ) -> bool:
        """Whether the claim is true; `strict`: surely, else possibly."""
        number, how, size = claim.number, self._scope.how, len(column)
        surely = sum(_surely(number, r) for r in column)
        maybe = sum(agrees_with_report(number, r) for r in column)
        count = self._scope.number or 0
        least, most = (surely, maybe) if strict else (maybe, surely)
        match how:
            case "every" | "all" | "longest" | "shortest":
                return least == size
            case "none":
                return most == 0
            case "not_every":
                return most < size
            case "at_least":
                return least >= count
            case "most":
                return 2 * least > size
            case "exactly":
                return least == count == most if strict else most <= count <= least
            case "all_but":
                wanted = size - count
                return least == wanted == most if strict else most <= wanted <= least
        return False

    def _combined(self, claim: Claim, columns: Sequence[Sequence[ReportValue]]) -> CheckedNumber:
        for column in columns:
            if self._scope.how == "sum" and not _adds_up(column[0]):
                continue
            value = _sum(column)
            if self._scope.how == "mean":
                size = len(column)
                mean = Quantity(value.quantity.value / size, value.quantity.unit)
                label = value.label.replace("Sum", "Mean", 1)
                value = value._replace(label=label, quantity=mean, rounding=value.rounding / size)
            if _surely(claim.number, value):
                return confirmed(claim.number, value)
            weighted = self._scope.how == "mean" and not _adds_up(column[0])
            if weighted or not claim.firm or _agrees(claim.number, value):
                return not_found(claim.number, Sentence("not checked: {value}", value=str(value)))
            return CheckedNumber(claim.number, "contradicted", value, str(value))
        return not_found(claim.number, _NO_SUM)


def relations_in_scope(
    relations: Iterable[RelationDocument], scope: Scope
) -> list[RelationDocument]:
    """A ranking (`A is the slowest of all launches`) compares all launches already; `the slowest
    launch takes` chooses one. Other comparisons of several launches are not checked."""
    relation_documents: list[RelationDocument] = []
    for relation in relations:
        about = [
            q
            for q in scope.quantifiers
            if q.start < relation.end + _RANKED and relation.start <= q.end
        ]
        if scope.how in ("longest", "shortest") and about:
            continue
        is_ranking = all(q.kind in ("longest", "shortest", "ranked") for q in scope.quantifiers)
        unchecked = replace(relation, verdict="not_found", reason=_NOT_CHECKED)
        relation_documents.append(relation if is_ranking and scope.quantifiers else unchecked)
    return relation_documents


def unchecked_sentence(checked: CheckedSentence) -> CheckedSentence:
    return checked.unchecked(_NOT_CHECKED)._replace(is_quantified=True)


def _surely(number: TextNumber, value: ReportValue) -> bool:
    """Without the tolerance that a bound has for one launch: `above 70 %` is wrong for 69.8 %."""
    exact = number._replace(half=0.0) if number.bound else number
    return agrees_with_report(exact, value) and agrees_with_report(number, value)


def _agrees(number: TextNumber, value: ReportValue) -> bool:
    return agrees(number, value.quantity, lenient=True, rounding=value.rounding)


def _sum(column: Sequence[ReportValue]) -> ReportValue:
    first = column[0]
    total = math.fsum(r.quantity.value for r in column)
    label = f"Sum of {first.label} over {len(column)} launches"
    off = sum(r.rounding for r in column)
    return ReportValue(label, Quantity(total, first.quantity.unit), None, None, None, off)


def _adds_up(value: ReportValue) -> bool:
    spec = metric_named(value.metric or "")
    if spec is not None:
        return spec.id in _ADDED or any(name.endswith(".sum") for name in spec.names)
    return value.label in _ADDED_LABELS


def _lists(claims: Sequence[Claim]) -> Iterator[list[TextNumber]]:
    """Two or more numbers of one unit that are separated by commas and `and`, without bounds."""
    plain = [c for c in claims if not c.number.bound and not c.number.shape]
    group: list[TextNumber] = []
    for one, two in pairwise(plain):
        text = one.sentence.text
        joined = _LISTED.fullmatch(text, one.number.end, two.number.start)
        if joined and one.number.unit == two.number.unit:
            group = [*(group or [one.number]), two.number]
            continue
        if group:
            yield group
        group = []
    if group:
        yield group


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
            known = [owner for owner in owners if owner]  # else it is a number of several launches
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
