"""Evidence ids of a transcript in today's numbering.

Ids are given out in the order in which numbers are looked up; a newer keet looks up others. So a
transcript holds what each id was, and a replay puts today's id for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from keet_tools.case import Case

from keet.agent.transcript import read_transcript

_ID = re.compile(r"\bE\d+\b")
_GONE = "E0"
"""For what is not looked up any more: no evidence has it, so that nothing rests on it."""

Entry = tuple[str, str, str | None]
"""Launch, metric and line."""


def entries(case: Case) -> dict[str, Entry]:
    """What each id of a case stands for."""
    return {
        piece.id: (f"{number}.{each.launch.id}", piece.metric, piece.line)
        for number, told in enumerate(case.explanations)
        for each in told.launches
        for piece in each.view.ledger
    }


class Translation:
    def __init__(self, recorded: Mapping[str, Entry]) -> None:
        self._recorded = recorded

    def to_today(self, text: str, case: Case | None) -> str:
        if case is None or not self._recorded:
            return text
        today = {entry: found for found, entry in entries(case).items()}
        return _ID.sub(lambda match: self._translated(match[0], today), text)

    def _translated(self, found: str, today: Mapping[Entry, str]) -> str:
        entry = self._recorded.get(found)
        return today.get(entry, _GONE) if entry else found


def recorded_in(path: Path) -> Translation:
    """Raises UsageError."""
    noted: Iterable[object] = (
        row
        for event in read_transcript(path)
        if event["event"] == "note" and isinstance(event.get("evidence"), list)
        for row in event["evidence"]
    )
    rows = (row for row in noted if isinstance(row, list) and len(row) == 4)
    return Translation({str(i): (str(launch), str(m), line) for i, launch, m, line in rows})
