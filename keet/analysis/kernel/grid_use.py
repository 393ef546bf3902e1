"""How a grid uses the GPU: blocks per SM, resident warps, and launch cost."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import LEAST_KERNEL_NS, SHORT_KERNEL_NS
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import MOST_REMOVED, TimeModel
from keet.evidence import Evidence
from keet.profile import Workload

BALANCED = Parameter(
    0.98, "active cycles of the average over the longest SM in well balanced kernels", "fit"
)


class GridShape(NamedTuple):
    """How the blocks are distributed over the SMs."""

    grid: Evidence
    sms: int
    waves: Evidence | None

    @property
    def spread(self) -> float:
        """Share of the SMs that get a block, 0 to 1."""
        return min(1.0, float(self.grid.value) / self.sms)

    @property
    def expected(self) -> float:
        """Average over longest active SM, if all blocks took equally long. In less than a wave,
        some SMs get one block more than others."""
        if self.spread < 1:
            return self.spread
        waves = float(self.waves.value) if self.waves else 0.0
        rounds = waves if 1 < waves < math.inf else float(self.grid.value) / self.sms
        return rounds / math.ceil(rounds) if waves else 1.0


def grid_shape(view: LaunchView) -> GridShape | None:
    grid, waves = view.get("grid_size"), view.get("waves_per_sm")
    counted = view.value("launch_sm_count")
    sms = int(view.launch.device.sm_count or counted or 0)
    if grid is None or grid.value <= 0 or sms <= 0 or view.launch.workload is not Workload.KERNEL:
        return None
    return GridShape(grid, sms, waves if waves is not None and waves.value > 0 else None)


def resident(view: LaunchView) -> float:
    """Resident warps over those that fit: an SM counts as active even if only one long block is
    left."""
    reached, possible, waves = (
        view.value(each)
        for each in ("achieved_occupancy_pct", "theoretical_occupancy_pct", "waves_per_sm")
    )
    if not reached or not possible:
        return 1.0
    return min(1.0, max(reached / (possible * min(1.0, waves or 1.0)), least_kept()))


def least_kept() -> float:
    """The smallest share of waiting that a remedy can leave, 0 to 1."""
    return 1 - MOST_REMOVED


def shortness(view: LaunchView, model: TimeModel) -> float:
    """1 if launching takes at least as large a share of the time as in a short kernel.

    Decreases to 0 at half of that share, so that there is no threshold.
    """
    taken = view.value("duration") or 0.0
    if taken <= 0:
        return 0.0
    usual = LEAST_KERNEL_NS / SHORT_KERNEL_NS
    return max(0.0, min(1.0, 2 - usual * taken / start_ns(view, model)))


def start_ns(view: LaunchView, model: TimeModel) -> float:
    """Nanoseconds to start and drain the grid: as measured, if that is more than the least of any
    kernel."""
    taken = view.value("duration") or 0.0
    measured = model.fixed * taken if view.launch.workload is Workload.KERNEL else 0.0
    return max(LEAST_KERNEL_NS, measured)
