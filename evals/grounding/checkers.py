"""keet's checks of numbers behind one interface: is this sentence accepted?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from evals.grounding.explanations import Material
from keet.verification.grounding import check_grounding
from keet.verification.verdicts import CheckedNumber, ClaimVerdict, RelationCheck
from keet.verification.verify import verify_text


class Outcome(StrEnum):
    REFUTED = "refuted"
    """Called wrong."""
    DOUBTED = "doubted"
    """Not confirmed, and reported as such."""
    PASSED = "passed"


class Judged(NamedTuple):
    """A check's verdict on a sentence, with the reason."""

    outcome: Outcome
    why: str


_PASSED = Judged(Outcome.PASSED, "")


def own(material: Material, said: Sequence[str]) -> list[Judged]:
    return [_own(material, each) for each in said]


def _own(material: Material, said: str) -> Judged:
    stray = check_grounding(said, material.told.evidence, launch=material.told.launch).unsupported
    return Judged(Outcome.REFUTED, stray[0].reason) if stray else _PASSED


def verified(material: Material, texts: Sequence[str]) -> list[Judged]:
    """All sentences in one call, one paragraph each, because paragraphs are checked
    independently."""
    ends = list(accumulate(len(text) + 2 for text in texts))
    found: list[list[CheckedNumber | RelationCheck]] = [[] for _ in texts]
    at, launches = 0, material.slow.profile.launches
    text, told = "\n\n".join(texts), [material.told.launch]
    for sentence in verify_text(text, told, launches, material.known):
        while sentence.sentence.start >= ends[at]:
            at += 1
        found[at] += [*sentence.checks, *sentence.relations]
    return [_worst(checks) for checks in found]


def _worst(checks: Iterable[CheckedNumber | RelationCheck]) -> Judged:
    reasons = {check.verdict: check.reason for check in checks}
    if ClaimVerdict.CONTRADICTED in reasons:
        return Judged(Outcome.REFUTED, reasons[ClaimVerdict.CONTRADICTED])
    if ClaimVerdict.NOT_FOUND in reasons:
        return Judged(Outcome.DOUBTED, reasons[ClaimVerdict.NOT_FOUND])
    return _PASSED if reasons else Judged(Outcome.PASSED, "no number was seen")


CHECKERS: dict[str, Callable[[Material, Sequence[str]], list[Judged]]] = {
    "verify": verified,
    "own": own,
}
WHAT = {
    "verify": "`keet verify`: checks any text against a report",
    "own": "keet's check of its own sentences, whose numbers it inserted itself",
}
