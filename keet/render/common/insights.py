"""Words about insights: the summary line, legends, and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.units import Quantity

if TYPE_CHECKING:
    from keet.render.json.insights import (
        ChangeDocument,
        ClusterKernelDocument,
        CurvePointDocument,
        InsightsDocument,
        SweepDocument,
    )

HEADINGS = {
    "sweep": "Sweeps: one kernel, one thing varies",
    "cluster": "Clusters: the same finding in several kernels",
    "change": "Changes over time",
    "outliers": "Outliers among launches that are alike",
}
"""Kinds of insights in the order in which they are printed."""
LEGEND = (
    "● best, ○ no slower beyond noise. Columns of units (DRAM, L2, L1, LSU, issue, …): share of "
    "peak over the elapsed cycles, as `keet explain` has it."
)
ADDS = "What no single profile shows"
NOTHING = (
    "Nothing that these profiles show together: no kernel varies in one thing over three files, no "
    "finding is shared, no launch stands out, no history changes."
)
NO_SWEEP = (
    "No sweep was found, so there is no curve to draw. A sweep needs one kernel in at least three "
    "reports that differ in one value, best given in their names: `BLOCK_64.ncu-rep`, "
    "`BLOCK_128.ncu-rep`, `BLOCK_256.ncu-rep`. Put them into the store with `keet batch`."
)


def summary_line(document: InsightsDocument) -> str:
    devices = document.devices
    shown = ", ".join(devices[:3]) + (f" and {len(devices) - 3} more" if len(devices) > 3 else "")
    return f"{document.launches:,} launches in {document.files:,} files, on {shown or 'no GPU'}"


def time_text(value_us: float) -> str:
    return str(Quantity(value_us, "us").to_base())


def shown_file(kernel: ClusterKernelDocument) -> str:
    more = f" (slowest of {kernel.versions} versions)" if kernel.versions > 1 else ""
    return kernel.shown_path + more


def unit_names(sweep: SweepDocument) -> list[str]:
    """Hardware units of which a point has a share of peak, in the order in which they appear."""
    return list(dict.fromkeys(unit for point in sweep.points for unit in point.units))


def compared(point: CurvePointDocument) -> float:
    """What tells a better point: the time, or the time per unit of work, in us."""
    return point.time_us if point.cost is None else point.cost


MOST_HISTORY = 60
"""Files of a history that are shown. A judgement: what is further from the change adds nothing."""


def shown_history(change: ChangeDocument) -> range:
    """Positions in the history, with the change in the middle."""
    cut = change.last_before + 1
    return range(max(0, cut - MOST_HISTORY // 2), min(len(change.history), cut + MOST_HISTORY // 2))
