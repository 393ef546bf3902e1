"""Turns exceptions of providers into one-line faults that say what to do next.

The exceptions are of packages that may not be installed. They are classified by what they have in
common: HTTP status, class names, the system error beneath them. The server's message is quoted
where it helps, scrubbed and shortened.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from keet.agent.model.bounded_client import (
    RedirectRefused,
    ReplyTimeout,
    ReplyTooLarge,
    UnusableReply,
)
from keet.agent.model.messages import CantCallTools, ModelFault
from keet.agent.model.settings import ModelSpec, provider_of
from keet.agent.secrets import quotable, scrub
from keet.errors import one_line
from keet.optional_packages import is_installed, missing

PASSING = frozenset({"rate_limit", "unreachable", "server"})
"""Faults that are retried. A timeout is not: the user has already waited for it."""
_QUOTED = 200
_SCRUBBED = 64 * 2**10
"""Characters of a server's message that are searched for keys before it is shortened."""
_READ = 4000
"""Characters of a server's message that are matched with patterns."""
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|maximum context|too many tokens|max_model_len"
    r"|prompt is too long|input is too long|reduce the length|exceeds? the (?:maximum|model)"
    r"|contextoverflow",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\btools?\b|tool[_ -](?:choice|call|use)|function.?call|\bfunctions\b", re.I)
_NO_KEY = re.compile(
    r"missing credentials|api.?key.*(?:must|not|missing)|did not find \w*key", re.I
)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_)?(?:KEY|TOKEN)\b")
_OF_EXTRA = ("langchain", "langchain_openai")
_INSTALL = re.compile(r"pip install [`'\"]?([\w.\[\]-]+)")
_NO_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit", re.I)
_GARBAGE = (
    *("JSONDecode", "Validation", "KeyError", "TypeError", "ValueError", "IndexError"),
    *("AttributeError", "ProtocolError", "DecodingError", "UnicodeDecode", "UnusableReply"),
)
"""Exceptions of langchain and the clients for a body that is not a model's reply."""


class AskedModel(NamedTuple):
    """The model that was asked, and what the request contained."""

    spec: ModelSpec
    tools: bool = False
    schema: bool = False

    @property
    def label(self) -> str:
        url = self.spec.base_url
        return f"{self.spec.name or 'the model'} at {url}" if url else self.spec.name


def fault_of(error: BaseException, asked: AskedModel) -> ModelFault:
    """An exception of a provider as a fault: one line, no key."""
    if isinstance(error, ModelFault):
        return error
    error = _bounds_error(error) or error
    kind = kind_of(error, asked)
    line = one_line(scrub(_LINES[kind](error, asked)))
    return CantCallTools(line) if kind == "no_tools" else ModelFault(kind, line)


def time_limit_fault(asked: AskedModel, seconds: float) -> ModelFault:
    then = "raise --time-limit, or ask about less"
    line = f"the time limit of {seconds:g} s for all calls to {asked.label} is used up; {then}"
    return ModelFault("time_limit", one_line(scrub(line)))


def _bounds_error(error: BaseException) -> BaseException | None:
    """The error of keet's own HTTP client, which langchain's clients wrap as a connection error."""
    own = (MemoryError, RedirectRefused, ReplyTooLarge, ReplyTimeout, UnusableReply)
    return next((cause for cause in _chain(error) if isinstance(cause, own)), None)


def kind_of(error: BaseException, asked: AskedModel) -> str:
    if isinstance(error, ImportError):
        return "not_installed"
    if isinstance(error, RedirectRefused):
        return "redirect"
    if isinstance(error, MemoryError | ReplyTooLarge):
        return "too_large"
    status = status_of(error)
    if status is not None:
        return _kind_of_status(status, error, asked)
    return _kind_without_status(error)


def refuses_parameter(error: BaseException, name: str) -> bool:
    """Whether the server rejected this parameter of the request."""
    return status_of(error) in (400, 422, 500, 501) and name in str(error)[:_READ]


def status_of(error: BaseException) -> int | None:
    """The HTTP status; None if no server answered."""
    holders = (error, getattr(error, "response", None))
    found = (
        getattr(holder, name, None) for holder in holders for name in ("status_code", "status")
    )
    return next((code for code in found if isinstance(code, int) and code >= 400), None)


def wait_of(error: BaseException, attempt: int) -> float:
    """Seconds until the next try: what the server asks for, otherwise 0.5, 1, 2, ..."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * scale)
        except (TypeError, ValueError, AttributeError):
            continue
    return 0.5 * 2.0**attempt


def _kind_of_status(status: int, error: BaseException, asked: AskedModel) -> str:  # noqa: PLR0911 - a table
    text = _said(error)
    if status in (400, 413, 422, 500) and (status == 413 or _TOO_LONG.search(text)):
        return "too_long"
    if asked.tools and status in (400, 404, 422, 500, 501) and _TOOLS.search(text):
        return "no_tools"
    if status in (401, 403):
        return "wrong_key"
    if status == 404:
        return "unknown_model"
    if status in (408, 504):
        return "timeout"
    if status == 429:
        return "no_quota" if _NO_QUOTA.search(text) else "rate_limit"
    return "server" if status >= 500 else "other"


def _kind_without_status(error: BaseException) -> str:
    causes = list(_chain(error))
    names = " ".join(type(cause).__name__ for cause in causes)
    if "Timeout" in names:
        return "timeout"
    if "Connect" in names or any(map(_is_of_network, causes)):
        return "unreachable"
    if "ContextOverflow" in names:
        return "too_long"
    return "no_tools" if isinstance(error, NotImplementedError) else _kind_by_text(error, names)


def _kind_by_text(error: BaseException, names: str) -> str:
    text = str(error)[:_READ]
    if _NO_KEY.search(text):
        return "no_key"
    if "nable to infer model provider" in text or "nsupported provider" in text:
        return "no_provider"
    return "bad_reply" if any(name in names for name in _GARBAGE) else "other"


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | socket.gaierror | ssl.SSLError)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _said(error: BaseException) -> str:
    body = getattr(error, "body", None)
    return f"{str(error)[:_READ]} {str(body or '')[:_READ]}"


def _quote(error: BaseException) -> str:
    """The message of the server or client, short. Searched for keys first: half a key must not be
    printed."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    said = str(message or error or type(error).__name__)[:_SCRUBBED]
    text = " ".join(quotable(said).split())
    return text if len(text) <= _QUOTED else text[:_QUOTED].rstrip() + " ..."


def key_variable(name: str) -> str:
    """The environment variable from which langchain reads the provider's key."""
    provider = provider_of(name) or ("anthropic" if name.startswith("claude") else "openai")
    odd = {"google_genai": "GOOGLE", "mistralai": "MISTRAL", "perplexity": "PPLX"}
    return f"{odd.get(provider, provider).upper()}_API_KEY"


def no_key_line(variable: str, asked: AskedModel) -> str:
    then = "set it, or use your own server with --base-url"
    return f"no key for {asked.label}: {variable} is not set; {then}"


def _no_key(error: BaseException, asked: AskedModel) -> str:
    found = _VARIABLE.search(str(error)[:_READ])
    return no_key_line(found[0] if found else key_variable(asked.spec.name), asked)


def _wrong_key(error: BaseException, asked: AskedModel) -> str:
    """Without the server's message: some repeat the key, masked in ways that `scrub` can't find."""
    variable = "OPENAI_API_KEY" if asked.spec.base_url else key_variable(asked.spec.name)
    status = f"HTTP {status_of(error)}"
    if asked.spec.base_url and not os.environ.get(variable):
        return f"{asked.label} requires a key ({status}); set {variable}"
    return f"{asked.label} refused the key ({status}); check {variable} and its permissions"


def _unknown_model(error: BaseException, asked: AskedModel) -> str:
    if asked.spec.base_url:
        where = "check --model, and --base-url, which ends in /v1 on most servers"
        return f"{asked.label} was not found (HTTP 404: {_quote(error)}); {where}"
    return f"the provider has no model {asked.label} ({_quote(error)}); check --model"


def _unreachable(error: BaseException, asked: AskedModel) -> str:
    return f"can't reach {asked.label}: {_why_unreachable(error)}"


def _why_unreachable(error: BaseException) -> str:
    causes = list(_chain(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "its host name is not known; check --base-url and the network"
    if tls := next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None):
        return f"the TLS connection failed ({_quote(tls)}); check https:// and certificates"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "no server listens there; start the server, or check --base-url"
    return f"the connection broke ({_quote(causes[-1])}); check the server, then try again"


def _timeout(error: BaseException, asked: AskedModel) -> str:
    # For 408 and 504, the server's own limit was hit, not keet's.
    ours = status_of(error) is None
    limit = f"in {asked.spec.timeout_s:g} s" if ours else f"(HTTP {status_of(error)})"
    then = "set a longer timeout in keet's config.toml" if ours else "ask a faster model"
    return f"{asked.label} did not answer {limit}; try again, or {then}"


def _rate_limit(error: BaseException, asked: AskedModel) -> str:
    return f"the rate limit of {asked.label} is reached ({_quote(error)}); try again later"


def _no_quota(error: BaseException, asked: AskedModel) -> str:
    return f"the account has no quota left for {asked.label} ({_quote(error)}); check its billing"


def _too_long(error: BaseException, asked: AskedModel) -> str:
    then = "ask about fewer launches, or name a model with a longer context"
    return f"the prompt is too long for {asked.label} ({_quote(error)}); {then}"


def _server(error: BaseException, asked: AskedModel) -> str:
    return f"{asked.label} failed (HTTP {status_of(error)}: {_quote(error)}); try again later"


def missing_extra(asked: AskedModel) -> ModelFault | None:
    """None if the packages of keet's extra are installed; the provider's may still be missing."""
    return fault_of(ModuleNotFoundError(), asked) if _lacking() else None


def _lacking() -> str | None:
    return next((name for name in _OF_EXTRA if not is_installed(name)), None)


def _not_installed(error: BaseException, asked: AskedModel) -> str:
    """Names the missing package: of keet's extra, or langchain's package for the provider."""
    if lacking := _lacking():
        return missing(lacking, "model")
    found = _INSTALL.search(str(error)[:_READ])
    provider = (provider_of(asked.spec.name) or "openai").replace("_", "-")
    package = found[1] if found else f"langchain-{provider}"
    return f"{asked.label} needs a package that is not installed; run: pip install {package}"


def _no_provider(error: BaseException, asked: AskedModel) -> str:
    del error
    named = "write it as openai:NAME, anthropic:NAME ..., or give --base-url"
    return f"{asked.spec.name} does not name a known provider; {named}"


def _no_tools(error: BaseException, asked: AskedModel) -> str:
    return (
        f"{asked.label} does not support tools ({_quote(error)}); name a model that can call tools"
    )


def _redirect(error: BaseException, asked: AskedModel) -> str:
    where = _quote(error)
    is_url = asked.spec.base_url and where.startswith("http")
    then = f"set --base-url {where} if you trust it" if is_url else "use another server"
    return f"{asked.label} redirects to another server, {where}; nothing was sent there; {then}"


def key_in_reply(whose: str, asked: AskedModel) -> ModelFault:
    """The reply is dropped: its text can't be printed or recorded."""
    what = f"a reply that contains {whose}, or a long part of it, plain or encoded"
    line = f"{asked.label} sent {what}; keet dropped the reply; use another model or server"
    return ModelFault("key_in_reply", one_line(scrub(line)))


def _too_large(error: BaseException, asked: AskedModel) -> str:
    if isinstance(error, MemoryError):
        what = "a reply that takes more memory than keet allows"
    else:
        what = f"a reply of {error}"
    return f"{asked.label} sent {what}; check --base-url, or name another model"


def _bad_reply(error: BaseException, asked: AskedModel) -> str:
    then = "check --base-url, which ends in /v1 on most servers"
    return f"{asked.label} sent something that is not a model's reply ({_quote(error)}); {then}"


def _other(error: BaseException, asked: AskedModel) -> str:
    code = status_of(error)
    status = f"HTTP {code}: " if code else ""
    return (
        f"{asked.label} could not be asked ({status}{_quote(error)}); try again, or another model"
    )


_LINES = {
    "no_key": _no_key,
    "wrong_key": _wrong_key,
    "unknown_model": _unknown_model,
    "unreachable": _unreachable,
    "timeout": _timeout,
    "rate_limit": _rate_limit,
    "no_quota": _no_quota,
    "too_long": _too_long,
    "too_large": _too_large,
    "redirect": _redirect,
    "server": _server,
    "not_installed": _not_installed,
    "no_provider": _no_provider,
    "no_tools": _no_tools,
    "bad_reply": _bad_reply,
    "other": _other,
}
KINDS = frozenset(_LINES) | {"client", "key_in_reply", "script", "time_limit"}
"""Every kind of fault."""
