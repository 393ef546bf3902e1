"""What is said of a finding besides its own text, and what `keet finding` says of it.

Its gain in words, the same in every list, table and sentence; what the same fix gained in measured
cases, and the nearest of them; why a cause is only possible.

The cases are those of the casebook: measured pairs of kernels, before and after one or several
fixes. Their profiles and programs are in keet's repository; the index ships with keet. `make
casebook-import` writes it from measurements, never by hand.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from keet.analysis.account import UNKNOWN, Account
from keet.analysis.archetype import archetype_of, is_debug_build, language_of
from keet.analysis.candidate import MAX_GAIN
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.parameters import SIMILAR
from keet.analysis.time_model import WORTH
from keet.catalog.loading import CASE_SUMMARIES, CaseSummary, Precedents, case_summaries, precedents
from keet.diagnosis.diagnosis import MOSTLY_UNKNOWN
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.document import LEFT_OUT
from keet.documents.finding import (
    CaseDocument,
    CaseReferenceDocument,
    CaseStepDocument,
    FindingReferenceDocument,
    Forecast,
    MovedDocument,
    NearestDocument,
    ParameterDocument,
    PrecedentsDocument,
    RemedyDocument,
    SimilarDocument,
)
from keet.evidence import Evidence, Sentence, constant, counted
from keet.findings import Condition, findings
from keet.units import Quantity

OPEN_GAIN = Sentence("gain not known")
LEAST_GAIN = constant(round(100 * (WORTH - 1), 6), "%", "gain from which on a cause is a finding")


def forecast_text(finding: Finding, ledger: Ledger) -> Sentence:
    """`2.1x faster (1.6x to 3.9x)`, `27x faster (21x or more)`. Where the amounts are a model's, it
    says so: `... with the model's amounts; keet alone: 1.2x`."""
    name = f"{finding.id}.claimed" if finding.origin == "model" else finding.id
    whose = ", with the model's amounts" if finding.amounts_by == "model" else ""
    gains = forecast_evidence(name, finding.forecast, f"{finding.label}{whose}", ledger)
    text = range_text(finding.id, *gains, variant=finding.variant)
    if finding.amounts_by != "model":
        return text
    if not finding.keet_alone:
        return Sentence("{text} with the model's amounts; keet alone: no estimate", text=text)
    own = forecast_evidence(f"{finding.id}.own", finding.keet_alone, finding.label, ledger)[1]
    claimed = "{text} with the model's amounts; keet alone: {own:times}"
    return Sentence(claimed, text=text, own=own)


def forecast_evidence(
    name: str, forecast: Forecast, label: str, ledger: Ledger
) -> tuple[Evidence, Evidence, Evidence]:
    """The least, the likely and the largest gain, entered in the ledger of the launch."""

    def entered(bound: str, gain: float) -> Evidence:
        key, number = f"forecast.{name}.{bound}", Quantity(gain, "")
        words = f"times faster without {label}, {bound}"
        piece = ledger.derived(key, number, words)
        # Two claims of a model may be about the same finding.
        return piece if piece.value == gain else ledger.derived(f"{key}.{gain!r}", number, words)

    low, likely, high = forecast
    return entered("at least", low), entered("likely", likely), entered("at most", high)


def range_text(
    finding: str | None, low: Evidence, likely: Evidence, high: Evidence, *, variant: str = ""
) -> Sentence:
    """A launch that is too short does not become faster by batching: it does more in its time. The
    gain of launches that share data is that of all of them."""
    spec = findings().get(finding or "")
    if spec is not None and variant in spec.open_gains:
        return OPEN_GAIN
    does_more = spec is not None and (spec.of_launches or variant in spec.more_work)
    what = "the work in the same time" if does_more else "faster"
    what += " together" if variant in BETWEEN_LAUNCHES else ""
    highest = "or more" if high.value >= MAX_GAIN else Sentence("to {high:times}", high=high)
    form = "{likely:times} {what} ({low:times} {highest})"
    return Sentence(form, likely=likely, what=what, low=low, highest=highest)


MEASURED_ON = "H200"


def listed(findings: Iterable[Finding], view: LaunchView, account: Account) -> tuple[Finding, ...]:
    """With their ranks, why a cause is only possible, and the nearest case of the first."""
    return tuple(
        replace(
            each,
            rank=rank,
            certainty_reason=why_only_possible(each, view, account),
            nearest_case=_nearest_case(each, view) if rank == 1 else None,
        )
        for rank, each in enumerate(findings, 1)
    )


def precedents_text(finding: Finding, ledger: Ledger) -> Sentence:
    """Empty if no case of this finding was measured. Says so if the measured gains do not include
    the forecast, and why. Numbers of the casebook are constants."""
    precedents = finding.precedents
    if precedents is None:
        return Sentence()
    is_variant = finding.label != finding.spec.label
    measured = measured_text(precedents, "of this kind" if is_variant else "with this cause")
    return Sentence("").join([measured, _disagreement(precedents, finding, ledger)])


def measured_text(
    precedents: Precedents | PrecedentsDocument, which: str = "with this cause"
) -> Sentence:
    """What fixing a finding gained in the casebook. `which`: a variant with a label of its own is
    one of several causes, and the cases are those of all of them."""
    low, high = (
        constant(gain, "", "gain in the casebook") for gain in (precedents.low, precedents.high)
    )
    form = "{low:times} to {high:times}" if precedents.cases > 1 else "{high:times}"
    return Sentence(
        "In {cases} {which} ({gpu}), fixing it gained {gained}.{alike}",
        cases=counted(constant(precedents.cases, "", "cases"), "measured case"),
        which=which,
        gpu=MEASURED_ON,
        gained=Sentence(form, low=low, high=high),
        alike=_lookalikes_text(precedents.lookalikes),
    )


def _disagreement(precedents: PrecedentsDocument, finding: Finding, ledger: Ledger) -> Sentence:
    """A gain of 2x means that the cause takes half of the time."""
    likely = finding.forecast.likely
    if likely * SIMILAR < precedents.low:
        which, form, bound = "smaller", "{share:.0f} or more", precedents.low
    elif likely > SIMILAR * precedents.high:
        which, form, bound = "larger", "at most {share:.0f}", precedents.high
    else:
        return Sentence()
    own, others = (f"{100 * (1 - 1 / gain):.0f}" for gain in (likely, bound))
    if finding.spec.of_launches or own == others:  # the parts of the time would not show it
        return Sentence(" The forecast is {which}.", which=which)
    part = Quantity(100 * (1 - 1 / likely), "%")
    theirs = constant(100 * (1 - 1 / bound), "%", "part of the time in the casebook")
    return Sentence(
        " The forecast is {which}: here the cause takes about {part:.0f} of the time, in those "
        "cases {theirs}.",
        which=which,
        part=ledger.derived(f"part.{finding.id}.{likely!r}", part, "part of the time by forecast"),
        theirs=Sentence(form, share=theirs),
    )


def _lookalikes_text(count: int) -> Sentence:
    """About cases that have the symptom but not the cause."""
    if not count:
        return Sentence()
    alike = counted(constant(count, "", "look-alikes"), "look-alike")
    return Sentence(
        " In {alike}, the fix gained less than {least:.0f}.", alike=alike, least=LEAST_GAIN
    )


# --- the nearest case


def _nearest_case(finding: Finding, view: LaunchView) -> NearestDocument | None:
    """The measured case of a finding that is most like this launch: of the same kind of algorithm,
    in the same language, with the nearest gain. None if no case of this kind was measured: one of
    another algorithm shows another change.

    Cases of a family that has a kernel of this name are left out: for those, it would be the answer
    to a question of the evals.
    """
    if finding.precedents is None:
        return None
    name = view.launch.name.function
    own = {case.family for case in case_summaries() if name in case.kernels}
    # Once, not per case: names of templates can have 30,000 characters to search.
    is_triton = language_of(view.launch) == "Triton"
    kind = archetype_of(view.launch, view.opcodes)
    named = _CASEBOOK_NAMES.get(kind or "", kind)
    of_kind = (c for c in case_summaries() if c.finding == finding.id and c.archetype == named)
    alike = [case for case in of_kind if case.family not in own]

    def distance(case: CaseSummary) -> tuple[bool, float]:
        return (
            (case.language == "triton") != is_triton,
            abs(math.log(case.gain / max(1.0, finding.forecast.likely))),
        )

    nearest = min(alike, key=distance, default=None)
    return NearestDocument.taken_from(nearest) if nearest else None


_CASEBOOK_NAMES = {"sparse": "spmv"}


def nearest_text(case: NearestDocument) -> Sentence:
    """One line, with the command that shows it."""
    return Sentence(
        "The nearest one ({kind}, {gain:speedup}): keet finding {case}",
        kind=case.archetype.replace("_", " "),
        gain=constant(case.gain, "", "gain of a case"),
        case=case.id,
    )


def why_only_possible(finding: Finding, view: LaunchView, account: Account) -> Sentence | None:
    """None where the cause is certain or likely."""
    if finding.cause_certainty != "possible":
        return None
    return Sentence("Only possible: {reason}.", reason=_reason(finding, view, account))


def _reason(finding: Finding, view: LaunchView, account: Account) -> str:
    if is_debug_build(view):
        return "a build without -G may have other causes and other gains"
    if finding.variant in BETWEEN_LAUNCHES:  # they rest on equal amounts of bytes
        return "a report holds no pointers, so equal amounts of bytes are only a hint"
    if not view.ceilings.ranked:
        return "the report does not have the load of any unit, so keet assumes one"
    parts = (part for part in account.all() if part.id.rpartition(".")[2] == UNKNOWN)
    unknown = max(parts, key=lambda part: float(part.percent.value), default=None)
    if unknown is not None and unknown.percent.value >= 100 * MOSTLY_UNKNOWN:
        return Sentence("{n:.0f} of the time is {part}", n=unknown.percent, part=unknown.part)
    if finding.expected < WORTH:
        return "good kernels often have as much of it"
    return "the report does not show whether a change can remove it"


_INDEX = CASE_SUMMARIES.with_name("cases.json.gz")
_PROFILE = "kernels_samples/casebook/families/{}/profiles/{}.{}.keet.json.zst"
"""In keet's repository: of a family, a problem and a side."""


@cache
def casebook() -> tuple[CaseDocument, ...]:
    index = json.loads(gzip.decompress(_INDEX.read_bytes()))
    return tuple(
        _case(index["usual"] | index["families"][row["family"]] | row, index["diffs"])
        for row in index["cases"]
    )


def _case(row: dict[str, Any], diffs: Mapping[str, str]) -> CaseDocument:
    family, sides = row["family"], (row.pop("before"), row.pop("after"))
    special = {
        "diff": diffs[":".join((family, *sides))],
        "moved": MovedDocument(**row["moved"]),
        "steps": [CaseStepDocument(**step) for step in row["steps"]] or LEFT_OUT,
        "profiles": tuple(_PROFILE.format(family, row["problem"], side) for side in sides),
        "counters": {name: (pair[0], pair[1]) for name, pair in row["counters"].items()},
    }
    return CaseDocument(**row | special)


def cases_named(name: str) -> list[CaseDocument]:
    """By the full id, or by the part after the family, which several may have."""
    return [case for case in casebook() if name in (case.id, case.id.partition("/")[2])]


def chosen_cases(
    finding: str | None, archetype: str | None, family: str | None = None, *, lookalikes: bool
) -> list[CaseDocument]:
    """Grouped by finding, the largest gain of that cause first. `lookalikes`: only those."""
    chosen = [
        case
        for case in casebook()
        if finding in (None, case.finding)
        and archetype in (None, case.archetype)
        and family in (None, case.family)
        and (case.lookalike or not lookalikes)
    ]
    return sorted(chosen, key=lambda case: (case.finding, case.lookalike, -case.gain))


_EXAMPLES = 3


def finding_reference(finding: str) -> FindingReferenceDocument:
    """`finding`: its id. Cases are only from work families: developers of keet must not see the
    locked ones."""
    spec = findings()[finding]
    own = [case for case in casebook() if case.finding == finding and case.split == "work"]
    own.sort(key=lambda case: case.gain, reverse=True)
    measured = precedents().get(finding)
    return FindingReferenceDocument(
        id=spec.id,
        label=spec.label,
        family=spec.family,
        meaning=spec.meaning,
        judged=spec.how,
        checks=[f"keet/findings/{spec.id}.py"] if spec.family != "healthy" else [],
        rules=list(spec.rules),
        parameters=[
            ParameterDocument(name=p.name, value=float(p), meaning=p.meaning, source=p.source)
            for p in spec.parameters
        ],
        similar=[
            SimilarDocument(id=other, label=findings()[other].label, difference=text)
            for other, text in spec.unlike.items()
        ],
        remedies=[
            RemedyDocument(
                name=condition.name,
                condition=_condition_text(condition),
                needs=[fact.id for fact in condition.needs],
                excludes=[fact.id for fact in condition.excludes],
                text=Sentence(text, here="", library="the library"),
            )
            for condition, text in spec.remedies.items()
        ],
        precedents=PrecedentsDocument.taken_from(measured) if measured else None,
        best_cases=_examples(case for case in own if not case.lookalike),
        lookalike_cases=_examples(case for case in own if case.lookalike),
    )


def _condition_text(condition: Condition) -> Sentence:
    """The condition of a remedy, in the words of its facts."""
    holds = "; ".join(fact.words for fact in condition.needs)
    fails = [fact.negated or f"not: {fact.words}" for fact in condition.excludes]
    words = ", and ".join(filter(None, (holds, *fails))) or "otherwise"
    return Sentence(words, here="", library="a library")


def _examples(cases: Iterable[CaseDocument]) -> list[CaseReferenceDocument]:
    first = list(cases)[:_EXAMPLES]
    return [CaseReferenceDocument(id=case.id, fix=case.fix, speedup=case.gain) for case in first]
