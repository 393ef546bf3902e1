"""A model answers a question about one or more reports. It reads them with keet's tools, and keet
prints the numbers of the answer from the reports."""

from __future__ import annotations

import os.path
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_selection,
    add_source,
    option,
    report_path,
    selected_launches,
)
from keet.cli.model_options import HOW, add_model, announce, check_files, model_options
from keet.cli.pager import print_problem, print_progress
from keet.errors import ExitCode, NotAvailable, UsageError

if TYPE_CHECKING:
    from keet.agent.model.settings import ModelOptions
    from keet.explanation.explanation_types import Explanation

EXAMPLES = """\
examples:
  keet ask report.ncu-rep "Would a larger block help?" --model openai:gpt-5
  keet ask before.ncu-rep after.ncu-rep "Why is the second one faster?"
  keet ask report.ncu-rep "Which line causes the bank conflicts?" --kernel gemm
  keet ask report.ncu-rep "What limits it?" --verbose
  keet ask report.ncu-rep "What limits it?" --show-prompt
"""

_TOP = 5


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="REPORT… QUESTION", help="reports, then the question in quotes"
    )
    add_source(parser)
    add_no_sass(parser)
    add_selection(parser)
    option(
        parser,
        "--verbose",
        "also print the numbers that the answer refers to, and why sentences are unchecked",
    )
    add_output(parser, "terminal", "markdown", "json")
    add_model(parser, is_optional=False)


def run(args: Namespace) -> int:
    *reports, question = args.words
    if not reports:
        raise UsageError('name a report and a question: keet ask report.ncu-rep "What limits it?"')
    if os.path.isfile(question):  # noqa: PTH113 - Path's raises for a long question
        raise UsageError(f"{question} is a file; the question comes last, in quotes")
    if not question.strip():
        raise UsageError("the question is empty; write it last, in quotes")
    check_files(args)
    options = model_options(args)
    if options is None:
        raise NotAvailable(
            f"a question needs a model: {HOW}. Without a model: keet explain {reports[0]}"
        )
    explanations = _explanations(args, [report_path(report) for report in reports])
    if args.show_prompt:
        from keet.agent.run import shown_prompts

        Destination(args).write(shown_prompts(explanations, options, question))
        return 0
    return _ask(args, explanations, question, options)


def _explanations(args: Namespace, reports: list[Path]) -> list[Explanation]:
    from keet_tools.answers import scope_of

    from keet.explanation.analyst import explain
    from keet.profile.run_link import MAX_DECODED
    from keet.report import read_profile

    profiles = [read_profile(report, source=args.source) for report in reports]
    return [
        explain(
            profile,
            selected_launches(profile, args),
            _TOP,
            report_scope=scope_of(number),
            sass=not args.no_sass,
            most=None if args.launch is not None or args.kernel is not None else MAX_DECODED,
        )
        for number, profile in enumerate(profiles)
    ]


def _ask(
    args: Namespace, explanations: list[Explanation], question: str, options: ModelOptions
) -> int:
    from keet.agent.run import ask
    from keet.cli.explain import print_explanation
    from keet.documents.model_explanation import Authorship

    announce(args)
    answered = ask(explanations, question, options, print_progress)
    if isinstance(answered, Authorship):
        print_problem(f"{answered.problem}; explained without a model")
        # No answer, but what the reports say without a model.
        print_explanation(args, *(told.attributed_to(answered) for told in explanations))
        return ExitCode.NOT_AVAILABLE
    from keet.pages.ask import ask_page

    verbose = args.verbose
    Destination(args).show(
        answered, lambda reader: ask_page(answered, reader, verbose=verbose), args.format
    )
    return 0
