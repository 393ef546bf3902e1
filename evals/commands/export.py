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
    folder, model = RunFolder(args.run), args.model
    prompts = folder.unanswered(model) if model else folder.prompts
    if model and (provider := provider_of(model)):
        model = model.removeprefix(f"{provider}:")  # its own name: `gpt-5` for `openai:gpt-5`
    lines = list(batch_lines(prompts, model, args.max_output))
    Destination(args).write("".join(lines))
    if lines:
        named = f"{args.run} FILE --model {args.model or 'NAME'}"
        told = f"{len(lines)} prompts of {folder.run.task}; the answers: keet eval import {named}"
    else:
        told = f"{args.model} has answered all of it; next: keet eval score {args.run}"
    sys.stderr.write(f"{told}\n")
