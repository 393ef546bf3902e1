"""The function `keet.roofline` and its result."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from keet.analysis.capture.report_document import report_document
from keet.analysis.roofline.launch_roofline import LaunchRoofline, find_roofline
from keet.api.inputs import Kernel, Launches, Report, as_profile, selected_launches
from keet.api.result import PageResult, data_frame
from keet.documents.document import live
from keet.documents.roofline import RooflineDocument
from keet.formatting import count_noun
from keet.pages.blocks import Page, Reader
from keet.pages.roofline import roofline_page
from keet.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "launch_id", "kernel", "ceiling", "label", "kind", "nearest", "reached_pct", "achieved", "peak",
    "unit", "source",
)  # fmt: skip


def roofline(
    report: Report, *, launches: Launches | None = None, kernel: Kernel | None = None
) -> RooflineResult:
    """How close each launch came to each ceiling, arithmetic by type and bytes by memory level:
    `keet roofline`.

    >>> import keet
    >>> result = keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> launch = result.launches[0]
    >>> launch.nearest
    ('l2',)
    >>> {each.id: round(each.reached_pct) for each in launch.ceilings if each.kind == "memory"}
    {'dram': 12, 'l2': 23, 'l1': 2, 'shared': 0}

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
    """
    profile = as_profile(report)
    selected = selected_launches(profile, launches, kernel)
    return RooflineResult(
        report=report_document(profile),
        launches=tuple(map(find_roofline, selected)),
        profile=profile,
    )


class RooflineResult(PageResult, RooflineDocument):
    """Launches against their ceilings. `print(result)` prints what `keet roofline` prints.

    >>> import keet
    >>> result = keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> result
    <RooflineResult slow.ncu-rep: 1 launch>
    >>> result.launches[0]
    <LaunchRoofline #0 flip: l2 at 23% of its peak>
    >>> frame = result.to_pandas()
    >>> frame[frame.nearest][["kernel", "ceiling", "unit"]]
      kernel ceiling    unit
    4   flip      l2  byte/s
    """

    launches: tuple[LaunchRoofline, ...]
    profile: Profile = live()

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        return f"<RooflineResult {name}: {count_noun(len(self.launches), 'launch')}>"

    def _page(self, reader: Reader) -> Page:
        return roofline_page(self.launches, reader)

    def to_svg(self) -> str:
        """The chart of `keet roofline --format svg`."""
        from keet.formats.svg.roofline import roofline_svg

        return roofline_svg(self.launches)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and ceiling."""
        rows = []
        for launch in self.launches:
            for ceiling in launch.ceilings:
                rates = (ceiling.achieved, ceiling.peak)
                values = (rate.value if rate else None for rate in rates)
                unit = next((rate.unit for rate in rates if rate), None)
                known = (launch.id, launch.kernel, ceiling.id, ceiling.label, ceiling.kind)
                share = (ceiling.id in launch.nearest, ceiling.reached_pct)
                rows.append((*known, *share, *values, unit, ceiling.source))
        return data_frame(rows, COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import roofline_html

        return roofline_html(self.launches)
