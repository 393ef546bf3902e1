"""Ask a model the prompts of a run that it has not answered yet: one request per prompt, without
tools. Any model that `keet explain` accepts.

Each answer is written at once. After an interruption, or when a server is available again, the same
command continues. Exit code 5: some prompts have no answer; the same command asks them again.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from evals.runs import CUT, RunFolder
from keet.cli.arguments import positive
from keet.cli.model_options import HOW
from keet.cli.stderr import print_progress
from keet.errors import ExitCode, NotAvailable, UsageError

if TYPE_CHECKING:
    from evals.ask_model import Asked
    from keet.agent.model.messages import Chat
    from keet.agent.model.settings import ModelSpec

EXAMPLES = """\
examples:
  keet eval ask runs/mcq --model openai:gpt-5
  keet eval ask runs/mcq --model qwen2.5-coder --base-url http://localhost:8000/v1
  keet eval ask runs/mcq --model openai:gpt-5 --limit 3 --max-output 8000
"""


def configure(parser: ArgumentParser) -> None:
    from evals.ask_model import MAX_OUTPUT

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
    from evals.ask_model import ask_all
    from keet.agent.model.langchain_chat import announce_tracing

    folder = RunFolder(args.run)
    spec = _spec(folder, args)
    if spec.name and not folder.unanswered(spec.name):  # takes no key, and no server
        sys.stdout.write(_nothing_open(folder, spec.name))
        return 0
    chat = _chat(spec)
    if line := announce_tracing():
        print_progress(line)
    try:
        asked = ask_all(folder, chat, print_progress, args.max_output, args.limit)
    except KeyboardInterrupt:
        print_progress("interrupted; run the same command again to continue (answers are saved)")
        return ExitCode.INTERRUPTED
    sys.stdout.write(_told(folder, chat, asked))
    return ExitCode.SOME_FAILED if asked.without or asked.left_open else 0


def _spec(folder: RunFolder, args: Namespace) -> ModelSpec:
    """Checks the folder first, so that nothing is asked for a folder that is not a run."""
    from keet.agent.model.settings import find_model

    _ = folder.run
    if (spec := find_model(args.model, args.base_url)) is None:
        raise UsageError(f"no model is named; give {HOW}")
    return spec


def _chat(spec: ModelSpec) -> Chat:
    from keet.agent.model.messages import ModelFault
    from keet.agent.open_model import open_chat

    try:
        return open_chat(spec)
    except ModelFault as fault:
        raise NotAvailable(str(fault)) from None


def _told(folder: RunFolder, chat: Chat, asked: Asked) -> str:
    if not asked.total:
        return _nothing_open(folder, chat.name)
    counts = [f"{asked.answered} of {asked.total} answered"]
    counts += [f"{asked.without} without an answer{_cut(asked)}"] * bool(asked.without)
    counts += [f"{asked.left_open} not asked"] * bool(asked.left_open)
    if left := len(folder.unanswered(chat.name)):
        return f"{', '.join(counts)}; {left} are open: run the same command again\n"
    return f"{', '.join(counts)}; next: {_next(folder)}\n"


def _cut(asked: Asked) -> str:
    return f" ({asked.cut} {CUT}: give a higher --max-output)" if asked.cut else ""


def _nothing_open(folder: RunFolder, model: str) -> str:
    return f"{model} has answered all {len(folder.prompts)} prompts; next: {_next(folder)}\n"


def _next(folder: RunFolder) -> str:
    return f"keet eval score {folder.path}"
