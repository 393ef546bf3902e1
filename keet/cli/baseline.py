"""Manage named baselines for `keet diff`: snapshots of reports, stored in .keet/ of the project."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path

from keet.cli.arguments import report_path, reports_in
from keet.errors import UsageError, one_line
from keet.formatting import count_noun

EXAMPLES = """\
examples:
  keet baseline save main report.ncu-rep
  keet baseline save main runs/                  several runs: measures their noise
  keet diff baseline:main after.ncu-rep --gate 5
  keet baseline list
  keet baseline show main
  keet baseline remove main
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("save", "list", "show", "remove"))
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the baseline")
    parser.add_argument(
        "reports",
        nargs="*",
        type=report_path,
        metavar="REPORT",
        help="reports to save (one per run), or a folder of them; - reads standard input",
    )
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="where the sources are, if not in the report"
    )


def run(args: Namespace) -> int | None:
    if args.action != "list" and args.name is None:
        raise UsageError(f"keet baseline {args.action} needs a NAME; see: keet baseline --help")
    if args.reports and args.action != "save":
        raise UsageError(f"keet baseline {args.action} takes no report; see: keet baseline --help")
    return {"save": _save, "list": _list, "show": _show, "remove": _remove}[args.action](args)


def _save(args: Namespace) -> None:
    from keet.ingest import read_profile
    from keet.ingest.baselines import save_baseline

    named = [report for path in args.reports for report in _expanded(path)]
    if not named:
        raise UsageError("name the reports to save: keet baseline save NAME REPORT...")
    saved = save_baseline(args.name, [read_profile(path, source=args.source) for path in named])
    runs = count_noun(len(saved.runs), "run")
    line = (
        f"keet: saved {args.name} ({runs}) in {saved.runs[0].parent}; "
        f"compare with: keet diff baseline:{args.name} REPORT"
    )
    sys.stderr.write(one_line(line) + "\n")


def _expanded(path: Path) -> list[Path]:
    return reports_in(path) if path.is_dir() else [path]


def _list(args: Namespace) -> None:
    del args
    from keet.ingest.baselines import list_baselines

    found = list_baselines()
    if not found:
        sys.stderr.write("keet: no baselines yet; save one with: keet baseline save NAME REPORT\n")
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        when = datetime.fromtimestamp(each.saved, UTC)
        runs = count_noun(len(each.runs), "run")
        sys.stdout.write(f"{each.name:{width}}  {runs:>7}  {when:%Y-%m-%d %H:%M} UTC\n")


def _show(args: Namespace) -> int | None:
    """As `keet show` does, run by run."""
    from keet.cli import dispatch
    from keet.ingest.baselines import find_baseline

    for path in find_baseline(args.name).runs:
        dispatch(["show", str(path)])
    return 0


def _remove(args: Namespace) -> None:
    from keet.ingest.baselines import remove_baseline

    remove_baseline(args.name)
    sys.stderr.write(f"keet: removed {args.name}\n")
