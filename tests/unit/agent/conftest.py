"""A client whose requests stay on this machine."""

from __future__ import annotations

import ssl
from functools import cache

import pytest

from keet.agent.model import langchain_chat
from keet.agent.model.http_limits import limit_http

_one_context = cache(ssl.create_default_context)
"""To read certificates takes longer than all the rest."""


@pytest.fixture
def local_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no tracing, the limits of keet, and certificates that are read once."""
    monkeypatch.setattr(ssl, "create_default_context", _one_context)
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_PROXY", "LANGSMITH_GATEWAY")
    for name in (*proxies, *langchain_chat._TRACING):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("httpx", "httpx2"):
        client = pytest.importorskip(name).Client
        monkeypatch.setattr(client, "send", client.send)  # restored afterwards
    limit_http()
