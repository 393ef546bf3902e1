"""Run an MCP server that gives a coding agent read-only tools on the reports in some folders.

A client (Claude Code, Cursor, Codex, VS Code) starts it and talks to it over stdin and stdout. The
tools read reports inside these folders and nothing else; they do not write, run or compile
anything."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from keet.cli.arguments import option, reports_at
from keet.cli.pager import print_progress
from keet.errors import ExitCode
from keet.formatting import count_noun

EXAMPLES = """\
examples:
  keet mcp                                   reports in the current folder, over stdin and stdout
  keet mcp runs/ profiles/
  keet mcp runs/ --http 8765                 at http://127.0.0.1:8765/mcp, only from this machine
  claude mcp add keet -- keet mcp runs/      Claude Code; docs/mcp.md has other clients
"""
EXIT_CODES = {
    ExitCode.DONE: "the client closed the connection",
    ExitCode.USAGE: ExitCode.USAGE.meaning,
    ExitCode.NOT_AVAILABLE: "the extra mcp is not installed, or the port is in use",
}
_LOOPBACK = ("127.0.0.1", "localhost")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "roots",
        type=Path,
        nargs="*",
        metavar="ROOT",
        help="folders with reports (default: the current folder)",
    )
    option(
        parser,
        "--http PORT",
        "streamable HTTP on 127.0.0.1 instead of stdin and stdout; 0: any free port",
        type=_port,
    )


def _port(text: str) -> int:
    """`8765`, or `127.0.0.1:8765`: the reports are for this machine."""
    host, _, port = text.rpartition(":")
    if host and host not in _LOOPBACK:
        raise ArgumentTypeError(
            f"keet listens only on 127.0.0.1, not on {host}; use an SSH tunnel from other machines"
        )
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ArgumentTypeError(f"{text!r} must be a port: 0 to 65535")
    return int(port)


def _waiting_text(args: Namespace) -> str:
    """For somebody who typed the command: nothing else is printed until a client writes."""
    count = len(reports_at(args.roots or [Path()]))
    command = shlex.join(["keet", "mcp", *map(str, args.roots)])
    return (
        f"an MCP server for {count_noun(count, 'report')}, which waits for a client on stdin; "
        f"clients start it themselves, for example: claude mcp add keet -- {command} "
        "(others: keet mcp --help); Ctrl-C ends it"
    )


def run(args: Namespace) -> None:
    from keet.lazy import check

    check("mcp", "mcp")
    import anyio

    from keet import progress
    from keet.serve.reports import AllowedFolders

    progress.hide()
    roots = AllowedFolders(args.roots or [Path()])
    if args.http is None:
        from keet.serve.server import serve_stdio

        # Ctrl-C ends it at once: otherwise Python waits for the thread that reads stdin.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.stdin.isatty():
            print_progress(_waiting_text(args))
        anyio.run(serve_stdio, roots)
    else:
        from keet.serve.server import serve_http

        anyio.run(serve_http, roots, args.http)
