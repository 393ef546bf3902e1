"""The program as JSON: the rows of its table, the possible gain, and findings across launches."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.finding import Forecast
from keet.documents.shared_types import (
    Dimensions,
    EvidenceId,
    JsonNumber,
)
from keet.evidence import Confidence

Kind = Literal["hand_over", "repeated_passes", "same_input", "tiny_launches", "clocks", "sweep"]


class ProgramRowDocument(Document):
    """A group of identical launches; if the run is known, a kernel of the run in all its shapes."""

    kernel: str
    launches: tuple[int, ...]
    """Ids of launches in the report; empty if the kernel was not profiled."""
    representative: int | None
    """The launch that represents the row: among identical launches, the one with the median
    duration. Null if the kernel was not profiled."""
    count: int
    """Number of launches; of the run if it is known."""
    grid: Dimensions | None
    """Null if there are several, or if it is not known."""
    block: Dimensions | None
    us_total: float
    """Microseconds; part of the run's GPU time if the run is known."""
    us_min: float | None
    """Microseconds of the shortest launch."""
    us_median: float | None
    us_max: float | None
    share: float
    """Share of the program's `us_total`, 0 to 1."""
    first_finding: str | None
    """Id of the first finding of the representative launch."""
    headline: str | None
    gain: Forecast | None
    """Gain over the row's time; null if no gain is known."""
    library: str | None
    """For example `cuBLAS`, if the kernel is not the user's own code."""


class CrossLaunchDocument(Document):
    """What several launches show together."""

    kind: Kind
    """`hand_over`: one kernel writes as much as a later one reads. `repeated_passes`: identical
    launches at DRAM's bandwidth. `same_input`: kernels that read the same amount. `tiny_launches`:
    many very short launches. `clocks`: launches that were measured at different clocks. `sweep`:
    one kernel at several sizes."""
    confidence: Confidence
    text: str
    launches: tuple[int, ...]
    """Ids of the launches."""
    us_saved: float | None
    """Microseconds of the report's launches that would be saved if the suspicion is true; null if
    not known."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the program's `evidence`."""


class ProgramDocument(Document):
    """Several launches, or a whole run, summarised before the single launches."""

    rows: tuple[ProgramRowDocument, ...]
    """The row whose fix saves most time comes first; of equal ones, the longer."""
    us_total: float
    """Microseconds of all rows."""
    gain: Forecast | None
    """Gain over `us_total` if the first finding of each row's launch were fixed: the sum of the
    savings. Short launches count as merged into one per row. Null if no gain is known."""
    texts: tuple[str, ...]
    shown: tuple[int, ...]
    """Ids of the launches that matter most."""
    cross_launch: tuple[CrossLaunchDocument, ...]
    """The largest saving comes first."""
    evidence: dict[str, JsonNumber]
    """Numbers by id. An id consists of the metric, the source line if there is one, and the launch:
    `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches."""
