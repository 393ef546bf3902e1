"""A model that answers from a file: `--replay FILE`, and `--model scripted:FILE` for tests.

FILE is a transcript, whose replies are repeated, or JSON lines such as

    {"content": "text of the answer"}
    {"tool_calls": [{"name": "read_source", "arguments": {"line": 3}}]}
    {"content": "...", "usage": {"input": 900, "output": 40}}
    {"fault": "timeout"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keet.agent.model.faults import LINES, AskedModel, named_fault
from keet.agent.model.langchain_chat import accepted, estimated_tokens
from keet.agent.model.messages import ChatReply, ChatRequest, ModelFault, ModelToolCall, TokenCount
from keet.agent.model.settings import ModelSpec
from keet.agent.model.transcript import read_lines, replies_of
from keet.errors import UsageError, one_line

_REMEDY = 'each line is {"content": ..., "tool_calls": ..., "usage": ..., "fault": ...}'
_FAULTS = LINES.keys() | {"interrupt"}
_TIMEOUT_S = 60.0


class ScriptedChat:
    """A Chat that answers from lines (see above) or from replies, in order."""

    def __init__(self, lines: Sequence[Mapping[str, Any] | ChatReply], name: str) -> None:
        self.name = name
        self.asked: list[ChatRequest] = []
        self._script = [_answer(line, number) for number, line in enumerate(lines, 1)]

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        number = len(self.asked)
        self.asked.append(request)
        if number >= len(self._script):
            line = f"{self.name} is used up after {number} replies; add what the model answers next"
            raise ModelFault("script", line)
        answer = self._script[number]
        asked = AskedModel(ModelSpec(self.name, None, _TIMEOUT_S, None), bool(request.tools))
        if isinstance(answer, ChatReply):
            if answer.spent.estimated:
                answer = answer._replace(spent=estimated_tokens(request, answer))
            return accepted(answer, request, asked)
        raise KeyboardInterrupt if answer == "interrupt" else named_fault(answer, asked)


def open_script(path: Path | str) -> ScriptedChat:
    """Raises ModelFault if the file is not a script."""
    try:
        return ScriptedChat(_read(Path(path)), f"scripted:{path}")
    except UsageError as error:
        raise ModelFault("script", str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFault("script", one_line(f"{path}: not a script ({error}); {_REMEDY}")) from None


def _read(path: Path) -> Sequence[Mapping[str, Any] | ChatReply]:
    parsed: list[Mapping[str, Any]] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if isinstance(document, dict) and "event" in document:
            return replies_of(path)
        if not isinstance(document, dict):
            raise ValueError(f"line {number} is not a JSON object")
        parsed.append(document)
    return parsed


def _answer(line: Mapping[str, Any] | ChatReply, number: int) -> ChatReply | str:
    """The reply, or the kind of a fault."""
    if isinstance(line, ChatReply):
        return line
    if fault := line.get("fault"):
        if fault not in _FAULTS:
            raise ValueError(f"unknown fault {fault!r}; known: {', '.join(sorted(_FAULTS))}")
        return str(fault)
    text = line.get("content") or ""
    if isinstance(text, list):
        text = "".join(part["text"] for part in text)
    calls = []
    for index, call in enumerate(line.get("tool_calls") or ()):
        id_ = str(call.get("id") or f"call_{number}_{index}")
        arguments = call.get("arguments", {})
        if isinstance(arguments, dict):
            calls.append(ModelToolCall(id_, call["name"], arguments))
        else:  # as of a model whose arguments are not a JSON object
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(ModelToolCall(id_, call["name"], None, raw))
    spent = TokenCount(0, 0, estimated=True)
    if usage := line.get("usage"):
        spent = TokenCount(int(usage.get("input", 0)), int(usage.get("output", 0)))
    return ChatReply(text, tuple(calls), spent, cut=bool(line.get("cut")))
