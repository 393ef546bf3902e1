"""A model that answers from a file: `--model scripted:FILE`, for tests.

FILE is a transcript, whose replies are repeated, or JSON lines such as

    {"content": "text of the answer"}
    {"tool_calls": [{"name": "read_source", "arguments": {"line": 3}}]}
    {"content": "...", "usage": {"input": 900, "output": 40}}
    {"fault": "timeout"}

Replies go through langchain like those of a real model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.agent.model.faults import AskedModel, fault_of
from keet.agent.model.langchain_chat import OWN_SERVER, LangchainChat
from keet.agent.model.messages import ChatReply, ModelFault, ModelToolCall
from keet.agent.model.settings import ModelSpec
from keet.agent.model.transcript import read_lines, replies_of
from keet.errors import UsageError, one_line

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_REMEDY = 'each line is {"content": ..., "tool_calls": ..., "usage": ..., "fault": ...}'
_TIMEOUT_S = 60.0

Line = Mapping[str, Any]


class ScriptedError(Exception):
    """An error status, as a server would send it."""

    def __init__(self, status_code: int, message: str) -> None:
        self.status_code = status_code
        super().__init__(message)


class ScriptedChat(LangchainChat):
    """A Chat that answers from lines (see above) or from replies."""

    def __init__(
        self, lines: Sequence[Line | ChatReply | BaseException], name: str = "script"
    ) -> None:
        spec = ModelSpec(name, None, _TIMEOUT_S, None, retries=0)
        try:
            from keet.agent.model.scripted_model import ScriptedModel
        except ImportError as error:
            raise fault_of(error, AskedModel(spec)) from None
        script = [_answer(line, number) for number, line in enumerate(lines, 1)]
        self.model = ScriptedModel(script=script, where=name)
        super().__init__(self.model, spec, OWN_SERVER)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What the model was asked, as langchain passes it on."""
        return self.model.asked


def open_script(path: Path | str) -> ScriptedChat:
    """Raises ModelFault if the file is not a script."""
    name = f"scripted:{path}"
    try:
        return ScriptedChat(_read(Path(path)), name)
    except UsageError as error:
        raise ModelFault("script", str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFault("script", one_line(f"{path}: not a script ({error}); {_REMEDY}")) from None


def exception_of(fault: str) -> BaseException:
    """The exception that a client would raise for this fault."""
    known: dict[str, BaseException] = {
        "timeout": TimeoutError("timed out"),
        "unreachable": ConnectionRefusedError("connection refused"),
        "rate_limit": ScriptedError(429, "rate limit reached"),
        "no_quota": ScriptedError(429, "insufficient_quota"),
        "wrong_key": ScriptedError(401, "incorrect key"),
        "unknown_model": ScriptedError(404, "no such model"),
        "too_long": ScriptedError(400, "maximum context length is 4096 tokens"),
        "server": ScriptedError(503, "overloaded"),
        "no_tools": ScriptedError(400, "this model does not support tools"),
        "no_schema": ScriptedError(400, "response_format is not supported"),
        "bad_reply": ValueError("no choices"),
        "interrupt": KeyboardInterrupt(),
        "other": RuntimeError("something else"),
    }
    if fault not in known:
        raise ValueError(f"unknown fault {fault!r}; known: {', '.join(known)}")
    return known[fault]


def _read(path: Path) -> Sequence[Line | ChatReply]:
    lines = read_lines(path)
    if lines and "event" in _parsed(lines[0], 1):
        return replies_of(path)
    return [_parsed(line, number) for number, line in enumerate(lines, 1)]


def _parsed(line: str, number: int) -> Line:
    try:
        read = json.loads(line)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise ValueError(f"line {number} is not a JSON object")
    return read


def _answer(line: Line | ChatReply | BaseException, number: int) -> AIMessage | BaseException:
    if isinstance(line, BaseException):
        return line
    if isinstance(line, ChatReply):
        usage = None if line.spent.estimated else line.spent[:2]
        return _message(line.text, list(line.calls), usage, cut=line.cut)
    if "fault" in line:
        return exception_of(str(line["fault"]))
    calls = list(_calls(line.get("tool_calls") or (), number))
    return _message(line.get("content") or "", calls, _usage(line), cut=bool(line.get("cut")))


def _message(
    content: str | list[Any],
    calls: Sequence[ModelToolCall],
    usage: tuple[int, int] | None,
    *,
    cut: bool,
) -> AIMessage:
    from langchain_core.messages import AIMessage

    good = [call for call in calls if call.arguments is not None]
    bad = [call for call in calls if call.arguments is None]
    return AIMessage(
        content,
        tool_calls=[{"name": c.name, "args": dict(c.arguments or {}), "id": c.id} for c in good],
        invalid_tool_calls=[
            {"name": call.name, "args": call.raw, "id": call.id, "error": "no JSON object"}
            for call in bad
        ],
        usage_metadata=_usage_metadata(usage),
        response_metadata={"finish_reason": "length" if cut else "stop"},
    )


def _usage_metadata(usage: tuple[int, int] | None) -> Any:
    if usage is None:
        return None
    return {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage)}


def _calls(calls: Sequence[Line], number: int) -> Iterator[ModelToolCall]:
    """Arguments that are a text stand for arguments of a model that are not a JSON object."""
    for index, call in enumerate(calls):
        arguments = call.get("arguments", {})
        is_object = isinstance(arguments, dict)
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        id_ = str(call.get("id") or f"call_{number}_{index}")
        yield ModelToolCall(
            id_, call["name"], arguments if is_object else None, "" if is_object else raw
        )


def _usage(line: Line) -> tuple[int, int] | None:
    if not (usage := line.get("usage")):
        return None
    counts = [usage.get(name, usage.get(f"{name}_tokens", 0)) for name in ("input", "output")]
    return int(counts[0]), int(counts[1])
