"""`keet roofline --format json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import (
    KEET,
    JsonNumber,
    JsonQuantity,
    Producer,
    ReportDocument,
    SkippedDocument,
)


@dataclass(frozen=True, kw_only=True)
class BusiestDocument(Document):
    part: str
    busy_pct: float
    evidence: str


@dataclass(frozen=True, kw_only=True)
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
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
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
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
class RooflineLaunch(Document):
    id: int
    kernel: str
    duration: JsonQuantity | None
    sm_clock: JsonQuantity | None
    nearest: list[str]
    """Ids of the nearest ceilings; several if they tie."""
    lead: str | None
    """Id of the nearest compute ceiling."""
    ceilings: list[CeilingDocument]
    intensities: list[IntensityDocument]
    uncounted: BusiestDocument | None
    """The busiest unit whose work is neither operations nor bytes."""
    reading: str
    notes: list[str]
    skipped: list[SkippedDocument]
    evidence: dict[str, JsonNumber]
    """Numbers by id. An id consists of the metric, the source line if there is one, and the launch:
    `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches."""


@dataclass(frozen=True, kw_only=True)
class RooflineDocument(Document):
    """`keet roofline --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    report: ReportDocument
    launches: list[RooflineLaunch]
