"""Explains a contradicted number: the right value, and where the wrong one may come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.catalog import metrics
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.profile.launch_sequences import MAX_DECODED
from keet.verification.number_match import agrees, amounts
from keet.verification.text.claims import Claim
from keet.verification.text.numbers import TextNumber
from keet.verification.text.source_places import TextPlace
from keet.verification.values.report_values import ReportValue, ReportValues

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
