"""`--replay`: checks that a transcript belongs to the reports and the question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keet.agent.recorded.transcript import read_transcript
from keet.errors import UsageError, one_line


class RecordedRun(NamedTuple):
    """What a transcript says about its run; empty fields if an older transcript lacks them."""

    model: str
    reports: tuple[str, ...]
    question: str | None
    asked: bool
    """Whether it is a run of `keet ask`, not of `keet explain`."""


def recorded_run(path: Path) -> RecordedRun:
    """Raises UsageError."""
    events = read_transcript(path)
    if not any(event["event"] == "reply" for event in events):
        raise _refused(path, "has no replies: it is not a transcript of a run")
    start = next((event for event in events if event["event"] == "start"), {})
    phases = {event.get("phase") for event in events if event["event"] == "request"}
    shas = start.get("reports") or []
    question = start.get("question")
    return RecordedRun(str(start.get("model", "")), tuple(shas), question, "ask" in phases)


def check_replay(path: Path, reports: Sequence[str], question: str | None) -> RecordedRun:
    """Raises UsageError unless the run was about these reports (SHA-256) and this question."""
    run = recorded_run(path)
    if run.asked != (question is not None):
        command = "ask" if run.asked else "explain"
        raise _refused(path, f"was recorded by keet {command}; replay it with that command")
    if run.reports and tuple(reports) != run.reports:
        raise _refused(path, "was recorded with another report; name that report")
    if run.question and run.question != question:
        raise _refused(path, f"was recorded with another question: {run.question[:200]}")
    return run


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(one_line(f"--replay {path}: it {why}"))
