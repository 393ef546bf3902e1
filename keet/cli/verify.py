"""Check the numbers of any text against a report.

Each number is compared with the metric that the text names, by any of its names, in the launch that
the text is about; or with a source line's share of the samples. A number about the whole run of the
program is compared with the run table, if there is one. A sentence about several launches ("all
together", "none", "the first", "on average") is checked over the launches that it names; where keet
does not understand which, its numbers are not checked. Numbers that keet prints (forecasts,
shares, rows of its tables) are computed again. Comparisons ("exceeds", "more than twice", "is the
highest stall") are checked separately. If the text compares two reports, give both. The exit code
is 1 if a number or a comparison is wrong."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from codecs import getincrementaldecoder
from pathlib import Path

from keet.cli.arguments import (
    Destination,
    add_output,
    add_run_table,
    add_selection,
    report_path,
    selected_launches,
)
from keet.errors import ExitCode, UsageError, one_line

MAX_TEXT = 200_000
"""Bytes, about a chapter of a book: explanations of kernels are shorter."""

_MOST_REPORTS = 2

EXAMPLES = """\
examples:
  keet verify review.md --report report.ncu-rep
  keet verify answer.txt --report report.ncu-rep --launch 2
  keet verify changes.md --report before.ncu-rep --report after.ncu-rep
  your-model < prompt.txt | keet verify - --report report.ncu-rep
  keet verify answer.txt --report r.ncu-rep --format json | jq '.checks[].verdict'
"""
EXIT_CODES = {
    ExitCode.DONE: "nothing is contradicted",
    ExitCode.CHECK_FAILED: "a number or a comparison is contradicted",
    ExitCode.USAGE: ExitCode.USAGE.meaning,
    ExitCode.UNREADABLE: ExitCode.UNREADABLE.meaning,
}


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "text", metavar="TEXT_FILE", help="a text with numbers; - reads standard input"
    )
    parser.add_argument(
        "--report",
        type=report_path,
        required=True,
        action="append",
        metavar="REPORT",
        help="a report, export or snapshot; twice if the text compares two: before, then after",
    )
    add_run_table(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> int:
    from keet.comparison.verify_values import verify_against
    from keet.ingest import read_profile

    text = _read(args.text)
    profiles = [read_profile(path, run_table=args.run_table) for path in _reports(args)]
    launches = [launch for profile in profiles for launch in selected_launches(profile, args)]
    verified = verify_against(profiles, text, launches, name=args.text)
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.documents.document import json_text

        out.write(json_text(verified))
    else:
        from keet.pages.verify import verify_page

        out.show_page(lambda _: verify_page(verified))
    return ExitCode.CHECK_FAILED if verified.is_wrong else ExitCode.DONE


def _reports(args: Namespace) -> list[Path]:
    reports: list[Path] = args.report
    if len(reports) > _MOST_REPORTS:
        raise UsageError(
            "a text is checked against one report, or against two reports that it compares"
        )
    if len(reports) > 1 and args.run_table is not None:
        raise UsageError(
            "--run-table is the run table of one report; store each table next to its report"
        )
    args.report = reports[-1]  # -o must not take the place of it
    return reports


def _read(name: str) -> str:
    """Raises `UsageError` if the text is too long or not UTF-8."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_TEXT + 1)
        else:
            path = Path(name)
            if not path.is_file():
                raise UsageError(
                    f"{one_line(name)}: there is no such file; name a text file, or - for stdin"
                )
            with path.open("rb") as file:
                raw = file.read(MAX_TEXT + 1)
        # Only the end of a text may be an incomplete character: a cut may split one.
        decoder = getincrementaldecoder("utf-8-sig")()
        text = decoder.decode(raw, final=len(raw) <= MAX_TEXT)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(f"{one_line(name)}: can't be read ({reason})") from None
    except UnicodeDecodeError:
        raise UsageError(f"{one_line(name)}: not UTF-8 text; convert it to UTF-8 first") from None
    if len(raw) > MAX_TEXT:
        raise UsageError(f"{one_line(name)}: longer than {MAX_TEXT:,} bytes; split it")
    return text
