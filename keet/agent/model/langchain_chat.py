"""A langchain model as a `Chat`: which client serves it, retries, and the form in which schema and
token limit are sent.

Servers differ in what they accept: a schema for the answer, tools, the name of the token limit.
The best form is tried first. What a server refuses is remembered and not tried again.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from keet.agent.model.http_limits import MOST_CALLS, is_count
from keet.agent.model.messages import (
    PASSING,
    AskedModel,
    ChatMessage,
    ChatReply,
    ChatRequest,
    ModelFault,
    ModelToolCall,
    TokenCount,
    estimate,
    fault_of,
    key_in_reply,
    key_variable,
    named_fault,
    refuses_parameter,
    wait_of,
)
from keet.agent.model.settings import LONGEST_WAIT_S, ModelSpec, provider_of
from keet.formatting import guess_tokens
from keet.masking.keys import key_in, scrub

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable
    from langchain_openai import ChatOpenAI

_CONNECT_S = 15.0
"""Limit for connecting. The answer may take longer."""
_NO_KEY = "none"
"""Own servers need no key, but the client requires a text."""
_KEYED = ("anthropic", "deepseek", "google_genai", "groq", "mistralai", "openai", "xai")
"""Providers that need only a key, from one variable."""
_LONGEST_MODEL_NAME = 200
"""Characters. Local servers name a model by its file path."""
_TRACING = (
    *("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"),
    *("LANGSMITH_TRACING", "LANGCHAIN_TRACING"),
)
_THINKING_TOKENS = 8000
"""Tokens. The answer limit of hosted models includes hidden thinking."""


class Dialect(NamedTuple):
    """In which form a server gets the schema and the token limit."""

    schema: Literal["body", "argument", "text"]
    """In the body of the request, as an argument that langchain translates, or as text."""
    limit: Literal["body", "argument", "none"]
    thinks: bool = False
    """Whether the limit includes hidden thinking."""


OWN_SERVER = Dialect("body", "body")
"""Directly in the body: langchain's own schema support requires strict tools, and renames the limit
to one that older servers do not know."""
OPENAI = Dialect("body", "argument", thinks=True)
OPENAI_RESPONSES = Dialect("argument", "argument", thinks=True)
HOSTED = Dialect("text", "argument", thinks=True)
HOSTED_UNLIMITED = Dialect("text", "none")


def dialect_of(model: BaseChatModel) -> Dialect:
    """Of a hosted model."""
    from langchain_openai.chat_models.base import BaseChatOpenAI

    if not isinstance(model, BaseChatOpenAI):
        return HOSTED if "max_tokens" in type(model).model_fields else HOSTED_UNLIMITED
    # Which of OpenAI's two APIs is used may depend on the tools; langchain knows.
    speaks_responses = getattr(model, "_use_responses_api", lambda _: False)({"tools": [{}]})
    return OPENAI_RESPONSES if speaks_responses else OPENAI


class LangchainChat:
    """A langchain model as a Chat."""

    def __init__(self, model: BaseChatModel, spec: ModelSpec, dialect: Dialect) -> None:
        self._model = model
        self.name = spec.name
        self._spec = spec
        self._dialect = dialect
        self._sleep = time.sleep
        self._no_tools: str | None = None
        self._no_schema: set[bool] = set()
        """Whether schemas were rejected without tools (False) or with tools (True): some servers
        accept a schema only without tools."""
        self._limit_name = "max_tokens"
        self.seconds_left = math.inf
        """For the next call. A retry whose wait would be longer is not started."""

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        if request.tools and self._no_tools:
            raise ModelFault("no_tools", self._no_tools)
        try:
            return self._ask_by_schema(request)
        except ModelFault as fault:
            self._no_tools = str(fault) if fault.kind == "no_tools" else self._no_tools
            raise

    def _ask_by_schema(self, request: ChatRequest) -> ChatReply:
        """With the schema; if that is rejected, with the schema as text."""
        in_words = _with_schema_as_text(request)
        if request.schema is None or self._dialect.schema == "text":
            return self._ask_with_retries(in_words)
        with_tools = bool(request.tools)
        if with_tools not in self._no_schema:
            try:
                return self._ask_with_retries(request)
            except ModelFault as fault:
                if fault.kind not in ("other", "server", "no_tools"):
                    raise
        reply = self._ask_with_retries(in_words)
        self._no_schema.add(with_tools)
        return reply

    def _ask_with_retries(self, request: ChatRequest) -> ChatReply:
        """Retries after temporary faults. With a schema, a server error is not retried: some
        servers reject schemas that way, and the request without a schema is tried next."""
        passing = PASSING if request.schema is None else PASSING - {"server"}
        asked = AskedModel(self._spec, bool(request.tools))
        ends = time.monotonic() + self.seconds_left
        for attempt in range(self._spec.retries + 1):
            try:
                return accepted(self._sent_twice(request), request, asked)
            except Exception as error:  # noqa: BLE001 - clients raise any type
                fault, wait = fault_of(error, asked), wait_of(error, attempt)
                longest = min(LONGEST_WAIT_S, ends - time.monotonic())
                passes = fault.kind in passing and wait <= longest
            if not passes or attempt == self._spec.retries:
                break
            self._sleep(wait)
        # Raised outside of the handler: the client's error may quote a key and must not be
        # attached.
        raise fault

    def _sent_twice(self, request: ChatRequest) -> ChatReply:
        """Once, unless the server rejects the name or size of the token limit."""
        try:
            return self._send(request)
        except Exception as error:
            if not self._learned_limit(error):
                raise
        return self._send(request)

    def _learned_limit(self, error: Exception) -> bool:
        """Whether to try again: newer OpenAI models need another name of the limit, older ones a
        lower limit."""
        newer = "max_completion_tokens"
        if self._dialect.limit == "body":
            learned = self._limit_name != newer and refuses_parameter(error, newer)
            self._limit_name = newer if learned else self._limit_name
        else:
            learned = self._dialect.thinks and refuses_parameter(error, "tokens")
            self._dialect = self._dialect._replace(thinks=self._dialect.thinks and not learned)
        return learned

    def _send(self, request: ChatRequest) -> ChatReply:
        from langchain_core.messages import AIMessage

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # langchain's warnings are for developers
            message = self._bound(request).invoke([_message(each) for each in request.messages])
        if not isinstance(message, AIMessage):
            raise TypeError(f"{type(message).__name__} is not an answer")
        return _from_langchain(message, request)

    def _bound(self, request: ChatRequest) -> Runnable[Any, Any]:
        """The model chooses whether to call tools: that is every server's default."""
        body: dict[str, Any] = {}
        arguments: dict[str, Any] = {"extra_body": body}
        if request.schema is not None:
            place = body if self._dialect.schema == "body" else arguments
            schema = {"name": "answer", "schema": dict(request.schema), "strict": True}
            place["response_format"] = {"type": "json_schema", "json_schema": schema}
        limit = request.max_output + _THINKING_TOKENS * self._dialect.thinks
        if self._dialect.limit == "body":
            body[self._limit_name] = limit
        elif self._dialect.limit == "argument":
            arguments["max_tokens"] = limit
        if not body:
            del arguments["extra_body"]
        if not request.tools:
            return self._model.bind(**arguments)
        tools = [{"type": "function", "function": tool._asdict()} for tool in request.tools]
        return self._model.bind_tools(tools, **arguments)


def accepted(reply: ChatReply, request: ChatRequest, asked: AskedModel) -> ChatReply:
    """The reply without thinking, and not longer than requested. Raises ModelFault if it contains
    a key: everything that uses, records or prints replies gets them from here."""
    text, most = _THINKING.sub("", reply.text), _LONGEST_TOKEN * request.max_output
    reply = reply._replace(text=text[:most], cut=reply.cut or len(text) > most)
    # As one text: a key may be split over its parts. Not as JSON: escapes count as an encoding.
    said = [reply.text, *(_text(part) for call in reply.calls for part in call)]
    if whose := key_in("\n".join(said)):
        raise key_in_reply(whose, asked)
    return reply


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{name}\n{_text(part)}" for name, part in value.items())
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
"""Some local servers leave the thinking in the answer."""
_LONGEST_TOKEN = 16
"""Characters of a reply per requested token: about four are usual; blanks and JSON escapes can be
more. A server that sends more ignores the token limit."""
_LONGEST_CALL = 16 * 2**10
"""Characters of the arguments of a call, as JSON: `compile_edit` takes lines of code."""
_DEEPEST_ARGUMENTS = 12
"""Levels of the arguments of a call. `compile_edit` takes 3."""
_LONGEST_NAME = 64
"""Characters of the name of a tool, as OpenAI allows; keet's have at most 20."""
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "model_length"})
"""Finish reasons of providers for an answer that was cut at the limit."""


def _message(message: ChatMessage) -> dict[str, Any]:
    """In OpenAI's form, which langchain accepts for every provider; tools, too."""
    document: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        document["tool_call_id"] = message.answers or ""
    if message.calls:
        document["tool_calls"] = []
    for call in message.calls:
        # Arguments that are not JSON are sent back as text inside JSON: servers parse them again.
        arguments = {"not_json": call.raw} if call.arguments is None else dict(call.arguments)
        function = {"name": call.name, "arguments": json.dumps(arguments)}
        document["tool_calls"].append({"type": "function", "id": call.id, "function": function})
    return document


def _with_schema_as_text(request: ChatRequest) -> ChatRequest:
    """For servers without schema support: the schema is appended to the last user message."""
    if request.schema is None:
        return request
    wish = (
        "Answer with one JSON object and nothing else: no Markdown, no words around it. "
        f"It has to match this JSON Schema:\n{json.dumps(request.schema)}"
    )
    messages = list(request.messages)
    if messages[-1].role == "user":
        wish = f"{messages.pop().text}\n\n{wish}"
    return request._replace(messages=(*messages, ChatMessage("user", wish)), schema=None)


def _from_langchain(message: AIMessage, request: ChatRequest) -> ChatReply:
    calls = tuple(islice(_calls(message, len(request.messages)), MOST_CALLS))
    facts = message.response_metadata
    details = facts.get("incomplete_details")  # of OpenAI's Responses API
    reasons = [facts.get("finish_reason"), facts.get("stop_reason")]
    reasons += [details.get("reason")] if isinstance(details, Mapping) else []
    cut = any(str(reason) in _CUT for reason in reasons)
    reply = ChatReply(str(message.text), calls, TokenCount(0, 0), cut)
    usage: Mapping[str, Any] = dict(message.usage_metadata or {})
    spent = TokenCount(usage.get("input_tokens", 0), usage.get("output_tokens", 0))
    if spent.input_tokens and all(map(is_count, spent[:2])):
        return reply._replace(spent=spent)
    return reply._replace(spent=estimated_tokens(request, reply))


def _calls(message: AIMessage, number: int) -> Iterator[ModelToolCall]:
    """Each with an id that is unique in the conversation: the server's own, unless it is absurdly
    long."""
    for index, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        given, arguments = call["id"], call["args"]
        id_ = given if given and len(given) <= 256 else f"call_{number}_{index}"
        name = (call["name"] or "unreadable")[:_LONGEST_NAME]
        if isinstance(arguments, dict):
            fits = _fits(arguments)
            raw = "" if fits else "too long, or nested too deeply"
            yield ModelToolCall(id_, name, arguments if fits else None, raw)
        else:
            yield ModelToolCall(id_, name, None, (arguments or "")[:_LONGEST_CALL])


def _fits(arguments: object) -> bool:
    """Whether size and depth are within the limits."""
    try:
        return (
            _is_flat(arguments, _DEEPEST_ARGUMENTS) and len(json.dumps(arguments)) <= _LONGEST_CALL
        )
    except ValueError:  # a number of thousands of digits
        return False


def _is_flat(value: object, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(part, levels - 1) for part in parts)


def estimated_tokens(request: ChatRequest, reply: ChatReply) -> TokenCount:
    called = "".join(f"{call.name}{json.dumps(call.arguments)}" for call in reply.calls)
    return TokenCount(estimate(request), guess_tokens(reply.text + called), estimated=True)


# --- which client: of a hosted provider, or of an OpenAI-compatible server


def connect(spec: ModelSpec) -> LangchainChat:
    """The model, asked in this process: without limits of time, memory and size. Raises
    ModelFault."""
    try:
        return _own_server(spec, spec.base_url) if spec.base_url else _hosted(spec)
    except Exception as error:  # noqa: BLE001 - clients raise any type
        fault = fault_of(error, AskedModel(spec))
    raise fault


def announce_tracing() -> str | None:
    """A warning if the environment makes langchain send prompts to other services, otherwise
    None."""
    on, gateway = [*filter(_is_on, _TRACING)], [*filter(_is_on, ["LANGSMITH_GATEWAY"])]
    told = [f"{' and '.join(on)}: langchain sends prompts and replies to LangSmith, too"] * bool(on)
    told += [f"{name}: langchain sends prompts through LangSmith's gateway" for name in gateway]
    return f"{'; '.join(told)}; to prevent that: unset {' '.join(on + gateway)}" if told else None


def _is_on(variable: str) -> bool:
    value = os.environ.get(variable, "").strip().lower()
    return value not in ("", "0", "false", "no", "off")


def _own_server(spec: ModelSpec, base_url: str) -> LangchainChat:
    from langchain_openai import ChatOpenAI
    from openai import Timeout
    from pydantic import SecretStr

    model = ChatOpenAI(
        model=spec.name.removeprefix("openai:"),
        base_url=base_url,
        api_key=SecretStr(os.environ.get("OPENAI_API_KEY") or _NO_KEY),
        timeout=Timeout(spec.timeout_s, connect=min(spec.timeout_s, _CONNECT_S)),
        max_retries=0,  # LangchainChat retries, the same for every provider
        use_responses_api=False,
    )
    if not spec.name:
        model.model_name = _first_model(model, AskedModel(spec))
        spec = spec._replace(name=model.model_name)
    return LangchainChat(model, spec, OWN_SERVER)


def _first_model(model: ChatOpenAI, asked: AskedModel) -> str:
    """A server may list anything as a model name, also a key."""
    listed = model.root_client.models.list(timeout=min(asked.spec.timeout_s, _CONNECT_S)).data
    name = str(getattr(listed[0], "id", None) or "") if listed else ""
    fits = bool(name.strip()) and len(name) <= _LONGEST_MODEL_NAME and name.isprintable()
    if not fits or scrub(name) != name or key_in(name):
        line = f"{asked.spec.base_url} lists no model with a usable name; name one with --model"
        raise asked.fault("unknown_model", line)
    return name


def _hosted(spec: ModelSpec) -> LangchainChat:
    from langchain.chat_models import init_chat_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            limits: dict[str, Any] = {"timeout": spec.timeout_s, "max_retries": 0}
            model: BaseChatModel = init_chat_model(spec.name, **limits)
        except (TypeError, ValueError):  # the provider does not support them
            model = init_chat_model(spec.name)
    variable = key_variable(spec.name)
    also = "GEMINI_API_KEY" if variable == "GOOGLE_API_KEY" else variable  # it has two names
    has_key = os.environ.get(variable) or os.environ.get(also) or _is_on("LANGSMITH_GATEWAY")
    if provider_of(spec.name) in _KEYED and not has_key:
        raise named_fault("no_key", AskedModel(spec))
    return LangchainChat(model, spec, dialect_of(model))
