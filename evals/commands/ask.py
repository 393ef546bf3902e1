"""Ask a model the prompts of a run that it has not answered yet: one request per prompt, without
tools. Any model that `keet explain` accepts.

Each answer is written at once. After an interruption, or when a server is available again, the same
command continues. Exit code 5: some prompts have no answer; the same command asks them again.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evals.answer_files import harmless
from evals.runs import CONDITIONS, CUT, EMPTY, Answer, Prompt, Run, RunFolder, now
from keet.cli.arguments import positive
from keet.cli.model_options import HOW
from keet.cli.pager import print_progress
from keet.errors import ExitCode, NotAvailable, UsageError

if TYPE_CHECKING:
    from keet.agent.model.messages import Chat, ChatReply
    from keet.agent.model.settings import ModelSpec

EXAMPLES = """\
examples:
  keet eval ask runs/mcq --model openai:gpt-5
  keet eval ask runs/mcq --model qwen2.5-coder --base-url http://localhost:8000/v1
  keet eval ask runs/mcq --model openai:gpt-5 --limit 3 --max-output 8000
"""

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


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="model to ask, as openai:gpt-… or anthropic:…; default: KEET_MODEL",
    )
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="URL of an OpenAI-compatible server (vLLM, ollama, llama.cpp)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="ask at most N prompts now")
    parser.add_argument(
        "--max-output",
        type=positive,
        metavar="N",
        help=f"tokens of an answer (default: {MAX_OUTPUT})",
    )


def run(args: Namespace) -> int:
    from keet.agent.model.langchain_chat import announce_tracing
    from keet.agent.model.messages import ModelFault
    from keet.agent.open_model import open_chat

    folder = RunFolder(args.run)
    spec = _spec(folder, args)
    if spec.name and not folder.unanswered(spec.name):  # takes no key, and no server
        sys.stdout.write(_nothing_open(folder, spec.name))
        return 0
    try:
        chat = open_chat(spec)
    except ModelFault as fault:
        raise NotAvailable(str(fault)) from None
    if line := announce_tracing():
        print_progress(line)
    try:
        asked = ask_all(folder, chat, print_progress, args.max_output, args.limit)
    except KeyboardInterrupt:
        print_progress("interrupted; run the same command again to continue (answers are saved)")
        return ExitCode.INTERRUPTED
    sys.stdout.write(_summary(folder, chat.name, asked))
    return ExitCode.SOME_FAILED if asked.without or asked.left_open else 0


def _spec(folder: RunFolder, args: Namespace) -> ModelSpec:
    """Checks the folder first, so that nothing is asked for a folder that is not a run."""
    from keet.agent.model.settings import find_model

    _ = folder.run
    if (spec := find_model(args.model, args.base_url)) is None:
        raise UsageError(f"no model is named; give {HOW}")
    return spec


def _summary(folder: RunFolder, model: str, asked: Asked) -> str:
    if not asked.total:
        return _nothing_open(folder, model)
    cut = f" ({asked.cut} {CUT}: give a higher --max-output)" if asked.cut else ""
    counts = [f"{asked.answered} of {asked.total} answered"]
    counts += [f"{asked.without} without an answer{cut}"] * bool(asked.without)
    counts += [f"{asked.left_open} not asked"] * bool(asked.left_open)
    if left := len(folder.unanswered(model)):
        return f"{', '.join(counts)}; {left} are open: run the same command again\n"
    return f"{', '.join(counts)}; next: keet eval score {folder.path}\n"


def _nothing_open(folder: RunFolder, model: str) -> str:
    done = f"{model} has answered all {len(folder.prompts)} prompts"
    return f"{done}; next: keet eval score {folder.path}\n"


# --- asking


@dataclass
class Asked:
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
    tell: Callable[[str], None],
    max_output: int | None = None,
    limit: int | None = None,
) -> Asked:
    """One prompt after the other; gives up on a host that fails several in a row. Raises
    NotAvailable if the model cannot be asked or stopped answering."""
    from keet.agent.model.messages import ChatMessage, ChatRequest, ModelFault

    run = folder.run
    prompts = in_order(folder.unanswered(chat.name))[:limit]
    asked, failed_in_a_row = Asked(len(prompts)), 0
    for number, prompt in enumerate(prompts, 1):
        messages = (ChatMessage("system", prompt.system), ChatMessage("user", prompt.user))
        start = time.monotonic()
        try:
            reply = chat.ask(ChatRequest(messages, max_output=max_output or MAX_OUTPUT))
        except ModelFault as fault:
            failed_in_a_row += fault.kind != "too_long"
            if fault.kind in HOPELESS or failed_in_a_row >= IN_A_ROW:
                told = f"{fault}; then run the same command again: answers are kept"
                raise NotAvailable(told) from fault
            if fault.kind in OF_THE_HOST:
                asked.left_open += 1
                continue
            answer = _answer(run, prompt, chat.name, start, None, str(fault))
        else:
            failed_in_a_row = 0
            answer = _answer(run, prompt, chat.name, start, reply)
        folder.add(answer)
        asked.answered += answer.error is None
        asked.without += answer.error is not None
        asked.cut += answer.was_cut
        tell(f"[{number}/{len(prompts)}] {answer.id}: {_line(answer)}")
    return asked


def _answer(  # noqa: PLR0913, PLR0917 - what a record is made of
    run: Run,
    prompt: Prompt,
    model: str,
    start: float,
    reply: ChatReply | None,
    error: str | None = None,
) -> Answer:
    text = harmless(reply.text) if reply else ""
    if reply:
        error = CUT if reply.cut else None if text.strip() else EMPTY
    # What keet guesses for a server that does not count is not what was spent.
    spent = None if reply is None or reply.spent.estimated else reply.spent
    return Answer(
        id=prompt.id,
        model=model,
        date=now(),
        keet=run.keet,
        prompt_version=run.prompt_version,
        prompt_digest=prompt.digest,
        text=text,
        input_tokens=spent.input_tokens if spent else None,
        output_tokens=spent.output_tokens if spent else None,
        seconds=round(time.monotonic() - start, 2),
        error=error,
    )


def _line(answer: Answer) -> str:
    counts = ((answer.input_tokens, "in"), (answer.output_tokens, "out"))
    spent = [f"{count:,} {name}" for count, name in counts if count is not None]
    return ", ".join([*spent, f"{answer.seconds:.1f} s", *filter(None, [answer.error])])
