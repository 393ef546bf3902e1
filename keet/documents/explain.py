"""`keet explain --format json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Literal

from keet.documents.document import LEFT_OUT, Document
from keet.documents.finding import FindingDocument, Forecast, MinorDocument
from keet.documents.model_explanation import HypothesisDocument, ModelDocument, UsageDocument
from keet.documents.program import ProgramDocument
from keet.documents.shared_types import (
    KEET,
    DeviceDocument,
    Dimensions,
    EvidenceId,
    FindingId,
    JsonNumber,
    JsonQuantity,
    JsonSentence,
    Producer,
    ReportDocument,
    RunDocument,
    Skipped,
)
from keet.documents.whole_run import InRunDocument, ReplayDocument


class LaunchVerdict(Document):
    limiter: str | None
    """The unit nearest to its peak, ties joined by `+`. `latency` if no unit is near its peak. Null
    if the report does not say how busy any unit was."""
    reached_pct: float | None
    """Per cent of its peak that the unit nearest to its peak reached."""
    headline: str
    by: Literal["keet", "model, computed by keet"] = LEFT_OUT
    """Who found the cause in the headline; left out without a model."""
    analyst_headline: str = LEFT_OUT
    """keet's headline without the model; left out if `headline` is keet's own."""


class Note(Document, kw_only=False):
    """A sentence about a launch."""

    id: str
    """`instruction_mix`, `l2_stage` or `bytes_moved`."""
    text: JsonSentence
    evidence: tuple[EvidenceId, ...]


class HealthyNote(Note, kw_only=False):
    """What looks good."""

    id: FindingId
    """Id of the finding that does not apply."""


class PartDocument(Document):
    """A part of the launch's time. The parts of a launch add up, and so do the children of each
    part."""

    id: str
    """Stable name, starting with the outermost part: `waiting.busy.dram`."""
    part: str
    """Name of the part in words."""
    share: float
    """Share of the launch's time, 0 to 1."""
    us: float | None
    """The same time in microseconds."""
    evidence: list[EvidenceId]
    """Ids of the share and of the numbers that it was computed from."""
    children: list[PartDocument]


class FigureDocument(Document):
    """A figure of the launch's head."""

    id: str
    """`arithmetic` (the type of arithmetic that comes nearest to its peak), `dram`, `l2`,
    `l2_hits`, `waves`, `registers_per_thread` or `blocks_per_sm`."""
    text: JsonSentence
    value: float | None
    unit: str
    """For example `flop/s` or `byte/s`; empty for plain numbers."""
    share_pct: float | None
    """Per cent of the peak; null if it is not a rate."""
    evidence: tuple[EvidenceId, ...]


class UnitDocument(Document):
    unit: str
    """For example `DRAM`, `L2` or `FMA`."""
    reached_pct: float | None
    """Per cent of its peak, over the elapsed cycles."""
    evidence: EvidenceId


class ExplainLaunch(Document):
    id: int
    kernel: str
    kernel_full: str
    device: int
    """Index into `devices`."""
    grid: Dimensions | None
    block: Dimensions | None
    duration: JsonQuantity | None
    """Microseconds; null if not measured."""
    figures: tuple[FigureDocument, ...]
    """Rates with their shares of the peak, waves, registers per thread, and blocks that fit on an
    SM; those that the report has."""
    verdict: LaunchVerdict
    ceilings: list[UnitDocument]
    """The busiest unit comes first."""
    findings: list[FindingDocument]
    """Causes that gain 10 % or more if they are there, and are likely enough to report; the first
    saves most time."""
    all_fixed: Forecast | None
    """If all findings were fixed; null where there are fewer than two."""
    order_reason: str | None
    """Why the first finding ranks before one that takes a larger part of the account; null if none
    does."""
    minor: list[MinorDocument]
    """Causes that are expected to gain less."""
    account: list[PartDocument]
    notes: tuple[Note, ...]
    """What the account shows in addition to its parts."""
    healthy: tuple[HealthyNote, ...]
    skipped: list[Skipped]
    machine_code: Literal["analysed", "not_needed", "absent", "off"] = "off"
    """`analysed`. `not_needed`: no check needed it. `absent`: `skipped` has the reason. `off`:
    switched off, or not one of the longest launches."""
    second_opinion: str | None
    """What Nsight Compute's own rules rank first."""
    evidence: dict[str, JsonNumber]
    """Numbers by id. An id consists of the metric, the source line if there is one, and the launch:
    `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches."""
    hypotheses: tuple[HypothesisDocument, ...] = LEFT_OUT
    """A model's hypotheses from the source alone, before it saw any numbers."""
    model: ModelDocument | None = LEFT_OUT
    """What a model adds; null if it says nothing about this launch."""
    in_run: InRunDocument | None = LEFT_OUT
    """Null if the run is not known, or does not have the kernel."""
    replay: ReplayDocument | None = LEFT_OUT
    """Null if the replay took about as long as the launch in the run."""


class GroundingDocument(Document):
    numbers: int
    """Numbers in all sentences, including a model's checked ones."""
    verified: int
    """Numbers that are printed from evidence: all of them."""
    unchecked: list[str] = field(default_factory=list)
    """A model's sentences with numbers or comparisons that keet could not check; each with the
    reason."""

    @classmethod
    def of(cls, numbers: int, unchecked: Iterable[str] = ()) -> GroundingDocument:
        return cls(numbers=numbers, verified=numbers, unchecked=list(unchecked))


class ExplainDocument(Document):
    """`keet explain --format json`"""

    schema_version: Literal[4] = 4
    producer: Producer = KEET
    author: str = "analyst"
    """`analyst` (keet alone), or `model:PROVIDER:NAME` if a model contributed."""
    report: ReportDocument
    device: DeviceDocument
    """The GPU of the first launch in this document."""
    devices: list[DeviceDocument]
    """Every GPU in the report."""
    launches: list[ExplainLaunch]
    grounding: GroundingDocument
    usage: UsageDocument | None = None
    """Null if no model was used."""
    problem: str | None = LEFT_OUT
    """Why a model's part is missing or incomplete; null if it is complete."""
    transcript: str | None = LEFT_OUT
    """File with the transcript of the model's run."""
    run: RunDocument | None = LEFT_OUT
    """The run of the whole program; null if no run was recorded."""
    program: ProgramDocument | None = LEFT_OUT
    """All launches together; left out if there is one launch and no run."""
