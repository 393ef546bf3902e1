"""What the profiles of a store show together: sweeps with their knob, best point and change of
limiter; kernels with the same finding; outliers; changes over time. A model may sum it up."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_output, check_page, pattern, positive
from keet.cli.model_options import add_model, announce, check_files, plan, tell, tell_problem
from keet.cli.top import note_older
from keet.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from keet.agent.run import Plan
    from keet.cli.insights_model import Summed
    from keet.corpus.insights.records import Insights
    from keet.render.json.insights import InsightsDocument

EXAMPLES = """\
examples:
  keet insights store
  keet insights store --kernel gemm
  keet insights store --format markdown -o insights.md
  keet insights store --format html -o insights.html
  keet insights store --format svg --kernel '^dot$' -o sweeps.svg
  keet insights store --format json | jq '.insights[].title'
  keet insights store --model openai:gpt-5 --price 1.25/10
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("store", type=Path, metavar="OUT", help="a store that `keet batch` made")
    parser.add_argument(
        "--kernel", type=pattern, metavar="REGEX", help="only kernels whose name matches"
    )
    parser.add_argument(
        "--top", type=positive, default=20, metavar="N", help="of each kind (default: 20)"
    )
    add_output(parser, "terminal", "markdown", "json", "svg", "html")
    add_model(parser)
    parser.add_argument("--no-model", action="store_true", help="no summary by a model")


def run(args: Namespace) -> int:
    from keet.corpus.insights import find_insights
    from keet.corpus.store import open_store

    check_files(args)
    if not args.show_prompt:
        check_page(args, sys.stdout)
    if args.no_model and (args.model or args.base_url):
        raise UsageError("--no-model and --model exclude each other; leave one out")
    chosen = None if args.no_model else plan(args)
    with open_store(args.store) as store:
        found = find_insights(store, args.kernel, args.top)
    if args.kernel is not None and not found.launches:
        raise UsageError(
            f"--kernel {args.kernel.pattern!r} matches no launch; see: keet top {args.store}"
        )
    if args.show_prompt and chosen:
        return _show_prompts(args, found, chosen)
    summed = _summed(args, found, chosen) if chosen else None
    _print(args, _document(args, found, summed))
    note_older(store)
    return ExitCode.NOT_AVAILABLE if summed and summed.problem and not summed.said_something else 0


def _show_prompts(args: Namespace, found: Insights, chosen: Plan) -> int:
    from keet.cli.insights_model import shown_prompts

    Destination(args, sys.stdout).write(shown_prompts(found, chosen))
    return 0


def _summed(args: Namespace, found: Insights, chosen: Plan) -> Summed:
    from keet.cli.insights_model import sum_up

    announce(args)
    return sum_up(found, chosen, tell)


def _document(args: Namespace, found: Insights, summed: Summed | None) -> InsightsDocument:
    from keet.render.json.insights import insights_document

    if summed is None:
        return insights_document(found, str(args.store))
    if summed.problem:
        tell_problem(f"{summed.problem}; what the analyst found stands")
    author = f"model:{summed.author}" if summed.said_something else "analyst"
    return insights_document(
        summed.insights,
        str(args.store),
        author=author,
        usage=summed.usage,
        problem=summed.problem,
    )


def _print(args: Namespace, document: InsightsDocument) -> None:
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.render.json.encoding.writing import json_text

        out.write(json_text(document))
    elif args.format == "markdown":
        from keet.render.markdown.insights import insights_markdown

        out.write(insights_markdown(document))
    elif args.format == "svg":
        from keet.render.svg.insights import insights_svg

        out.write(insights_svg(document))
    elif args.format == "html":
        from keet.render.html.insights import insights_page

        out.write(insights_page(document))
    else:
        from keet.render.terminal.insights import insights_view

        out.show(lambda width: insights_view(document, width))
