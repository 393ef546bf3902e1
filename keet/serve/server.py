"""The MCP protocol: offers the tools over stdin and stdout."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ProtocolTool
from pydantic import ValidationError

from keet.errors import KeetError, one_line
from keet.safe_text import shortened
from keet.serve.allowed_folders import AllowedFolders, quoted
from keet.serve.broken_requests import AnsweredRequests
from keet.serve.report_cache import ReportCache
from keet.serve.size_limits import bounded, bounded_text
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import ToolReply
from keet.serve.tools import INSTRUCTIONS, TOOLS, Tool
from keet.version import __version__

_AT_ONCE = 4
"""Concurrent calls; further ones wait."""
_LONGEST_ERROR = 2_000
_ANNOTATIONS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def make_server(roots: AllowedFolders) -> Server[Any]:
    """A server for these folders; any number of connections may share it."""
    return _Handlers(roots).server()


async def serve_stdio(roots: AllowedFolders) -> None:
    server = make_server(roots)
    async with stdio_server() as (read, write):
        requests = AnsweredRequests(read, write)
        await server.run(requests, write, server.create_initialization_options())


class _Handlers:
    def __init__(self, roots: AllowedFolders) -> None:
        self._cache = ReportCache(roots)
        self._limiter: anyio.CapacityLimiter | None = None

    def server(self) -> Server[Any]:
        return Server(
            "keet",
            version=__version__,
            title="keet: what limits a GPU kernel",
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )

    async def list_tools(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_declared(tool) for tool in TOOLS.values()])

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Errors become results that the model reads; the server keeps running."""
        try:
            tool = TOOLS.get(params.name)
            if tool is None:
                return _error(
                    f"there is no tool {quoted(params.name)}; there are {', '.join(TOOLS)}"
                )
            arguments = tool.arguments.model_validate(params.arguments or {})
            return _result(await self._in_thread(context, tool, arguments))
        except ValidationError as problem:
            return _error(_wrong_arguments(problem))
        except KeetError as problem:
            return _error(str(problem))
        except Exception as problem:  # noqa: BLE001 - a bug fails one call, not the server
            return _error(_bug(problem))

    async def _in_thread(
        self, context: ServerRequestContext[Any], tool: Tool, arguments: Any
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


def _declared(tool: Tool) -> ProtocolTool:
    return ProtocolTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_ANNOTATIONS,
    )


def _result(reply: ToolReply) -> CallToolResult:
    result = reply.result
    return CallToolResult(
        content=[TextContent(text=bounded_text(reply.text, reply.end))],
        structured_content=bounded(result.to_dict(), result.paged),
    )


def _error(message: str) -> CallToolResult:
    line = shortened(one_line(message), _LONGEST_ERROR)
    return CallToolResult(content=[TextContent(text=f"keet: {line}")], is_error=True)


def _wrong_arguments(problem: ValidationError) -> str:
    """One line: which argument, what is wrong with it."""
    problems = []
    for each in problem.errors(include_url=False, include_input=False, include_context=False)[:3]:
        where = ".".join(quoted(str(part)) for part in each["loc"])
        problems.append(f"{where}: {each['msg']}" if where else each["msg"])
    more = f" (and {problem.error_count() - 3} more)" if problem.error_count() > 3 else ""
    return f"wrong arguments: {'; '.join(problems)}{more}; see the tool's input schema"


def _bug(problem: Exception) -> str:
    if os.environ.get("KEET_DEBUG"):
        traceback.print_exception(problem, file=sys.stderr)
    return (
        f"this is a bug in keet: {type(problem).__name__}: {problem}; start the server with "
        "KEET_DEBUG=1 and report the traceback that it prints"
    )
