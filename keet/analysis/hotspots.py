"""Where in the code a launch spends its time: samples, executions and traffic, line by line.

Every number is a sum over instruction addresses, and every address is in exactly one row (those
without a line in a row of their own), so the rows add up to the launch's totals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from keet.analysis.sampling import PartialSampling, partial_sampling
from keet.catalog import metric_with_id, stalls
from keet.profile import Absent, Launch, Location

_PLAIN = {
    "executed": "inst_executed",
    "threads_executed": "thread_inst_executed",
    "sectors_global": "src_l2_sectors_global",
    "sectors_global_excess": "src_l2_sectors_global_excess",
    "sectors_local": "src_l2_sectors_local",
    "wavefronts_shared": "src_shared_wavefronts",
    "wavefronts_shared_excess": "src_shared_wavefronts_excess",
}
"""Columns of a spot and the catalog's metric behind each."""

Grouping = Literal["line", "instruction"]

_NOT_SAMPLED = Absent(
    "the report has no numbers for single instructions",
    "profile again with: ncu --section SourceCounters --import-source yes",
)


@dataclass(frozen=True, slots=True)
class Spot:
    """A source line, or an instruction, with what it cost. `None`: not collected."""

    location: Location | None
    address: int | None
    """Set where the row is one instruction."""
    instructions: int
    """How many machine instructions the row sums up."""
    samples: int | None
    share: float | None
    """Share of what the rows are ranked by, 0 to 1."""
    stalls: tuple[tuple[str, int], ...]
    """Samples by stall reason, the largest first; reasons as in the catalog."""
    executed: int | None
    threads_executed: int | None
    sectors_global: int | None
    sectors_global_excess: int | None
    sectors_local: int | None
    wavefronts_shared: int | None
    wavefronts_shared_excess: int | None

    def stall_shares(self) -> tuple[tuple[str, float], ...]:
        """Shares of the row's own samples."""
        return tuple(
            (reason, count / self.samples) for reason, count in self.stalls if self.samples
        )


@dataclass(frozen=True, slots=True)
class Hotspots:
    """The code of one launch, most expensive first."""

    launch_id: int
    by: Grouping
    ranked_by: Literal["samples", "executed"]
    """`executed` where no warp states were sampled."""
    total: int
    """What the shares are of."""
    spots: tuple[Spot, ...]
    partial: PartialSampling | None = None
    """Set where the samples are those of a part of the launch."""


class InstructionTable:
    """The per-instruction metrics of a launch, by address."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    @cached_property
    def stall_samples(self) -> Mapping[str, Mapping[int, int]]:
        """Samples by reason and address. Reasons that occur in no sample are left out."""
        found = {}
        for reason, stall in stalls().items():
            name = f"smsp__pcsamp_warps_issue_stalled_{reason}"
            column = self._named(name) if name in stall.metrics else None
            if column and any(column.values()):
                found[reason] = column
        return found

    @cached_property
    def samples(self) -> Mapping[int, int] | None:
        """Samples by address; before ncu 2021.2 only their split by reason was stored."""
        total = self.column("samples_total")
        if total is not None or not self.stall_samples:
            return total
        sums: Counter[int] = Counter()
        for column in self.stall_samples.values():
            sums.update(column)
        return sums

    @cached_property
    def costs(self) -> Mapping[str, Mapping[int, int] | None]:
        """The plain columns of a spot; `None` for what was not collected."""
        return {name: self.column(metric_id) for name, metric_id in _PLAIN.items()}

    @cached_property
    def weight(self) -> Mapping[int, int]:
        """What spots are ranked by: samples, or executions where there are none."""
        return self.samples or self.costs["executed"] or {}

    @cached_property
    def total(self) -> int:
        return sum(self.weight.values())

    @cached_property
    def addresses(self) -> list[int]:
        return sorted({*(self.samples or ()), *(self.costs["executed"] or ())})

    def column(self, metric_id: str) -> Mapping[int, int] | None:
        for name in metric_with_id(metric_id).names:
            column = self._named(name)
            if column is not None:
                return column
        return None

    def _named(self, name: str) -> Mapping[int, int] | None:
        instances = self._launch.instances(name)
        if instances is None:
            # ncu stores no parts of a zero: every instruction has none of it.
            metric = self._launch.metric(name)
            return {} if metric is not None and metric.value == 0 else None
        if instances.ids is None:
            return None
        return {
            address: int(value)
            for address, value in instances.pairs()
            if isinstance(address, int) and isinstance(value, (int, float)) and math.isfinite(value)
        }

    def spot(self, location: Location | None, members: Sequence[int], address: int | None) -> Spot:
        """The sum of some instructions."""
        reasons = Counter(
            {r: n for r, column in self.stall_samples.items() if (n := _sum(column, members))}
        )
        return Spot(
            location=location,
            address=address,
            instructions=len(members),
            samples=_sum(self.samples, members),
            share=sum(self.weight.get(pc, 0) for pc in members) / self.total
            if self.total
            else None,
            stalls=tuple(reasons.most_common()),
            **{name: _sum(column, members) for name, column in self.costs.items()},
        )


def find_hotspots(launch: Launch, by: Grouping | None = None) -> Hotspots | Absent:
    """Rank the launch's source lines, or its instructions where there are no lines."""
    table = InstructionTable(launch)
    if not table.weight:
        return _NOT_SAMPLED
    by = by or ("line" if launch.locations else "instruction")
    lines = launch.locations
    if by == "line":
        spots = [table.spot(where, members, None) for where, members in _by_line(launch, table)]
    else:
        spots = [table.spot(lines.get(pc), [pc], pc) for pc in table.addresses]
    # Equal weights keep the order of the code, so that the same report always prints the same.
    spots.sort(key=lambda spot: -(spot.share or 0.0))
    ranked_by: Literal["samples", "executed"] = "samples" if table.samples else "executed"
    partial = partial_sampling(launch, table.total) if table.samples else None
    return Hotspots(launch.id, by, ranked_by, table.total, tuple(spots), partial)


def _by_line(
    launch: Launch, table: InstructionTable
) -> Iterable[tuple[Location | None, list[int]]]:
    lines: dict[Location | None, list[int]] = {}
    for address in table.addresses:
        lines.setdefault(launch.locations.get(address), []).append(address)
    return lines.items()


def _sum(column: Mapping[int, int] | None, members: Iterable[int]) -> int | None:
    """The members' sum; `None` where the column was not collected, 0 where it has nothing here."""
    return None if column is None else sum(column.get(address, 0) for address in members)
