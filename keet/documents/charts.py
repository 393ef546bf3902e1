"""`keet chart --format json` (how data moves between the SMs and the memories), `keet roofline
--format json`, and the theoretical occupancy of a launch with other registers, shared memory or
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from keet.documents.document import Document
from keet.documents.shared_types import (
    EvidenceId,
    JsonNumber,
    JsonQuantity,
    JsonSentence,
    LaunchResult,
    NumbersById,
    ReportResult,
    Skipped,
)
from keet.evidence import Evidence

NodeId = Literal["sm", "l1", "shared", "l2", "dram", "host", "peer"]


class MemoryNode(Document):
    """A unit: the SMs, a cache or a memory."""

    id: NodeId
    label: str
    hit_rate: EvidenceId | None = None
    """Per cent of all sectors, stores included."""
    load_hit_rate: EvidenceId | None = None
    """Per cent of the sectors of global loads; of L1 only."""
    busy: EvidenceId | None = None
    """Per cent of the peak, of its busiest part."""
    busiest: str = ""
    """That part."""
    is_limit: bool = False
    """Whether it limits the launch, as the headline of `keet explain` says."""


class MemoryLink(Document):
    """Traffic of one kind in one direction. A number that is null is not in the report."""

    id: str
    source: NodeId
    target: NodeId
    label: str
    is_both: bool = False
    """Whether it is the traffic of both directions, which the report does not distinguish."""
    instructions: EvidenceId | None = None
    """Executed instructions of warps."""
    requests: EvidenceId | None = None
    wavefronts: EvidenceId | None = None
    """Passes through shared memory."""
    bytes: EvidenceId | None = None
    share: EvidenceId | None = None
    """Per cent of the peak of the link, over the elapsed cycles."""
    waste: EvidenceId | None = None
    """Bytes or wavefronts that are not needed."""
    waste_share: EvidenceId | None = None
    """Per cent of the link's bytes or wavefronts."""
    waste_reason: str = ""
    is_limit: bool = False

    @property
    def amount(self) -> Evidence | None:
        """How much was moved, in the unit that the report has; None: not known."""
        return self.bytes or self.wavefronts or self.requests or self.instructions

    @property
    def is_idle(self) -> bool:
        """Whether it is known to have carried nothing."""
        return self.amount is not None and not self.amount.value

    @property
    def numbers(self) -> Iterator[Evidence]:
        values = (getattr(self, name) for name in self.names())
        return (value for value in values if isinstance(value, Evidence))


class MemoryChart(LaunchResult):
    """The memory chart of one launch."""

    duration: JsonQuantity | None
    nodes: tuple[MemoryNode, ...]
    links: tuple[MemoryLink, ...]
    headline: JsonSentence
    """What limits the launch, as `keet explain` says it."""
    notes: tuple[JsonSentence, ...]
    evidence: dict[str, JsonNumber]
    """Numbers by id, as in `keet explain --format json`."""

    @property
    def is_empty(self) -> bool:
        """Whether the report does not tell how much moved on any link."""
        return all(link.amount is None for link in self.links)

    @property
    def has_limit(self) -> bool:
        return any(n.is_limit for n in self.nodes) or any(link.is_limit for link in self.links)

    def node(self, node_id: NodeId) -> MemoryNode:
        return next(node for node in self.nodes if node.id == node_id)

    def link(self, link_id: str) -> MemoryLink | None:
        return next((link for link in self.links if link.id == link_id), None)

    def between(self, *nodes: NodeId) -> tuple[MemoryLink, ...]:
        """The links of these two units, in either direction."""
        return tuple(link for link in self.links if {link.source, link.target} == {*nodes})


class MemoryChartDocument(ReportResult):
    """`keet chart --format json`"""

    launches: tuple[MemoryChart, ...]


class BusiestDocument(Document):
    part: str
    busy_pct: float
    evidence: EvidenceId


class CeilingDocument(Document):
    id: str
    """For example `fp32`, `tensor_bf16` or `dram`."""
    label: str
    kind: Literal["compute", "memory"]
    reached_pct: float
    """Per cent of the peak."""
    achieved: JsonQuantity | None
    """Null if only the percentage was measured."""
    peak: JsonQuantity | None
    source: str
    """Where the peak comes from: the report or keet's catalog."""
    busiest: BusiestDocument | None
    """A stage or pipe that is busier than the count of bytes or operations shows."""
    evidence: tuple[EvidenceId, ...]

    @property
    def reached(self) -> Evidence:
        """`reached_pct`."""
        return self.evidence[0]

    @property
    def share(self) -> float:
        """Share of the peak, from 0: counters of two passes can give slightly negative values."""
        return max(0.0, self.reached_pct / 100)


class IntensityDocument(Document):
    arithmetic: str
    """Id of the compute ceiling."""
    level: str
    """Id of the memory ceiling."""
    value: float
    """Operations per byte."""
    ridge: float
    """Operations per byte above which arithmetic is the limit."""
    attainable: JsonQuantity
    """The lower of the two ceilings at this intensity."""
    attained_pct: float
    """Per cent of `attainable` that was achieved."""
    evidence: tuple[EvidenceId, ...]
    """Of `value`, `ridge` and `attainable`."""


class RooflineLaunch(LaunchResult):
    duration: JsonQuantity | None
    sm_clock: JsonQuantity | None
    nearest: tuple[str, ...]
    """Ids of the nearest ceilings; several if they tie."""
    lead: str | None
    """Id of the nearest compute ceiling."""
    ceilings: tuple[CeilingDocument, ...]
    intensities: tuple[IntensityDocument, ...]
    uncounted: BusiestDocument | None
    """The busiest unit whose work is neither operations nor bytes."""
    reading: str
    notes: list[str]
    skipped: list[Skipped]
    evidence: NumbersById

    def ceiling(self, ceiling_id: str) -> CeilingDocument:
        return next(ceiling for ceiling in self.ceilings if ceiling.id == ceiling_id)

    @property
    def nearest_ceilings(self) -> tuple[CeilingDocument, ...]:
        return tuple(map(self.ceiling, self.nearest))

    @property
    def lead_ceiling(self) -> CeilingDocument | None:
        """None if nothing was computed."""
        return None if self.lead is None else self.ceiling(self.lead)

    def of_kind(self, kind: str) -> tuple[CeilingDocument, ...]:
        return tuple(ceiling for ceiling in self.ceilings if ceiling.kind == kind)

    def lead_intensities(self) -> tuple[IntensityDocument, ...]:
        return tuple(
            intensity for intensity in self.intensities if intensity.arithmetic == self.lead
        )

    def lacks(self, ceiling_id: str) -> bool:
        """Whether `skipped` says why this ceiling is not known."""
        return any(each.check == ceiling_id for each in self.skipped)


class RooflineDocument(ReportResult):
    """`keet roofline --format json`"""

    launches: tuple[RooflineLaunch, ...]


Changed = Literal["registers", "shared_memory", "block_size"]
"""Registers per thread, bytes of shared memory per block without the driver's, or threads per
block."""


class OccupancyStep(NamedTuple):
    """Values from `least` to `most` have the same number of warps."""

    least: int
    most: int
    warps: int
    """Per SM; 0: a block does not fit."""


class OccupancyCurve(Document):
    of: Changed
    now: int
    """The launch's own value."""
    steps: tuple[OccupancyStep, ...]
    """By ascending values, without gaps."""

    def better(self, warps: int) -> list[OccupancyStep]:
        """Steps with more warps, those nearest to the launch's own value first."""
        steps = [step for step in self.steps if step.warps > warps]
        return sorted(steps, key=lambda step: abs(step.most - self.now))


class OccupancyDocument(Document):
    warps: int
    """That an SM can hold of this launch."""
    most_warps: int
    """That an SM can hold at all."""
    limited_by: tuple[str, ...]
    """Resources that let no more blocks in: registers, shared, warps, blocks or barriers."""
    curves: tuple[OccupancyCurve, ...]
