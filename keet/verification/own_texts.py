"""Checks the numbers of keet's own explanation: has each of them evidence?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from keet.explanation.analyst import texts_of
from keet.verification.grounding import Grounding, check_grounding

if TYPE_CHECKING:
    from keet.explanation.analyst import Explanation
    from keet.explanation.program import Program


class Grounded:
    """The numbers of all texts of an explanation, and those without evidence.

    Checked when it is first asked for. `program`: the launches together, where that is printed too.
    """

    def __init__(self, explanation: Explanation, program: Program | None = None) -> None:
        self._explanation = explanation
        self._program = program

    @cached_property
    def checked(self) -> tuple[Grounding, ...]:
        """One entry per text, each checked against the evidence of its launch, run or program."""
        return (*self._of_run(), *self._of_launches(), *self._of_program())

    def _of_run(self) -> Iterator[Grounding]:
        if (run := self._explanation.whole_run) is None:
            return
        for text, launch in run.said:
            yield check_grounding(text, run.book, launch=launch)

    def _of_launches(self) -> Iterator[Grounding]:
        for each in self._explanation.launches:
            for text in texts_of(each):
                yield check_grounding(text, each.evidence, launch=each.launch)

    def _of_program(self) -> Iterator[Grounding]:
        if self._program is None:
            return
        for text in self._program.said:
            yield check_grounding(text, self._program.book)
        for found in self._program.across:
            yield check_grounding(found.text, found.evidence)

    @property
    def numbers(self) -> int:
        return sum(each.numbers for each in self.checked)

    @property
    def verified(self) -> int:
        return sum(len(each.verified) for each in self.checked)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Numbers without evidence, and why."""
        return tuple(f"{s.text}: {s.reason}" for each in self.checked for s in each.stray)
