"""A langchain model as a `Chat`: retries, and the form in which schema and token limit are sent.

Servers differ in what they accept: a schema for the answer, tools, the name of the token limit.
The best form is tried first. What a server refuses is remembered and not tried again.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from keet.agent.model.faults import (
    PASSING,
    AskedModel,
    fault_of,
    key_in_reply,
    refuses_parameter,
    wait_of,
)
from keet.agent.model.langchain_messages import (
    from_langchain,
    misshapen_call,
    to_langchain,
    to_tools,
    with_schema_as_text,
)
from keet.agent.model.messages import (
    CantCallTools,
    ChatReply,
    ChatRequest,
    ModelFault,
    reply_document,
)
from keet.agent.model.settings import ModelSpec
from keet.agent.model.time_limit import LONGEST_WAIT_S
from keet.agent.privacy.secrets import key_in

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

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
        """Whether schemas were rejected without tools (False) or with tools (True): some servers
        accept a schema only without tools."""
        self._limit_name = "max_tokens"
        self.seconds_left = math.inf
        """For the next call. A retry whose wait would be longer is not started."""

    @property
    def name(self) -> str:
        return self._spec.name

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        if request.tools and self._no_tools:
            raise CantCallTools(self._no_tools)
        try:
            return self._ask_by_schema(request)
        except CantCallTools as fault:
            self._no_tools = str(fault)
            raise

    def _ask_by_schema(self, request: ChatRequest) -> ChatReply:
        """With the schema; if that is rejected, with the schema as text."""
        in_words = with_schema_as_text(request)
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
        asked = AskedModel(self._spec, bool(request.tools), request.schema is not None)
        ends = time.monotonic() + self.seconds_left
        for attempt in range(self._spec.retries + 1):
            try:
                return self._ask_once(request)
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

    def _ask_once(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault if the reply contains a key: everything that uses, records or prints
        replies gets them from here."""
        reply = self._sent_twice(request)
        if whose := key_in(_texts(reply)):
            raise key_in_reply(whose, AskedModel(self._spec))
        return reply

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
            try:
                message = self._bound(request).invoke(to_langchain(request.messages))
            except ValueError as error:
                if (reply := misshapen_call(error, request)) is None:
                    raise
                return reply
        if not isinstance(message, AIMessage):
            raise TypeError(f"{type(message).__name__} is not an answer")
        return from_langchain(message, request)

    def _bound(self, request: ChatRequest) -> Runnable[Any, Any]:
        """The model chooses whether to call tools: that is every server's default."""
        arguments = self._arguments(request)
        if request.tools:
            return self._model.bind_tools(to_tools(request.tools), **arguments)
        return self._model.bind(**arguments)

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {}
        arguments: dict[str, Any] = {}
        if request.schema is not None:
            place = body if self._dialect.schema == "body" else arguments
            place["response_format"] = _response_format(request.schema)
        limit = request.max_output + _THINKING_TOKENS * self._dialect.thinks
        if self._dialect.limit == "body":
            body[self._limit_name] = limit
        elif self._dialect.limit == "argument":
            arguments["max_tokens"] = limit
        return {**arguments, "extra_body": body} if body else arguments


def _texts(reply: ChatReply) -> str:
    """All that the server sent, as one text: a key may be split over its parts. Not as JSON only:
    escapes count as a level of encoding."""
    document = reply_document(reply)
    return "\n".join([reply.text, *map(_text, document["calls"])])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}\n{_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return str(value)


def _response_format(schema: Any) -> dict[str, Any]:
    held = {"name": "answer", "schema": dict(schema), "strict": True}
    return {"type": "json_schema", "json_schema": held}
