"""Requests to a model and its replies, independent of the provider; also as JSON.

Exceptions of providers become one-line faults that say what to do next. They are of packages that
may not be installed, and are classified by what they have in common: HTTP status, class names, the
system error beneath them. The server's message is quoted where it helps, scrubbed and shortened.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from keet.agent.model.http_limits import RedirectRefused, ReplyTooLarge, UnusableReply
from keet.agent.model.settings import ModelSpec, provider_of
from keet.errors import one_line
from keet.formatting import guess_tokens
from keet.lazy import is_installed, missing
from keet.masking.keys import quotable, scrub
from keet.report.typed_json import typed

Role = Literal["system", "user", "assistant", "tool"]


class ModelToolCall(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any] | None
    """None: the model did not send a JSON object; `raw` has what it sent."""
    raw: str = ""


class ChatMessage(NamedTuple):
    role: Role
    text: str
    calls: tuple[ModelToolCall, ...] = ()
    """Only for role "assistant"."""
    answers: str | None = None
    """Only for role "tool": the id of the call."""


class ToolSpec(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema."""


class ChatRequest(NamedTuple):
    messages: Sequence[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer; sent as text if the server does not support schemas."""
    max_output: int = 2500


class TokenCount(NamedTuple):
    input_tokens: int
    output_tokens: int
    estimated: bool = False


class ChatReply(NamedTuple):
    text: str
    calls: tuple[ModelToolCall, ...]
    spent: TokenCount
    cut: bool = False
    """It was cut off at the token limit."""
    cached: bool = False


UNSENT = frozenset({"no_key", "not_installed", "no_provider"})
"""Kinds of faults that occur before anything is sent."""
NEXT_CAN_SUCCEED = frozenset({"budget", "calls", "answer"})
"""Kinds of faults of one kernel or question: the next one can still be asked."""


class ModelFault(Exception):
    """The model can't be asked, or did not answer. The message is one line, ends with what to do
    next, and never contains a key. Kind "no_tools": ask again without them."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class Chat(Protocol):
    """A model that can be asked. Raises ModelFault."""

    @property
    def name(self) -> str: ...

    def ask(self, request: ChatRequest) -> ChatReply: ...


def estimate(request: ChatRequest) -> int:
    """Estimated tokens of a request, including its tools."""
    texts = [message.text for message in request.messages]
    texts += [json.dumps(dict(call.arguments or {})) for m in request.messages for call in m.calls]
    texts += [json.dumps(tool._asdict()) for tool in request.tools]
    return guess_tokens("\n".join(texts))


def reply_document(reply: ChatReply) -> dict[str, Any]:
    """The form in transcripts and in the cache."""
    calls = [call._asdict() for call in reply.calls]
    return {**reply._asdict(), "calls": calls, "spent": reply.spent._asdict()}


def reply_from(document: object) -> ChatReply:
    """The inverse of `reply_document`. Raises ValueError."""
    return typed(document, ChatReply)


def request_document(request: ChatRequest) -> dict[str, Any]:
    messages = [_message_document(message) for message in request.messages]
    tools = [tool._asdict() for tool in request.tools]
    return {**request._asdict(), "messages": messages, "tools": tools}


def request_from(document: Mapping[str, Any]) -> ChatRequest:
    """The inverse of `request_document`."""
    messages = typed(document["messages"], tuple[ChatMessage, ...])
    tools = tuple(ToolSpec(**tool) for tool in document["tools"])
    return ChatRequest(messages, tools, document["schema"], document["max_output"])


def _message_document(message: ChatMessage) -> dict[str, Any]:
    """Without fields that are empty."""
    document = {**message._asdict(), "calls": [call._asdict() for call in message.calls]}
    return {name: value for name, value in document.items() if value not in ([], None)}


# --- faults

PASSING = frozenset({"rate_limit", "unreachable", "server"})
"""Faults that are retried. A timeout is not: the user has already waited for it."""
_QUOTED = 200
_SCRUBBED = 64 * 2**10
"""Characters of a server's message that are searched for keys before it is shortened."""
_READ = 4000
"""Characters of a server's message that are matched with patterns."""
_TOO_LONG = (
    r"context.?(?:length|window|size|overflow)|maximum context|too many tokens|max_model_len"
    r"|(?:prompt|input) is too long|reduce the length|exceeds? the (?:maximum|model)"
)
_TOOLS = r"\btools?\b|tool[_ -](?:choice|call|use)|function.?call|\bfunctions\b"
_KINDS_OF_OWN: dict[str, tuple[type[BaseException], ...]] = {
    "not_installed": (ImportError,),
    "redirect": (RedirectRefused,),
    "too_large": (MemoryError, ReplyTooLarge),
}
_KINDS_BY_STATUS: tuple[tuple[str, Collection[int], str], ...] = (
    ("too_long", (413,), ""),
    ("too_long", (400, 422, 500), _TOO_LONG),
    ("no_tools", (400, 404, 422, 500, 501), _TOOLS),
    ("wrong_key", (401, 403), ""),
    ("unknown_model", (404,), ""),
    ("timeout", (408, 504), ""),
    ("no_quota", (429,), "insufficient_quota|exceeded your current quota|billing|credit"),
    ("rate_limit", (429,), ""),
    ("other", range(400, 500), ""),
)
"""The first that has the HTTP status, and whose pattern is in the message; otherwise `server`."""
_KINDS_BY_CLASS = (
    ("timeout", "Timeout"),
    ("unreachable", "Connect|gaierror|SSLError"),
    ("too_long", "ContextOverflow"),
    ("no_tools", "NotImplementedError"),
)
"""By the class names of the exception and its causes, if no server answered."""
_KINDS_BY_TEXT = (
    ("no_key", r"missing credentials|api.?key.*(?:must|not|missing)|did not find \w*key"),
    ("no_provider", "unable to infer model provider|unsupported provider"),
)
_GARBAGE = re.compile(
    "JSONDecode|Validation|KeyError|TypeError|ValueError|IndexError|AttributeError|ProtocolError"
    "|DecodingError|UnicodeDecode|UnusableReply"
)
"""Exceptions of langchain and the clients for a body that is not a model's reply."""
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_)?(?:KEY|TOKEN)\b")
_INSTALL = re.compile(r"pip install [`'\"]?([\w.\[\]-]+)")

LINES = {
    "no_key": "no key for {who}: {variable} is not set; set it, or use your own server with "
    "--base-url",
    "wrong_key": "{who} refused the key ({status}); check {variable} and its permissions",
    "unknown_model": "{who} was not found ({said}); check --model, and --base-url if you gave "
    "one: it ends in /v1 on most servers",
    "unreachable": "can't reach {who}: {why_unreachable}",
    "timeout": "{who} did not answer {late}",
    "rate_limit": "the rate limit of {who} is reached ({quote}); try again later",
    "no_quota": "the account has no quota left for {who} ({quote}); check its billing",
    "too_long": "the prompt is too long for {who} ({quote}); ask about fewer launches, or name "
    "a model with a longer context",
    "too_large": "{who} sent a reply of {error}; check --base-url, or name another model",
    "redirect": "{who} redirects to another server, {quote}; nothing was sent there; {then}",
    "server": "{who} failed ({said}); try again later",
    "not_installed": "{who} needs a package that is not installed; run: pip install {package}",
    "no_provider": "{who} does not name a known provider; write it as openai:NAME, "
    "anthropic:NAME ..., or give --base-url",
    "no_tools": "{who} does not support tools ({quote}); name a model that can call tools",
    "bad_reply": "{who} sent something that is not a model's reply ({quote}); check "
    "--base-url, which ends in /v1 on most servers",
    "other": "{who} could not be asked ({said}); try again, or another model",
}
KINDS = frozenset(LINES) | {"client", "key_in_reply", "script", "time_limit"}
"""Every kind of fault."""


class AskedModel(NamedTuple):
    """The model that was asked, and whether the request offered tools."""

    spec: ModelSpec
    tools: bool = False

    @property
    def label(self) -> str:
        url = self.spec.base_url
        return f"{self.spec.name or 'the model'} at {url}" if url else self.spec.name

    def fault(self, kind: str, line: str) -> ModelFault:
        return ModelFault(kind, one_line(scrub(line)))


def _line(kind: str, error: BaseException, asked: AskedModel) -> str:
    spec, text, quote = asked.spec, str(error)[:_READ], _quote(error)
    status = f"HTTP {code}" if (code := status_of(error)) else ""
    late = f"in {spec.timeout_s:g} s; try again, or set a longer timeout in keet's config.toml"
    if status:  # the server's own limit was hit, not keet's
        late = f"({status}); try again, or ask a faster model"
    variable = "OPENAI_API_KEY" if spec.base_url else key_variable(spec.name)
    if not status and (named := _VARIABLE.search(text)):  # by the client, not by a server
        variable = named[0]
    provider = (provider_of(spec.name) or "openai").replace("_", "-")
    package = named[1] if (named := _INSTALL.search(text)) else f"langchain-{provider}"
    is_url = spec.base_url and quote.startswith("http")
    return LINES[kind].format(
        who=asked.label,
        error=error,
        status=status,
        quote=quote,
        said=f"{status}: {quote}" if status else quote,
        late=late,
        variable=variable,
        package=package,
        then=f"set --base-url {quote} if you trust it" if is_url else "use another server",
        why_unreachable=_why_unreachable(list(_chain(error))),
    )


def _why_unreachable(causes: Sequence[BaseException]) -> str:
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "its host name is not known; check --base-url and the network"
    if tls := next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None):
        return f"the TLS connection failed ({_quote(tls)}); check https:// and certificates"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "no server listens there; start the server, or check --base-url"
    return f"the connection broke ({_quote(causes[-1])}); check the server, then try again"


def fault_of(error: BaseException, asked: AskedModel) -> ModelFault:
    """An exception of a provider as a fault: one line, no key."""
    if isinstance(error, ModelFault):
        return error
    # Errors of keet's own limits are wrapped as connection errors by the clients.
    own = (MemoryError, RedirectRefused, ReplyTooLarge, UnusableReply)
    error = next((cause for cause in _chain(error) if isinstance(cause, own)), error)
    return named_fault(kind_of(error, asked), asked, error)


def named_fault(kind: str, asked: AskedModel, error: BaseException | None = None) -> ModelFault:
    """A fault of a known kind; KeyError for others."""
    if isinstance(error, MemoryError):
        error = ReplyTooLarge("a size that takes more memory than keet allows")
    error = error or Exception(kind)
    line = _line(kind, error, asked)
    if kind == "not_installed" and (lacking := _lacking()):
        line = missing(lacking, "model")
    if kind == "wrong_key" and asked.spec.base_url and not os.environ.get("OPENAI_API_KEY"):
        line = f"{asked.label} requires a key (HTTP {status_of(error)}); set OPENAI_API_KEY"
    return asked.fault(kind, line)


def time_limit_fault(asked: AskedModel, seconds: float) -> ModelFault:
    then = "raise --time-limit, or ask about less"
    line = f"the time limit of {seconds:g} s for all calls to {asked.label} is used up; {then}"
    return asked.fault("time_limit", line)


def key_in_reply(whose: str, asked: AskedModel) -> ModelFault:
    """The reply is dropped: its text can't be printed or recorded."""
    what = f"a reply that contains {whose}, or a long part of it, plain or encoded"
    line = f"{asked.label} sent {what}; keet dropped the reply; use another model or server"
    return asked.fault("key_in_reply", line)


def kind_of(error: BaseException, asked: AskedModel) -> str:
    for kind, classes in _KINDS_OF_OWN.items():
        if isinstance(error, classes):
            return kind
    if status := status_of(error):
        text = f"{str(error)[:_READ]} {str(getattr(error, 'body', None) or '')[:_READ]}"
        kinds = (
            kind
            for kind, statuses, pattern in _KINDS_BY_STATUS
            if status in statuses and re.search(pattern, text, re.IGNORECASE)
            if kind != "no_tools" or asked.tools
        )
        return next(kinds, "server")
    names = " ".join(base.__name__ for cause in _chain(error) for base in type(cause).__mro__)
    for kind, pattern in _KINDS_BY_CLASS:
        if re.search(pattern, names):
            return kind
    for kind, pattern in _KINDS_BY_TEXT:
        if re.search(pattern, str(error)[:_READ], re.IGNORECASE):
            return kind
    return "bad_reply" if _GARBAGE.search(names) else "other"


def refuses_parameter(error: BaseException, name: str) -> bool:
    """Whether the server rejected this parameter of the request."""
    return status_of(error) in (400, 422, 500, 501) and name in str(error)[:_READ]


def status_of(error: BaseException) -> int | None:
    """The HTTP status; None if no server answered."""
    holders = (error, getattr(error, "response", None))
    names = ("status_code", "status")
    codes = (getattr(holder, name, None) for holder in holders for name in names)
    return next((code for code in codes if isinstance(code, int) and code >= 400), None)


def wait_of(error: BaseException, attempt: int) -> float:
    """Seconds until the next try: what the server asks for, otherwise 0.5, 1, 2, ..."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * scale)
        except (TypeError, ValueError, AttributeError):
            continue
    return 0.5 * 2.0**attempt


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


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


def missing_extra(asked: AskedModel) -> ModelFault | None:
    """None if the packages of keet's extra are installed; the provider's may still be missing."""
    return fault_of(ModuleNotFoundError(), asked) if _lacking() else None


def _lacking() -> str | None:
    needed = ("langchain", "langchain_openai")
    return next((name for name in needed if not is_installed(name)), None)
