"""What limits each kernel of a report, where in the source, how we know, what to change and what it
will gain. Needs no model, no GPU and no network."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from keet.cli.arguments import (
    Destination,
    add_output,
    add_report,
    add_selection,
    add_source,
    positive,
    selected_launches,
)

EXAMPLES = """\
examples:
  keet explain report.ncu-rep
  keet explain report.ncu-rep --kernel gemm --top 3
  keet explain report.ncu-rep --source ./src
  keet explain report.ncu-rep --format markdown -o comment.md
  keet explain report.ncu-rep --format json | jq '.launches[].verdict'
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_source(parser)
    add_selection(parser)
    parser.add_argument(
        "--top", type=positive, default=5, metavar="N", help="findings a launch (default: 5)"
    )
    parser.add_argument(
        "--no-model", action="store_true", help="the analyst alone, as in this version always"
    )
    add_output(parser, "terminal", "markdown", "json")


def run(args: Namespace) -> None:
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    profile = read_profile(args.report, source=args.source)
    explanation = explain(profile, selected_launches(profile, args), args.top)
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.render.documents import json_text
        from keet.render.explain_documents import explain_document

        out.write(json_text(explain_document(explanation)))
    elif args.format == "markdown":
        from keet.render.explain_markdown import explain_markdown

        out.write(explain_markdown(explanation))
    else:
        from keet.render.explain import explain_view

        out.show(lambda width: explain_view(explanation, width))
