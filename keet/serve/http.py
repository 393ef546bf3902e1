"""The same server over streamable HTTP, for clients on this machine only."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from keet.errors import NotAvailable
from keet.serve.allowed_folders import AllowedFolders
from keet.serve.server import make_server

HOST = "127.0.0.1"
PATH = "/mcp"


async def serve_http(roots: AllowedFolders, port: int) -> None:
    """Serve until interrupted. Port 0: any free port, which is printed on stderr."""
    listening = _listen(port)
    port = listening.getsockname()[1]
    logging.getLogger("mcp").setLevel(logging.ERROR)  # it logs each request that it refuses
    app = make_server(roots).streamable_http_app(
        streamable_http_path=PATH, host=HOST, transport_security=_security(port)
    )
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=3)
    sys.stderr.write(f"keet: listening at http://{HOST}:{port}{PATH}; stop with Ctrl-C\n")
    sys.stderr.flush()
    await uvicorn.Server(config).serve(sockets=[listening])


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise NotAvailable(
            f"port {port} of {HOST} can't be used ({reason}); name another with --http, or 0 for "
            "any free one"
        ) from None


def _security(port: int) -> TransportSecuritySettings:
    """Accept only host names of this machine: a web page must not reach the server under another
    name (DNS rebinding)."""
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
