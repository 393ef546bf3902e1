"""Manage named baselines for `keet diff`: snapshots of reports, stored in .keet/ of the project."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path

from keet.cli.arguments import option, report_path, reports_at
from keet.cli.pager import print_note
from keet.errors import UsageError
from keet.formatting import count_noun

EXAMPLES = """\
examples:
  keet baseline save main report.ncu-rep
  keet baseline save main runs/                  several runs: measures their noise
  keet baseline save 'main-{gpu}' runs/          one baseline per GPU: main-NVIDIA-H200
  keet baseline name 'main-{gpu}' runs/          print that name
  keet diff baseline:main after.ncu-rep --gate 5
  keet baseline list
  keet baseline show main
  keet baseline remove main
"""


def configure(parser: ArgumentParser) -> None:
    actions = ("save", "list", "show", "name", "remove")
    parser.add_argument("action", choices=actions, metavar=f"{{{','.join(actions)}}}")
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="name of the baseline; with save and name, {gpu} stands for the GPU of the reports",
    )
    parser.add_argument(
        "reports",
        nargs="*",
        default=[],  # argparse lists it as required otherwise
        type=report_path,
        metavar="REPORT",
        help="reports (one per run), or a folder of them; - reads standard input",
    )
    option(parser, "--source DIR", "where the sources are, if not in the report", type=Path)


def run(args: Namespace) -> int | None:
    if args.action != "list" and args.name is None:
        raise UsageError(f"keet baseline {args.action} needs a NAME; see: keet baseline --help")
    if args.reports and args.action not in ("save", "name"):
        raise UsageError(f"keet baseline {args.action} takes no report; see: keet baseline --help")
    actions = {"save": _save, "list": _list, "show": _show, "name": _name, "remove": _remove}
    return actions[args.action](args)


def _save(args: Namespace) -> None:
    from keet.report import read_profile
    from keet.report.baselines import name_for, save_baseline

    profiles = [read_profile(path, source=args.source) for path in _reports(args)]
    name = name_for(args.name, profiles[0])
    saved = save_baseline(name, profiles)
    runs = count_noun(len(saved.runs), "run")
    print_note(
        f"saved {name} ({runs}) in {saved.runs[0].parent}; "
        f"compare with: keet diff baseline:{name} REPORT"
    )


def _name(args: Namespace) -> None:
    from keet.report import read_profile
    from keet.report.baselines import name_for

    sys.stdout.write(f"{name_for(args.name, read_profile(_reports(args)[0]))}\n")


def _reports(args: Namespace) -> list[Path]:
    if not (named := reports_at(args.reports)):
        raise UsageError(f"name the reports: keet baseline {args.action} NAME REPORT...")
    return named


def _list(args: Namespace) -> None:
    del args
    from keet.report.baselines import list_baselines

    baselines = list_baselines()
    if not baselines:
        print_note("no baselines yet; save one with: keet baseline save NAME REPORT")
    width = max((len(baseline.name) for baseline in baselines), default=0)
    for baseline in baselines:
        when = datetime.fromtimestamp(baseline.saved, UTC)
        runs = count_noun(len(baseline.runs), "run")
        sys.stdout.write(f"{baseline.name:{width}}  {runs:>7}  {when:%Y-%m-%d %H:%M} UTC\n")


def _show(args: Namespace) -> int | None:
    """As `keet show` does, run by run."""
    from keet.cli import dispatch
    from keet.report.baselines import find_baseline

    for path in find_baseline(args.name).runs:
        dispatch(["show", str(path)])
    return 0


def _remove(args: Namespace) -> None:
    from keet.report.baselines import remove_baseline

    remove_baseline(args.name)
    print_note(f"removed {args.name}")
