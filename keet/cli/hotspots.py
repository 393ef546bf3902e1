"""List the source lines of each launch that take the most time (instructions if the report has no
source lines). They are ranked by warp samples, with stall reasons and memory traffic. One launch of
each kernel and shape comes first, as in `keet explain`; JSON and CSV have them in the order of the
report.

Sectors are those of global memory, wavefronts those of shared memory. "Excess" is the part that
coalesced addresses and conflict-free banks would save."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_report,
    add_selection,
    add_source,
    add_top,
    option,
    option_type,
    selected_launches,
    top_of,
    view_top,
)
from keet.profile import Absent, Launch, Location, Profile

if TYPE_CHECKING:
    from keet.analysis.hotspots.source_lines import Hotspots
    from keet.pages.blocks import Page

EXAMPLES = """\
examples:
  keet hotspots report.ncu-rep
  keet hotspots report.ncu-rep --launch 0 --by instruction --top 30
  keet hotspots report.ncu-rep --line kernel.cu:29        everything about one line
  keet hotspots report.ncu-rep --source ./src             source text from a folder
  keet hotspots report.ncu-rep --format csv -o lines.csv
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add = partial(option, parser)
    add(
        "--by",
        "rank source lines or instructions (default: lines if the report has them)",
        choices=("line", "instruction"),
    )
    add(
        "--line FILE:LINE",
        "explain one source line in full; FILE may be given without its folder",
        type=option_type("FILE:LINE, for example kernel.cu:29", _file_and_line),
    )
    add_top(parser, "rows per launch", default=10, data=("json", "csv"))
    add_no_sass(parser)
    add_source(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json", "csv")


def run(args: Namespace) -> None:
    from keet.analysis.hotspots.line_facts import examined_launches, ranked_launches
    from keet.report import read_profile

    profile = read_profile(args.report, source=args.source)
    launches: Sequence[Launch] = selected_launches(profile, args)
    if args.format == "terminal":
        launches = profile.representatives_first(launches)
    place = None
    if args.line is not None:
        from keet.analysis.hotspots.line_facts import place_of

        place, launches = place_of(launches, args.line)
    has_sass = not args.no_sass
    ranked = ranked_launches(profile, launches, args.by, place, has_sass=has_sass)
    out = Destination(args)
    if args.format == "terminal" and place is not None:
        page = _line_page(profile, [*ranked], place, args)
        out.show_page(lambda _: page)
        return
    top = view_top(args) if args.format == "terminal" else top_of(args)
    examined = examined_launches(ranked, top, place, has_sass=has_sass)
    if args.format == "json":
        from keet.documents.hotspots import HotspotsDocument

        cut = (replace(launch, rows=launch.rows[:top]) for launch in examined)
        out.write_launches(HotspotsDocument, profile, cut)
    elif args.format == "csv":
        from keet.formats.csv import hotspots_csv

        out.write_pieces(hotspots_csv(examined, top))
    else:
        from keet.pages.hotspots import hotspots_page

        out.show_page(lambda reader: hotspots_page(examined, reader, view_top(args)))


def _line_page(
    profile: Profile,
    hotspots: Sequence[tuple[Launch, Hotspots | Absent]],
    place: Location,
    args: Namespace,
) -> Page:
    """In full for the selected launches, else for the representative with most samples on the
    line."""
    from keet.analysis.hotspots.examined import examined
    from keet.analysis.hotspots.line_facts import samples_at, with_line
    from keet.pages.hotspots_line import line_page, other_launches

    shown, rest = hotspots, hotspots[:0]
    if args.launch is None and args.kernel is None:
        standing = set(profile.representatives(launch for launch, _ in hotspots))
        ranked = sorted(hotspots, key=lambda each: (each[0] not in standing, -samples_at(each[1])))
        shown, rest = ranked[:1], ranked[1:]
    has_sass = not args.no_sass
    launches = [
        with_line(examined(launch, spots, has_sass=has_sass), place) for launch, spots in shown
    ]
    return line_page(launches, place, other_launches(rest, "show one with --launch N"))


def _file_and_line(text: str) -> tuple[str, int] | None:
    from keet.analysis.code_names import parsed_line

    return parsed_line(text)
