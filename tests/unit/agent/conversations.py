"""Explains samples in this process, with a fake chat that replies what a test gives it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from keet_tools.answers import ToolInput, scope_of

from keet.agent.model.messages import ChatReply, ChatRequest, ModelFault, ModelToolCall, TokenCount
from keet.agent.model.settings import ModelLimits, Redaction
from keet.agent.model.transcript import Transcript
from keet.agent.open_model import fault_from
from keet.agent.redaction import Redactor
from keet.agent.run import answer_question, explain_launch
from keet.agent.session import ModelSession, estimate
from keet.documents.model_explanation import ModelExplanation
from keet.evidence import Prose
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.profile import Profile
from keet.report import read_profile
from tests.kept_reports import sample_report

SUMMARY = "Shared memory is the limit: {bank_conflict_share} is lost to conflicts."
LINE = "for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile[item + j][k];"
OTHER = "for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile[item + 16 * j][k];"
LIMITS = ModelLimits(input_tokens=40_000)


class Said(NamedTuple):
    """A reply with calls of tools."""

    calls: tuple[tuple[str, dict[str, Any]], ...]


class FakeChat:
    """Answers in order: objects as JSON, texts unchanged, exceptions raised."""

    name = "fake"

    def __init__(self, replies: Sequence[Any]) -> None:
        self._replies = list(replies)
        self.requests: list[ChatRequest] = []

    def ask(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if not self._replies:
            raise ModelFault("server", "nothing is left to say")
        said = self._replies.pop(0)
        if isinstance(said, BaseException):
            raise said
        spent = TokenCount(estimate(request), 10, True)
        if isinstance(said, Said):
            calls = [ModelToolCall(str(i), *call, "") for i, call in enumerate(said.calls)]
            return ChatReply("", tuple(calls), spent)
        return ChatReply(said if isinstance(said, str) else json.dumps(said), (), spent)

    def texts(self, role: str = "user") -> list[str]:
        """Of the messages that were sent last with each request."""
        return [m.text for request in self.requests for m in request.messages if m.role == role]


@cache
def _profile(path: str) -> Profile:
    return read_profile(Path(path))


def explained(*names: str) -> list[Explanation]:
    """Of `score_tiles/slow`, or a path; new ledgers every time."""
    paths = [str(sample_report(*n.split("/"))) if not n.startswith("tests/") else n for n in names]
    return [
        explain(_profile(path), _profile(path).launches, 5, report_scope=scope_of(number))
        for number, path in enumerate(paths)
    ]


class Talk(NamedTuple):
    """What came of an investigation."""

    each: LaunchExplanation
    fault: ModelFault | None
    chat: FakeChat
    before: Explanation
    told: list[str]
    """Progress."""

    @property
    def model_explanation(self) -> ModelExplanation:
        assert self.each.model is not None, self.fault
        return self.each.model


def session_of(
    chat: FakeChat,
    explanations: Sequence[Explanation],
    told: list[str],
    limits: ModelLimits = LIMITS,
    redact: Redaction | None = None,
) -> ModelSession:
    return ModelSession(
        chat,
        transcript=Transcript(None),
        redactor=Redactor(explanations, redact),
        progress=told.append,
        limits=limits,
    )


def talk(
    *replies: Any,
    sample: str = "score_tiles/slow",
    limits: ModelLimits = LIMITS,
    redact: Redaction | None = None,
    compiles: bool = False,
    focus: int = 0,
) -> Talk:
    chat, explanations, told = FakeChat(replies), explained(sample), []
    session = session_of(chat, explanations, told, limits, redact)
    shows = not session.redactor.hides_source
    tool_input = ToolInput(explanations, focus=focus, show_source=shows)
    try:
        found = explain_launch(session, tool_input, compiles=compiles), None
    except (ModelFault, KeyboardInterrupt) as problem:
        found = tool_input.launch(), fault_from(problem)
    return Talk(*found, chat, explanations[0], told)


def asked(*replies: Any, samples: Sequence[str], limits: ModelLimits = LIMITS) -> Prose:
    chat, explanations = FakeChat(replies), explained(*samples)
    session = session_of(chat, explanations, [], limits)
    return answer_question(session, ToolInput(explanations), "What limits it?")


def conclusion(**parts: Any) -> dict[str, Any]:
    return {"summary": SUMMARY, "purpose": "Scores queries against items.", **parts}


def cause(finding: str = "shared_bank_conflict", **parts: Any) -> dict[str, Any]:
    said = {"finding": finding, "text": "Neighbours read the same bank.", "because": []}
    return {**said, "because": ["bank_conflicts_load > 0"], **parts}


def change(old: str = LINE, new: str = OTHER, line: int = 43) -> dict[str, Any]:
    return {"file": "slow.cu", "line": line, "old": old, "new": new}


def edit(*changes: Any, **parts: Any) -> dict[str, Any]:
    told = {"finding": "shared_bank_conflict", "what": "Spread the columns over the banks."}
    return {**told, "changes": list(changes), **parts}


def corrections(*texts: Any) -> dict[str, Any]:
    """Texts by number; changes where one is a list."""
    return {
        "corrections": [
            {"number": n, **({"changes": said} if isinstance(said, list) else {"text": said})}
            for n, said in enumerate(texts, 1)
        ]
    }
