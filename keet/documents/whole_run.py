"""The run of the whole program, and how ncu's replay differs from it, as JSON."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import EvidenceId, JsonQuantity
from keet.profile.run_table import KnownBy


class InRunDocument(Document):
    """The launches of the run that a launch of the report represents."""

    launches: float
    """Number of launches in the run; a fraction if several profiled launches share launches that
    the table does not distinguish."""
    share_pct: float
    """Per cent of the run's GPU time (of all durations if `run.overlap_known` is false)."""
    busy: JsonQuantity
    """GPU time of these launches, in microseconds."""
    plain_duration: JsonQuantity | None
    """Microseconds that this launch took in the run."""
    known_by: KnownBy | None
    """Which launches of the run `plain_duration` is from. `launch`: the one with this number,
    kernel and shape. `shape`: the median (else the average) of launches with this kernel and shape.
    `kernel`: the same over all launches of the kernel."""
    launches_of_shape: int | None
    """Number of launches in the run with the shape of this launch; null if that is all of
    `launches`, or if it is not known."""
    alike_pct: float | None
    """Per cent of `busy` in launches that took between half and twice as long as this one; null if
    not known."""
    warning: str | None
    """Set if `alike_pct` is below 50: findings may not apply to the other launches."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


ReasonId = Literal["managed_or_host_memory", "cold_caches", "clocks", "concurrency", "not_typical"]
ReasonStatus = Literal["likely", "possible", "ruled_out"]


class ReplayReasonDocument(Document):
    id: ReasonId
    status: ReasonStatus
    """`likely`: there is evidence for it. `ruled_out`: there is evidence against it."""
    text: str
    how_to_tell: str
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


class ReplayDocument(Document):
    """The replay of a launch took much longer or shorter than the launch in the run, so the
    findings explain the replay."""

    ratio: float
    """Time in the run over time under replay."""
    replay_duration: JsonQuantity
    """Microseconds."""
    plain_duration: JsonQuantity
    """Microseconds."""
    text: str
    reasons: tuple[ReplayReasonDocument, ...]
    """All reasons that keet knows: likely ones first, ruled-out ones last."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""

    @property
    def open_reasons(self) -> tuple[ReplayReasonDocument, ...]:
        """Those that are not ruled out, likely ones first."""
        return tuple(reason for reason in self.reasons if reason.status != "ruled_out")

    @property
    def likely_reasons(self) -> tuple[ReplayReasonDocument, ...]:
        return tuple(reason for reason in self.reasons if reason.status == "likely")
