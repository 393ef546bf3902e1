"""One question about one or several reports, answered and held to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from keet_tools.case import Case

from keet.agent import prompts
from keet.agent.answers import Spoken
from keet.agent.digest import overview
from keet.agent.mending import mend
from keet.agent.session import Session
from keet.agent.slots import Slots
from keet.agent.source import own_files
from keet.explanation.statement import Answered, Authorship
from keet.profile import Launch
from keet.verification.holding import Holder

_WHERE = "answer"


def opening(case: Case, question: str, rounds: int) -> str:
    count = len(case.explanations)
    what = f"{count} profiles of GPU kernels" if count > 1 else "a profile of GPU kernels"
    return prompts.ask(what=what, question=question, evidence=overview(case), rounds=rounds)


def answer(session: Session, case: Case, question: str) -> Slots:
    """Raises Fault."""
    session.begin("the question", case)
    session.tell("looking at the evidence")
    said = session.converse("ask", lambda rounds: opening(case, question, rounds), Spoken, case)
    slots = Slots(_holder(case))
    slots.put(_WHERE, said.answer, said.evidence)
    mend(session, slots)
    return slots


def answered(case: Case, question: str, slots: Slots, author: Authorship) -> Answered:
    pieces = {piece.id: piece for piece in case.evidence()}
    return Answered(
        question=question,
        text=slots.text(_WHERE),
        evidence=tuple(pieces[found] for found in slots.ids(_WHERE)),
        dropped=slots.dropped,
        numbers=slots.numbers,
        explanations=case.explanations,
        author=author,
        followups=(),
    )


def _holder(case: Case) -> Holder:
    launches = _launches(case)
    files = {
        path: launch.source_files[path] or "" for launch in launches for path in own_files(launch)
    }
    origins = {
        piece.id: number
        for number, told in enumerate(case.explanations)
        for each in told.launches
        for piece in each.evidence
    }
    several = origins if len(case.explanations) > 1 else None
    return Holder(case.evidence(), launches, files if case.show_source else {}, origins=several)


def _launches(case: Case) -> Sequence[Launch]:
    return [each.launch for told in case.explanations for each in told.launches]
