"""Print how close each launch came to each ceiling: arithmetic by type, bytes of DRAM, L2, L1 and
shared memory, each as a share of its peak, and the arithmetic intensity at each memory level.

Peaks come from the report, at the clocks of the launch. If the report has none, they come from
keet's catalog, and the output says so. Ceilings within 5 percentage points of the nearest one are
listed with it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from keet.cli.arguments import Destination, add_output, add_report, add_selection, selected_launches

EXAMPLES = """\
examples:
  keet roofline report.ncu-rep
  keet roofline report.ncu-rep --launch 0 -o roofline.svg --open
  keet roofline report.ncu-rep --format json | jq '.launches[].nearest'
"""


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_selection(parser)
    add_output(parser, "terminal", "json", "svg")


def run(args: Namespace) -> None:
    from keet.analysis.roofline.launch_roofline import find_roofline
    from keet.profile.run_link import iterate_launches
    from keet.report import read_profile

    profile = read_profile(args.report)
    launches = iterate_launches(selected_launches(profile, args), "computing rooflines")
    out = Destination(args)
    if args.format == "json":
        from keet.documents.charts import RooflineDocument

        out.write_launches(RooflineDocument, profile, map(find_roofline, launches))
        return
    rooflines = list(map(find_roofline, launches))
    if args.format == "svg":
        from keet.formats.svg.roofline import roofline_svg

        out.write(roofline_svg(rooflines))
    else:
        from keet.pages.roofline import roofline_page

        out.show_page(lambda reader: roofline_page(rooflines, reader))
