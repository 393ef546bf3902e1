"""Compare two profiles: pair the kernels, and print how much faster each became (with the noise),
which causes, units, warp states and source lines account for it, what was fixed, what is new, and
what to fix next."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_kernel,
    add_output,
    add_run_table,
    add_top,
    check_page,
    exiting_with,
    option,
    option_type,
    selected_launches,
    top_of,
    view_top,
)
from keet.cli.pager import loud_stderr, print_note
from keet.errors import ExitCode, KeetError, UsageError, reason_of
from keet.files import STDIN
from keet.safe_text import visible

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.comparison.same_kernel import Side
    from keet.pages.blocks import Page, Reader

EXAMPLES = """\
examples:
  keet diff before.ncu-rep after.ncu-rep
  keet diff report.ncu-rep --launch 0:3                     two launches of one report
  keet diff runs/main/ runs/branch/                         several runs per side: less noise
  keet diff baseline:main after.ncu-rep --gate 10           exit 1 if slower by more than 10 %
                                                            and by more than the noise
  keet diff baseline:main after.ncu-rep --gate 0 --metric launch__registers_per_thread
  keet diff before.ncu-rep after.ncu-rep -o comment.md
  keet diff before.ncu-rep after.ncu-rep -o page.html --open
                                                            both sources side by side
  keet diff before.ncu-rep after.ncu-rep --times 300:1      300 launches became one
  ssh gpu-host cat new.ncu-rep | keet diff baseline:main -
  keet diff a.ncu-rep b.ncu-rep --run-table-before a.csv --run-table b.csv
                                                            times of the whole runs
"""
EXIT_CODES = {
    ExitCode.DONE: "done",
    ExitCode.CHECK_FAILED: "the gate failed",
    ExitCode.USAGE: ExitCode.USAGE.meaning,
    ExitCode.UNREADABLE: ExitCode.UNREADABLE.meaning,
    ExitCode.NOT_COMPARABLE: "the two sides can't be compared (--force compares them anyway)",
}


def configure(parser: ArgumentParser) -> None:
    _add_sides(parser)
    _add_selection(parser)
    add = partial(option, parser)
    add("--source DIR", "sources of AFTER", type=Path)
    add("--source-before DIR", "sources of BEFORE", type=Path)
    add_run_table(parser)
    add("--run-table-before FILE", "the same for BEFORE", type=Path)
    add_top(parser, "kernels in full", default=5)
    _add_gate(parser)
    add("--force", "compare even if the two sides are not comparable")
    add_output(parser, "terminal", "markdown", "json", "github", "html")


def _add_sides(parser: ArgumentParser) -> None:
    parser.add_argument(
        "before",
        metavar="BEFORE",
        help="a report, a folder of runs, or baseline:NAME ({gpu} in it: the GPU of AFTER); - "
        "reads standard input",
    )
    parser.add_argument("after", metavar="AFTER", nargs="?", help="the same for the other side")
    for side in ("before", "after"):
        option(
            parser,
            f"--{side}-run REPORT",
            f"another report or folder of {side.upper()}, to measure the noise (repeatable)",
            action="append",
            default=[],
        )


def _add_selection(parser: ArgumentParser) -> None:
    add = partial(option, parser)
    add(
        "--launch A:B",
        "compare launch A with launch B",
        type=option_type("two launch numbers such as 0:3", _pair),
    )
    add_kernel(parser)
    add(
        "--times N:M",
        "each launch represents N launches in BEFORE and M in AFTER (default: taken from the "
        "run tables, else 1:1)",
        type=option_type("two positive integers such as 300:1", _two_counts),
        default=(None, None),
    )


def _add_gate(parser: ArgumentParser) -> None:
    add = partial(option, parser)
    add(
        "--gate PCT",
        "exit 1 if something is slower by more than PCT %% and by more than the noise",
        type=option_type("a percentage from 0 to 1000", _percent),
    )
    add(
        "--metric NAME",
        "gate this metric instead of the time (repeatable; the time is duration); NAME:higher "
        "or NAME:lower says which is better",
        action="append",
        default=[],
    )


def _pair(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None


def _two_counts(text: str) -> tuple[int, int] | None:
    pair = _pair(text)
    return pair if pair and all(pair) else None


def _percent(text: str) -> float | None:
    value = float(text.removesuffix("%"))
    return value if 0 <= value <= 1000 else None


def run(args: Namespace) -> int:
    try:
        return _run(args)
    except KeetError as problem:
        if args.format == "github":  # the log shows no more than this of a failed step
            from keet.formats.github import github_error

            sys.stdout.write(f"{github_error(str(problem))}\n")
        raise


def _run(args: Namespace) -> int:
    from keet.comparison.compare import compare
    from keet.comparison.gate import gate_difference
    from keet.comparison.sentences import check_comparable

    check_page(args)
    if args.metric and args.gate is None:
        raise UsageError("--metric names what to gate; say by how much: --gate PCT")
    before, after = _sides(args)
    if before.times is not None and before.has_tables and after.has_tables:
        raise UsageError("the run tables say how often each kernel is launched: leave out --times")
    difference = compare(before, after, guess=args.force or args.launch is not None)
    if not args.force:
        check_comparable(difference, "--force")
    if args.gate is not None:
        difference = gate_difference(difference, args.gate, args.metric)
    has_failed = difference.gate and difference.gate.failed
    code = ExitCode.CHECK_FAILED if has_failed else ExitCode.DONE
    with exiting_with(code):
        _print(args, difference)
    return code


# --- what is compared


def _sides(args: Namespace) -> tuple[Side, Side]:
    if args.after is None and args.launch is None:
        raise UsageError("name two reports, or two launches of one report: --launch A:B")
    first, after_side = args.before, None
    if first.startswith("baseline:") and "{gpu}" in first and args.after is not None:
        from keet.report.baselines import name_for

        after_side = _side(args, _paths(args.after, *args.after_run), 1)
        first = name_for(first, after_side.first.profile)
    before = _paths(first, *args.before_run)
    after = _paths(first if args.after is None else args.after, *args.after_run)
    args.read = [*before, *after]  # -o must not take the place of one
    return _side(args, before, 0), after_side or _side(args, after, 1)


def _paths(*names: str) -> list[Path]:
    from keet.corpus.discovery import reports_named

    return [path for name in names for path in reports_named(STDIN if name == "-" else name)]


def _side(args: Namespace, paths: Sequence[Path], which: int) -> Side:
    from keet.comparison.same_kernel import Side, SideCapture, distinct_captures
    from keet.report import read_profile

    source = args.source_before if which == 0 else args.source
    table = _run_table(args, which, len(paths))
    runs = []
    for path in paths:
        profile = read_profile(path, source=source, run_table=table)
        for note in profile.provenance.notes:
            print_note(f"{path.name}: {note}")
        chosen = Namespace(
            launch=frozenset({args.launch[which]}) if args.launch else None, kernel=args.kernel
        )
        runs.append(SideCapture(profile, selected_launches(profile, chosen)))
    return Side(distinct_captures(runs), args.times[which])


def _run_table(args: Namespace, which: int, reports: int) -> Path | None:
    """The table that was named for a side. Two launches of one report have one table."""
    alone = args.after is None
    table: Path | None = args.run_table_before if which == 0 and not alone else args.run_table
    if alone and args.run_table_before is not None:
        raise UsageError(
            "--run-table-before needs two reports; for one report use --run-table FILE"
        )
    if table is not None and reports > 1:
        option = "--run-table-before" if which == 0 else "--run-table"
        raise UsageError(
            f"{option} is the run table of one report, and this side has {reports} reports: store "
            "each table next to its report"
        )
    return table


# --- output


def _print(args: Namespace, difference: Difference) -> None:
    out = Destination(args)
    if args.format == "json":
        from keet.documents.document import json_text

        shown = replace(difference, pairs=difference.pairs[: top_of(args)])
        out.write(json_text(shown))
    elif args.format == "github":
        _print_github(out, args, difference)
    else:
        out.show_page(_page(args, difference), args.format)


def _page(args: Namespace, difference: Difference) -> Callable[[Reader], Page]:
    from keet.pages.diff import diff_page

    return lambda reader: diff_page(difference, reader, view_top(args))


def _print_github(out: Destination, args: Namespace, difference: Difference) -> None:
    """Annotations for the log; the summary where GitHub shows one, and to FILE or the log."""
    from keet.formats import page_text
    from keet.formats.github import github_annotations

    sys.stdout.writelines(f"{line}\n" for line in github_annotations(difference))
    summary = page_text(_page(args, difference), "markdown")
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(page).open("a", encoding="utf-8") as file:
                file.write(visible(summary))
        except OSError as problem:
            reason = reason_of(problem)
            loud_stderr().write(f"keet: GITHUB_STEP_SUMMARY can't be written ({reason})\n")
    out.write(summary)
