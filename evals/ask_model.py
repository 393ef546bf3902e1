"""Asks a model the unanswered prompts of a run, one request per prompt.

Each answer is written at once: after an interruption or a lost server, the same command continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from evals.answer_files import harmless
from evals.runs import CONDITIONS, CUT, EMPTY, Answer, Prompt, Run, RunFolder, now
from keet.agent.model.messages import Chat, ChatMessage, ChatReply, ChatRequest, ModelFault
from keet.errors import NotAvailable

MAX_OUTPUT = 4000
"""Output tokens: reasoning and a letter."""
HOPELESS = frozenset(
    {"no_key", "wrong_key", "unknown_model", "not_installed", "no_provider", "no_quota", "script"}
)
"""Errors that every other prompt would cause, too."""
OF_THE_HOST = frozenset({"unreachable", "server", "rate_limit"})
"""Errors that are not about the prompt: it stays open and is not recorded as failed."""
IN_A_ROW = 3
"""After so many prompts without a reply, the server is considered dead."""

Tell = Callable[[str], None]


class Asked(NamedTuple):
    """How many prompts had which outcome."""

    total: int
    answered: int = 0
    without: int = 0
    """Recorded with an error."""
    left_open: int = 0
    cut: int = 0
    """Of those without an answer: truncated at the token limit."""


def in_order(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Prompts with the same beginning are asked together, so that a server can reuse its prefix
    cache."""
    order = list(CONDITIONS)
    return sorted(prompts, key=lambda prompt: (prompt.sample, order.index(prompt.condition)))


def ask_all(
    folder: RunFolder,
    chat: Chat,
    tell: Tell,
    max_output: int | None = None,
    limit: int | None = None,
) -> Asked:
    """Raises NotAvailable if the model cannot be asked or stopped answering."""
    run = folder.run
    prompts = in_order(folder.unanswered(chat.name))[:limit]
    asker = _Asker(chat, run, max_output or MAX_OUTPUT)
    asked = Asked(len(prompts))
    for number, answer in enumerate(asker.answers(prompts), 1):
        if answer is None:
            asked = asked._replace(left_open=asked.left_open + 1)
            continue
        folder.add(answer)
        asked = _counted(asked, answer)
        tell(f"[{number}/{len(prompts)}] {answer.id}: {_line(answer)}")
    return asked


def _counted(asked: Asked, answer: Answer) -> Asked:
    if answer.error is None:
        return asked._replace(answered=asked.answered + 1)
    return asked._replace(without=asked.without + 1, cut=asked.cut + answer.was_cut)


def _line(answer: Answer) -> str:
    spent = [
        f"{count:,} {name}"
        for count, name in ((answer.input_tokens, "in"), (answer.output_tokens, "out"))
        if count is not None
    ]
    parts = [*spent, f"{answer.seconds:.1f} s", *([answer.error] if answer.error else [])]
    return ", ".join(parts)


class _Asker:
    """Asks one prompt after the other, and gives up on a host that fails several in a row."""

    def __init__(self, chat: Chat, run: Run, max_output: int) -> None:
        self._chat = chat
        self._run = run
        self._max_output = max_output
        self._failed_in_a_row = 0

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[Answer | None]:
        """None: an error of the host, so that the prompt stays open."""
        for prompt in prompts:
            start = time.monotonic()
            try:
                reply = self._chat.ask(self._request(prompt))
            except ModelFault as fault:
                self._check(fault)
                known = fault.kind not in OF_THE_HOST
                yield self._answer(prompt, start, error=str(fault)) if known else None
            else:
                self._failed_in_a_row = 0
                yield self._of_reply(prompt, start, reply)

    def _request(self, prompt: Prompt) -> ChatRequest:
        messages = (ChatMessage("system", prompt.system), ChatMessage("user", prompt.user))
        return ChatRequest(messages, max_output=self._max_output)

    def _check(self, fault: ModelFault) -> None:
        self._failed_in_a_row += fault.kind != "too_long"
        if fault.kind in HOPELESS or self._failed_in_a_row >= IN_A_ROW:
            raise NotAvailable(f"{fault}; then run the same command again: answers are kept")

    def _of_reply(self, prompt: Prompt, start: float, reply: ChatReply) -> Answer:
        text = harmless(reply.text)
        empty = None if text.strip() else EMPTY
        return self._answer(prompt, start, reply, text, CUT if reply.cut else empty)

    def _answer(
        self,
        prompt: Prompt,
        start: float,
        reply: ChatReply | None = None,
        text: str = "",
        error: str | None = None,
    ) -> Answer:
        # What keet guesses for a server that does not count is not what was spent.
        spent = None if reply is None or reply.spent.estimated else reply.spent
        return Answer(
            id=prompt.id,
            model=self._chat.name,
            date=now(),
            keet=self._run.keet,
            prompt_version=self._run.prompt_version,
            prompt_digest=prompt.digest,
            text=text,
            input_tokens=spent.input_tokens if spent else None,
            output_tokens=spent.output_tokens if spent else None,
            seconds=round(time.monotonic() - start, 2),
            error=error,
        )
