"""Whether a launch has reached a roofline, and which one."""

from __future__ import annotations

from typing import Literal

from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import LEADS, PASSES_ON, TimeModel

MOSTLY_LAUNCH = Parameter(0.5, "share of launch and drain: no roofline is named", "judgement")
COMPUTE = ("FMA", "tensor", "FP16", "FP64", "ALU", "XU", "issue")


def reached_roofline(model: TimeModel) -> Literal["compute", "DRAM"] | None:
    """That of the larger load. L2 passes on what DRAM delivers, so a high load of L2 counts as
    DRAM's if both are high."""

    def load(*units: str) -> float:
        return max(model.loads.get(unit, 0.0) for unit in units)

    compute, memory = load(*COMPUTE, WHOLE_SM), load("DRAM", "L2")
    # Loads are of the time in which SMs are active: of a launch that mostly starts and ends, they
    # say little.
    if max(compute, memory) < LEADS or model.fixed >= MOSTLY_LAUNCH:
        return None
    if load("L1", "LSU", "ADU") > max(compute, memory):  # units that have no roofline of their own
        return None
    if compute >= memory:
        return "compute"
    return "DRAM" if load("DRAM") >= PASSES_ON else None
