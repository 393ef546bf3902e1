"""Start a run: write all prompts for a model to a new folder.

mcq: questions about profiles, each in every condition. Conditions: blind (only the question), none
(and the source), raw (and `ncu --page details`), keet (instead, `keet context`), agent (instead,
`keet explain` with a model, from --explanations).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from evals.runs import CONDITIONS, Condition, Prompt, Run, RunFolder, now
from keet.cli.arguments import positive
from keet.errors import UsageError
from keet.version import __version__

EXAMPLES = """\
examples:
  keet eval prompts mcq runs/mcq
  keet eval prompts mcq runs/few --questions 66 --seed 1 --conditions none,raw,keet
  keet eval prompts mcq runs/all --conditions none,raw,keet,agent --explanations said/
"""

_DEFAULT: tuple[Condition, ...] = ("none", "raw", "keet")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("task", choices=("mcq",), help="what the model is asked to do")
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder to make")
    parser.add_argument(
        "--conditions",
        type=_conditions,
        default=_DEFAULT,
        metavar="A,B",
        help=f"of {', '.join(CONDITIONS)} (default: {','.join(_DEFAULT)})",
    )
    parser.add_argument(
        "--attempts", type=positive, default=1, metavar="K", help="of each prompt (default: 1)"
    )
    parser.add_argument("--questions", type=positive, metavar="N", help="this many (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which ones (default: 1)")
    parser.add_argument(
        "--explanations", type=Path, metavar="DIR", help="for agent: NAME.md of each sample"
    )


def _conditions(text: str) -> tuple[Condition, ...]:
    """In the order of CONDITIONS, independent of the order given."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise ArgumentTypeError("no name; write them with commas between")
    if wrong := [name for name in names if name not in CONDITIONS]:
        raise ArgumentTypeError(f"{wrong[0]!r} is no condition; there are {', '.join(CONDITIONS)}")
    return tuple(condition for condition in CONDITIONS if condition in names)


def run(args: Namespace) -> None:
    from evals.contexts import explanation_digests
    from evals.mcq.prompts import prompt_version, prompts
    from evals.mcq.questions import all_questions, chosen, write_key

    if args.explanations is not None and "agent" not in args.conditions:
        raise UsageError("--explanations is for the condition agent; add it to --conditions")
    RunFolder(args.run).check_free()  # before the work, too
    questions = chosen(args.questions, args.seed) if args.questions else all_questions()
    made = list(prompts(questions, args.conditions, args.attempts, args.explanations))
    options: dict[str, Any] = {"questions": args.questions, "seed": args.seed}
    if args.explanations is not None:
        reports = [report for question in questions for report in question.reports]
        options["explanations"] = explanation_digests(reports, args.explanations)
    if not made:
        raise UsageError("nothing is left to ask; name other --conditions")
    asked = Run(
        created=now(),
        keet=__version__,
        prompt_version=prompt_version(),
        conditions=args.conditions,
        samples=tuple(dict.fromkeys(prompt.sample for prompt in made)),
        attempts=args.attempts,
        options=options,
    )
    folder = RunFolder.create(args.run, asked, made)
    write_key(folder.path / "key.jsonl", questions)
    sys.stdout.write("".join(_summary(made)))
    sys.stdout.write(
        f"{args.run} is ready; next: keet eval ask {args.run} --model PROVIDER:NAME, "
        f"or keet eval export {args.run}\n"
    )


def _summary(prompts: Sequence[Prompt]) -> Iterator[str]:
    """Number and length of prompts by condition: what a run will cost."""
    from keet.formatting import guess_tokens

    order = list(CONDITIONS)
    ranked = sorted(prompts, key=lambda prompt: order.index(prompt.condition))
    for condition, group in groupby(ranked, key=lambda prompt: prompt.condition):
        tokens = [guess_tokens(prompt.system + prompt.user) for prompt in group]
        mean = sum(tokens) / len(tokens)
        yield f"{condition:6} {len(tokens):5} prompts, about {mean:,.0f} tokens each\n"
