"""What the same fix gained in measured cases, and the nearest of them, below a finding."""

from __future__ import annotations

import math

from keet.analysis.kernel.archetype import archetype_of
from keet.analysis.kernel.language import language_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import SIMILAR
from keet.catalog.case_summaries import CaseSummary, case_summaries
from keet.catalog.precedents import Precedents, precedents
from keet.diagnosis.finding import Finding
from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import count_noun, share_text, speedup_text, times_text

MEASURED_ON = "H200"


def precedents_of(finding: Finding) -> Precedents | None:
    """None if the casebook has no measured gain for this finding."""
    is_other = finding.variant in finding.spec.without_cases
    return None if is_other else precedents().get(finding.id)


def precedents_text(finding: Finding) -> str:
    """Empty if no case of this finding was measured. Says so if the measured gains do not include
    the forecast, and why."""
    found = precedents_of(finding)
    return f"{measured_text(found)}{_disagreement(found, finding)}" if found else ""


def measured_text(found: Precedents) -> str:
    """What fixing a finding gained in the casebook."""
    cases = "1 measured case" if found.cases == 1 else f"{found.cases} measured cases"
    gained = times_text(found.high)
    if found.cases > 1:
        gained = f"{times_text(found.low)} to {gained}"
    text = f"In {cases} with this cause ({MEASURED_ON}), fixing it gained {gained}."
    return f"{text}{_lookalikes_text(found.lookalikes)}"


def _disagreement(found: Precedents, finding: Finding) -> str:
    """A gain of 2x means that the cause takes half of the time."""
    likely = finding.forecast.likely
    if likely * SIMILAR < found.low:
        which, theirs = "smaller", f"{share_text(1 - 1 / found.low)} or more"
    elif likely > SIMILAR * found.high:
        which, theirs = "larger", f"at most {share_text(1 - 1 / found.high)}"
    else:
        return ""
    if finding.spec.of_launches:
        return f" The forecast is {which}."
    return (
        f" The forecast is {which}: here the cause takes about {share_text(1 - 1 / likely)} of the "
        f"time, in those cases {theirs}."
    )


def _lookalikes_text(count: int) -> str:
    """About cases that have the symptom but not the cause."""
    if not count:
        return ""
    return f" In {count_noun(count, 'look-alike')}, the fix gained less than 10%."


# --- the nearest case


def nearest_case(finding: Finding, each: LaunchExplanation) -> CaseSummary | None:
    """The measured case of the first finding that is most like this launch: in the same language,
    of the same kind of algorithm, with the nearest gain. None for other findings, and if no case
    was measured.

    Cases of a family that has a kernel of this name are left out: for those, it would be the answer
    to a question of the evals.
    """
    if each.findings[:1] != (finding,) or precedents_of(finding) is None:
        return None
    name = each.launch.name.function
    own = {case.family for case in case_summaries() if name in case.kernels}
    alike = [c for c in case_summaries() if c.finding == finding.id and c.family not in own]
    return min(alike, key=lambda case: _distance(case, finding, each.view), default=None)


def _distance(case: CaseSummary, finding: Finding, view: LaunchView) -> tuple[bool, bool, float]:
    is_triton = language_of(view.launch) == "Triton"
    kind = archetype_of(view.launch, view.opcodes)
    return (
        (case.language == "triton") != is_triton,
        case.archetype != _CASEBOOK_NAMES.get(kind or "", kind),
        abs(math.log(case.gain / max(1.0, finding.forecast.likely))),
    )


_CASEBOOK_NAMES = {"sparse": "spmv"}


def nearest_text(case: CaseSummary) -> str:
    """One line, with the command that shows it."""
    kind = case.archetype.replace("_", " ")
    return f"The nearest one ({kind}, {speedup_text(case.gain)}): keet cases {case.id}"
