"""Start a run: write all prompts for a model to a new folder.

mcq: questions about profiles, each in every condition. optimize: a program to make faster, with its
source and the condition's text about its profile. Conditions: none (only the source), raw (and `ncu
--page details`), keet (and `keet context`), agent (and `keet explain` with a model, from
--explanations), and for mcq blind (only the question).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from evals.runs import CONDITIONS, Condition, Prompt, Run, RunFolder, Task, now
from keet.cli.arguments import positive
from keet.errors import UsageError
from keet.version import __version__
from kernels_samples.samples import Sample, load_samples

EXAMPLES = """\
examples:
  keet eval prompts optimize runs/opt
  keet eval prompts optimize runs/few --samples gas_state,key_count --attempts 3
  keet eval prompts optimize runs/all --conditions none,raw,keet,agent --explanations said/
  keet eval prompts mcq runs/mcq --questions 66 --seed 1 --conditions none,raw,keet
"""

_DEFAULT: tuple[Condition, ...] = ("none", "raw", "keet")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("task", choices=get_args(Task), help="what the model is asked to do")
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder to make")
    parser.add_argument(
        "--samples", type=_names, metavar="A,B", help="optimize: only these (default: all in CUDA)"
    )
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
    parser.add_argument(
        "--questions", type=positive, metavar="N", help="mcq: this many (default: all)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="mcq: which ones (default: 1)"
    )
    parser.add_argument(
        "--explanations", type=Path, metavar="DIR", help="for agent: NAME.md of each sample"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ArgumentTypeError("no name; write them with commas between")
    return names


def _conditions(text: str) -> tuple[Condition, ...]:
    """In the order of CONDITIONS, independent of the order given."""
    names = _names(text)
    if wrong := [name for name in names if name not in CONDITIONS]:
        raise ArgumentTypeError(f"{wrong[0]!r} is no condition; there are {', '.join(CONDITIONS)}")
    return tuple(condition for condition in CONDITIONS if condition in names)


def run(args: Namespace) -> None:
    _refuse_options_of_the_other(args)
    RunFolder(args.run).check_free()  # before the work, too
    begin = _begin_optimize if args.task == "optimize" else _begin_mcq
    prompts = begin(args)
    sys.stdout.write("".join(_summary(prompts)))
    sys.stdout.write(
        f"{args.run} is ready; next: keet eval ask {args.run} --model PROVIDER:NAME, "
        f"or keet eval export {args.run}\n"
    )


def _refuse_options_of_the_other(args: Namespace) -> None:
    if args.task == "optimize" and args.questions is not None:
        raise UsageError("optimize has no questions; leave out --questions, or name the task mcq")
    if args.explanations is not None and "agent" not in args.conditions:
        raise UsageError("--explanations is for the condition agent; add it to --conditions")


def _begin_optimize(args: Namespace) -> list[Prompt]:
    from evals.optimize.prompts import VARIANT, prompt_version, prompts

    samples = _samples(args.samples) if args.samples else _cuda_samples()
    made = list(prompts(samples, args.conditions, args.attempts, args.explanations))
    options = _explained(args, [f"{sample.name}/{VARIANT}" for sample in samples])
    RunFolder.create(args.run, _run_of(args, prompt_version(), made, options), made)
    return made


def _explained(args: Namespace, reports: Iterable[str]) -> dict[str, Any]:
    """Which explanations the prompts contain; empty if none."""
    from evals.contexts import explanation_digests

    if args.explanations is None:
        return {}
    return {"explanations": explanation_digests(reports, args.explanations)}


def _samples(names: Sequence[str]) -> list[Sample]:
    known = {sample.name: sample for sample in load_samples()}
    if wrong := [name for name in names if name not in known]:
        raise UsageError(f"there is no sample {wrong[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _cuda_samples() -> list[Sample]:
    samples = load_samples()
    if left := [sample.name for sample in samples if sample.language != "cuda"]:
        sys.stderr.write(f"optimize measures CUDA alone: {', '.join(left)} left out\n")
    return [sample for sample in samples if sample.language == "cuda"]


def _begin_mcq(args: Namespace) -> list[Prompt]:
    from evals.mcq.prompts import prompt_version, prompts
    from evals.mcq.questions import all_questions, chosen, write_key

    if args.samples:
        raise UsageError("mcq chooses questions over all samples; leave out --samples")
    questions = chosen(args.questions, args.seed) if args.questions else all_questions()
    made = list(prompts(questions, args.conditions, args.attempts, args.explanations))
    options = {
        "questions": args.questions,
        "seed": args.seed,
        **_explained(args, [report for question in questions for report in question.reports]),
    }
    folder = RunFolder.create(args.run, _run_of(args, prompt_version(), made, options), made)
    write_key(folder.path / "key.jsonl", questions)
    return made


def _run_of(
    args: Namespace, version: str, prompts: Sequence[Prompt], options: dict[str, Any]
) -> Run:
    if not prompts:
        raise UsageError("nothing is left to ask; name other --conditions")
    return Run(
        task=args.task,
        created=now(),
        keet=__version__,
        prompt_version=version,
        conditions=args.conditions,
        samples=tuple(dict.fromkeys(prompt.sample for prompt in prompts)),
        attempts=args.attempts,
        options=options,
    )


def _summary(prompts: Sequence[Prompt]) -> Iterator[str]:
    """Number and length of prompts by condition: what a run will cost."""
    from keet.explanation.token_budget import guess_tokens

    order = list(CONDITIONS)
    ranked = sorted(prompts, key=lambda prompt: order.index(prompt.condition))
    for condition, group in groupby(ranked, key=lambda prompt: prompt.condition):
        tokens = [guess_tokens(prompt.system + prompt.user) for prompt in group]
        mean = sum(tokens) / len(tokens)
        yield f"{condition:6} {len(tokens):5} prompts, about {mean:,.0f} tokens each\n"
