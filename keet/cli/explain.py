"""Explain what limits each kernel of a report: where in the source, the evidence, what to change,
and the expected gain. Needs no model, no GPU and no network. With --model, a model adds code-level
causes and edits."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    add_no_sass,
    add_output,
    add_run_table,
    add_selection,
    add_source,
    add_top,
    check_page,
    positive,
    report_path,
)
from keet.cli.model_options import (
    HOW,
    add_edits,
    add_model,
    check_files,
    model_options,
)
from keet.errors import NotAvailable, UsageError

if TYPE_CHECKING:
    from keet.agent.options import ModelOptions

EXAMPLES = """\
examples:
  keet explain report.ncu-rep
  keet explain report.ncu-rep --launch 3 --verbose
  keet explain report.ncu-rep --kernel gemm --top 3
  keet explain report.ncu-rep --source ./src
  keet explain report.ncu-rep -o comment.md
  keet explain report.ncu-rep --open
  keet explain report.ncu-rep --format json | jq '.launches[].verdict'
  keet explain after.ncu-rep --against before.ncu-rep
  keet explain profiles/ --kernel gemm
  ssh gpu-host cat report.ncu-rep | keet explain -
  keet explain report.ncu-rep --model openai:gpt-5 --patch fix.patch
  keet explain report.ncu-rep --base-url http://localhost:8000/v1 --redact names
  keet explain report.ncu-rep --show-prompt
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        type=report_path,
        nargs="+",
        metavar="REPORT",
        help="a report, export or snapshot, several of them, or a folder; - reads standard input",
    )
    add_selection(parser)
    add_top(parser, "findings per launch", default=5)
    parser.add_argument(
        "--all",
        action="store_true",
        help="explain every launch in full (default: a summary of the whole report, then "
        "the launches that take most of the time)",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="print every part of each launch's time, evidence ids, the complete ncu command for "
        "what the report lacks, and everything the model said",
    )
    parser.add_argument(
        "--against",
        type=report_path,
        metavar="BEFORE",
        help="also print what changed since the report BEFORE",
    )
    add_output(parser, "terminal", "markdown", "json", "html")
    add_source(parser)
    add_run_table(parser)
    parser.add_argument(
        "--editor",
        choices=["vscode"],
        help="with --format html: places link to the source files on this machine, in VS Code",
    )
    add_no_sass(parser)
    model = add_model(parser)
    add_edits(model)
    model.add_argument(
        "--model-launches",
        type=positive,
        metavar="N",
        help="number of launches that the model explains, longest first (default: 3)",
    )


def run(args: Namespace) -> int:
    check_files(args)
    if not args.show_prompt:
        check_page(args, sys.stdout)
    if args.editor and args.format != "html":
        raise UsageError("--editor makes links of an HTML page; add: --format html -o page.html")
    if args.no_model:
        _check_no_model(args)
    chosen = None if args.no_model else model_options(args)
    if args.patch is not None:
        _check_patch(args, chosen)
    if len(args.reports) > 1 or args.reports[0].is_dir():
        from keet.cli.explain_many import explain_many

        return explain_many(args, chosen)
    from keet.cli.explain_one import explain_one

    return explain_one(args, chosen)


def _check_no_model(args: Namespace) -> None:
    asks = {
        "--model": args.model,
        "--base-url": args.base_url,
        "--replay": args.replay,
        "--show-prompt": args.show_prompt,
        "--patch": args.patch,
    }
    if given := [option for option, value in asks.items() if value]:
        raise UsageError(f"--no-model and {given[0]} exclude each other; leave one out")


def _check_patch(args: Namespace, chosen: ModelOptions | None) -> None:
    if chosen is None:
        raise NotAvailable(f"--patch needs a model, which suggests the edits: {HOW}")
    if args.show_prompt:
        raise UsageError("--patch and --show-prompt exclude each other; leave one out")
