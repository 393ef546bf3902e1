"""Write a report as text: every metric, instance, rule result, source line and instruction, in a
fixed order that suits `diff`. Reading it back gives the same profile."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keet.cli.arguments import add_report, add_run_table, add_source, check_output, option, writing
from keet.files import STDIN

EXAMPLES = """\
examples:
  keet snapshot report.ncu-rep                    writes report.keet.json
  keet snapshot report.ncu-rep -o small.keet.json.zst    compressed; every command reads it
  keet snapshot report.ncu-rep -o - | less
  ssh gpu-host cat report.ncu-rep | keet snapshot - -o report.keet.json
  keet show report.keet.json                      a snapshot can replace its report
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_source(parser)
    add_run_table(parser)
    option(
        parser,
        "-o, --output FILE",
        "output file; - is stdout; compressed if the name ends in .zst (default: the name of "
        "REPORT with .keet.json, in the current folder; stdout if REPORT is -)",
    )


def run(args: Namespace) -> None:
    from keet.report import read_profile
    from keet.report.snapshot import SUFFIX, snapshot_text, write_snapshot

    profile = read_profile(args.report, source=args.source, run_table=args.run_table)
    if args.output == "-" or (args.output is None and args.report is STDIN):
        for piece in snapshot_text(profile):
            sys.stdout.write(piece)
        return
    endings = (".keet.json.zst", ".keet.json", ".ncu-repz", ".ncu-rep", ".csv")
    name = args.report.name
    ending = next((ending for ending in endings if name.endswith(ending)), "")
    path = Path(args.output or name.removesuffix(ending) + SUFFIX)
    check_output(path, args.report)
    with writing(path):
        write_snapshot(profile, path)
