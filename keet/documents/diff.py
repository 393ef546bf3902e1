"""`keet diff --format json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.document import Document
from keet.documents.explain import ExplainDocument, GroundingDocument
from keet.documents.finding import Forecast
from keet.documents.shared_types import (
    CommandResult,
    DeviceDocument,
    EvidenceId,
    JsonLocation,
    JsonNumber,
    JsonQuantity,
    ReportDocument,
)

AttributionKind = Literal["fusion", "cause", "account", "unit", "line", "work"]
Severity = Literal["forbids", "weakens", "note"]
How = Literal["same", "reshaped", "template", "renamed", "fused", "split", "removed", "added"]
VerdictWord = Literal["faster", "slower", "unchanged", "inconclusive"]
Basis = Literal["run", "reports", "per_launch"]
Measure = Literal["busy", "durations"]


class SideDocument(ReportDocument):
    """The first report of a side. Further reports of the side only measure the noise."""

    devices: list[DeviceDocument]
    further_runs: list[ReportDocument]
    times: int
    """Launches of the program per launch in the report (--times)."""


class ReasonDocument(Document):
    id: str
    """For example `device`, `problem_size` or `cache_control`."""
    severity: Severity
    text: str


class ComparabilityDocument(Document):
    ok: bool
    """False if the reports are compared only because of --force."""
    notes: Sequence[ReasonDocument]


class ChangeVerdictDocument(Document):
    word: VerdictWord
    speedup: float | None
    """Time before over time after. Null if it was not measured, or if kernels overlap so that the
    times do not show the direction of the change."""
    noise: float
    """Random error of the speed-up, two standard deviations: 0.05 means 5 %."""
    headline: str
    basis: Basis
    """What the times cover. `run`: whole runs without a profiler (see `measure`). `reports`: all
    launches of the reports together. `per_launch`: one launch (of fused kernels, one of each),
    because it is not known how often each kernel is launched (then there is no total)."""
    measure: Measure | None
    """How the times of whole runs were measured. `busy`: time in which the GPU ran kernels.
    `durations`: sums of launch durations, because a table does not record which kernels ran at the
    same time. Null if `basis` is not `run`."""
    before: JsonQuantity | None
    """Microseconds, of all launches together unless `basis` is `per_launch`."""
    after: JsonQuantity | None


class AttributionDocument(Document):
    kind: AttributionKind
    what: str
    unit: str | None
    """The hardware unit concerned; null if there is none."""
    share: float | None
    """Share of the time saved or lost, 0 to 1; an estimate for causes. Negative if it changed in
    the opposite direction. Null if the time did not change."""
    finding: str | None
    """Id of the finding, if this is a cause."""
    before: JsonLocation | None
    """The source line before; null if there is none, or if the line is new."""
    after: JsonLocation | None
    code: str | None
    """Text of the source line."""
    evidence: list[EvidenceId]


class PartChangeDocument(Document):
    """A part of a pair's time, before and after. The outermost parts add up to the time of the
    pair, and children add up to their parent."""

    id: str
    """As in `keet explain`, for example `waiting.busy.dram`. `rest`: time that is not issuing and
    that the two accounts do not split in the same way."""
    part: str
    """Name of the part in words."""
    before_us: float
    after_us: float
    change_us: float
    """Time after minus time before."""
    share: float | None
    """Share of the time saved or lost, 0 to 1. Negative if it changed in the opposite direction;
    null if the time did not change."""
    not_split: str | None
    """Why the part has no children although the account of one side has them. Null if the part is
    as detailed as the accounts."""
    evidence: list[EvidenceId]
    """Ids of the two times and of the share."""
    children: Sequence[PartChangeDocument]


class LaunchCountsDocument(Document):
    """Number of launches whose times a pair covers: launches of the runs if `basis` is `run`, else
    launches of the reports multiplied by `times`. With `per_launch`, the times are averages over
    these. A fraction if several profiled launches represent launches that the run table does not
    distinguish."""

    before: int | float | None
    """Null if the run table does not have the kernel."""
    after: int | float | None


class TimesDocument(Document):
    before: JsonQuantity
    """Microseconds."""
    after: JsonQuantity


class PairDocument(Document):
    before: list[int]
    """Ids of launches in the report before; empty if the kernel is new."""
    after: list[int]
    kernel: str
    how: How
    """How the kernels of the two reports were matched."""
    verdict: ChangeVerdictDocument
    speedup: float | None
    launches: LaunchCountsDocument
    limiter: list[str] | None
    """Limiter before and after; null if it was not analysed."""
    attribution: Sequence[AttributionDocument]
    """Causes come first."""
    account: Sequence[PartChangeDocument]
    """Time by part, the largest change first. Empty if it is not known, or if the replays do not
    show the change (see the notes of `comparability`)."""
    fixed: list[str]
    """Ids of findings."""
    new: list[str]
    remaining: list[str]
    unknown: list[str]
    """Ids of findings on one side that cannot be checked on the other, because its report lacks the
    metrics."""


class NextDocument(Document):
    launch: int
    kernel: str
    finding: str | None
    """Null if the replay differs from the run: see `reason`."""
    reason: str | None
    """Likely reason why the replay took longer or shorter than the run, as in `keet explain`. Null
    if a finding is next."""
    text: str
    action: str
    forecast: Forecast | None
    """Forecast of the finding."""


class RegressionDocument(Document):
    kernel: str | None
    """Null for all kernels together."""
    metric: str
    before: JsonQuantity
    after: JsonQuantity
    worse: float | None
    """0.12 means 12 % worse; null if the value before was zero."""
    noise: float
    text: str


class GateDocument(Document):
    percent: float
    failed: bool
    regressions: Sequence[RegressionDocument]
    blurred: list[str]
    """Kernels whose noise exceeds the gate."""
    missing: list[str]
    total_gated: bool
    """False if there is no total, or only one kernel."""
    not_gated: list[str]
    """Sentences that say what was not gated and why."""


class DiffDocument(CommandResult):
    """`keet diff --format json`"""

    schema_version: Literal[2] = 2  # type: ignore[assignment]
    before: SideDocument
    after: SideDocument
    comparability: ComparabilityDocument
    verdict: ChangeVerdictDocument
    pairs: Sequence[PairDocument]
    not_profiled: TimesDocument | None
    """Time of the kernels in the runs that no launch of either report represents; the pairs and
    these kernels add up to the total. Null if `basis` is not `run`, if there are no such kernels,
    or if only some launches were selected."""
    span: TimesDocument | None
    """Time from the start of the first kernel of a run to the end of its last one. Only given if
    the GPU ran no kernel for at least a fifth of it on one side; otherwise null."""
    next: NextDocument | None
    """The costliest finding that remains."""
    gate: GateDocument | None
    """Null without --gate."""
    grounding: GroundingDocument
    evidence: dict[str, JsonNumber]
    """Numbers by id. An id consists of the metric, the source line if there is one, and the launch:
    `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches. `#before.3`
    means a launch of one side, `#diff` both sides."""


class ExplainAgainstDocument(ExplainDocument):
    """`keet explain REPORT --against BEFORE --format json`"""

    against: DiffDocument | None
    """Null if the two reports cannot be compared."""
