"""The metric table: what the report holds under names, labels and units, with what each means.

Without a PATTERN: the metrics that matter, by section. With one: every metric whose name, id or
label matches it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace

from keet.cli.arguments import (
    Destination,
    add_output,
    add_report,
    add_selection,
    output_errors,
    pattern,
    selected_launches,
)
from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet metrics report.ncu-rep                     the metrics that matter
  keet metrics report.ncu-rep dram                whatever concerns DRAM, explained
  keet metrics report.ncu-rep 'hit.rate' --launch 2
  keet metrics report.ncu-rep --all --format csv -o metrics.csv
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    parser.add_argument(
        "pattern", nargs="?", type=pattern, metavar="PATTERN", help="regex, any case"
    )
    parser.add_argument("--all", action="store_true", help="every metric of the report")
    parser.add_argument("--names", action="store_true", help="ncu's name under each label")
    parser.add_argument(
        "--explain",
        action=BooleanOptionalAction,
        default=None,
        help="what each metric means (default: when there are few)",
    )
    add_selection(parser)
    add_output(parser, "terminal", "json", "csv", "parquet")


def run(args: Namespace) -> None:
    from keet.analysis.metric_table import metric_rows
    from keet.ingest import read_profile

    profile = read_profile(args.report)
    wanted = args.pattern.pattern if args.pattern else None
    tables = [
        (launch, metric_rows(launch, wanted, everything=args.all))
        for launch in selected_launches(profile, args)
    ]
    if wanted and not any(rows for _, rows in tables):
        raise UsageError(
            f"no metric matches {wanted!r}; list them with: keet metrics {args.report} --all"
        )
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.render.json.documents import json_text
        from keet.render.json.metrics import metrics_document

        out.write(json_text(metrics_document(profile, tables)))
    elif args.format == "csv":
        from keet.render.csv.metrics import metrics_csv

        out.write(metrics_csv(tables))
    elif args.format == "parquet":
        _write_parquet(tables, args)
    else:
        from keet.render.terminal.metrics import metrics_view

        out.show(lambda width: metrics_view(tables, width, explain=args.explain, names=args.names))


def _write_parquet(tables: list, args: Namespace) -> None:  # type: ignore[type-arg]
    from keet.corpus.parquet import write_parquet
    from keet.render.common.metrics import HEADER, long_rows

    if args.output is None:
        raise UsageError("--format parquet is a binary file; name it with: -o FILE")
    with output_errors(args.output):
        write_parquet(args.output, HEADER, long_rows(tables))
