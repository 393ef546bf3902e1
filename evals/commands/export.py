"""Write the prompts of a run that a model has not answered yet as OpenAI batch JSONL.

OpenAI's batches, vLLM's run-batch and others accept such a file. `keet eval import` reads the
answers.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from evals.answer_files import batch_lines
from evals.runs import RunFolder
from keet.agent.model.settings import provider_of
from keet.cli.arguments import Destination, positive

EXAMPLES = """\
examples:
  keet eval export runs/mcq --model openai:gpt-5 -o batch.jsonl
  keet eval export runs/mcq --max-output 8000 | head -1 | jq -r '.body.messages[1].content'
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE")
    parser.add_argument(
        "--model", metavar="NAME", help="who is to answer (default: the lines name nobody)"
    )
    parser.add_argument(
        "--max-output", type=positive, metavar="N", help="tokens of an answer, thinking included"
    )


def run(args: Namespace) -> None:
    folder = RunFolder(args.run)
    task = folder.run.task
    prompts = folder.unanswered(args.model) if args.model else folder.prompts
    lines = list(batch_lines(prompts, _bare(args.model), args.max_output))
    Destination(args).write("".join(lines))
    sys.stderr.write(_told(args, task, len(lines)))


def _bare(model: str | None) -> str | None:
    """The provider's own name: `gpt-5` for `openai:gpt-5`."""
    if model and (provider := provider_of(model)):
        return model.removeprefix(f"{provider}:")
    return model


def _told(args: Namespace, task: str, count: int) -> str:
    if not count:
        return f"{args.model} has answered all of it; next: keet eval score {args.run}\n"
    named = f" --model {args.model}" if args.model else " --model NAME"
    return f"{count} prompts of {task}; the answers: keet eval import {args.run} FILE{named}\n"
