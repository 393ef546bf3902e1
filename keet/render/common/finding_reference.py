"""The contents of `keet finding` for one finding: its module, parameters and casebook combined."""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.parameters import Parameter, Source
from keet.analysis.time_model import WORTH
from keet.catalog.cases import CaseEntry, casebook
from keet.catalog.precedents import Precedents, gain_of_cause, precedents
from keet.evidence import Sentence
from keet.explanation.precedents import measured_text
from keet.findings import Condition, Family, FindingSpec, findings
from keet.formatting import share_text

_EXAMPLES = 3
VARIANTS = "keet prints the first of these that applies:"
GAIN_EXAMPLES = "Examples (from the families that keet was developed on):"
LOOKALIKE_EXAMPLES = "Look-alikes (from the same families), whose fix gained less than 10%:"
SOURCES: dict[Source, str] = {
    "documentation": "from documentation",
    "fit": "fitted on the casebook",
    "judgement": "a judgement",
}
"""Where the value of a parameter comes from, in words."""


FAMILIES: dict[Family, str] = {
    "memory": "Memory access",
    "parallelism": "Latency and parallelism",
    "instructions": "Instructions",
    "healthy": "Healthy ends",
}


class FindingReference(NamedTuple):
    spec: FindingSpec
    parameters: tuple[Parameter, ...]
    measured: Precedents | None
    """None if no gain was measured."""
    best: tuple[CaseEntry, ...]
    """The cases with the largest gains. Only from work families: developers of keet must not see
    the locked ones."""
    lookalikes: tuple[CaseEntry, ...]

    @property
    def similar(self) -> list[tuple[FindingSpec, str]]:
        """Similar findings, and how to distinguish them from this one."""
        return [(findings()[other], text) for other, text in self.spec.unlike.items()]


def finding_reference(finding: str) -> FindingReference:
    """`finding`: its id."""
    spec = findings()[finding]
    own = [case for case in casebook() if case.finding == finding and case.split == "work"]
    own.sort(key=gain_of_cause, reverse=True)
    return FindingReference(
        spec,
        spec.parameters,
        precedents().get(finding),
        tuple(case for case in own if not case.lookalike)[:_EXAMPLES],
        tuple(case for case in own if case.lookalike)[:_EXAMPLES],
    )


def reported_text(reference: FindingReference) -> str:
    """The gain from which on it is reported."""
    worth = share_text(WORTH - 1)
    if reference.spec.family == "healthy":
        return f"It is reported only where no cause is expected to gain {worth} or more."
    return f"It is reported where fixing it could gain {worth} or more."


def code_text(reference: FindingReference) -> str:
    """Which code computes its gain; empty if no gain is computed."""
    spec = reference.spec
    return f"Code: keet/findings/{spec.id}.py." if spec.family != "healthy" else ""


def cases_text(reference: FindingReference) -> str:
    """What its fix gained in measured cases."""
    if reference.measured is None:
        return "The casebook has no measured case of it."
    return measured_text(reference.measured)


def rules_text(spec: FindingSpec) -> str:
    """Empty if Nsight Compute has no rule for it."""
    return f"Rules of Nsight Compute on it: {', '.join(spec.rules)}." if spec.rules else ""


def findings_of(family: str) -> list[FindingSpec]:
    return [spec for spec in findings().values() if spec.family == family]


def condition_text(condition: Condition) -> str:
    """The condition of a remedy, in the words of its facts."""
    holds = "; ".join(fact.words for fact in condition.needs)
    fails = [fact.negated or f"not: {fact.words}" for fact in condition.excludes]
    parts = [part for part in (holds, *fails) if part]
    return remedy_text(", and ".join(parts) or "otherwise", library="a library")


def remedy_text(text: str, library: str = "the library") -> Sentence:
    """The text without the values that a report fills in."""
    return Sentence(text, here="", library=library)
