"""Stray sentences go back to the model, once, with the reason."""

from __future__ import annotations

from keet.agent import prompts
from keet.agent.answers import Repair
from keet.agent.digest import evidence_lines
from keet.agent.session import Session
from keet.agent.slots import Slots
from keet.agent.wire import Fault

_SHOWN = 40
"""Pieces of evidence to choose from."""


def mend(session: Session, slots: Slots) -> None:
    """What does not come back, or is still stray, stays dropped."""
    strays = slots.strays
    if not strays:
        return
    session.tell(f"having {len(strays)} stray sentence{'s' * (len(strays) > 1)} mended")
    prompt = prompts.repair(
        [f"{stray.text}\n   ({stray.where}; {stray.reason})" for stray in strays],
        evidence_lines(slots.relevant(strays, _SHOWN)),
    )
    try:
        repair = session.converse("repair", lambda _: prompt, Repair, None)
    except (Fault, KeyboardInterrupt) as problem:
        # What holds is kept; after Ctrl-C nothing more is asked.
        session.interrupted = isinstance(problem, KeyboardInterrupt)
        session.transcript.note(repair=str(problem) or "interrupted")
        return
    slots.mend(strays, ((text.number or 0, text.text) for text in repair.texts))
