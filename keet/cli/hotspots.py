"""List the source lines of each launch that take the most time (instructions if the report has no
source lines). They are ranked by warp samples, with stall reasons and memory traffic.

Sectors are those of global memory, wavefronts those of shared memory. "Excess" is the part that
coalesced addresses and conflict-free banks would save."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_report,
    add_selection,
    add_source,
    add_top,
    selected_launches,
    top_of,
    view_top,
)
from keet.profile import Absent, Launch, Location

if TYPE_CHECKING:
    from keet.analysis.source_lines import Hotspots
    from keet.documents.hotspots import HotspotsLaunch
    from keet.pages.blocks import Page

EXAMPLES = """\
examples:
  keet hotspots report.ncu-rep
  keet hotspots report.ncu-rep --launch 0 --by instruction --top 30
  keet hotspots report.ncu-rep --line kernel.cu:29        everything about one line
  keet hotspots report.ncu-rep --source ./src             source text from a folder
  keet hotspots report.ncu-rep --format csv -o lines.csv
"""


FETCHED_AT_ONCE = 200
"""Launches whose machine code is fetched before the first is printed; the code of the others is
fetched when it is first needed."""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    parser.add_argument(
        "--by",
        choices=("line", "instruction"),
        help="rank source lines or instructions (default: lines if the report has them)",
    )
    parser.add_argument(
        "--line",
        type=line_place,
        metavar="FILE:LINE",
        help="explain one source line in full; FILE may be given without its folder",
    )
    add_top(parser, "rows per launch", default=10, data=("json", "csv"))
    add_no_sass(parser)
    add_source(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json", "csv")


def run(args: Namespace) -> None:
    from keet.ingest import read_profile

    profile = read_profile(args.report, source=args.source)
    launches: Sequence[Launch] = selected_launches(profile, args)
    place = None
    if args.line is not None:
        from keet.analysis.line_facts import place_of

        place, launches = place_of(launches, args.line)
    if not args.no_sass:
        profile.prefetch_code(filter(_has_counts, launches[:FETCHED_AT_ONCE]))
    spots = _spots(launches, args, place)
    out = Destination(args, sys.stdout)
    has_sass = not args.no_sass
    if args.format == "terminal" and place is not None:
        page = _line_page([*spots], place, args)
        out.show_page(lambda _: page)
        return
    top = view_top(args) if args.format == "terminal" else top_of(args)
    found = _examined(spots, top, has_sass=has_sass)
    if args.format == "json":
        from keet.analysis.capture.report_document import report_document
        from keet.documents.document import Streamed, json_pieces
        from keet.documents.hotspots import HotspotsDocument

        written = (_written(each, top, place) for each in found)
        fields = (("report", report_document(profile)), ("launches", written))
        out.write_pieces(json_pieces(Streamed(HotspotsDocument, fields)))
    elif args.format == "csv":
        from keet.formats.csv import hotspots_csv

        out.write_pieces(hotspots_csv(found, top))
    else:
        from keet.pages.hotspots import hotspots_page

        out.show_page(lambda reader: hotspots_page(found, reader, view_top(args)))


def _line_page(
    found: Sequence[tuple[Launch, Hotspots | Absent]], place: Location, args: Namespace
) -> Page:
    """In full for the selected launches, else for the launch with most samples on the line."""
    from keet.analysis.examined import examined
    from keet.analysis.line_facts import samples_at, with_line
    from keet.pages.hotspots_line import line_page, other_launches

    shown, rest = found, found[:0]
    if args.launch is None and args.kernel is None:
        ranked = sorted(found, key=lambda each: -samples_at(each[1]))
        shown, rest = ranked[:1], ranked[1:]
    has_sass = not args.no_sass
    launches = [
        with_line(examined(launch, spots, has_sass=has_sass), place) for launch, spots in shown
    ]
    return line_page(launches, place, other_launches(rest, "show one with --launch N"))


def _has_counts(launch: Launch) -> bool:
    """Whether there may be values per instruction; without them no SASS text is needed."""
    return any(launch.find(metric) is not None for metric in ("inst_executed", "samples_total"))


def _spots(
    launches: Sequence[Launch], args: Namespace, place: Location | None
) -> Iterator[tuple[Launch, Hotspots | Absent]]:
    from keet.analysis.source_lines import find_hotspots
    from keet.profile.launch_sequences import iterate_launches

    for launch in iterate_launches(launches, "looking for hotspots"):
        spots = find_hotspots(launch, args.by)
        if place is not None and not isinstance(spots, Absent):
            own = tuple(spot for spot in spots.rows if spot.location == place)
            spots = replace(spots, rows=own, rows_total=len(own))
        yield launch, spots


def _examined(
    found: Iterable[tuple[Launch, Hotspots | Absent]], top: int | None, *, has_sass: bool
) -> Iterator[HotspotsLaunch]:
    """One launch at a time: its analysis is dropped after it is printed."""
    from keet.analysis.examined import examined

    for launch, spots in found:
        yield examined(launch, spots, has_sass=has_sass, which=slice(top))


def _written(each: HotspotsLaunch, top: int | None, place: Location | None) -> HotspotsLaunch:
    if place is not None:
        from keet.analysis.line_facts import with_line

        each = with_line(each, place)
    return replace(each, rows=each.rows[:top])


def line_place(text: str) -> tuple[str, int]:
    """`slow.cu:29` as a file and a line number."""
    found = re.fullmatch(r"(.+):([0-9]{1,9})", text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} must be FILE:LINE, for example kernel.cu:29")
    return found[1], int(found[2])
