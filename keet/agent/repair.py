"""Sends the faults of an answer back to the model, once, with the reasons."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet_tools.answers import ToolInput

from keet.agent import prompts
from keet.agent.answer_schemas import MOST_CORRECTIONS, Corrections
from keet.agent.checked_answer import AnswerFault
from keet.agent.model.messages import ModelFault
from keet.agent.session import ModelSession
from keet.evidence import Evidence
from keet.formatting import count_noun

_SHOWN = 16
"""Evidence names that the request offers."""


def repair(session: ModelSession, tool_input: ToolInput, faults: Sequence[AnswerFault]) -> int:
    """Returns how many parts were sent back. What is not corrected stays, marked as unchecked."""
    if not faults:
        return 0
    faults = faults[:MOST_CORRECTIONS]
    session.tell(f"asking the model to correct {count_noun(len(faults), 'part')}")
    prompt = prompts.repair([str(fault) for fault in faults], _names(tool_input, faults))
    try:
        repaired, _ = session.converse("repair", lambda _: prompt, Corrections)
    except (ModelFault, KeyboardInterrupt) as problem:
        # The answer is kept without corrections; after Ctrl-C nothing more is asked.
        session.interrupted = isinstance(problem, KeyboardInterrupt)
        session.transcript.note(repair=str(problem) or "interrupted")
        return 0
    given = {each.number: each for each in repaired.corrections}
    for number, fault in enumerate(faults, 1):
        if number in given:
            fault.correct(given[number])
    return len(faults)


def _names(tool_input: ToolInput, faults: Sequence[AnswerFault]) -> str:
    """Evidence that may have been meant: named in the faults, or with similar words."""
    said = " ".join(map(str, faults))
    words = _words(" ".join(fault.text for fault in faults))

    def distance(piece: Evidence) -> tuple[bool, int]:
        return piece.slug not in said, -len(words & _words(f"{piece.label} {piece.slug}"))

    ranked = sorted(tool_input.evidence(), key=distance)[:_SHOWN]
    rows = (f"{{{piece.id}}} {piece.label} {piece}" for piece in ranked)
    return tool_input.with_short_names("\n".join(rows))


def _words(text: str) -> set[str]:
    """Lower-case words, without common ones."""
    return set(re.findall(r"[a-z][a-z0-9]+", text.lower())) - _COMMON


_COMMON = frozenset(
    (
        "the",
        "is",
        "are",
        "of",
        "and",
        "at",
        "in",
        "on",
        "to",
        "for",
        "by",
        "it",
        "that",
        "per",
        "pct",
    )
)
