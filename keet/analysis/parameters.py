"""Every constant of the analyst: its value, what it means, and where it comes from.

`fit`: chosen on the casebook's work families (`python -m evals.analyst.fit`), all on an H200; for
other GPUs it is carried over and confidence is lower. `documentation`: a published figure.
`judgement`: neither; a change of it moves a name or a word, not a forecast.
"""

from __future__ import annotations

from typing import Literal

from keet.records import NamedTuple

Source = Literal["documentation", "fit", "judgement"]


class AnalystParameter(NamedTuple):
    value: float
    meaning: str
    source: Source


PARAMETERS: dict[str, AnalystParameter] = {
    # --- the time model
    "sharpness": AnalystParameter(
        2.3, "p of time = (busiest unit ^ p + exposed waiting ^ p) ^ (1/p)", "fit"
    ),
    "attainable_other": AnalystParameter(
        0.93, "share of the peak that good kernels reach of DRAM, L2 and other units", "fit"
    ),
    "attainable_l1": AnalystParameter(
        0.97, "the same for L1, shared memory and the XU pipe", "fit"
    ),
    "attainable_issue": AnalystParameter(0.87, "the same for the issue slots", "fit"),
    "attainable_math": AnalystParameter(0.85, "the same for the FMA and ALU pipes", "fit"),
    "attainable_link": AnalystParameter(
        0.28, "share of the host link's peak that accesses of single sectors reach", "fit"
    ),
    "unmeasured_pressure": AnalystParameter(
        0.5, "load of the busiest unit that is assumed where no unit was measured", "judgement"
    ),
    "hot_line_rate": AnalystParameter(
        0.24, "sectors per L2 cycle that one slice serves beyond the average for one line", "fit"
    ),
    # --- launch and balance
    "launch_gap_ns": AnalystParameter(
        1500.0, "from the end of one kernel to the start of the next in a stream", "fit"
    ),
    "least_kernel_ns": AnalystParameter(
        2000.0, "starting and draining a grid that does nothing", "fit"
    ),
    "balanced": AnalystParameter(
        0.98, "average over longest active SM that well balanced kernels reach", "fit"
    ),
    "partial_wave": AnalystParameter(
        0.4, "exponent by which waiting falls when a grid below one wave is filled up", "fit"
    ),
    "short_kernel_ns": AnalystParameter(
        5000.0, "below it, launching costs about as much as the kernel", "judgement"
    ),
    # --- how much of a cause a fix removes
    "most_removed": AnalystParameter(
        0.95, "no fix removes more than this part of anything", "judgement"
    ),
    "indirect": AnalystParameter(
        0.5, "part of a unit's work, or of other waiting, that goes along with a cause", "judgement"
    ),
    "more_in_flight": AnalystParameter(
        1.8, "times as many independent operations after loads are issued earlier", "fit"
    ),
    "most_occupancy": AnalystParameter(
        5.0, "times as many warps that a fix of the limiter gives at the most", "fit"
    ),
    "coalesced_waits": AnalystParameter(
        1.3, "part of the waiting for excess sectors that goes with them", "fit"
    ),
    "gathered": AnalystParameter(
        0.9, "exponent: how much of a gather's excess sectors a better order removes", "fit"
    ),
    "unrelated_waits": AnalystParameter(
        0.8, "part of waiting for other things that stays when shared memory is relieved", "fit"
    ),
    "narrow_instructions": AnalystParameter(
        1.0, "part of access and address instructions that wide accesses save", "fit"
    ),
    "barrier_waits": AnalystParameter(0.75, "part of the waiting at barriers that goes", "fit"),
    "converged": AnalystParameter(
        0.85, "exponent of the active threads' share: how much of divergence can be removed", "fit"
    ),
    "per_double": AnalystParameter(
        2.1, "instructions that go with each double-precision instruction or conversion", "fit"
    ),
    "overhead_base": AnalystParameter(
        0.4, "share of address and control instructions that kernels need anyway", "fit"
    ),
    "overhead_removed": AnalystParameter(0.95, "part of those beyond it that a fix removes", "fit"),
    "per_division": AnalystParameter(
        7.0, "instructions of an integer division by its MUFU.RCP", "fit"
    ),
    "special_functions": AnalystParameter(0.3, "XU work that is left after a rewrite", "judgement"),
    "tensor_work": AnalystParameter(
        0.1, "SM work that is left of a matrix product on tensor cores", "fit"
    ),
    "replayed": AnalystParameter(
        2.0, "L1 busy over LSU busy that well formed accesses have at the most", "judgement"
    ),
    "reuse": AnalystParameter(
        0.5, "exponent: how much of the L2 reads beyond DRAM's can be saved", "fit"
    ),
    "pipe_work": AnalystParameter(
        0.6, "work of a saturated pipe that is left after reuse in registers", "fit"
    ),
    # --- names
    "promoted": AnalystParameter(
        0.02, "float-double conversions per FP64 instruction from which doubles are an accident",
        "fit",
    ),
    "repeated": AnalystParameter(
        1.4, "requested over distinct bytes from which a pointer counts as read again", "fit"
    ),
    "leads": AnalystParameter(
        0.7, "load from which a unit, and not latency, is named as the limiter", "judgement"
    ),
    "passes_on": AnalystParameter(
        0.5, "load of DRAM from which a busy L2 is taken to pass on its bytes", "judgement"
    ),
    "doubtful": AnalystParameter(
        1.35, "gain at which every second cause that is assumed is not there", "fit"
    ),
    "worth": AnalystParameter(
        1.1, "a gain below it is within what launches differ by", "judgement"
    ),
    # --- ranges (see forecast.py)
    "range_below": AnalystParameter(0.4, "log2 of the likely gain over the low one", "fit"),
    "range_above": AnalystParameter(0.9, "log2 of the high gain over the likely one", "fit"),
}  # fmt: skip
MOST_PARAMETERS = 40


def parameter(name: str) -> float:
    return PARAMETERS[name].value
