"""Runs `keet verify` on given sentences: does it refute, doubt or pass each of them?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from evals.grounding.explanations import SampleExplanations
from keet.documents.verify import RelationDocument
from keet.verification.verdicts import CheckedNumber
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
    found: list[list[CheckedNumber | RelationDocument]] = [[] for _ in texts]
    at, launches = 0, explained.slow.profile.launches
    text, told = "\n\n".join(texts), [explained.told.launch]
    for sentence in verify_text(text, told, launches, explained.known):
        while sentence.sentence.start >= ends[at]:
            at += 1
        found[at] += [*sentence.checks, *sentence.relations]
    return [_worst(checks) for checks in found]


def _worst(checks: Iterable[CheckedNumber | RelationDocument]) -> CheckResult:
    reasons = {check.verdict: check.reason for check in checks}
    if "contradicted" in reasons:
        return CheckResult(Outcome.REFUTED, reasons["contradicted"])
    if "not_found" in reasons:
        return CheckResult(Outcome.DOUBTED, reasons["not_found"])
    return _PASSED if reasons else CheckResult(Outcome.PASSED, "no number was seen")
