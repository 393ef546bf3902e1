"""`keet hotspots --format json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.document import Document
from keet.documents.hotspots_line import LineDocument, Placed, PurposeShare, WaitDocument
from keet.documents.shared_types import (
    KEET,
    JsonLocation,
    Producer,
    ReportDocument,
    Skipped,
)


class StallDocument(Document):
    reason: str
    samples: int


class SpotDocument(Placed, Document):
    file: str | None
    line: int | None
    source: str | None
    """The text of the line, if the source is available."""
    address: int | None
    """Set if the row is a single instruction."""
    sass: str | None
    instructions: int
    """Number of machine instructions in the row."""
    share: float | None
    """Share of the quantity that rows are ranked by, 0 to 1."""
    samples: int | None
    stalls: tuple[StallDocument, ...]
    """The largest first."""
    executed: int | None
    """Executed warp-level instructions."""
    threads_executed: int | None
    sectors_global: int | None
    """32-byte sectors that would be requested from L2 if nothing hit L1."""
    sectors_global_excess: int | None
    """Sectors beyond those that contiguous addresses would need."""
    sectors_local: int | None
    wavefronts_shared: int | None
    wavefronts_shared_excess: int | None
    """Wavefronts beyond those needed without bank conflicts."""
    purposes: Sequence[PurposeShare]
    """Shares of the row's executed warp instructions; empty without a machine-code analysis."""
    waits: Sequence[WaitDocument]
    """Both ends of the row's waits; empty without a machine-code analysis."""

    @property
    def samples_by_reason(self) -> dict[str, int]:
        """The largest first."""
        return {stall.reason: stall.samples for stall in self.stalls}

    def stall_shares(self) -> dict[str, float]:
        """Shares of the row's own samples."""
        whole = self.samples
        return {s.reason: s.samples / whole for s in self.stalls} if whole else {}


class PointerDocument(Document):
    """The data that is read through one pointer argument."""

    pointer: str
    """Name in the source if known, else for example `param+0x10`. `loaded`: the pointer was loaded
    from memory. `several`: the pointer depends on the path taken."""
    parameter: str | None
    """Offset in the kernel's parameters."""
    requested_bytes: int | None
    """Bytes requested by all threads; null if the threads were not counted."""
    distinct_bytes_at_most: int | None
    """Null if not known."""
    basis: Literal["bound", "estimate"] | None
    """`estimate` if it depends on average trip counts, clamps or choices between paths."""
    times: float | None
    """Minimum number of requested bytes per distinct byte."""
    l1_bytes: int | None
    """Bytes in the 32-byte sectors that its loads requested from L1."""
    l2_bytes: int | None
    """Part of `l1_bytes` that L1 read from L2."""
    l2_basis: Literal["measured", "apportioned"] | None
    """`apportioned`: the launch's bytes from L2, distributed by the sectors per pointer."""
    lines: list[JsonLocation]
    """Source lines of its loads, most bytes first."""
    why_unknown: str | None
    """Why `distinct_bytes_at_most` is null."""


class HotspotsLaunch(Document):
    id: int
    kernel: str
    by: Literal["line", "instruction"] | None
    ranked_by: Literal["samples", "executed"] | None
    total: int | None
    """The total over the whole launch that the shares are of."""
    sampled_share: float | None = None
    """Share of the launch that the samples cover, if they do not cover all of it."""
    rows_total: int
    """Number of rows without the limit of --top."""
    rows: Sequence[SpotDocument]
    instruction_mix: list[PurposeShare] | None
    """What the launch's executed warp instructions are for; shares add up to 1. Null: see
    `skipped`."""
    reuse: list[PointerDocument] | None
    """One row per pointer that is read, most bytes first. Null: see `skipped`."""
    line: LineDocument | None = None
    """With --line: everything about that line."""
    skipped: Sequence[Skipped]


class HotspotsDocument(Document):
    """`keet hotspots --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    report: ReportDocument
    launches: list[HotspotsLaunch]
