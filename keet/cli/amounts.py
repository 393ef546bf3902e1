"""Print how much work each launch does, and how much of it is needed: instructions and bytes per
result, how often each array is read, what loops repeat, loads that wait for each other, what units
are busy with, and the least time under stated assumptions. Across launches: which of them take the
time, what they move again, and which data one may hand over to another.

Amounts per result count the distinct elements that the launch stores, else its threads; --per names
another unit of work and how many of these a launch does."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_report,
    add_run_table,
    add_selection,
    add_source,
    option,
    selected_launches,
)
from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet amounts report.ncu-rep
  keet amounts report.ncu-rep --kernel backproject --per voxel=14706528
  keet amounts report.ncu-rep --format json | jq '.launches[].amounts.arrays[]'
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_selection(parser)
    option(
        parser,
        "--per NAME=COUNT",
        "count per NAME, of which a launch has COUNT (default: per element that it stores)",
        type=_item,
    )
    add_source(parser)
    add_run_table(parser)
    add_no_sass(parser)
    add_output(parser, "terminal", "markdown", "json")


def _item(text: str) -> tuple[str, float] | None:
    from keet.analysis.amounts.items import counted_per

    try:
        return counted_per(text)
    except UsageError as wrong:
        raise ArgumentTypeError(str(wrong)) from None


def run(args: Namespace) -> None:
    from keet.explanation.launch_amounts import amounts_document
    from keet.report import read_profile

    profile = read_profile(args.report, source=args.source, run_table=args.run_table)
    chosen = selected_launches(profile, args)
    amounts = amounts_document(profile, chosen, args.per, sass=not args.no_sass)
    out = Destination(args)
    if args.format == "json":
        from keet.documents.document import json_pieces

        out.write_pieces(json_pieces(amounts))
        return
    from keet.pages.amounts import amounts_page

    document = amounts.document()
    out.show_page(lambda reader: amounts_page(document, reader), args.format)
