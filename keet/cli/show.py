"""What is in a report: the GPU, each launch, what was collected, what is missing and the ncu
command that would capture it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from keet.cli.arguments import Destination, add_output, add_report, add_source

EXAMPLES = """\
examples:
  keet show report.ncu-rep
  keet show report.ncu-rep --format json | jq '.launches[].kernel'
  COLUMNS=160 keet show report.ncu-repz      one row a launch, with its shape
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_source(parser)
    parser.add_argument("--all", action="store_true", help="list every launch, however many")
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> None:
    from keet.analysis.coverage import find_coverage
    from keet.ingest import read_profile

    profile = read_profile(args.report, source=args.source)
    coverage = find_coverage(profile)
    out = Destination(args.output, sys.stdout)
    if args.format == "json":
        from keet.render.documents import json_text
        from keet.render.to_documents import show_document

        out.write(json_text(show_document(profile, coverage)))
        return
    from keet.render.show import show_view

    out.show(lambda width: show_view(profile, coverage, width, everything=args.all))
