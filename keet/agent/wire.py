"""What goes to a model and what comes back, whichever provider serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(NamedTuple):
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    """None: what came is no JSON object; `raw` has it."""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant."""
    answers: str | None = None
    """Of a tool: the id of the call."""


class ToolSpec(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema."""


class Request(NamedTuple):
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the answer has to have, where the server can be held to one."""
    max_output: int = 2500


class Spent(NamedTuple):
    input_tokens: int
    output_tokens: int
    estimated: bool = False


class Reply(NamedTuple):
    text: str
    calls: tuple[ToolCall, ...]
    spent: Spent
    cut: bool = False
    """It ended at the limit of tokens, not at its end."""
    cached: bool = False


class Fault(Exception):
    """The model can't be asked, or did not answer; the message is one line that ends with what to
    do next, and never holds a key."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class CantCallTools(Fault):
    """The server or the model takes no tools: ask again without."""

    def __init__(self, message: str) -> None:
        super().__init__("no_tools", message)


class Chat(Protocol):
    """A model that can be asked. Raises Fault."""

    @property
    def name(self) -> str: ...

    def ask(self, request: Request) -> Reply: ...
