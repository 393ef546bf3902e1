"""The numbers of a report from which questions are made, as Nsight Compute wrote them.

Nothing here uses keet's findings, because keet is one of the conditions under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from evals.contexts import profile_and_launch
from kernels_samples.samples import Sample, load_samples

if TYPE_CHECKING:
    from keet.analysis.source_lines import InstructionTable

GPU = "NVIDIA H200"

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
UNITS = {
    "DRAM": f"gpu__dram_throughput{_ELAPSED}",
    "L2 cache": f"lts__throughput{_ELAPSED}",
    "L1 and shared memory": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "Issue slots": f"sm__inst_executed{_ELAPSED}",
    "FMA pipes": f"sm__pipe_fma_cycles_active{_ELAPSED}",
    "ALU pipe": f"sm__pipe_alu_cycles_active{_ELAPSED}",
    "FP64 pipe": f"sm__pipe_fp64_cycles_active{_ELAPSED}",
    "XU pipe": f"sm__inst_executed_pipe_xu{_ELAPSED}",
    "Tensor pipe": f"sm__pipe_tensor_cycles_active{_ELAPSED}",
    "ADU pipe": f"sm__inst_executed_pipe_adu{_ELAPSED}",
}
"""Units that can limit a launch, and the metric that says how near each came to its peak."""

STALLS = {
    "long_scoreboard": ("Long Scoreboard", "data from global, local or texture memory"),
    "short_scoreboard": ("Short Scoreboard", "results of shared memory or special functions"),
    "wait": ("Wait", "a fixed latency of the instruction before to pass"),
    "math_pipe_throttle": ("Math Pipe Throttle", "an arithmetic pipe to take one more instruction"),
    "lg_throttle": ("LG Throttle", "room in the queue for global and local accesses"),
    "mio_throttle": ("MIO Throttle", "room in the queue to shared memory and special functions"),
    "barrier": ("Barrier", "the other warps of the block at a barrier"),
    "drain": ("Drain", "stores to be written out after the exit"),
    "no_instruction": ("No Instruction", "the next instruction to be fetched"),
    "branch_resolving": ("Branch Resolving", "the target of a branch to be known"),
    "dispatch_stall": ("Dispatch Stall", "the dispatcher to let an issued instruction go"),
    "imc_miss": ("IMC Miss", "a constant that the constant cache lacks"),
}
"""Stall reasons with their name and what is waited for. Without `selected` and `not_selected`,
which are not stalls."""

LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warp slots": "launch__occupancy_limit_warps",
    "block slots": "launch__occupancy_limit_blocks",
}
"""What can limit the blocks per SM, and how many blocks each allows."""


class LineSamples(NamedTuple):
    line: int
    samples: int


class Facts:
    """One report of a sample, for the launch that the sample is about."""

    def __init__(self, sample: Sample, variant: str) -> None:
        self.sample, self.variant = sample, variant
        self.profile, self.launch = profile_and_launch(sample, variant)

    @property
    def name(self) -> str:
        return f"{self.sample.name}/{self.variant}"

    def get(self, metric: str) -> float | None:
        """None: not collected, or not a number."""
        found = self.launch.metric(metric)
        value = found.value if found is not None else None
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

    def need(self, metric: str) -> float:
        if (value := self.get(metric)) is None:
            raise KeyError(f"{self.name} has no {metric}")
        return value

    @property
    def units(self) -> dict[str, float]:
        """Per cent of peak. L1's is relative to active cycles, which differs if SMs were idle."""
        seen = {unit: self.get(metric) for unit, metric in UNITS.items()}
        if self.busy_sms < 0.9:
            del seen["L1 and shared memory"]
        return {unit: value for unit, value in seen.items() if value is not None}

    @property
    def busy_sms(self) -> float:
        """Share of the time that the average SM had work."""
        return self.need("sm__cycles_active.avg") / self.need("gpc__cycles_elapsed.max")

    @property
    def stalls(self) -> dict[str, float]:
        """Stall cycles between two instructions of a warp, by reason."""
        metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
        seen = {reason: self.get(metric.format(reason)) for reason in STALLS}
        return {reason: value for reason, value in seen.items() if value is not None}

    @property
    def stall_total(self) -> float:
        return self.need("smsp__average_warp_latency_per_inst_issued.ratio")

    def stall_share(self, reason: str) -> float:
        return self.stalls[reason] / self.stall_total

    @property
    def limits(self) -> dict[str, int]:
        return {name: int(self.need(metric)) for name, metric in LIMITS.items()}

    @property
    def microseconds(self) -> float:
        return self.need("gpu__time_duration.sum") / 1e3

    @property
    def dram_bytes(self) -> float:
        return self.need("dram__bytes_read.sum") + self.need("dram__bytes_write.sum")

    @property
    def lines(self) -> list[LineSamples]:
        """Warp samples by line of the variant's own file, most first; [] if none were taken."""
        return list(_lines(self.sample.name, self.variant))

    @property
    def samples(self) -> int:
        """All samples of the launch, including lines of headers."""
        return _total(self.sample.name, self.variant)


@cache
def _total(sample: str, variant: str) -> int:
    return sum((_table(sample, variant).samples or {}).values())


def _table(sample: str, variant: str) -> InstructionTable:
    from keet.analysis.source_lines import InstructionTable

    return InstructionTable(facts_of()[sample, variant].launch)


@cache
def _lines(sample: str, variant: str) -> tuple[LineSamples, ...]:
    facts = facts_of()[sample, variant]
    samples = _table(sample, variant).samples
    if not samples:
        return ()
    own = facts.sample.source(variant).name
    sums: dict[int, int] = {}
    for address, place in facts.launch.locate(samples).items():
        if place.file.endswith(f"/{own}") or place.file == own:
            sums[place.line] = sums.get(place.line, 0) + samples[address]
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return tuple(LineSamples(*item) for item in ordered)


@cache
def facts_of() -> dict[tuple[str, str], Facts]:
    """Every report of every sample."""
    every = ((sample, variant) for sample in load_samples() for variant in sample.variants)
    return {(s.name, variant): Facts(s, variant) for s, variant in every}


def metric(name: str) -> Callable[[Facts], float | None]:
    """A function that reads it from a report."""
    return lambda facts: facts.get(name)
