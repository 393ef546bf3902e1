"""The function `keet.roofline` and its result."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from keet.api.inputs import Kernel, Launches, Report, as_profile, selected_launches
from keet.api.result import WIDTH, ApiResult, data_frame
from keet.formatting import count_noun

if TYPE_CHECKING:
    import pandas as pd

    from keet.analysis.roofline.launch_roofline import Roofline
    from keet.documents.roofline import (
        CeilingDocument,
        IntensityDocument,
        RooflineDocument,
        RooflineLaunch,
    )
    from keet.evidence import Evidence
    from keet.profile import Profile

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
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `range(5)`.
        kernel: only launches whose kernel name matches this regular expression.
    """
    from keet.analysis.roofline.launch_roofline import find_roofline

    profile = as_profile(report)
    selected = selected_launches(profile, launches, kernel)
    return RooflineResult(profile, tuple(find_roofline(launch) for launch in selected))


class LaunchRoofline:
    """One launch against its ceilings.

    >>> import keet
    >>> keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep").launches[0]
    <LaunchRoofline #0 flip: l2 at 23% of its peak>
    """

    def __init__(self, found: Roofline, document: RooflineLaunch) -> None:
        self.roofline = found
        self.document = document

    def __repr__(self) -> str:
        near = [each for each in self.ceilings if each.id in self.nearest]
        reached = ", ".join(f"{each.id} at {each.reached_pct:.0f}% of its peak" for each in near)
        return f"<LaunchRoofline #{self.id} {self.kernel}: {reached or 'no ceiling is known'}>"

    @property
    def id(self) -> int:
        """Its number in the report."""
        return self.document.id

    @property
    def kernel(self) -> str:
        return self.document.kernel

    @property
    def nearest(self) -> tuple[str, ...]:
        """Ids of the nearest ceilings; several: they tie."""
        return tuple(self.document.nearest)

    @property
    def ceilings(self) -> tuple[CeilingDocument, ...]:
        """Compute ceilings, then memory from DRAM inwards: `id`, `kind`, `reached_pct`, `peak`."""
        return tuple(self.document.ceilings)

    @property
    def intensities(self) -> tuple[IntensityDocument, ...]:
        """Operations per byte of each type at each level, with the ridge."""
        return tuple(self.document.intensities)

    @property
    def reading(self) -> str:
        """Interpretation in a few sentences."""
        return self.document.reading

    @property
    def evidence(self) -> dict[str, Evidence]:
        """Every number, by id."""
        return {each.id: each for each in self.roofline.ledger}

    def to_dict(self) -> dict[str, Any]:
        return self.document.to_dict()

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Of the data frame: see `COLUMNS`."""
        for each in self.ceilings:
            rates = (each.achieved, each.peak)
            values = (rate.value if rate else None for rate in rates)
            unit = next((rate.unit for rate in rates if rate), None)
            known = (self.id, self.kernel, each.id, each.label, each.kind)
            yield (*known, each.id in self.nearest, each.reached_pct, *values, unit, each.source)


class RooflineResult(ApiResult):
    """Launches against their ceilings. `print(result)` prints what `keet roofline` prints.

    >>> import keet
    >>> result = keet.roofline("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> result
    <RooflineResult slow.ncu-rep: 1 launch>
    >>> frame = result.to_pandas()
    >>> frame[frame.nearest][["kernel", "ceiling", "unit"]]
      kernel ceiling    unit
    4   flip      l2  byte/s
    """

    def __init__(self, profile: Profile, rooflines: tuple[Roofline, ...]) -> None:
        self.profile = profile
        self.rooflines = rooflines
        """The internal object; its fields may change between versions."""

    def __repr__(self) -> str:
        name = PurePath(self.profile.provenance.path).name
        return f"<RooflineResult {name}: {count_noun(len(self.rooflines), 'launch')}>"

    @cached_property
    def document(self) -> RooflineDocument:
        from keet.render.json.roofline import roofline_document

        return roofline_document(self.profile, self.rooflines)

    @cached_property
    def launches(self) -> tuple[LaunchRoofline, ...]:
        pairs = zip(self.rooflines, self.document.launches, strict=True)
        return tuple(LaunchRoofline(*pair) for pair in pairs)

    def to_text(self, width: int = WIDTH) -> str:
        from keet.render.terminal.console import to_text
        from keet.render.terminal.roofline import roofline_view

        return to_text(roofline_view(self.rooflines, width), width)

    def to_svg(self) -> str:
        """The chart of `keet roofline --format svg`."""
        from keet.render.svg.roofline import roofline_svg

        return roofline_svg(self.rooflines)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and ceiling."""
        return data_frame((row for each in self.launches for row in each.rows()), COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import roofline_html

        return roofline_html(self.rooflines)
