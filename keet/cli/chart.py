"""Draw the memory chart of a launch: how much moves between SMs, L1, shared memory, L2, DRAM, the
host and other GPUs, with requests, bytes, hit rates and shares of the peak, what limits the launch,
and what is waste.

Without --launch, the representative launch of the kernel that takes most time, as in `keet
explain`. Of two reports, both charts are drawn side by side to the same scale. A number that the
report does not have is unknown, never zero."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_output,
    add_selection,
    check_page,
    report_path,
    selected_launches,
)
from keet.errors import UsageError

if TYPE_CHECKING:
    from keet.documents.charts import MemoryChart
    from keet.profile import Launch, Profile

EXAMPLES = """\
examples:
  keet chart report.ncu-rep
  keet chart report.ncu-rep --kernel gemm -o gemm.svg
  keet chart before.ncu-rep after.ncu-rep -o both.svg
  keet chart report.ncu-rep --format json | jq '.launches[0].links[].bytes'
"""
_MOST_REPORTS = 2


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        nargs="+",
        type=report_path,
        metavar="REPORT",
        help="a report, export or snapshot, or two of them; - reads standard input",
    )
    add_selection(parser)
    add_output(parser, "terminal", "svg", "markdown", "json", "html")


def run(args: Namespace) -> None:
    from keet.report import read_profile

    check_page(args)
    if len(args.reports) > _MOST_REPORTS:
        raise UsageError("keet chart takes one report, or two to compare")
    is_pair = len(args.reports) > 1
    if is_pair and args.format == "json":
        raise UsageError("--format json takes one report; run keet chart once for each")
    out = Destination(args)
    profiles = [read_profile(path) for path in args.reports]
    charts = [chart for profile in profiles for chart in _charts(profile, args)]
    if is_pair and len(charts) > _MOST_REPORTS:
        raise UsageError("of two reports, --launch takes one number, which both have")
    if args.format == "json":
        from keet.documents.charts import MemoryChartDocument

        out.write_launches(MemoryChartDocument, profiles[0], charts)
    elif args.format == "svg":
        from keet.formats.svg.memory_chart import memory_svg
        from keet.pages.memory_chart import SIDES

        out.write(memory_svg(charts, SIDES if is_pair else ()))
    else:
        from keet.pages.memory_chart import chart_page

        of = 0 if args.launch else len(selected_launches(profiles[0], args))
        page = chart_page(charts, of, are_compared=is_pair)
        out.show_page(lambda _: page, args.format)


def _charts(profile: Profile, args: Namespace) -> list[MemoryChart]:
    """Of the launches that are named; else of the one that represents most time."""
    from keet.explanation.analyst import explain
    from keet.explanation.memory_chart import memory_chart

    shown: Sequence[Launch] = selected_launches(profile, args)
    if args.launch is None:
        shown = profile.representatives(shown)[:1]
    return [memory_chart(launch) for launch in explain(profile, shown, top=5).launches]
