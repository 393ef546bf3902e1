"""Check the numbers of any text against a report.

Each number is compared with the metric that the text names, by any of its names, in the launch that
the text is about; or with a source line's share of the samples. A number about the whole run of the
program is compared with the run table, if there is one. A sentence about several launches ("all
together", "none", "the first", "on average") is checked over the launches that it names; where keet
does not understand which, its numbers are not checked. Numbers that keet prints (forecasts,
shares, rows of its tables) are computed again. Comparisons ("exceeds", "more than twice", "is the
highest stall") are checked separately, and so are statements that a known fact of the launch
decides ("occupancy is full", "no bank conflicts"). If the text compares two reports, give both. The
exit code is 1 if a number, a comparison or a statement is wrong."""

from __future__ import annotations

import os.path
import sys
from argparse import ArgumentParser, Namespace
from codecs import getincrementaldecoder
from pathlib import Path

from keet.cli.arguments import (
    Destination,
    add_output,
    add_run_table,
    add_selection,
    exiting_with,
    option,
    report_path,
    selected_launches,
)
from keet.errors import ExitCode, UsageError, one_line, reason_of

MAX_TEXT = 200_000
"""Bytes, about a chapter of a book: explanations of kernels are shorter."""

_MOST_REPORTS = 2

EXAMPLES = """\
examples:
  keet verify report.ncu-rep review.md
  keet verify report.ncu-rep answer.txt --launch 2
  keet verify report.ncu-rep "the kernel is limited by DRAM, which is at 93 % of its peak"
  keet verify before.ncu-rep after.ncu-rep changes.md
  your-model < prompt.txt | keet verify report.ncu-rep -
  keet verify report.ncu-rep answer.txt --format json | jq '.checks[].verdict'
"""
EXIT_CODES = {
    ExitCode.DONE: "nothing is contradicted",
    ExitCode.CHECK_FAILED: "a number or a comparison is contradicted",
    ExitCode.USAGE: ExitCode.USAGE.meaning,
    ExitCode.UNREADABLE: ExitCode.UNREADABLE.meaning,
}


def configure(parser: ArgumentParser) -> None:
    parser.usage = "keet verify [options] REPORT [REPORT] TEXT"
    parser.add_argument(
        "files",
        nargs="+",
        metavar="REPORT… TEXT",
        help="a report, export or snapshot (two if the text compares them: before, then after), "
        "and a file with a text, or the text itself in quotes; - reads one of them from standard "
        "input",
    )
    option(
        parser,
        "--report REPORT",
        "the report as an option: keet verify TEXT --report REPORT",
        type=report_path,
        action="append",
        default=[],
    )
    add_run_table(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> int:
    from keet.report import read_profile
    from keet.verification.verify import verify_against

    *reports, name = _in_order(args)
    text = name if _is_text(name) else _read(name)
    profiles = [read_profile(path, run_table=args.run_table) for path in _reports(args, reports)]
    launches = [launch for profile in profiles for launch in selected_launches(profile, args)]
    verified = verify_against(profiles, text, launches, name=name)
    out = Destination(args)
    code = ExitCode.CHECK_FAILED if verified.is_wrong else ExitCode.DONE
    with exiting_with(code):
        from keet.pages.verify import verify_page

        out.show(verified, lambda _: verify_page(verified), args.format)
    return code


def _in_order(args: Namespace) -> list[str]:
    """The reports, then the text: also where the text was named first."""
    from keet.corpus.discovery import looks_like_report

    files: list[str] = args.files
    if not args.report and len(files) == 1:
        raise UsageError("name the report and the text: keet verify REPORT TEXT")
    is_last = args.report or _is_text(files[-1]) or not looks_like_report(Path(files[-1]))
    has_report_first = not _is_text(files[0]) and looks_like_report(Path(files[0]))
    return files if is_last or has_report_first else [*files[1:], files[0]]


def _reports(args: Namespace, named: list[str]) -> list[Path]:
    reports: list[Path] = [*args.report, *map(report_path, named)]
    if len(reports) > _MOST_REPORTS:
        raise UsageError(
            "a text is checked against one report, or against two reports that it compares"
        )
    if len(reports) > 1 and args.run_table is not None:
        raise UsageError(
            "--run-table is the run table of one report; store each table next to its report"
        )
    args.report, args.reports = None, reports  # -o must not take the place of them
    return reports


_TEXT_FILES = (".md", ".txt", ".log", ".out", ".json", ".html", ".rst")


def _is_text(name: str) -> bool:
    """Whether an argument is the text itself: a sentence. A path that is not there stays one."""
    looks_like_path = name.lower().endswith(_TEXT_FILES) or name.startswith(("/", "./", "../", "~"))
    is_sentence = len(name.split()) > 1 and not looks_like_path
    return is_sentence and not os.path.isfile(name)  # noqa: PTH113 - Path's raises for long names


def _read(name: str) -> str:
    """Raises `UsageError` if the text is too long or not UTF-8."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_TEXT + 1)
        else:
            path = Path(name)
            if not path.is_file():
                problem = "it is a folder" if path.is_dir() else "there is no such file"
                raise UsageError(f"{one_line(name)}: {problem}; name a text file, or - for stdin")
            with path.open("rb") as file:
                raw = file.read(MAX_TEXT + 1)
        # Only the end of a text may be an incomplete character: a cut may split one.
        decoder = getincrementaldecoder("utf-8-sig")()
        text = decoder.decode(raw, final=len(raw) <= MAX_TEXT)
    except OSError as problem:
        raise UsageError(f"{one_line(name)}: can't be read ({reason_of(problem)})") from None
    except UnicodeDecodeError:
        raise UsageError(f"{one_line(name)}: not UTF-8 text; name a text in UTF-8") from None
    if len(raw) > MAX_TEXT:
        raise UsageError(f"{one_line(name)}: longer than {MAX_TEXT:,} bytes; split it")
    return text
