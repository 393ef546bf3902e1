"""Where in the code a launch spends its time: source lines, or instructions where there are no
lines, ranked by warp samples, with what the warps wait for and the memory traffic of each.

Sectors and wavefronts are those of global and shared memory; "excess" is what packed addresses and
conflict-free banks would have saved."""

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
  keet hotspots report.ncu-rep
  keet hotspots report.ncu-rep --launch 0 --by instruction --top 30
  keet hotspots report.ncu-rep --source ./src     text for reports without it
  keet hotspots report.ncu-rep --format csv -o lines.csv
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    parser.add_argument(
        "--by",
        choices=("line", "instruction"),
        help="what to rank (default: lines where the report has them)",
    )
    parser.add_argument(
        "--top", type=positive, metavar="N", help="rows a launch (default: 10; csv and json: all)"
    )
    add_source(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json", "csv")


def run(args: Namespace) -> None:
    from keet.analysis.hotspots import find_hotspots
    from keet.ingest import read_profile

    profile = read_profile(args.report, source=args.source)
    found = [
        (launch, find_hotspots(launch, args.by)) for launch in selected_launches(profile, args)
    ]
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.render.documents import json_text
        from keet.render.to_documents import hotspots_document

        out.write(json_text(hotspots_document(profile, found, args.top)))
    elif args.format == "csv":
        from keet.render.hotspots import hotspots_csv

        out.write(hotspots_csv(found, args.top))
    else:
        from keet.render.hotspots import hotspots_view

        out.show(lambda width: hotspots_view(found, width, args.top or 10))
