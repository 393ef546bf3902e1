"""What stands below a finding: what the same fix gained in measured cases, the nearest of them, and
why a cause is only possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from keet.analysis.account import UNKNOWN, Account, TimePart
from keet.analysis.kernel_kind.archetype import archetype_of, is_debug_build, language_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.limits import SIMILAR
from keet.analysis.time_model import WORTH
from keet.catalog.measured_cases import CaseSummary, Precedents, case_summaries
from keet.diagnosis.diagnosis import MOSTLY_UNKNOWN
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.finding import NearestDocument, PrecedentsDocument
from keet.evidence import Sentence, constant, counted
from keet.explanation.gain_texts import LEAST_GAIN
from keet.units import Quantity

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
    unknown = _largest_unknown(account)
    if unknown is not None and unknown.percent.value >= 100 * MOSTLY_UNKNOWN:
        return Sentence("{n:.0f} of the time is {part}", n=unknown.percent, part=unknown.part)
    if finding.expected < WORTH:
        return "good kernels often have as much of it"
    return "the report does not show whether a change can remove it"


def _largest_unknown(account: Account) -> TimePart | None:
    unknown = [part for part in account.all() if part.id.rpartition(".")[2] == UNKNOWN]
    return max(unknown, key=lambda part: float(part.percent.value), default=None)
