"""Converts keet's messages to langchain's, and langchain's replies to keet's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from keet.agent.model.messages import (
    ChatMessage,
    ChatReply,
    ChatRequest,
    ModelToolCall,
    TokenCount,
    ToolSpec,
    request_document,
)
from keet.agent.model.reply_reduction import MOST_CALLS, is_count
from keet.explanation.token_budget import guess_tokens

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
"""Some local servers leave the thinking in the answer."""
_LONGEST_TOKEN = 16
"""Characters of a reply per requested token: about four are usual; blanks and JSON escapes can be
more. A server that sends more ignores the token limit."""
_LONGEST_CALL = 16 * 2**10
"""Characters of the arguments of a call, as JSON: `compile_edit` takes lines of code."""
_DEEPEST = 12
"""Levels of the arguments of a call. `compile_edit` takes 3."""
_LONGEST_NAME = 64
"""Characters of the name of a tool, as OpenAI allows; keet's have at most 20."""
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "model_length"})
"""Finish reasons of providers for an answer that was cut at the limit."""


def to_langchain(messages: Sequence[ChatMessage]) -> list[BaseMessage]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    def converted(message: ChatMessage) -> BaseMessage:
        if message.role == "system":
            return SystemMessage(message.text)
        if message.role == "user":
            return HumanMessage(message.text)
        if message.role == "tool":
            return ToolMessage(message.text, tool_call_id=message.answers or "")
        return AIMessage(message.text, tool_calls=[_call(call) for call in message.calls])

    return [converted(message) for message in messages]


def to_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """In OpenAI's form, which langchain accepts for every provider."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def with_schema_as_text(request: ChatRequest) -> ChatRequest:
    """For servers without schema support: the schema is appended to the last user message."""
    if request.schema is None:
        return request
    wish = (
        "Answer with one JSON object and nothing else: no Markdown, no words around it. "
        f"It has to match this JSON Schema:\n{json.dumps(request.schema)}"
    )
    *before, last = request.messages
    if last.role == "user":
        said = [*before, ChatMessage("user", f"{last.text}\n\n{wish}")]
    else:
        said = [*request.messages, ChatMessage("user", wish)]
    return request._replace(messages=tuple(said), schema=None)


def from_langchain(message: AIMessage, request: ChatRequest) -> ChatReply:
    said, most = _THINKING.sub("", str(message.text)), _LONGEST_TOKEN * request.max_output
    text = said[:most]
    calls = tuple(islice(_calls(message, len(request.messages)), MOST_CALLS))
    spent = _usage(message) or _estimate(request, text, calls)
    reasons = (message.response_metadata.get(name) for name in ("finish_reason", "stop_reason"))
    cut = any(str(reason) in _CUT for reason in reasons) or _stopped_early(message)
    cut = cut or len(said) > most
    return ChatReply(text, calls, spent, cut)


def misshapen_call(error: Exception, request: ChatRequest) -> ChatReply | None:
    """A reply that langchain rejected because the arguments of a tool are a list or a word.

    It is a mistake of the model, which can correct it, so it is not a fault. langchain's error has
    the arguments, but not the name of the tool.
    """
    problems = error.errors() if hasattr(error, "errors") else []
    bad = [problem.get("input") for problem in problems if problem.get("loc", ())[-1:] == ("args",)]
    if not bad:
        return None
    number = len(request.messages)
    calls = tuple(
        _unreadable(f"call_{number}_{index}", "unreadable", value)
        for index, value in enumerate(bad[:MOST_CALLS])
    )
    return ChatReply("", calls, _estimate(request, "", calls))


def _call(call: ModelToolCall) -> Any:
    """Arguments that are not JSON are sent back as text inside JSON: servers parse them again."""
    arguments = {"not_json": call.raw} if call.arguments is None else dict(call.arguments)
    return {"name": call.name, "args": arguments, "id": call.id}


def _calls(message: AIMessage, number: int) -> Iterator[ModelToolCall]:
    """Each with an id that is unique in the conversation."""
    for index, call in enumerate(message.tool_calls):
        id_, name, arguments = _id(call["id"], number, index), call["name"], call["args"]
        if _fits(arguments):
            yield ModelToolCall(id_, name[:_LONGEST_NAME], arguments)
        else:
            yield _unreadable(id_, name, "too long, or nested too deeply")
    for index, bad in enumerate(message.invalid_tool_calls, len(message.tool_calls)):
        name, raw = bad["name"] or "unreadable", bad["args"] or ""
        id_ = _id(bad["id"], number, index)
        yield ModelToolCall(id_, name[:_LONGEST_NAME], None, raw[:_LONGEST_CALL])


def _id(given: str | None, number: int, index: int) -> str:
    """The server's own id, unless it is absurdly long."""
    return given if given and len(given) <= 256 else f"call_{number}_{index}"


def _unreadable(id_: str, name: str, value: object) -> ModelToolCall:
    try:
        raw = json.dumps(value, default=str)
    except (RecursionError, ValueError):
        raw = "nested too deeply"
    return ModelToolCall(id_, name[:_LONGEST_NAME], None, raw[:_LONGEST_CALL])


def _fits(arguments: object) -> bool:
    """Whether size and depth are within the limits. Not recursive: arguments may be nested
    deeply."""
    size, level = 0, [arguments]
    for _ in range(_DEEPEST):
        size += sum(_size(value) for value in level)
        level = [part for value in level for part in _parts(value)]
        if not level or size > _LONGEST_CALL:
            break
    return not level and size <= _LONGEST_CALL


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _size(value: object) -> int:
    """Approximate number of characters as JSON."""
    if isinstance(value, Mapping):
        return sum(len(str(name)) + 4 for name in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() // 3 + 2
    return len(value) + 2 if isinstance(value, str | list) else 5


def _stopped_early(message: AIMessage) -> bool:
    """As OpenAI's Responses API reports it."""
    details = message.response_metadata.get("incomplete_details")
    return isinstance(details, Mapping) and str(details.get("reason")) in _CUT


def _usage(message: AIMessage) -> TokenCount | None:
    """None if the server sent no counts, or impossible ones."""
    usage = message.usage_metadata
    if not usage or not usage.get("input_tokens"):
        return None
    counts = usage["input_tokens"], usage.get("output_tokens", 0)
    return TokenCount(*counts) if all(map(is_count, counts)) else None


def _estimate(request: ChatRequest, text: str, calls: Sequence[ModelToolCall]) -> TokenCount:
    document = request_document(request)
    asked = guess_tokens(json.dumps([document["tools"], document["schema"]]))
    asked += sum(guess_tokens(message.text) + 4 for message in request.messages)
    called = "".join(f"{call.name}{json.dumps(call.arguments)}" for call in calls)
    return TokenCount(asked, guess_tokens(text + called), estimated=True)
