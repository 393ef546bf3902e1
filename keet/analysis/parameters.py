"""The parameters of the analyst: value, meaning and source.

`fit`: fitted on the casebook's work families (`python -m evals.analyst.fit`), all on an H200; also
used for other GPUs, with lower confidence. `documentation`: a published figure. `judgement`: chosen
by hand.
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
        0.93, "share of their peak that DRAM, L2 and other units reach in good kernels", "fit"
    ),
    "attainable_l1": AnalystParameter(
        0.97, "the same for L1, shared memory and the XU pipe", "fit"
    ),
    "attainable_issue": AnalystParameter(0.87, "the same for the issue slots", "fit"),
    "attainable_math": AnalystParameter(0.85, "the same for the FMA and ALU pipes", "fit"),
    "attainable_link": AnalystParameter(
        0.28, "share of the host link's peak that single-sector accesses reach", "fit"
    ),
    "unmeasured_pressure": AnalystParameter(
        0.5, "assumed load of the busiest unit if no unit was measured", "judgement"
    ),
    "hot_line_rate": AnalystParameter(
        0.24,
        "sectors per L2 cycle that a slice serves for one line, beyond the average slice",
        "fit",
    ),
    # --- launch and balance
    "launch_gap_ns": AnalystParameter(
        1500.0, "nanoseconds from the end of one kernel to the start of the next in a stream", "fit"
    ),
    "least_kernel_ns": AnalystParameter(
        2000.0, "nanoseconds to start and drain a grid that does nothing", "fit"
    ),
    "balanced": AnalystParameter(
        0.98, "active cycles of the average over the longest SM in well balanced kernels", "fit"
    ),
    "partial_wave": AnalystParameter(
        0.4, "exponent: how waiting decreases when a grid below one wave gets more blocks", "fit"
    ),
    "short_kernel_ns": AnalystParameter(
        5000.0, "nanoseconds below which launching costs about as much as the kernel", "judgement"
    ),
    # --- how much of a cause a fix removes
    "most_removed": AnalystParameter(
        0.95, "largest share of any work or waiting that a fix removes", "judgement"
    ),
    "indirect": AnalystParameter(
        0.5,
        "a fix reduces other work and other waiting by this share of what it removes of the cause",
        "judgement",
    ),
    "more_in_flight": AnalystParameter(
        1.8, "factor of independent operations in flight after loads are issued earlier", "fit"
    ),
    "most_occupancy": AnalystParameter(
        5.0, "largest factor of warps per SM from fixing the occupancy limiter", "fit"
    ),
    "coalesced_waits": AnalystParameter(
        1.3,
        "memory waiting that a fix removes, as a multiple of the load that it takes off a unit",
        "fit",
    ),
    "gathered": AnalystParameter(
        0.9,
        "exponent of the share of sectors that a gather needs: below 1, reordering helps less",
        "fit",
    ),
    "unrelated_waits": AnalystParameter(
        0.8, "share of other waiting that stays when shared memory is relieved", "fit"
    ),
    "narrow_instructions": AnalystParameter(
        1.0, "share of access and address instructions that wide accesses save", "fit"
    ),
    "barrier_waits": AnalystParameter(
        0.75, "share of the waiting at barriers that a fix removes", "fit"
    ),
    "converged": AnalystParameter(
        0.85, "exponent of the active threads' share: how much divergence can be removed", "fit"
    ),
    "per_double": AnalystParameter(
        2.1, "instructions removed per double-precision instruction or conversion", "fit"
    ),
    "overhead_base": AnalystParameter(
        0.4, "share of address and control instructions that every kernel needs", "fit"
    ),
    "overhead_removed": AnalystParameter(
        0.95, "share of the address and control instructions beyond it that a fix removes", "fit"
    ),
    "per_division": AnalystParameter(
        7.0, "instructions of an integer division per MUFU.RCP", "fit"
    ),
    "special_functions": AnalystParameter(
        0.3, "share of the XU work that is left after a rewrite", "judgement"
    ),
    "tensor_work": AnalystParameter(
        0.1, "share of the SM work of a matrix product that is left on tensor cores", "fit"
    ),
    "replayed": AnalystParameter(
        2.0, "largest ratio of L1 busy to LSU busy for accesses without replays", "judgement"
    ),
    "reuse": AnalystParameter(
        0.5, "exponent: how many of the L2 reads beyond DRAM's can be saved", "fit"
    ),
    "pipe_work": AnalystParameter(
        0.6, "share of a saturated pipe's work that is left after reuse in registers", "fit"
    ),
    # --- names
    "promoted": AnalystParameter(
        0.02, "float-double conversions per FP64 instruction from which FP64 counts as unintended",
        "fit",
    ),
    "repeated": AnalystParameter(
        1.4, "requested over distinct bytes from which data counts as read again", "fit"
    ),
    "leads": AnalystParameter(
        0.7, "load from which a unit, not latency, is named as the limiter", "judgement"
    ),
    "passes_on": AnalystParameter(
        0.5, "load of DRAM from which a busy L2 counts as passing on DRAM's bytes", "judgement"
    ),
    "doubtful": AnalystParameter(
        1.35, "gain at which half of the assumed causes are real", "fit"
    ),
    "worth": AnalystParameter(
        1.1,
        "least gain to report: smaller ones are within the differences between launches",
        "judgement",
    ),
    # --- ranges (see forecast.py)
    "range_below": AnalystParameter(0.4, "log2 of likely over low gain", "fit"),
    "range_above": AnalystParameter(0.9, "log2 of high over likely gain", "fit"),
}  # fmt: skip
MOST_PARAMETERS = 40


def parameter(name: str) -> float:
    return PARAMETERS[name].value
