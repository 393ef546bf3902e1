"""keet's first answer about a launch: the part of a diagnosis that these evals compare."""

from __future__ import annotations

from typing import Literal, NamedTuple

from keet.analysis.archetype import is_debug_build
from keet.diagnosis.diagnosis import Diagnosis


class FirstAnswer(NamedTuple):
    """What the headline says: the ceiling that is reached, else the first finding, else that it is
    a debug build, with the cause that any build has, else nothing."""

    kind: Literal["finding", "ceiling", "debug build", "nothing"]
    id: str
    likely: float | None = None
    """Forecast speed-up of the finding."""

    def __str__(self) -> str:
        return self.id if self.likely is None else f"{self.id} {self.likely:.2f}x"


def first_answer(said: Diagnosis) -> FirstAnswer:
    if said.healthy:
        return FirstAnswer("ceiling", said.healthy)
    if said.findings:
        return FirstAnswer("finding", said.findings[0].id, said.findings[0].forecast.likely)
    if is_debug_build(said.view):
        return FirstAnswer(
            "debug build", said.in_any_build.id if said.in_any_build else "debug build"
        )
    return FirstAnswer("nothing", "nothing")
