"""Whether a launch has reached a roofline, and which one.

The issue slots have no roofline: they limit the number of instructions, and many of these are no
arithmetic on data. `issue_limited` tells such launches.
"""

from __future__ import annotations

import math
from typing import Literal

from keet.analysis.facts.instructions import counted_divisions
from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.limits import MAJORITY, NOTABLE_PART
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import TimeModel, attainable

AT_CEILING = Parameter(
    0.8, "share of what a unit can do from which it is at its ceiling or roofline", "judgement"
)
COMPUTE = ("FMA", "tensor", "FP16", "FP64", "ALU", "XU")


def reached_roofline(model: TimeModel) -> Literal["compute", "DRAM"] | None:
    """That of the busier unit, if it does most of what it can do in the whole time of the launch:
    SMs that are idle for a part of the time are not at a roofline."""
    compute, dram = reached_share(model, *COMPUTE, WHOLE_SM), reached_share(model, "DRAM")
    # L2 may be full with what DRAM delivers: both tell how near DRAM is to its roofline.
    dram = max(dram, math.sqrt(dram * reached_share(model, "L2")))
    if max(compute, dram) < AT_CEILING or model.fixed >= MAJORITY:
        return None
    # Units that have no roofline of their own.
    if _load(model, "L1", "LSU", "ADU") > _load(model, *COMPUTE, WHOLE_SM, "DRAM", "L2"):
        return None
    if compute >= dram:
        return "compute" if _computes(model) else None
    return None if issue_limited(model) else "DRAM"


def issue_limited(model: TimeModel) -> bool:
    """Whether the issue slots are the busiest unit, and no arithmetic pipe is at its ceiling."""
    return model.busiest == "issue" and _load(model, *COMPUTE) < AT_CEILING


def _load(model: TimeModel, *units: str) -> float:
    return max(model.loads.get(unit, 0.0) for unit in units)


def reached_share(model: TimeModel, *units: str) -> float:
    """Share of what the busiest of these units can do in the launch's time."""
    return max((model.view.ceilings.share(unit) or 0.0) / attainable(unit) for unit in units)


def _computes(model: TimeModel) -> bool:
    """Whether the busiest arithmetic pipe computes data, as far as the machine code shows it; else
    as far as opcodes do.

    Multiply-adds of addresses fill the FMA pipe too, and comparisons of indices the ALU.
    """
    pipe = max(COMPUTE, key=lambda unit: model.loads.get(unit, 0.0))
    if pipe == "tensor":
        return _delivers(model)
    if pipe not in ("FMA", "ALU"):
        return True
    code = model.view.code
    if code is None:
        return pipe == "FMA" or not counted_divisions(model.view) >= NOTABLE_PART
    return not code.mix or code.mix[0][0].value == "value"


def _delivers(model: TimeModel) -> bool:
    """Whether the matrix operations per second are near the peak of these instructions.

    A tensor pipe can be busy without delivering, for example with small shapes. True where the
    report does not count operations.
    """
    from keet.analysis.roofline.compute import compute_ceilings

    view = model.view
    found, _ = compute_ceilings(view.ledger, view.ceilings)
    delivered = [each.share for each in found if each.id.startswith("tensor_")]
    return not delivered or model.load("tensor", sum(delivered)) >= AT_CEILING
