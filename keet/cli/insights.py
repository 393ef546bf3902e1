"""Show what a set of profiles in a store shows together: parameter sweeps with the best value and
where the limiter changes, kernels with the same finding, changes over time, and outliers. With
--model, a model summarises each insight."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
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
from keet.cli.pager import print_problem, print_progress
from keet.cli.top import add_store, note_older
from keet.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from keet.agent.insights_summary import InsightSummaries
    from keet.agent.model.settings import ModelOptions
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
    add_store(parser)
    add_kernel(parser)
    add_top(parser, "insights of each kind", default=20)
    add_output(parser, "terminal", "markdown", "json", "svg", "html")
    add_model(parser)


def run(args: Namespace) -> int:
    from keet.corpus.insights.search import find_insights
    from keet.corpus.store.reader import open_store

    check_files(args)
    if not args.show_prompt:
        check_page(args)
    if args.no_model and (args.model or args.base_url):
        raise UsageError("--no-model and --model exclude each other; leave one out")
    options = None if args.no_model else model_options(args)
    with open_store(args.store) as store, store.explaining_damage():
        insights = find_insights(store, args.kernel, top_of(args))
        code = _show(args, replace(insights, store=str(args.store)), options)
    if not args.show_prompt:
        note_older(store)
    return code


def _show(args: Namespace, insights: InsightsDocument, options: ModelOptions | None) -> int:
    if args.kernel is not None and not insights.launches:
        raise UsageError(
            f"--kernel {args.kernel.pattern!r} matches no launch; see: keet top {args.store}"
        )
    # A model summarises the same ones for every format: JSON lists more of them.
    chosen = insights.first_of_each_kind(view_top(args))
    if args.show_prompt and options:
        from keet.agent.insights_summary import shown_insight_prompts

        Destination(args).write(shown_insight_prompts(chosen, options))
        return 0
    summaries = None
    if options:
        from keet.agent.insights_summary import summarise_insights

        announce(args)
        summaries = summarise_insights(chosen, options, print_progress)
    _print(args, _with_summaries(insights, summaries) if summaries else insights)
    has_failed = summaries and summaries.problem and not summaries.has_text
    return ExitCode.NOT_AVAILABLE if has_failed else 0


def _with_summaries(insights: InsightsDocument, summaries: InsightSummaries) -> InsightsDocument:
    from keet.documents.insights import InsightsUsageDocument

    if summaries.problem:
        print_problem(
            f"{summaries.problem}; the insights are complete, but the model did not summarise all"
        )
    texts, usage = summaries.texts, summaries.usage
    cost = {"cost": None} if usage.cost == "unknown" else {}
    return replace(
        insights,
        author=f"model:{summaries.author}" if summaries.has_text else "analyst",
        insights=[
            replace(insight, written=_written(texts.get(insight.id)))
            for insight in insights.insights
        ],
        usage=InsightsUsageDocument(**{**usage.to_dict(), **cost}),
        problem=summaries.problem,
    )


def _written(prose: Prose | None) -> WrittenDocument | None:
    from keet.documents.insights import UncheckedSentenceDocument, WrittenDocument

    if prose is None:
        return None
    unchecked = [
        UncheckedSentenceDocument(text=str(problem), reason=problem.problem or "")
        for problem in prose.problems
    ]
    return WrittenDocument(text=str(prose), unchecked=unchecked)


def _print(args: Namespace, document: InsightsDocument) -> None:
    out = Destination(args)
    if args.format == "svg":
        from keet.formats.svg.insights import insights_svg

        out.write(insights_svg(document))
    else:
        from keet.pages.insights import insights_page

        out.show(document, lambda reader: insights_page(document, reader), args.format)
