"""`keet diff --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from keet.comparison.causes.attribution import Attribution
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.gate import Gate, Regression
from keet.comparison.number_change import NumberChange
from keet.comparison.pairing.sides import KernelGroup, Side
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sentences import check_sentences, headline, pair_headline
from keet.documents.diff import (
    AttributionDocument,
    ChangeVerdictDocument,
    ComparabilityDocument,
    DiffDocument,
    ExplainAgainstDocument,
    GateDocument,
    LaunchCountsDocument,
    NextDocument,
    PairDocument,
    PlaceDocument,
    ReasonDocument,
    RegressionDocument,
    SideDocument,
    TimesDocument,
)
from keet.documents.document import Streamed
from keet.documents.explain import GroundingDocument
from keet.documents.finding import ForecastDocument
from keet.explanation.explanation_types import Explanation
from keet.profile.launch import Location
from keet.render.json.diff_account import part_change_document
from keet.render.json.explain import explain_fields
from keet.render.json.report import device_document, report_document
from keet.units import Quantity


def explain_against_stream(
    explanation: Explanation, difference: Difference | None
) -> Streamed[ExplainAgainstDocument]:
    return Streamed(ExplainAgainstDocument, _explain_against_fields(explanation, difference))


def _explain_against_fields(
    explanation: Explanation, difference: Difference | None
) -> Iterator[tuple[str, Any]]:
    yield from explain_fields(explanation)
    yield "against", diff_document(difference, None) if difference else None


def diff_document(
    difference: Difference, gate: Gate | None, top: int | None = None
) -> DiffDocument:
    """`top`: maximum number of pairs, in the order of `difference`; None for all."""
    reasons = difference.all_caveats
    checked = check_sentences(difference)
    return DiffDocument(
        before=_side(difference.before),
        after=_side(difference.after),
        comparability=ComparabilityDocument(
            ok=not difference.forbidden, notes=[_reason(reason) for reason in reasons]
        ),
        verdict=_total(difference),
        pairs=[_pair(pair) for pair in difference.pairs[:top]],
        not_profiled=_times(difference.not_profiled) if difference.not_profiled else None,
        span=_times(difference.span.time) if difference.span else None,
        next=_next(difference),
        gate=_gate(gate) if gate else None,
        grounding=GroundingDocument(
            numbers=checked.numbers,
            verified=len(checked.verified),
            unchecked=[
                f"{unsupported.text}: {unsupported.reason}" for unsupported in checked.unsupported
            ],
        ),
        evidence={each.id: each for each in difference.evidence},
    )


def _side(side: Side) -> SideDocument:
    first, *others = (report_document(run.profile) for run in side.captures)
    return SideDocument(
        **vars(first),
        devices=[device_document(device) for device in side.first.profile.devices],
        further_runs=others,
        times=side.scale,
    )


def _reason(reason: Caveat) -> ReasonDocument:
    return ReasonDocument(id=reason.id, severity=reason.severity, text=reason.text)


def _total(difference: Difference) -> ChangeVerdictDocument:
    return _verdict(difference, headline(difference))


def _verdict(compared: Difference | PairDifference, text: str) -> ChangeVerdictDocument:
    timing = compared.timing
    return ChangeVerdictDocument(
        word=timing.word,
        speedup=timing.speedup,
        noise=timing.noise,
        headline=text,
        basis=compared.basis,
        measure=("durations" if compared.by_durations else "busy")
        if compared.basis == "run"
        else None,
        before=_microseconds(timing.before),
        after=_microseconds(timing.after),
    )


def _times(time: NumberChange) -> TimesDocument:
    before, after = (Quantity(each.value, each.unit).to("us") for each in (time.before, time.after))
    return TimesDocument(before=before, after=after)


def _launches(pair: PairDifference) -> LaunchCountsDocument:
    before, after = (
        int(each) if each is not None and each == int(each) else each for each in pair.launches
    )
    return LaunchCountsDocument(before=before, after=after)


def _microseconds(ns: float | None) -> Quantity | None:
    return None if ns is None else Quantity(ns, "ns").to("us")


def _pair(pair: PairDifference) -> PairDocument:
    return PairDocument(
        before=_ids(pair.pairing.before),
        after=_ids(pair.pairing.after),
        kernel=pair.kernel,
        how=pair.how,
        verdict=_verdict(pair, pair_headline(pair)),
        speedup=pair.timing.speedup,
        launches=_launches(pair),
        limiter=list(pair.limiters) if pair.limiters else None,
        attribution=[_attribution(each) for each in pair.attribution],
        account=[part_change_document(part) for part in pair.account],
        fixed=list(pair.outcome.fixed),
        new=list(pair.outcome.new),
        remaining=list(pair.outcome.remaining),
        unknown=list(pair.outcome.unknown),
    )


def _ids(groups: Sequence[KernelGroup]) -> list[int]:
    return sorted(launch.id for group in groups for launch in group.launches)


def _attribution(each: Attribution) -> AttributionDocument:
    before, after = each.place or (None, None)
    return AttributionDocument(
        kind=each.kind,
        what=each.what,
        unit=each.unit,
        share=float(each.share.value) / 100 if each.share else None,
        finding=each.finding,
        before=_place(before),
        after=_place(after),
        code=each.code or None,
        evidence=[evidence.id for evidence in each.evidence]
        + ([each.share.id] if each.share else []),
    )


def _place(location: Location | None) -> PlaceDocument | None:
    return PlaceDocument(file=location.file, line=location.line) if location else None


def _next(difference: Difference) -> NextDocument | None:
    step = difference.next_step
    if step is None:
        return None
    finding = step.finding
    return NextDocument(
        launch=step.weighted.explanation.launch.id,
        kernel=step.weighted.explanation.launch.kernel,
        finding=finding.id if finding else None,
        reason=step.reason.id if step.reason else None,
        text=step.text,
        action=step.action,
        forecast=ForecastDocument(**finding.forecast._asdict()) if finding else None,
    )


def _gate(gate: Gate) -> GateDocument:
    return GateDocument(
        percent=gate.percent,
        failed=gate.failed,
        regressions=[_regression(each) for each in gate.regressions],
        blurred=list(gate.blurred),
        missing=list(gate.missing),
        total_gated=gate.total,
        not_gated=list(gate.not_gated),
    )


def _regression(each: Regression) -> RegressionDocument:
    return RegressionDocument(
        kernel=each.pair.kernel if each.pair else None,
        metric=each.metric,
        before=each.before,
        after=each.after,
        worse=each.worse if math.isfinite(each.worse) else None,
        noise=each.noise,
        text=each.text,
    )
