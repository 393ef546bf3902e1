"""Answers requests over stdin that the MCP library can't parse, and would drop without an answer.

A client that sent such a request would wait for its answer until it gives up.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

_NOT_JSON, _NOT_A_REQUEST = -32700, -32600
"""Codes of JSON-RPC."""
_NOTIFICATIONS = "notifications/"
"""The methods of MCP that have no id begin with it."""
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
"""JSON can escape half a character (`"\\ud800"`), which Python's `json` reads, and pydantic not."""


class AnsweredRequests:
    """The messages of a client, without those that can't be read: they are answered here."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write

    async def receive(self) -> SessionMessage:
        while True:
            found = await self._read.receive()
            if isinstance(found, ValidationError):
                found = repaired(_refused(found))
            if isinstance(found, SessionMessage):
                found = _unless_without_id(found)
            if isinstance(found, SessionMessage):
                return found
            if isinstance(found, JSONRPCError):
                await self._write.send(SessionMessage(found))

    def __aiter__(self) -> AnsweredRequests:
        return self

    async def __anext__(self) -> SessionMessage:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def __aenter__(self) -> AnsweredRequests:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> bool | None:
        ended: bool | None = await self._read.__aexit__(*problem)
        return ended


def _refused(problem: ValidationError) -> str:
    """What was refused: the line, or the document that is no message of MCP, as JSON again."""
    inputs = [each["input"] for each in problem.errors(include_url=False, include_context=False)]
    whole = next((each for each in inputs if isinstance(each, dict)), inputs[0])
    return whole if isinstance(whole, str) else json.dumps(whole, default=str)


def _unless_without_id(found: SessionMessage) -> SessionMessage | JSONRPCError:
    """The library takes a request whose id is neither an integer nor a text (`1.5`, `null`) for a
    notification."""
    message = found.message
    if isinstance(message, JSONRPCNotification) and not message.method.startswith(_NOTIFICATIONS):
        return _error(None, _NOT_A_REQUEST, "the id of the request must be an integer or a text")
    return found


def repaired(line: str) -> SessionMessage | JSONRPCError:
    """The message with U+FFFD for lone surrogates, or the error that answers it."""
    try:
        document = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return _error(None, _NOT_JSON, "the request is not JSON, or nested too deeply")
    except ValueError:  # Python limits the digits of integers
        return _error(None, _NOT_A_REQUEST, "a number of the request has too many digits")
    given = document.get("id") if isinstance(document, dict) else None
    known = given if isinstance(given, int | str) and not isinstance(given, bool) else None
    if isinstance(known, str) and _LONE_SURROGATES.search(known):
        return _error(None, _NOT_A_REQUEST, "the id of the request is not Unicode")
    try:
        text = _LONE_SURROGATES.sub("\ufffd", json.dumps(document, ensure_ascii=False))
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (ValueError, RecursionError):
        return _error(known, _NOT_A_REQUEST, "this is not a request of MCP")


def _error(of: int | str | None, code: int, line: str) -> JSONRPCError:
    error = ErrorData(code=code, message=f"keet: {line}")
    return JSONRPCError(jsonrpc="2.0", id=of, error=error)
