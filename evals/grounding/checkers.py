"""The checks that keet has for numbers, each asked the same: does this sentence stand?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from evals.grounding.bases import Said
from evals.grounding.material import Material
from keet.agent.source import own_files
from keet.verification.checked import Check, Verdict
from keet.verification.grounding import check_grounding
from keet.verification.holding import Holder
from keet.verification.verify import verify_text


class Outcome(StrEnum):
    REFUTED = "refuted"
    """Said to be wrong."""
    DOUBTED = "doubted"
    """Not confirmed, and said to be so."""
    PASSED = "passed"
    NOT_ASKED = "not asked"
    """What the sentence is about is nothing that this check can know."""


class Judged(NamedTuple):
    """What a check said of a sentence, and why."""

    outcome: Outcome
    why: str


_PASSED = Judged(Outcome.PASSED, "")


def held(material: Material, said: Sequence[Said]) -> list[Judged]:
    one, both = _holder(material), _holder_of_both(material)
    return [_held(both if each.both else one, each) for each in said]


def _held(holder: Holder, said: Said) -> Judged:
    reasons = [part.reason for part in holder.hold(said.text, said.cited).parts if part.reason]
    return Judged(Outcome.REFUTED, reasons[0]) if reasons else _PASSED


def _holder(material: Material) -> Holder:
    """As `keet explain --model` makes it."""
    launch = material.told.launch
    files = {path: launch.source_files[path] or "" for path in own_files(launch)}
    return Holder(material.pieces.values(), [launch], files)


def _holder_of_both(material: Material) -> Holder:
    """As `keet ask` makes it of two reports."""
    sides = (material.told, material.told_after)
    launches = [each.launch for each in sides]
    files = {path: each.source_files[path] or "" for each in launches for path in own_files(each)}
    origins = {piece.id: side for side, each in enumerate(sides) for piece in each.evidence}
    pieces = [piece for each in sides for piece in each.evidence]
    return Holder(pieces, launches, files, origins=origins)


def own(material: Material, said: Sequence[Said]) -> list[Judged]:
    return [_own(material, each) for each in said]


def _own(material: Material, said: Said) -> Judged:
    evidence = material.both if said.both else material.told.evidence
    stray = check_grounding(said.text, evidence, launch=material.told.launch).stray
    return Judged(Outcome.REFUTED, stray[0].reason) if stray else _PASSED


def verified(material: Material, said: Sequence[Said]) -> list[Judged]:
    """It knows one report, and no ids: it is not asked about two, or about an id."""
    asked = [each.text for each in said if not (each.both or each.about_id)]
    answers = iter(_verify_all(material, asked))
    not_asked = Judged(Outcome.NOT_ASKED, "keet verify knows one report, and no ids")
    return [not_asked if each.both or each.about_id else next(answers) for each in said]


def _verify_all(material: Material, texts: Sequence[str]) -> list[Judged]:
    """All at once, a paragraph each: a paragraph knows nothing of those before it."""
    ends = list(accumulate(len(text) + 2 for text in texts))
    found: list[list[Check]] = [[] for _ in texts]
    at, launches = 0, material.slow.profile.launches
    text, told = "\n\n".join(texts), [material.told.launch]
    for sentence in verify_text(text, told, launches, material.known):
        for check in sentence.checks:
            while check.number.start >= ends[at]:
                at += 1
            found[at].append(check)
    return [_worst(checks) for checks in found]


def _worst(checks: Iterable[Check]) -> Judged:
    reasons = {check.verdict: check.reason for check in checks}
    if Verdict.CONTRADICTED in reasons:
        return Judged(Outcome.REFUTED, reasons[Verdict.CONTRADICTED])
    if Verdict.NOT_FOUND in reasons:
        return Judged(Outcome.DOUBTED, reasons[Verdict.NOT_FOUND])
    return _PASSED if reasons else Judged(Outcome.PASSED, "no number was seen")


CHECKERS: dict[str, Callable[[Material, Sequence[Said]], list[Judged]]] = {
    "held": held,
    "verify": verified,
    "own": own,
}
WHAT = {
    "held": "what `keet explain --model` and `keet ask` do to a model's sentences",
    "verify": "`keet verify`: a text by anyone against a report",
    "own": "what keet does to its own sentences, whose numbers it put there itself",
}
