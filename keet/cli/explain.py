"""What limits each kernel of a report, where in the source, how we know, what to change and what it
will gain. Needs no model, no GPU and no network; a model adds what the code does, which hypotheses
hold, and edits."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_output,
    add_report,
    add_selection,
    add_source,
    positive,
    selected_launches,
)
from keet.cli.model_options import HOW, add_model, announce, check_files, plan, tell
from keet.errors import UsageError

if TYPE_CHECKING:
    from keet.agent.run import Plan
    from keet.explanation.analyst import Explanation

EXAMPLES = """\
examples:
  keet explain report.ncu-rep
  keet explain report.ncu-rep --kernel gemm --top 3
  keet explain report.ncu-rep --source ./src
  keet explain report.ncu-rep --format markdown -o comment.md
  keet explain report.ncu-rep --format json | jq '.launches[].verdict'
  keet explain report.ncu-rep --model openai:gpt-5
  keet explain report.ncu-rep --base-url http://localhost:8000/v1 --redact names
  keet explain report.ncu-rep --show-prompt
"""

EXIT_NOT_THERE = 3
NO_MODEL = f"by the analyst alone; a model adds what the code does, and edits: {HOW}"


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_source(parser)
    add_selection(parser)
    parser.add_argument(
        "--top", type=positive, default=5, metavar="N", help="findings a launch (default: 5)"
    )
    add_output(parser, "terminal", "markdown", "json")
    add_model(parser)
    parser.add_argument(
        "--model-launches",
        type=positive,
        metavar="N",
        help="launches that the model explains, the longest ones (default: 3)",
    )
    parser.add_argument("--no-model", action="store_true", help="the analyst alone")


def run(args: Namespace) -> int:
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    check_files(args)
    if args.no_model:
        _check_no_model(args)
    chosen = None if args.no_model else plan(args)
    profile = read_profile(args.report, source=args.source)
    # Evidence ids that are unique over launches: a model's tools look at any of them.
    numbers = count(1) if chosen else None
    explanation = explain(profile, selected_launches(profile, args), args.top, numbers)
    if args.show_prompt and chosen:
        return _show_prompt(args, explanation, chosen)
    if chosen:
        explanation = _with_model(args, explanation, chosen)
    elif not args.no_model:
        tell(NO_MODEL)
    print_explanation(args, explanation)
    return _code(explanation)


def _check_no_model(args: Namespace) -> None:
    asks = {
        "--model": args.model,
        "--base-url": args.base_url,
        "--replay": args.replay,
        "--show-prompt": args.show_prompt,
    }
    if given := [option for option, value in asks.items() if value]:
        raise UsageError(f"--no-model and {given[0]} exclude each other; leave one out")


def _with_model(args: Namespace, explanation: Explanation, chosen: Plan) -> Explanation:
    from keet.agent.run import explain_with_model

    announce(args)
    told = explain_with_model(explanation, chosen, tell)
    if told.author and told.author.problem:
        tell(f"{told.author.problem}; what follows is {_whose(told)}")
    return told


def _whose(explanation: Explanation) -> str:
    some = any(each.statement for each in explanation.launches)
    return "the analyst's, with what the model said until then" if some else "the analyst's alone"


def _code(explanation: Explanation) -> int:
    """Explained it is; but who asked for a model and got none wants to know."""
    lacking = explanation.author and not any(each.statement for each in explanation.launches)
    return EXIT_NOT_THERE if lacking else 0


def _show_prompt(args: Namespace, explanation: Explanation, chosen: Plan) -> int:
    from keet.agent.run import shown_prompts

    Destination(args, sys.stdout).write(shown_prompts([explanation], chosen))
    return 0


def print_explanation(args: Namespace, *explanations: Explanation) -> None:
    """Several go to the one place together; as JSON, each has a line."""
    out = Destination(args, sys.stdout)
    if args.format == "json":
        out.write(_json(explanations))
    elif args.format == "markdown":
        from keet.render.explain_markdown import explain_markdown

        out.write("\n".join(map(explain_markdown, explanations)))
    else:
        from rich.console import Group

        from keet.render.explain import explain_view

        out.show(lambda width: Group(*(explain_view(each, width) for each in explanations)))


def _json(explanations: Sequence[Explanation]) -> str:
    from keet.render.documents import json_text
    from keet.render.explain_documents import explain_document

    documents = [explain_document(each) for each in explanations]
    if len(documents) == 1:
        return json_text(documents[0])
    return "".join(f"{document.model_dump_json()}\n" for document in documents)
