"""Between keet's messages and langchain's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keet.agent.wire import Message, Reply, Request, Spent, ToolCall, ToolSpec, request_document
from keet.explanation.budget import guess_tokens

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
"""Some local servers leave it in the answer."""
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "model_length"})
"""The words of providers for an answer that ended at the limit."""


def to_langchain(messages: Sequence[Message]) -> list[BaseMessage]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    def converted(message: Message) -> BaseMessage:
        if message.role == "system":
            return SystemMessage(message.text)
        if message.role == "user":
            return HumanMessage(message.text)
        if message.role == "tool":
            return ToolMessage(message.text, tool_call_id=message.answers or "")
        return AIMessage(message.text, tool_calls=[_call(call) for call in message.calls])

    return [converted(message) for message in messages]


def to_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """As OpenAI writes them, which langchain takes for every provider."""
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


def with_schema_as_text(request: Request) -> Request:
    """For servers that can't be held to a schema: it is said at the end of what the user says."""
    if request.schema is None:
        return request
    wish = (
        "Answer with one JSON object and nothing else: no Markdown, no words around it. "
        f"It has to match this JSON Schema:\n{json.dumps(request.schema)}"
    )
    *before, last = request.messages
    if last.role == "user":
        said = [*before, Message("user", f"{last.text}\n\n{wish}")]
    else:
        said = [*request.messages, Message("user", wish)]
    return request._replace(messages=tuple(said), schema=None)


def from_langchain(message: AIMessage, request: Request) -> Reply:
    text = _THINKING.sub("", str(message.text))
    calls = tuple(_calls(message, len(request.messages)))
    spent = _usage(message) or _estimate(request, text, calls)
    reasons = (message.response_metadata.get(name) for name in ("finish_reason", "stop_reason"))
    cut = any(str(reason) in _CUT for reason in reasons) or _stopped_early(message)
    return Reply(text, calls, spent, cut)


def misshapen_call(error: Exception, request: Request) -> Reply | None:
    """The reply that langchain refused since the arguments of a tool are a list or a word.

    It is a slip of the model, which can be told of it; for a fault it is too small. langchain's
    error has the arguments, and not the name of the tool.
    """
    problems = error.errors() if hasattr(error, "errors") else []
    bad = [problem.get("input") for problem in problems if problem.get("loc", ())[-1:] == ("args",)]
    if not bad:
        return None
    number = len(request.messages)
    calls = tuple(
        ToolCall(f"call_{number}_{index}", "unreadable", None, json.dumps(value, default=str))
        for index, value in enumerate(bad)
    )
    return Reply("", calls, _estimate(request, "", calls))


def _call(call: ToolCall) -> Any:
    """Arguments that are no JSON go back as a text inside JSON: servers parse them again."""
    arguments = {"not_json": call.raw} if call.arguments is None else dict(call.arguments)
    return {"name": call.name, "args": arguments, "id": call.id}


def _calls(message: AIMessage, number: int) -> Iterator[ToolCall]:
    """Each with an id that no other call of the conversation has."""
    for index, call in enumerate(message.tool_calls):
        yield ToolCall(call["id"] or f"call_{number}_{index}", call["name"], call["args"])
    for index, bad in enumerate(message.invalid_tool_calls, len(message.tool_calls)):
        name, raw = bad["name"] or "unreadable", bad["args"] or ""
        yield ToolCall(bad["id"] or f"call_{number}_{index}", name, None, raw)


def _stopped_early(message: AIMessage) -> bool:
    """The word of OpenAI's Responses."""
    details = message.response_metadata.get("incomplete_details")
    return isinstance(details, Mapping) and str(details.get("reason")) in _CUT


def _usage(message: AIMessage) -> Spent | None:
    usage = message.usage_metadata
    if not usage or not usage["input_tokens"]:
        return None
    return Spent(usage["input_tokens"], usage["output_tokens"])


def _estimate(request: Request, text: str, calls: Sequence[ToolCall]) -> Spent:
    document = request_document(request)
    asked = guess_tokens(json.dumps([document["tools"], document["schema"]]))
    asked += sum(guess_tokens(message.text) + 4 for message in request.messages)
    called = "".join(f"{call.name}{json.dumps(call.arguments)}" for call in calls)
    return Spent(asked, guess_tokens(text + called), estimated=True)
