"""Texts of `keet insights` in all formats: summary line, headings, legend and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.formatting import count_noun
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.documents.insights import (
        ChangeDocument,
        ClusterKernelDocument,
        CurvePointDocument,
        InsightsDocument,
        SweepDocument,
    )

HEADINGS = {
    "sweep": "Sweeps: one kernel, one parameter varies",
    "cluster": "Clusters: the same finding in several kernels",
    "change": "Changes over time",
    "outliers": "Outliers among equal launches",
}
"""Kinds of insights in the order in which they are printed."""
LEGEND = (
    "● best, ○ as fast within noise. Columns of units (DRAM, L2, L1, LSU, issue, …): share of peak "
    "over the elapsed cycles, as in `keet explain`."
)
OVERLAP = "A launch may be in several clusters: do not add up the savings of different clusters."
FILES = "Files are named by the end of their path."
ADDS = "Compared with a single profile"
NOTHING = (
    "No insights: no kernel has a parameter that varies over three files, no finding is shared by "
    "several kernels, no kernel changed over time, and no launch is an outlier."
)
NO_SWEEP = (
    "No sweep was found, so there is no curve to draw. A sweep needs one kernel in at least three "
    "reports that differ in one value, best given in their names: `BLOCK_64.ncu-rep`, "
    "`BLOCK_128.ncu-rep`, `BLOCK_256.ncu-rep`. Put them into the store with `keet batch`."
)


def summary_line(document: InsightsDocument) -> str:
    devices = document.devices
    shown = ", ".join(devices[:3]) + (f" and {len(devices) - 3} more" if len(devices) > 3 else "")
    launches, files = count_noun(document.launches, "launch"), count_noun(document.files, "file")
    return f"{launches} in {files}, on {shown or 'no GPU'}"


def time_text(value_us: float) -> str:
    return str(Quantity(value_us, "us").to_base())


def shown_file(kernel: ClusterKernelDocument) -> str:
    more = f" (slowest of {kernel.versions} versions)" if kernel.versions > 1 else ""
    return kernel.shown_path + more


def unit_names(sweep: SweepDocument) -> list[str]:
    """Hardware units for which a point has a share of peak, in the order of their appearance."""
    return list(dict.fromkeys(unit for point in sweep.points for unit in point.units))


def compared(point: CurvePointDocument) -> float:
    """The value by which points are compared: the time, or the time per unit of work, in us."""
    return point.time_us if point.cost is None else point.cost


MOST_HISTORY = 60
"""Maximum number of files of a history that are shown, around the change."""


def shown_history(change: ChangeDocument) -> range:
    """Positions in the history, with the change in the middle."""
    cut = change.last_before + 1
    return range(max(0, cut - MOST_HISTORY // 2), min(len(change.history), cut + MOST_HISTORY // 2))
