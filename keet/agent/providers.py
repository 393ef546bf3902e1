"""Models, through langchain: any provider it knows, and any server that speaks like OpenAI's.

Servers differ in what they take: a schema for the answer, tools, the name of the limit of tokens.
Each is asked in the best way first; what it refuses is remembered and not tried again.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from keet.agent.bounded_client import bounded_client
from keet.agent.model_process import ModelProcess
from keet.agent.provider_faults import (
    PASSING,
    Asked,
    fault_of,
    key_variable,
    missing_extra,
    no_key_line,
    refuses_parameter,
    wait_of,
)
from keet.agent.provider_messages import (
    from_langchain,
    misshapen_call,
    to_langchain,
    to_tools,
    with_schema_as_text,
)
from keet.agent.secrets import scrub
from keet.agent.settings import ModelSpec, provider_of
from keet.agent.time_limit import LONGEST_WAIT_S, TimeLimit
from keet.agent.wire import CantCallTools, Chat, Fault, Reply, Request
from keet.errors import one_line
from keet.records import NamedTuple

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

_ROOM_TO_THINK = 8000
"""Tokens. With hosted models the limit of the answer counts what they think, which is not shown."""
_CONNECT_S = 15.0
"""A server may think for long; whether there is one shows at once."""
_NO_KEY = "none"
"""Servers of one's own want no key; the client wants a text."""
_KEYED = ("anthropic", "deepseek", "google_genai", "groq", "mistralai", "openai", "xai")
"""Providers that take nothing but a key, from one variable."""
_LONGEST_NAME = 200
"""Characters. Local servers name a model by its file, with folders; 200 are more than any has."""
_TRACING = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
_OFF = ("", "0", "false", "no", "off")


class Dialect(NamedTuple):
    """How a server is told of the schema and of the limit of tokens."""

    schema: Literal["body", "argument", "text"]
    """In the body of the request, as an argument that langchain translates, or in words."""
    limit: Literal["body", "argument", "none"]
    thinks: bool = False
    """The limit counts hidden thinking too."""


OWN_SERVER = Dialect("body", "body")
"""The body as it is: langchain's own way to a schema wants every tool to be strict, and renames the
limit to one that older servers do not know."""
_OPENAI = Dialect("body", "argument", thinks=True)
_OPENAI_RESPONSES = Dialect("argument", "argument", thinks=True)
_OTHERS = Dialect("text", "argument", thinks=True)
_OTHERS_UNLIMITED = Dialect("text", "none")


class LangchainChat:
    """A langchain model as a Chat."""

    def __init__(
        self,
        model: BaseChatModel,
        spec: ModelSpec,
        dialect: Dialect,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._spec = spec
        self._dialect = dialect
        self._sleep = sleep
        self._no_tools: str | None = None
        self._no_schema: set[bool] = set()
        """Refused without tools, with tools: some servers take a schema only alone."""
        self._limit_name = "max_tokens"
        self.seconds_left = math.inf
        """For the next call. keet ends it then: a wait that is longer is not begun."""

    @property
    def name(self) -> str:
        return self._spec.name

    def ask(self, request: Request) -> Reply:
        """Raises Fault."""
        if request.tools and self._no_tools:
            raise CantCallTools(self._no_tools)
        try:
            return self._ask_by_schema(request)
        except CantCallTools as fault:
            self._no_tools = str(fault)
            raise

    def _ask_by_schema(self, request: Request) -> Reply:
        """With the schema; where that is refused, with the schema said in words."""
        in_words = with_schema_as_text(request)
        if request.schema is None or self._dialect.schema == "text":
            return self._ask_patiently(in_words)
        with_tools = bool(request.tools)
        if with_tools not in self._no_schema:
            try:
                return self._ask_patiently(request)
            except Fault as fault:
                if fault.kind not in ("other", "server", "no_tools"):
                    raise
        reply = self._ask_patiently(in_words)
        self._no_schema.add(with_tools)
        return reply

    def _ask_patiently(self, request: Request) -> Reply:
        """Again after what passes by itself. An error of the server is how some refuse a schema:
        the next way to ask is tried before this one again."""
        passing = PASSING if request.schema is None else PASSING - {"server"}
        asked = Asked(self._spec, bool(request.tools), request.schema is not None)
        ends = time.monotonic() + self.seconds_left
        for attempt in range(self._spec.retries + 1):
            try:
                return self._ask_once(request)
            except Exception as error:  # noqa: BLE001 - clients raise what they like
                fault, wait = fault_of(error, asked), wait_of(error, attempt)
                longest = min(LONGEST_WAIT_S, ends - time.monotonic())
                passes = fault.kind in passing and wait <= longest
            if not passes or attempt == self._spec.retries:
                break
            self._sleep(wait)
        # Outside of the handler: the client's error, which may quote a key, is no context of it.
        raise fault

    def _ask_once(self, request: Request) -> Reply:
        try:
            return self._send(request)
        except Exception as error:
            if not self._learned_limit(error):
                raise
        return self._send(request)

    def _learned_limit(self, error: Exception) -> bool:
        """Newer models of OpenAI want another name for the limit, older ones a lower one."""
        newer = "max_completion_tokens"
        if self._dialect.limit == "body":
            learned = self._limit_name != newer and refuses_parameter(error, newer)
            self._limit_name = newer if learned else self._limit_name
        else:
            learned = self._dialect.thinks and refuses_parameter(error, "tokens")
            self._dialect = self._dialect._replace(thinks=self._dialect.thinks and not learned)
        return learned

    def _send(self, request: Request) -> Reply:
        from langchain_core.messages import AIMessage

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # langchain's advice is for who programs with it
            try:
                message = self._bound(request).invoke(to_langchain(request.messages))
            except ValueError as error:
                if (reply := misshapen_call(error, request)) is None:
                    raise
                return reply
        if not isinstance(message, AIMessage):
            raise TypeError(f"{type(message).__name__} is no answer")
        return from_langchain(message, request)

    def _bound(self, request: Request) -> Runnable[Any, Any]:
        """Which tool to call, if any, is left to the model: that is every server's default."""
        arguments = self._arguments(request)
        if request.tools:
            return self._model.bind_tools(to_tools(request.tools), **arguments)
        return self._model.bind(**arguments)

    def _arguments(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {}
        arguments: dict[str, Any] = {}
        if request.schema is not None:
            place = body if self._dialect.schema == "body" else arguments
            place["response_format"] = _response_format(request.schema)
        limit = request.max_output + _ROOM_TO_THINK * self._dialect.thinks
        if self._dialect.limit == "body":
            body[self._limit_name] = limit
        elif self._dialect.limit == "argument":
            arguments["max_tokens"] = limit
        return {**arguments, "extra_body": body} if body else arguments


def open_chat(spec: ModelSpec, limit: TimeLimit | None = None) -> Chat:
    """The model, ready to be asked; nothing is sent yet, except for the name of a model where only
    a server is named. `limit`: for all calls together. Raises Fault."""
    if provider_of(spec.name) == "scripted":
        from keet.agent.scripted import open_script

        return open_script(spec.name.removeprefix("scripted:"))
    if fault := missing_extra(Asked(spec)):  # told before any work begins
        raise fault
    return ModelProcess(spec, limit)


def connect(spec: ModelSpec) -> LangchainChat:
    """The same, in this process: without limits of time and memory. Raises Fault."""
    try:
        return _own_server(spec, spec.base_url) if spec.base_url else _hosted(spec)
    except Exception as error:  # noqa: BLE001 - clients raise what they like
        fault = fault_of(error, Asked(spec))
    raise fault


def announce_tracing() -> str | None:
    """A line where the environment makes langchain send prompts to more than the model."""
    on = [name for name in _TRACING if os.environ.get(name, "").strip().lower() not in _OFF]
    gateway = os.environ.get("LANGSMITH_GATEWAY", "").strip().lower() not in _OFF
    told = []
    if on:
        told.append(f"{' and '.join(on)}: langchain sends prompts and replies to LangSmith, too")
    if gateway:
        told.append("LANGSMITH_GATEWAY: langchain sends prompts through LangSmith's gateway")
    names = " ".join([*on, *["LANGSMITH_GATEWAY"] * gateway])
    return f"{'; '.join(told)}; to keep them from there: unset {names}" if told else None


def _own_server(spec: ModelSpec, base_url: str) -> LangchainChat:
    from langchain_openai import ChatOpenAI
    from openai import Timeout
    from pydantic import SecretStr

    key = os.environ.get("OPENAI_API_KEY") or _NO_KEY
    proxy = os.environ.get("OPENAI_PROXY")
    name = spec.name.removeprefix("openai:") or _first_model(spec, base_url, key)
    model = ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=SecretStr(key),
        timeout=Timeout(spec.timeout_s, connect=min(spec.timeout_s, _CONNECT_S)),
        max_retries=0,  # `_ask_patiently` does it, for every provider alike
        http_client=bounded_client(spec.timeout_s, proxy),
        openai_proxy=None,  # the client has it; langchain refuses to be given both
        use_responses_api=False,
    )
    return LangchainChat(model, spec._replace(name=spec.name or name), OWN_SERVER)


def _first_model(spec: ModelSpec, base_url: str, key: str) -> str:
    timeout = min(spec.timeout_s, _CONNECT_S)
    try:
        listed = _listed(base_url, key, timeout)
    except Exception as error:  # noqa: BLE001 - clients raise what they like
        fault = fault_of(error, Asked(spec._replace(timeout_s=timeout)))
    else:
        return _printable_name(listed, base_url)
    raise fault


def _listed(base_url: str, key: str, timeout: float) -> list[Any]:
    from openai import OpenAI

    http = bounded_client(timeout, os.environ.get("OPENAI_PROXY"))
    with OpenAI(
        base_url=base_url, api_key=key, timeout=timeout, max_retries=0, http_client=http
    ) as client:
        return list(client.models.list().data or ())


def _printable_name(listed: list[Any], base_url: str) -> str:
    name = str(getattr(listed[0], "id", None) or "") if listed else ""
    if not _can_be_printed(name):
        line = f"{base_url} lists no model that can be named; name one with --model"
        raise Fault("unknown_model", one_line(scrub(line)))
    return name


def _can_be_printed(name: str) -> bool:
    """Not every name that a server lists: it may send anything, also a key."""
    fits = bool(name.strip()) and len(name) <= _LONGEST_NAME
    return fits and name.isprintable() and scrub(name) == name


def _hosted(spec: ModelSpec) -> LangchainChat:
    model = _init(spec)
    provider, variable = provider_of(spec.name), key_variable(spec.name)
    through_gateway = os.environ.get("LANGSMITH_GATEWAY", "").lower() not in _OFF
    if provider in _KEYED and not through_gateway and not _is_set(variable):
        raise Fault("no_key", no_key_line(variable, Asked(spec)))
    return LangchainChat(model, spec, _dialect_of(model))


def _is_set(variable: str) -> bool:
    """Google's has two names."""
    also = {"GOOGLE_API_KEY": "GEMINI_API_KEY"}.get(variable, variable)
    return bool(os.environ.get(variable) or os.environ.get(also))


def _init(spec: ModelSpec) -> BaseChatModel:
    """Not every provider has a timeout and retries to set: then as it is by itself. Those that
    speak like OpenAI take keet's client, which bounds replies."""
    from langchain.chat_models import init_chat_model
    from langchain_openai.chat_models.base import BaseChatOpenAI

    limits: dict[str, Any] = {"timeout": spec.timeout_s, "max_retries": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model: BaseChatModel = init_chat_model(spec.name, **limits)
        except (TypeError, ValueError):
            return init_chat_model(spec.name)
        if isinstance(model, BaseChatOpenAI):
            http = bounded_client(spec.timeout_s, model.openai_proxy)
            own = {"http_client": http, "openai_proxy": None}  # as above
            model = init_chat_model(spec.name, **limits, **own)
        return model


def _dialect_of(model: BaseChatModel) -> Dialect:
    from langchain_openai.chat_models.base import BaseChatOpenAI

    if not isinstance(model, BaseChatOpenAI):
        return _OTHERS if "max_tokens" in type(model).model_fields else _OTHERS_UNLIMITED
    # Which of OpenAI's two ways it takes may depend on the tools; langchain knows.
    speaks_responses = getattr(model, "_use_responses_api", lambda _: False)({"tools": [{}]})
    return _OPENAI_RESPONSES if speaks_responses else _OPENAI


def _response_format(schema: Any) -> dict[str, Any]:
    held = {"name": "answer", "schema": dict(schema), "strict": True}
    return {"type": "json_schema", "json_schema": held}
