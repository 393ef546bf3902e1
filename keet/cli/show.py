"""List the contents of a report: the GPU, each launch, what was collected, what is missing, and the
ncu command that collects it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from keet.cli.arguments import (
    Destination,
    add_output,
    add_report,
    add_run_table,
    add_selection,
    add_source,
    option,
    selected_launches,
)
from keet.profile import Launch

MAX_ROWS = 40
"""Launches that are listed on a terminal without --all: a report may have thousands."""

EXAMPLES = """\
examples:
  keet show report.ncu-rep
  keet show report.ncu-rep --sort time            longest launch first
  keet show report.ncu-rep --format json | jq '.launches[].kernel'
  COLUMNS=160 keet show report.ncu-repz      one row per launch, with its shape
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_source(parser)
    add_run_table(parser)
    add_selection(parser)
    add = partial(option, parser)
    add(
        "--sort",
        "order of the launches: by number, or longest first (default: launch)",
        choices=("launch", "time"),
        default="launch",
    )
    add(
        "--all",
        f"list up to 400 launches (default: the {MAX_ROWS} longest, in the order of --sort; "
        "json: all)",
    )
    add(
        "--verbose",
        "also say which values of the command line are masked, because they may be secret, "
        "and print the complete ncu command",
    )
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> None:
    from keet.analysis.coverage import find_coverage, shown_launch
    from keet.report import read_profile

    profile = read_profile(args.report, source=args.source, run_table=args.run_table)
    selected = selected_launches(profile, args)
    coverage = find_coverage(profile)  # reads all launches once; the rest uses cached values
    if args.verbose and coverage.command:
        coverage = coverage._replace(command=coverage.command.in_full)
    listed = _listed(selected, args)
    out = Destination(args)
    if args.format == "json":
        from keet.analysis.coverage import report_document
        from keet.documents.document import Streamed, json_pieces
        from keet.documents.shared_types import DeviceDocument
        from keet.documents.show import ShowDocument
        from keet.profile.run_link import iterate_launches

        written = iterate_launches(listed, "writing launches")
        fields = {
            "report": report_document(profile),
            "devices": [DeviceDocument.taken_from(device) for device in profile.devices],
            "launches": (shown_launch(profile, launch) for launch in written),
            "holds": list(coverage.present),
            "missing": list(coverage.gaps),
            "capture": coverage.command,
            "build": coverage.build_hint,
            "obstacle": coverage.obstacle,
        }
        if profile.run is not None:
            from keet.explanation.whole_run import whole_run

            fields["run"] = whole_run(profile)
        out.write_pieces(json_pieces(Streamed(ShowDocument, fields.items())))
        return
    from keet.pages.show import show_page

    launches = [shown_launch(profile, launch) for launch in listed]
    cut = len(selected) - len(launches)
    out.show_page(
        lambda reader: show_page(profile, coverage, launches, reader, cut=cut, masked=args.verbose)
    )


def _listed(launches: Sequence[Launch], args: Namespace) -> Sequence[Launch]:
    """In the requested order; a terminal gets at most the MAX_ROWS longest launches."""
    from keet.profile.run_link import longest_first

    by_time = longest_first(launches)
    shown = by_time if args.all or args.format != "terminal" else by_time[:MAX_ROWS]
    return shown if args.sort == "time" else sorted(shown, key=lambda launch: launch.id)
