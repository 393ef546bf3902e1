"""Runs `keet verify` on given sentences: does it refute, doubt or pass each of them?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from evals.grounding.explanations import SampleExplanations
from keet.verification.verdicts import CheckedNumber, ClaimVerdict, RelationCheck
from keet.verification.verify import verify_text


class Outcome(StrEnum):
    REFUTED = "refuted"
    """Called wrong."""
    DOUBTED = "doubted"
    """Not confirmed, and reported as such."""
    PASSED = "passed"


class CheckResult(NamedTuple):
    """The verdict on a sentence, with the reason."""

    outcome: Outcome
    why: str


_PASSED = CheckResult(Outcome.PASSED, "")


def verified(explained: SampleExplanations, texts: Sequence[str]) -> list[CheckResult]:
    """All sentences in one call, one paragraph each, because paragraphs are checked
    independently."""
    ends = list(accumulate(len(text) + 2 for text in texts))
    found: list[list[CheckedNumber | RelationCheck]] = [[] for _ in texts]
    at, launches = 0, explained.slow.profile.launches
    text, told = "\n\n".join(texts), [explained.told.launch]
    for sentence in verify_text(text, told, launches, explained.known):
        while sentence.sentence.start >= ends[at]:
            at += 1
        found[at] += [*sentence.checks, *sentence.relations]
    return [_worst(checks) for checks in found]


def _worst(checks: Iterable[CheckedNumber | RelationCheck]) -> CheckResult:
    reasons = {check.verdict: check.reason for check in checks}
    if ClaimVerdict.CONTRADICTED in reasons:
        return CheckResult(Outcome.REFUTED, reasons[ClaimVerdict.CONTRADICTED])
    if ClaimVerdict.NOT_FOUND in reasons:
        return CheckResult(Outcome.DOUBTED, reasons[ClaimVerdict.NOT_FOUND])
    return _PASSED if reasons else CheckResult(Outcome.PASSED, "no number was seen")
