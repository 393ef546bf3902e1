"""`keet diff --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from keet.comparison.causes.attribution import Attribution, AttributionKind
from keet.comparison.caveats.caveat import Caveat, Severity
from keet.comparison.gate import Gate, Regression
from keet.comparison.number_change import NumberChange
from keet.comparison.pairing.pairs import How
from keet.comparison.pairing.sides import KernelGroup, Side
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sentences import check_sentences, headline, pair_headline
from keet.comparison.timing.pair_timing import VerdictWord
from keet.comparison.timing.weighting import Basis
from keet.explanation.explanation_types import Explanation
from keet.profile.launch import Location
from keet.render.json.diff_account import PartChangeDocument, part_change_document
from keet.render.json.encoding.fields import Document, field
from keet.render.json.encoding.writing import Streamed
from keet.render.json.evidence import NumberDocument, number
from keet.render.json.explain import ExplainDocument, GroundingDocument, explain_fields
from keet.render.json.finding import ForecastDocument
from keet.render.json.report import device_document, quantity_document, report_document
from keet.render.json.shared_types import (
    EVIDENCE_IDS,
    DeviceDocument,
    Producer,
    QuantityDocument,
    ReportDocument,
)
from keet.units import Quantity


class SideDocument(ReportDocument):
    """The first report of a side. Further reports of the side only measure the noise."""

    devices: list[DeviceDocument]
    further_runs: list[ReportDocument]
    times: int = field(description="Launches of the program per launch in the report (--times).")


class ReasonDocument(Document):
    id: str = field(description="For example `device`, `problem_size` or `cache_control`.")
    severity: Severity
    text: str


class ComparabilityDocument(Document):
    ok: bool = field(description="False if the reports are compared only because of --force.")
    notes: list[ReasonDocument]


class ChangeVerdictDocument(Document):
    word: VerdictWord
    speedup: float | None = field(
        description="Time before over time after. Null if it was not measured, or if kernels "
        "overlap so that the times do not show the direction of the change."
    )
    noise: float = field(
        description="Random error of the speed-up, two standard deviations: 0.05 means 5 %."
    )
    headline: str
    basis: Basis = field(
        description="What the times cover. `run`: whole runs without a profiler (see `measure`). "
        "`reports`: all launches of the reports together. `per_launch`: one launch, "
        "because it is not known how often each kernel is launched (then there is no "
        "total)."
    )
    measure: Literal["busy", "durations"] | None = field(
        description="How the times of whole runs were measured. `busy`: time in which the GPU ran "
        "kernels. `durations`: sums of launch durations, because a table does not "
        "record which kernels ran at the same time. Null if `basis` is not `run`."
    )
    before: QuantityDocument | None = field(
        description="Microseconds, of all launches together unless `basis` is `per_launch`."
    )
    after: QuantityDocument | None


class PlaceDocument(Document):
    file: str
    line: int


class AttributionDocument(Document):
    kind: AttributionKind
    what: str
    unit: str | None = field(description="The hardware unit concerned; null if there is none.")
    share: float | None = field(
        description="Share of the time saved or lost, 0 to 1; an estimate for causes. Negative if "
        "it changed in the opposite direction. Null if the time did not change."
    )
    finding: str | None = field(description="Id of the finding, if this is a cause.")
    before: PlaceDocument | None = field(
        description="The source line before; null if there is none, or if the line is new."
    )
    after: PlaceDocument | None
    code: str | None = field(description="Text of the source line.")
    evidence: list[str]


class LaunchCountsDocument(Document):
    """Number of launches whose times a pair covers: launches of the runs if `basis` is `run`, else
    launches of the reports multiplied by `times`. A fraction if several profiled launches represent
    launches that the run table does not distinguish."""

    before: int | float | None = field(
        description="Null if the run table does not have the kernel."
    )
    after: int | float | None


class TimesDocument(Document):
    before: QuantityDocument = field(description="Microseconds.")
    after: QuantityDocument


class PairDocument(Document):
    before: list[int] = field(
        description="Ids of launches in the report before; empty if the kernel is new."
    )
    after: list[int]
    kernel: str
    how: How = field(description="How the kernels of the two reports were matched.")
    verdict: ChangeVerdictDocument
    speedup: float | None
    launches: LaunchCountsDocument
    limiter: list[str] | None = field(
        description="Limiter before and after; null if it was not analysed."
    )
    attribution: list[AttributionDocument] = field(description="Causes come first.")
    account: list[PartChangeDocument] = field(
        description="Time by part, the largest change first. Empty if it is not known, or if the "
        "replays do not show the change (see the notes of `comparability`)."
    )
    fixed: list[str] = field(description="Ids of findings.")
    new: list[str]
    remaining: list[str]
    unknown: list[str] = field(
        description="Ids of findings on one side that cannot be checked on the other, because its "
        "report lacks the metrics."
    )


class NextDocument(Document):
    launch: int
    kernel: str
    finding: str | None = field(
        description="Null if the replay differs from the run: see `reason`."
    )
    reason: str | None = field(
        description="Likely reason why the replay took longer or shorter than the run, as in `keet "
        "explain`. Null if a finding is next."
    )
    text: str
    action: str
    forecast: ForecastDocument | None = field(description="Forecast of the finding.")


class RegressionDocument(Document):
    kernel: str | None = field(description="Null for all kernels together.")
    metric: str
    before: QuantityDocument
    after: QuantityDocument
    worse: float | None = field(
        description="0.12 means 12 % worse; null if the value before was zero."
    )
    noise: float
    text: str


class GateDocument(Document):
    percent: float
    failed: bool
    regressions: list[RegressionDocument]
    blurred: list[str] = field(description="Kernels whose noise exceeds the gate.")
    missing: list[str]
    total_gated: bool = field(description="False if there is no total, or only one kernel.")
    not_gated: list[str] = field(description="Sentences that say what was not gated and why.")


class DiffDocument(Document):
    """`keet diff --format json`"""

    schema_version: Literal[2] = 2
    producer: Producer = Producer()
    before: SideDocument
    after: SideDocument
    comparability: ComparabilityDocument
    verdict: ChangeVerdictDocument
    pairs: list[PairDocument]
    not_profiled: TimesDocument | None = field(
        description="Time of the kernels in the runs that no launch of either report represents; "
        "the pairs and these kernels add up to the total. Null if `basis` is not "
        "`run`, if there are no such kernels, or if only some launches were selected."
    )
    span: TimesDocument | None = field(
        description="Time from the start of the first kernel of a run to the end of its last one. "
        "Only given if the GPU ran no kernel for at least a fifth of it on one side; "
        "otherwise null."
    )
    next: NextDocument | None = field(description="The costliest finding that remains.")
    gate: GateDocument | None = field(description="Null without --gate.")
    grounding: GroundingDocument
    evidence: dict[str, NumberDocument] = field(
        description=f"{EVIDENCE_IDS} `#before.3` means a launch of one side, `#diff` both sides."
    )


class ExplainAgainstDocument(ExplainDocument):
    """`keet explain REPORT --against BEFORE --format json`"""

    against: DiffDocument | None = field(description="Null if the two reports cannot be compared.")


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
        evidence={each.id: NumberDocument(**number(each)) for each in difference.evidence},
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
    before, after = (
        quantity_document(Quantity(each.value, each.unit).to("us"))
        for each in (time.before, time.after)
    )
    return TimesDocument(before=before, after=after)


def _launches(pair: PairDifference) -> LaunchCountsDocument:
    before, after = (
        int(each) if each is not None and each == int(each) else each for each in pair.launches
    )
    return LaunchCountsDocument(before=before, after=after)


def _microseconds(ns: float | None) -> QuantityDocument | None:
    return None if ns is None else quantity_document(Quantity(ns, "ns").to("us"))


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
        before=quantity_document(each.before),
        after=quantity_document(each.after),
        worse=each.worse if math.isfinite(each.worse) else None,
        noise=each.noise,
        text=each.text,
    )
