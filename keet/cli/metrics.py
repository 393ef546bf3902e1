"""Print the metrics of a report with label, unit and meaning.

Without PATTERN: the key metrics, by section. With PATTERN: every metric whose name, id or label
matches it."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_output,
    add_report,
    add_selection,
    option,
    pattern,
    selected_launches,
    writing,
)
from keet.errors import UsageError
from keet.profile import Launch

if TYPE_CHECKING:
    from keet.documents.show import MetricsLaunch

MOST_COLUMNS = 400
"""Launches that the table on a terminal is made from: more than fit any width."""

EXAMPLES = """\
examples:
  keet metrics report.ncu-rep                     the key metrics
  keet metrics report.ncu-rep dram                all metrics about DRAM, explained
  keet metrics report.ncu-rep 'hit.rate' --launch 2
  keet metrics report.ncu-rep --all --format csv -o metrics.csv
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    parser.add_argument(
        "pattern",
        nargs="?",
        type=pattern,
        metavar="PATTERN",
        help="a regular expression, not case-sensitive",
    )
    add = partial(option, parser)
    add("--all", "print every metric of the report")
    add("--names", "also print the name that ncu uses")
    add(
        "--explain",
        "print what each metric means (default: if 12 or fewer are printed)",
        action=BooleanOptionalAction,
        default=None,
    )
    add_selection(parser)
    add_output(parser, "terminal", "json", "csv", "parquet")


def run(args: Namespace) -> None:
    from keet.report import read_profile

    profile = read_profile(args.report)
    launches = selected_launches(profile, args)
    tables = _tables(launches, args)
    out = Destination(args)
    if args.format == "json":
        from keet.documents.show import MetricsDocument

        out.write_launches(MetricsDocument, profile, tables)
    elif args.format == "csv":
        from keet.formats.csv import metrics_csv

        out.write_pieces(metrics_csv(tables))
    elif args.format == "parquet":
        from keet.corpus.store.part_writer import write_parquet
        from keet.documents.show import HEADER, long_rows

        if args.output is None:
            raise UsageError("--format parquet is a binary file; name it with: -o FILE")
        with writing(args.output):
            write_parquet(args.output, HEADER, long_rows(tables))
    else:
        from keet.pages.metrics import metrics_page

        some = list(islice(tables, MOST_COLUMNS))
        more = len(launches) - len(some)
        out.show_page(
            lambda reader: metrics_page(
                some, reader, explain=args.explain, names=args.names, more=more
            )
        )


def _tables(launches: Sequence[Launch], args: Namespace) -> Iterator[MetricsLaunch]:
    """The rows of each launch, one launch after the other. Raises if no launch has any, before
    something is printed."""
    from keet.documents.show import containing, launch_metrics
    from keet.profile.run_link import iterate_launches

    wanted = args.pattern.pattern if args.pattern else None
    matches = None if wanted is None else containing(wanted)
    tables = (
        launch_metrics(launch, matches, everything=args.all)
        for launch in iterate_launches(launches, "reading metrics")
    )
    if wanted is None:
        return tables
    without: list[MetricsLaunch] = []
    for table in tables:
        without.append(table)
        if table.metrics:
            return chain(without, tables)
    raise UsageError(
        f"no metric matches {wanted!r}; list them with: keet metrics {args.report} --all"
    )
