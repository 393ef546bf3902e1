"""`keet chart --format json`: how data moves between the SMs and the memories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import (
    EvidenceId,
    JsonNumber,
    JsonQuantity,
    JsonSentence,
    LaunchResult,
    ReportResult,
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
