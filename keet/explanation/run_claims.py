"""Numbers of a text that are about the run of the whole program, held to its table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from keet.explanation.matching import agrees
from keet.explanation.readings import Reading
from keet.explanation.verify import Check, CheckedSentence, Verdict
from keet.explanation.whole_run import run_facts
from keet.profile import Profile
from keet.units import Quantity

_ABOUT_RUN = re.compile(r"\b(?:the|its|plain|whole)\s+run\b|\bGPU time\b", re.IGNORECASE)
_NOT_THERE = "the text speaks of the run, and its table has no such number"


def with_run_claims(found: Iterable[CheckedSentence], profile: Profile) -> list[CheckedSentence]:
    """The checks of `verify_text`, and those of sentences about the run against its table.

    Such a number is not contradicted by what ncu measured: that is another time.
    """
    facts = [
        Reading(piece.label, Quantity(piece.value, piece.unit), None, launch)
        for launch, piece in run_facts(profile)
    ]
    return [_checked(each, facts) for each in found]


def _checked(each: CheckedSentence, facts: Sequence[Reading]) -> CheckedSentence:
    if not facts or not _ABOUT_RUN.search(each.sentence.text):
        return each
    return each._replace(checks=tuple(_check(check, facts) for check in each.checks))


def _check(check: Check, facts: Sequence[Reading]) -> Check:
    if check.verdict is Verdict.CONFIRMED or check.number.shape:
        return check
    reading = next((fact for fact in facts if agrees(check.number, fact.quantity)), None)
    if reading is not None:
        return Check(check.number, Verdict.CONFIRMED, reading, str(reading))
    if check.verdict is Verdict.CONTRADICTED:
        return Check(check.number, Verdict.NOT_FOUND, None, _NOT_THERE)
    return check
