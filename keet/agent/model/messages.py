"""Requests to a model and its replies, independent of the provider; also as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from keet.report.typed_json import typed
from keet.token_count import guess_tokens

Role = Literal["system", "user", "assistant", "tool"]


class ModelToolCall(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any] | None
    """None: the model did not send a JSON object; `raw` has what it sent."""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    text: str
    calls: tuple[ModelToolCall, ...] = ()
    """Only for role "assistant"."""
    answers: str | None = None
    """Only for role "tool": the id of the call."""


class ToolSpec(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema."""


class ChatRequest(NamedTuple):
    messages: Sequence[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer; sent as text if the server does not support schemas."""
    max_output: int = 2500


class TokenCount(NamedTuple):
    input_tokens: int
    output_tokens: int
    estimated: bool = False


class ChatReply(NamedTuple):
    text: str
    calls: tuple[ModelToolCall, ...]
    spent: TokenCount
    cut: bool = False
    """It was cut off at the token limit."""
    cached: bool = False


UNSENT = frozenset({"no_key", "not_installed", "no_provider"})
"""Kinds of faults that occur before anything is sent."""
NEXT_CAN_SUCCEED = frozenset({"budget", "calls", "answer"})
"""Kinds of faults of one kernel or question: the next one can still be asked."""


class ModelFault(Exception):
    """The model can't be asked, or did not answer. The message is one line, ends with what to do
    next, and never contains a key. Kind "no_tools": ask again without them."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class Chat(Protocol):
    """A model that can be asked. Raises ModelFault."""

    @property
    def name(self) -> str: ...

    def ask(self, request: ChatRequest) -> ChatReply: ...


def estimate(request: ChatRequest) -> int:
    """Estimated tokens of a request, including its tools."""
    texts = [message.text for message in request.messages]
    texts += [json.dumps(dict(call.arguments or {})) for m in request.messages for call in m.calls]
    texts += [json.dumps(tool._asdict()) for tool in request.tools]
    return guess_tokens("\n".join(texts))


def reply_document(reply: ChatReply) -> dict[str, Any]:
    """The form in transcripts and in the cache."""
    calls = [call._asdict() for call in reply.calls]
    return {**reply._asdict(), "calls": calls, "spent": reply.spent._asdict()}


def reply_from(document: object) -> ChatReply:
    """The inverse of `reply_document`. Raises ValueError."""
    return typed(document, ChatReply)


def request_document(request: ChatRequest) -> dict[str, Any]:
    messages = [_message_document(message) for message in request.messages]
    tools = [tool._asdict() for tool in request.tools]
    return {**request._asdict(), "messages": messages, "tools": tools}


def request_from(document: Mapping[str, Any]) -> ChatRequest:
    """The inverse of `request_document`."""
    messages = typed(document["messages"], tuple[ChatMessage, ...])
    tools = tuple(ToolSpec(**tool) for tool in document["tools"])
    return ChatRequest(messages, tools, document["schema"], document["max_output"])


def _message_document(message: ChatMessage) -> dict[str, Any]:
    """Without fields that are empty."""
    document: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.calls:
        document["calls"] = [call._asdict() for call in message.calls]
    if message.answers is not None:
        document["answers"] = message.answers
    return document
