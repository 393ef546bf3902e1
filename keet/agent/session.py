"""One model, asked within limits: every request is redacted, counted and recorded.

The tools that it may call are those of keet_tools, and `compile_edit`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from keet_tools.answers import Answer, ToolInput
from keet_tools.registry import call_tool, offered_tools
from pydantic import BaseModel, ValidationError

from keet.agent import prompts
from keet.agent.answer_schemas import NoAnswer, RawEdit, schema_of, understand
from keet.agent.edits.line_matching import EditPlacer
from keet.agent.model.messages import (
    Chat,
    ChatMessage,
    ChatReply,
    ChatRequest,
    ModelFault,
    ModelToolCall,
    ToolSpec,
)
from keet.agent.model.messages import estimate as estimate  # noqa: PLC0414 - used with a session
from keet.agent.model.settings import ModelLimits
from keet.agent.model.transcript import Transcript
from keet.agent.redaction import Redactor
from keet.documents.model_explanation import NO_USAGE, UsageDocument
from keet.errors import one_line

Progress = Callable[[str], None]
Shape = TypeVar("Shape", bound=BaseModel)

_SAFETY = 1.04
"""Safety factor: keet's token estimate may be low by this much."""
_ROUND_TOKENS = 900
"""Tokens that one round of tool calls may add."""


class ModelSession:
    """Counts usage over all kernels, and enforces the limits per kernel."""

    def __init__(  # noqa: PLR0913 - the parts of a run
        self,
        chat: Chat,
        *,
        transcript: Transcript,
        redactor: Redactor,
        progress: Progress,
        limits: ModelLimits,
        price: tuple[float, float] | None = None,
        is_replay: bool = False,
    ) -> None:
        self.chat = chat
        self.transcript = transcript
        self.redactor = redactor
        # A replay costs nothing and must take the recorded steps, however long today's prompts are.
        self.limits = (
            limits._replace(calls=99, input_tokens=10**9, rounds=9) if is_replay else limits
        )
        self._progress = progress
        self._price = price
        self._takes_tools = True
        self._about = ""
        self.interrupted = False
        self._calls_here = self._tokens_here = 0
        self._ratio = 1.0
        """Tokens as counted by the server / as estimated by keet."""
        self.usage = NO_USAGE

    def begin(self, about: str) -> None:
        """Starts a kernel or question, with its own limits. `about`: its name in progress lines."""
        self._about = about
        self._calls_here = self._tokens_here = 0

    def tell(self, doing: str) -> None:
        spent = self.usage.input_tokens + self.usage.output_tokens
        self._progress(f"{self._about}: {doing}{f' ({spent:,} tokens so far)' * bool(spent)}")

    @property
    def tokens_left(self) -> int:
        return self.limits.input_tokens - self._tokens_here

    # --- one call

    def ask(
        self,
        phase: str,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        sent = [self._redacted(message) for message in messages]
        request = ChatRequest(sent, tools, schema, self.limits.output_tokens)
        self._stay_within(request)
        self.transcript.request(phase, request)
        began = time.monotonic()
        reply = self.chat.ask(request)
        seconds = time.monotonic() - began
        self.transcript.reply(reply, seconds)
        self._count(reply, seconds)
        if not reply.spent.estimated and reply.spent.input_tokens > 0:
            self._ratio = min(1.5, max(0.5, reply.spent.input_tokens / estimate(request)))
        back = self.redactor.back
        return reply._replace(text=back(reply.text), calls=_changed_calls(reply.calls, back))

    def _redacted(self, message: ChatMessage) -> ChatMessage:
        """A model's own words are not fenced data: names may be anywhere in them."""
        is_models = message.role == "assistant"
        change = self.redactor.hide if is_models else self.redactor.out
        calls = _changed_calls(message.calls, change)
        return message._replace(text=change(message.text), calls=calls)

    def _stay_within(self, request: ChatRequest) -> None:
        needed, most = self._tokens(request), self.limits
        if self._calls_here >= most.calls:
            line = f"the limit of {most.calls} calls is reached; ask about less at a time"
            raise ModelFault("calls", line)
        if needed > self.tokens_left:
            left = f"{max(0, self.tokens_left):,} of {most.input_tokens:,} are left"
            line = f"the next call needs {needed:,} tokens and {left}; raise --token-budget"
            raise ModelFault("budget", line)

    def _count(self, reply: ChatReply, seconds: float) -> None:
        spent, before = reply.spent, self.usage
        self._calls_here += 1
        self._tokens_here += spent.input_tokens
        fresh = not reply.cached
        input_tokens = before.input_tokens + fresh * spent.input_tokens
        output_tokens = before.output_tokens + fresh * spent.output_tokens
        into, out = self._price or (math.nan, math.nan)
        cost = (input_tokens * into + output_tokens * out) / 1e6
        self.usage = UsageDocument(
            calls=before.calls + fresh,
            cached=before.cached + reply.cached,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=cost if math.isfinite(cost) else "unknown",
            seconds=before.seconds + seconds,
            estimated=before.estimated or (fresh and spent.estimated),
        )

    def _tokens(self, request: ChatRequest) -> int:
        return math.ceil(_SAFETY * self._ratio * estimate(request))

    # --- a conversation, which ends with an answer

    def converse(
        self,
        phase: str,
        opening: Callable[[int], str],
        shape: type[Shape],
        toolbox: Toolbox | None = None,
    ) -> Shape:
        """`opening`: the question, given the number of tool rounds."""
        start = [ChatMessage("system", prompts.rules())]
        tools = toolbox.specs if toolbox and self._takes_tools else []
        asked = [*start, ChatMessage("user", opening(self.limits.rounds))]
        rounds = self._affordable(asked, tools) if tools else 0
        tools = tools if rounds else []
        messages = [*start, ChatMessage("user", opening(rounds))]
        for turn in range(rounds + 1):
            # Another round of tools has to fit into the token budget, and the answer after it.
            next_two = 2 * self._tokens(ChatRequest(messages, tools)) + _ROUND_TOKENS
            last = turn == rounds or next_two > self.tokens_left
            if last and turn:
                messages = [*_calls_as_text(messages), ChatMessage("user", prompts.answer_now())]
            try:
                schema = schema_of(shape) if last else None
                reply = self.ask(phase, messages, () if last else tools, schema)
            except ModelFault as fault:
                if fault.kind != "no_tools":
                    raise
                self._takes_tools = False
                self._progress(
                    f"{self._about}: {self.chat.name} does not support tools; continuing without"
                )
                return self.converse(phase, opening, shape)
            if last or not reply.calls or toolbox is None:
                return self._parsed(phase, messages, reply, shape)
            messages += self._called(toolbox, reply)
        raise AssertionError("the last turn returns")

    def _affordable(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> int:
        """Tool rounds within the token budget; each sends the whole conversation again."""
        first = self._tokens(ChatRequest(messages, tools))
        for rounds in range(self.limits.rounds, 0, -1):
            added = _ROUND_TOKENS * rounds * (rounds + 1) // 2
            if (rounds + 1) * first + added <= self.tokens_left:
                return rounds
        return 0

    def _called(self, toolbox: Toolbox, reply: ChatReply) -> list[ChatMessage]:
        run, left_out = reply.calls[: prompts.AT_ONCE], reply.calls[prompts.AT_ONCE :]
        texts = [self._call(toolbox, call) for call in run]
        texts += ["not run: too many at once"] * len(left_out)
        answers = zip(texts, reply.calls, strict=True)
        told = [ChatMessage("tool", text, answers=call.id) for text, call in answers]
        return [ChatMessage("assistant", reply.text, reply.calls), *told]

    def _call(self, toolbox: Toolbox, call: ModelToolCall) -> str:
        self.tell(f"{call.name}({_arguments(call)})")
        began = time.monotonic()
        answer = toolbox.call(call.name, call.arguments)
        seconds = time.monotonic() - began
        facts = {"answer": answer.text, "evidence": list(answer.evidence)}
        timed = {"abstained": answer.abstained, "seconds": round(seconds, 3)}
        self.transcript.event("tool", call=call, **facts, **timed)
        return prompts.fenced(f"result of {one_line(call.name[:40])}", answer.text)

    def _parsed(
        self, phase: str, messages: list[ChatMessage], reply: ChatReply, shape: type[Shape]
    ) -> Shape:
        """Parses the answer; asks once more if it can't be parsed."""
        try:
            return understand(reply.text, shape)
        except NoAnswer as problem:
            why = "it was cut short: write less" if reply.cut else str(problem)
            self.tell(f"asking again, {why}")
            said = ChatMessage("assistant", reply.text[:2000] or "(nothing)")
            more = [*messages, said, ChatMessage("user", prompts.ask_again(why))]
            again = self.ask(phase, more, (), schema_of(shape))
        try:
            return understand(again.text, shape)
        except NoAnswer as problem:
            what = f"{self.chat.name} twice sent an answer that can't be read ({problem})"
            raise ModelFault("answer", f"{what}; try another model") from None


def _calls_as_text(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Tool calls as text: some providers reject earlier calls if no tools are offered, and small
    models keep calling."""
    told: list[ChatMessage] = []
    for message in messages:
        if message.role == "assistant" and message.calls:
            asked = ", ".join(f"{call.name}({_arguments(call)})" for call in message.calls)
            told.append(ChatMessage("assistant", f"{message.text}\nI called {asked}.".strip()))
        elif message.role == "tool" and told[-1].role == "user":
            told[-1] = ChatMessage("user", f"{told[-1].text}\n\n{message.text}")
        else:
            role = "user" if message.role == "tool" else message.role
            told.append(ChatMessage(role, message.text))
    return told


def _arguments(call: ModelToolCall) -> str:
    given = call.arguments if call.arguments is not None else {"?": call.raw[:40]}
    return ", ".join(f"{name}={value!r}"[:60] for name, value in given.items())


def _changed_calls(
    calls: Sequence[ModelToolCall], change: Callable[[str], str]
) -> tuple[ModelToolCall, ...]:
    return tuple(call._replace(arguments=_changed(call.arguments, change)) for call in calls)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Also inside lists and objects: `compile_edit` takes a list of changes."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(part, change) for part in value]
    if isinstance(value, Mapping):
        return {name: _changed(part, change) for name, part in value.items()}
    return value


_COMPILE = ToolSpec(
    "compile_edit",
    "Whether an edit applies and compiles; registers, spills and shared memory before and after.",
    {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string"},
                        "line": {"type": "integer"},
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                    },
                },
            }
        },
        "required": ["changes"],
    },
)


class Toolbox:
    """Offers and runs the tools on one `ToolInput`."""

    def __init__(self, tool_input: ToolInput, placer: EditPlacer | None = None) -> None:
        """`placer`: for the launch in focus; None if no edits are asked for."""
        self._tool_input = tool_input
        self._placer = placer if placer and placer.can_compile else None

    @property
    def specs(self) -> list[ToolSpec]:
        own = [_COMPILE] if self._placer else []
        tools = offered_tools(self._tool_input)
        return [*(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools), *own]

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        if name == _COMPILE.name and self._placer:
            return self._compile(self._placer, arguments)
        answer = call_tool(self._tool_input, name, arguments)
        return answer._replace(text=self._tool_input.with_short_names(answer.text))

    def _compile(self, placer: EditPlacer, arguments: Mapping[str, Any] | None) -> Answer:
        try:
            edit = RawEdit.model_validate({"what": "", **(arguments or {})})
        except ValidationError as error:
            return Answer(f"changes: {error.errors()[0]['msg']}", abstained=True)
        placed = placer.place(edit.changes)
        if placed.fault:
            return Answer(placed.fault, abstained=True)
        return Answer("\n".join((f"applies; {placed.build.message}", *placed.build.warnings)))
