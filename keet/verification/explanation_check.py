"""Checks that every number in the texts of an explanation has evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from keet.explanation.explanation_types import texts_of
from keet.verification.grounding import (
    EvidenceIndex,
    GroundingResult,
    UnsupportedNumber,
    check_grounding,
)

if TYPE_CHECKING:
    from keet.explanation.explanation_types import Explanation, LaunchExplanation
    from keet.explanation.program import ProgramExplanation


class ExplanationCheck:
    """Numbers of all texts of an explanation, and those without evidence. Checked on first access.

    `program`: the explanation of all launches together, if it is printed too.
    """

    def __init__(self, explanation: Explanation, program: ProgramExplanation | None = None) -> None:
        self._explanation = explanation
        self._program = program

    @cached_property
    def checked(self) -> tuple[GroundingResult, ...]:
        """One entry per text, each checked against the evidence of its launch, run or program."""
        launches = self._explanation.launches
        of_launches = (grounding for each in launches for grounding in check_launch(each))
        return (*check_run(self._explanation), *of_launches, *check_program(self._program))

    @property
    def numbers(self) -> int:
        return sum(each.numbers for each in self.checked)

    @property
    def verified(self) -> int:
        return sum(len(each.verified) for each in self.checked)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Numbers without evidence, and why."""
        return tuple(
            _unchecked(unsupported) for each in self.checked for unsupported in each.unsupported
        )


class CheckCount:
    """The same counts, added up while launches are explained one by one and then discarded."""

    def __init__(self) -> None:
        self.numbers = self.verified = 0
        self.unchecked: list[str] = []

    def add(self, checked: Iterable[GroundingResult]) -> None:
        for each in checked:
            self.numbers += each.numbers
            self.verified += len(each.verified)
            self.unchecked += map(_unchecked, each.unsupported)


def check_run(explanation: Explanation) -> Iterator[GroundingResult]:
    if (run := explanation.whole_run) is None:
        return
    yield from (check_grounding(text, run.book) for text in run.text)


def check_launch(each: LaunchExplanation) -> Iterator[GroundingResult]:
    texts = texts_of(each)  # may add evidence
    places = {place.where for finding in each.findings for place in finding.places}
    return map(EvidenceIndex(each.evidence, each.launch, places).check, texts)


def check_program(program: ProgramExplanation | None) -> Iterator[GroundingResult]:
    if program is None:
        return
    yield from map(EvidenceIndex(program.book).check, program.texts)
    for found in program.cross_launch:
        yield check_grounding(found.text, found.evidence)


def _unchecked(unsupported: UnsupportedNumber) -> str:
    """A number without evidence, and why."""
    return f"{unsupported.text}: {unsupported.reason}"
