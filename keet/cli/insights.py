"""Show what a set of profiles in a store shows together: parameter sweeps with the best value and
where the limiter changes, kernels with the same finding, changes over time, and outliers. With
--model, a model summarises each insight."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_kernel,
    add_output,
    add_top,
    check_page,
    top_of,
    view_top,
)
from keet.cli.model_options import add_model, announce, check_files, model_options
from keet.cli.stderr import print_problem, print_progress
from keet.cli.top import note_older
from keet.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from keet.agent.insights_summary import InsightSummaries
    from keet.agent.options import ModelOptions
    from keet.documents.insights import InsightsDocument, WrittenDocument
    from keet.evidence import Prose

EXAMPLES = """\
examples:
  keet insights store
  keet insights store --kernel gemm
  keet insights store -o insights.md
  keet insights store -o insights.html --open
  keet insights store --kernel '^dot$' -o sweeps.svg
  keet insights store --format json | jq '.insights[].title'
  keet insights store --model openai:gpt-5 --price 1.25/10
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "store", type=Path, metavar="OUT", help="the store, made by `keet batch -o OUT`"
    )
    add_kernel(parser)
    add_top(parser, "insights of each kind", default=20)
    add_output(parser, "terminal", "markdown", "json", "svg", "html")
    add_model(parser)
    parser.add_argument(
        "--no-model", action="store_true", help="do not ask a model, even if one is configured"
    )


def run(args: Namespace) -> int:
    from keet.corpus.insights.search import find_insights
    from keet.corpus.store.reader import open_store

    check_files(args)
    if not args.show_prompt:
        check_page(args, sys.stdout)
    if args.no_model and (args.model or args.base_url):
        raise UsageError("--no-model and --model exclude each other; leave one out")
    options = None if args.no_model else model_options(args)
    with open_store(args.store) as store, store.explaining_damage():
        found = replace(find_insights(store, args.kernel, top_of(args)), store=str(args.store))
        code = _show(args, found, options)
    if not args.show_prompt:
        note_older(store)
    return code


def _show(args: Namespace, found: InsightsDocument, options: ModelOptions | None) -> int:
    if args.kernel is not None and not found.launches:
        raise UsageError(
            f"--kernel {args.kernel.pattern!r} matches no launch; see: keet top {args.store}"
        )
    # A model summarises the same ones for every format: JSON lists more of them.
    chosen = found.first_of_each_kind(view_top(args))
    if args.show_prompt and options:
        from keet.agent.insights_summary import shown_insight_prompts

        Destination(args, sys.stdout).write(shown_insight_prompts(chosen, options))
        return 0
    summaries = None
    if options:
        from keet.agent.insights_summary import summarise_insights

        announce(args)
        summaries = summarise_insights(chosen, options, print_progress)
    _print(args, _with_summaries(found, summaries) if summaries else found)
    has_failed = summaries and summaries.problem and not summaries.has_text
    return ExitCode.NOT_AVAILABLE if has_failed else 0


def _with_summaries(found: InsightsDocument, summaries: InsightSummaries) -> InsightsDocument:
    from keet.documents.insights import InsightsUsageDocument

    if summaries.problem:
        print_problem(
            f"{summaries.problem}; the insights are complete, but the model did not summarise all"
        )
    texts, usage = summaries.texts, summaries.usage
    cost = {"cost": None} if usage.cost == "unknown" else {}
    return replace(
        found,
        author=f"model:{summaries.author}" if summaries.has_text else "analyst",
        insights=[replace(each, written=_written(texts.get(each.id))) for each in found.insights],
        usage=InsightsUsageDocument(**{**usage.to_dict(), **cost}),
        problem=summaries.problem,
    )


def _written(prose: Prose | None) -> WrittenDocument | None:
    from keet.documents.insights import UncheckedSentenceDocument, WrittenDocument

    if prose is None:
        return None
    unchecked = [
        UncheckedSentenceDocument(text=str(each), reason=each.problem or "")
        for each in prose.problems
    ]
    return WrittenDocument(text=str(prose), unchecked=unchecked)


def _print(args: Namespace, document: InsightsDocument) -> None:
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.documents.document import json_text

        out.write(json_text(document))
    elif args.format == "svg":
        from keet.formats.svg.insights import insights_svg

        out.write(insights_svg(document))
    else:
        from keet.pages.insights import insights_page

        out.show_page(lambda reader: insights_page(document, reader), args.format)
