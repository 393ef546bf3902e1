"""The record of a run as JSON lines: requests, replies and tool calls.

Each line is one event with `event`, `at` (UTC) and `elapsed_s` (since the run began). It is written
immediately, so the file is complete up to an interrupt. Keys are removed.

A request repeats the conversation before it. Its event has `kept`, the number of messages that the
previous request of the same phase had already, and only the new messages.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from keet.agent.model.messages import (
    ChatReply,
    ChatRequest,
    reply_document,
    reply_from,
    request_document,
)
from keet.errors import UsageError, one_line
from keet.masking.keys import scrub, scrub_document

_PRIVATE = 0o600
"""Prompts contain source code."""


class Transcript:
    """Appends events to a file; without a path, writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem: str | None = None
        """Why nothing (more) is written, in one line: a full disk must not fail the run."""
        self.kept: Path | None = None
        """The path, once something was written."""
        self._began = time.monotonic()
        self._last: dict[str, dict[str, Any]] = {}
        self._file = self._open(path) if path else None

    def request(self, phase: str, request: ChatRequest) -> None:
        before, document = self._last.get(phase), request_document(request)
        self._last[phase] = document
        known = before["messages"] if before else []
        pairs = zip(known, document["messages"], strict=False)
        kept = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        equal = [n for n in ("tools", "schema") if before and before[n] == document[n]]
        new = document | dict.fromkeys(equal, "as before")
        new["messages"] = document["messages"][kept:]
        self.event("request", phase=phase, kept=kept, **new)

    def reply(self, reply: ChatReply, seconds: float) -> None:
        self.event("reply", **reply_document(reply), seconds=round(seconds, 3))

    def discard(self) -> None:
        """Removes the file: a run that sent nothing leaves no transcript."""
        self.close()
        if self.kept is not None:
            self.kept.unlink(missing_ok=True)
            self.kept = None

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()

    def _open(self, path: Path) -> int | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE)
            if stat.S_ISREG(os.fstat(file).st_mode):
                path.chmod(_PRIVATE)
        except OSError as error:
            self._give_up(error)
            return None
        return file

    def event(self, event: str, /, **facts: object) -> None:
        """`start`, `end`, `note`, and what the other methods write."""
        if self._file is None:
            return
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"event": event, "at": when, "elapsed_s": round(time.monotonic() - self._began, 3)}
        line = json.dumps(scrub_document({**head, **facts}), ensure_ascii=False)
        try:
            data = f"{line}\n".encode(errors="backslashreplace")
            while data:
                data = data[os.write(self._file, data) :]
            self.kept = self.path
        except OSError as error:
            self._give_up(error)
            self.close()

    def _give_up(self, error: OSError) -> None:
        line = f"{self.path}: the transcript can't be written ({error.strerror})"
        self.problem = one_line(scrub(f"{line}; name another file with --transcript"))


def request_text(request: ChatRequest) -> str:
    """Everything that is sent, as readable text."""
    parts = []
    for message in request.messages:
        of = f" (answers {message.answers})" if message.answers else ""
        calls = [f"calls {call.name} {_json(call.arguments)}" for call in message.calls]
        parts.append("\n".join([f"--- {message.role}{of} ---", message.text, *calls]))
    for name, description, parameters in request.tools:
        parts.append(f"--- tool {name} ---\n{description}\n{_json(parameters)}")
    if request.schema is not None:
        parts.append(f"--- the answer has to match ---\n{_json(request.schema)}")
    parts.append(f"--- at most {request.max_output} tokens of answer ---")
    return "\n".join(parts) + "\n"


def read_transcript(path: Path) -> list[dict[str, Any]]:
    """The events; an incomplete last line is skipped. Raises UsageError."""
    events: list[dict[str, Any]] = []
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
        elif number < len(lines) or not events:
            raise _broken(path, number, "is not an event of a transcript")
    return events


def replies_of(path: Path) -> list[ChatReply]:
    """The replies of the model, in order. Raises UsageError.

    Older runs have a phase `read`, in which the model saw the source alone: it is skipped."""
    replies: list[ChatReply] = []
    phase = None
    for number, event in enumerate(read_transcript(path), 1):
        if event["event"] == "start":
            replies.clear()  # several runs in one file: the last one counts
        phase = event.get("phase") if event["event"] == "request" else phase
        if event["event"] != "reply" or phase == "read":
            continue
        try:
            replies.append(reply_from(event))
        except ValueError:
            raise _broken(path, number, "is an incomplete reply") from None
    return replies


def read_lines(path: Path) -> list[str]:
    """Non-blank lines, split only at line feeds: JSON texts may contain other line breaks."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        line = f"{path}: can't be read ({error.strerror}); name an existing file"
        raise UsageError(one_line(line)) from None
    return [line for line in text.split("\n") if line.strip()]


def _broken(path: Path, number: int, problem: str) -> UsageError:
    return UsageError(one_line(f"{path}: line {number} {problem}; name another file"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def check_replay(path: Path, reports: Sequence[str], question: str | None) -> str:
    """The model that was asked; empty if an older transcript lacks it. Raises UsageError unless the
    run was about these reports (SHA-256) and this question."""
    events = read_transcript(path)
    start = next((event for event in events if event["event"] == "start"), {})
    phases = {event.get("phase") for event in events if event["event"] == "request"}
    asked = start.get("question")
    refused = None
    if not any(event["event"] == "reply" for event in events):
        refused = "has no replies: it is not a transcript of a run"
    elif ("ask" in phases) != (question is not None):
        command = "ask" if "ask" in phases else "explain"
        refused = f"was recorded by keet {command}; replay it with that command"
    elif start.get("reports") and list(reports) != start["reports"]:
        refused = "was recorded with another report; name that report"
    elif asked and asked != question:
        refused = f"was recorded with another question: {asked[:200]}"
    if refused:
        raise UsageError(one_line(f"--replay {path}: it {refused}"))
    return str(start.get("model", ""))
