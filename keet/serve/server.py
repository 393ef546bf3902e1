"""The MCP protocol: offers the tools over stdin and stdout, or over HTTP on this machine."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import traceback
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from keet_tools.calls import ToolCall, ToolReply, bounded, bounded_text, quoted
from keet_tools.registry import ServerTool
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ProtocolTool
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

from keet.errors import KeetError, NotAvailable, one_line, reason_of
from keet.safe_text import shortened
from keet.serve.reports import INSTRUCTIONS, TOOLS, AllowedFolders, ReportCache
from keet.version import __version__

_AT_ONCE = 4
"""Concurrent calls; further ones wait."""
_LONGEST_ERROR = 2_000
_ANNOTATIONS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def make_server(roots: AllowedFolders) -> Server[Any]:
    """A server for these folders; any number of connections may share it."""
    handlers = _Handlers(roots)
    return Server(
        "keet",
        version=__version__,
        title="keet: what limits a GPU kernel",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
    )


async def serve_stdio(roots: AllowedFolders) -> None:
    server = make_server(roots)
    async with stdio_server() as (read, write):
        requests = AnsweredRequests(read, write)
        await server.run(requests, write, server.create_initialization_options())


class _Handlers:
    def __init__(self, roots: AllowedFolders) -> None:
        self._cache = ReportCache(roots)
        self._limiter: anyio.CapacityLimiter | None = None

    async def list_tools(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        declared = [
            ProtocolTool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
                annotations=_ANNOTATIONS,
            )
            for tool in TOOLS.values()
        ]
        return ListToolsResult(tools=declared)

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Errors become results that the model reads; the server keeps running."""
        try:
            tool = TOOLS.get(params.name)
            if tool is None:
                names = ", ".join(TOOLS)
                return _error(f"there is no tool {quoted(params.name)}; there are {names}")
            arguments = tool.arguments.model_validate(params.arguments or {})
            reply = await self._in_thread(context, tool, arguments)
            return CallToolResult(
                content=[TextContent(text=bounded_text(reply.text, reply.end))],
                structured_content=bounded(reply.result.to_dict(), reply.result.paged),
            )
        except ValidationError as problem:
            return _error(_wrong_arguments(problem))
        except KeetError as problem:
            return _error(str(problem))
        except Exception as problem:  # noqa: BLE001 - a bug fails one call, not the server
            return _error(_bug(problem))

    async def _in_thread(
        self, context: ServerRequestContext[Any], tool: ServerTool, arguments: Any
    ) -> ToolReply:
        """In a thread, so that the event loop can handle cancellation and other calls. A cancelled
        call ends at its next `check`."""
        if self._limiter is None:  # needs a running loop
            self._limiter = anyio.CapacityLimiter(_AT_ONCE)

        def progress(done: float, message: str) -> None:
            anyio.from_thread.run(context.session.report_progress, done, None, one_line(message))

        call = ToolCall(progress, anyio.from_thread.check_cancelled)
        return await anyio.to_thread.run_sync(
            tool.call, self._cache, arguments, call, limiter=self._limiter
        )


def _error(message: str) -> CallToolResult:
    line = shortened(one_line(message), _LONGEST_ERROR)
    return CallToolResult(content=[TextContent(text=f"keet: {line}")], is_error=True)


def _wrong_arguments(problem: ValidationError) -> str:
    """One line: which argument, what is wrong with it."""
    problems = []
    for error in problem.errors(include_url=False, include_input=False, include_context=False)[:3]:
        where = ".".join(quoted(str(part)) for part in error["loc"])
        problems.append(f"{where}: {error['msg']}" if where else error["msg"])
    more = f" (and {problem.error_count() - 3} more)" if problem.error_count() > 3 else ""
    return f"wrong arguments: {'; '.join(problems)}{more}; see the tool's input schema"


def _bug(problem: Exception) -> str:
    if os.environ.get("KEET_DEBUG"):
        traceback.print_exception(problem, file=sys.stderr)
    return (
        f"this is a bug in keet: {type(problem).__name__}: {problem}; start the server with "
        "KEET_DEBUG=1 and report the traceback that it prints"
    )


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
                if not _lacks_id(found.message):
                    return found
                problem = "the id of the request must be an integer or a text"
                found = _refusal(None, _NOT_A_REQUEST, problem)
            if isinstance(found, JSONRPCError):
                await self._write.send(SessionMessage(found))

    def __aiter__(self) -> AnsweredRequests:
        return self

    async def __anext__(self) -> SessionMessage:
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
    inputs = [error["input"] for error in problem.errors(include_url=False, include_context=False)]
    whole = next((each for each in inputs if isinstance(each, dict)), inputs[0])
    return whole if isinstance(whole, str) else json.dumps(whole, default=str)


def _lacks_id(message: object) -> bool:
    """The library takes a request whose id is neither an integer nor a text (`1.5`, `null`) for a
    notification."""
    if not isinstance(message, JSONRPCNotification):
        return False
    return not message.method.startswith(_NOTIFICATIONS)


def repaired(line: str) -> SessionMessage | JSONRPCError:
    """The message with U+FFFD for lone surrogates, or the error that answers it."""
    try:
        document = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return _refusal(None, _NOT_JSON, "the request is not JSON, or nested too deeply")
    except ValueError:  # Python limits the digits of integers
        return _refusal(None, _NOT_A_REQUEST, "a number of the request has too many digits")
    given = document.get("id") if isinstance(document, dict) else None
    known = given if isinstance(given, int | str) and not isinstance(given, bool) else None
    if isinstance(known, str) and _LONE_SURROGATES.search(known):
        return _refusal(None, _NOT_A_REQUEST, "the id of the request is not Unicode")
    try:
        text = _LONE_SURROGATES.sub("\ufffd", json.dumps(document, ensure_ascii=False))
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (ValueError, RecursionError):
        return _refusal(known, _NOT_A_REQUEST, "this is not a request of MCP")


def _refusal(of: int | str | None, code: int, line: str) -> JSONRPCError:
    error = ErrorData(code=code, message=f"keet: {line}")
    return JSONRPCError(jsonrpc="2.0", id=of, error=error)


_HOST = "127.0.0.1"
_PATH = "/mcp"


async def serve_http(roots: AllowedFolders, port: int) -> None:
    """Serve until interrupted. Port 0: any free port, which is printed on stderr."""
    import uvicorn

    try:
        listening = socket.create_server((_HOST, port))
    except OSError as problem:
        reason = reason_of(problem)
        raise NotAvailable(
            f"port {port} of {_HOST} can't be used ({reason}); name another with --http, or 0 for "
            "any free one"
        ) from None
    port = listening.getsockname()[1]
    logging.getLogger("mcp").setLevel(logging.ERROR)  # it logs each request that it refuses
    # Only host names of this machine are accepted: a web page must not reach the server under
    # another name (DNS rebinding).
    hosts = [f"{name}:{port}" for name in (_HOST, "localhost")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    app = make_server(roots).streamable_http_app(
        streamable_http_path=_PATH, host=_HOST, transport_security=security
    )
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=3)
    sys.stderr.write(f"keet: listening at http://{_HOST}:{port}{_PATH}; stop with Ctrl-C\n")
    sys.stderr.flush()
    await uvicorn.Server(config).serve(sockets=[listening])
