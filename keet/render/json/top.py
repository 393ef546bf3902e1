"""`keet top --format json`: its types. The other formats print this document too."""

from __future__ import annotations

from typing import Literal

from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer

Basis = Literal["run", "reports"]
BASIS = (
    "what times are of: `run`, whole runs, for reports with run tables; `reports`, the profiled "
    "launches, each once"
)
RUN_LAUNCHES = (
    "launches of the runs that the profiled ones stand for, a fraction where several share them; "
    "null: basis `reports`"
)
REPLAY_GAPS = "launches whose times in the run and under the profiler differ by more than 1.5x"


class GainDocument(Document):
    """How many times faster the launches with the finding would be, all together."""

    low: float
    likely: float
    high: float


class OpportunityDocument(Document):
    rank: int = field(
        description="from 1; groups of basis `run` first, then by `saved_us` plus `unknown_us`, as "
        "a share of `total_us` of its GPU and basis"
    )
    kernel: str = field(description="short name; by finding or file: that of the longest time")
    kernels: int = field(description="different ones in the group")
    grid: str | None = field(description="blocks, `128x128x1`; null: by finding or file")
    block: str | None = field(description="threads per block")
    device: str | None = field(description="null: the reports do not say")
    compute_capability: str | None
    sm_count: int | None
    launches: int = field(description="profiled ones")
    untimed: int = field(description="launches without a measured duration, in no time here")
    time_us: float | None = field(description="of all its launches; null: none was measured")
    share: float | None = field(
        description="of `total_us` of its GPU and basis, 0 to 1: the time of all launches there, "
        "or of the whole runs, with kernels that were not profiled"
    )
    limiter: str | None = field(description="of most of the time of the launches with the finding")
    finding: str | None = field(
        description="id of the finding that would save the most; null: none was found"
    )
    finding_launches: int = field(description="launches whose first finding it is")
    forecast: GainDocument | None = field(
        description="of the launches that `saved_of_us` is the time of; null: not computed"
    )
    saved_us: float | None = field(
        description="part of `saved_of_us`, by the likely forecast; null: not known"
    )
    saved_share: float | None = field(description="the same, of what `share` is of, 0 to 1")
    not_judged: int = field(description="launches without a metric that shows where the time goes")
    path: str = field(description="the report that holds the launch with the most time of those")
    launch: int = field(description="its number there")
    gone: bool = field(description="that report is no longer at its path")
    basis: Basis = field(description=BASIS)
    run_launches: float | None = field(description=RUN_LAUNCHES)
    replay_gaps: int = field(description=REPLAY_GAPS)
    saved_of_us: float | None = field(
        description="time that the forecast holds for: of the launches with the finding, without "
        "those with a replay gap; of basis `run`, of launches that took between half and twice as "
        "long as the profiled one, if the run table has that; null: no forecast"
    )
    unknown_us: float | None = field(
        description="part of `time_us` for which it is not known what a fix would save; null: "
        "basis `reports`"
    )
    unlike_us: float | None = field(
        description="part of `unknown_us` in launches of the run that took less than half or more "
        "than twice as long as the profiled one; null: basis `reports`, or all have a replay gap"
    )


class GapExampleDocument(Document):
    """Of the launches with a replay gap, the one that stands for the most time."""

    path: str
    launch: int = field(description="its number in that report")


class GpuDocument(Document):
    """The chosen launches on one GPU, of one basis."""

    device: str | None = field(description="null: the reports do not say")
    compute_capability: str | None
    sm_count: int | None
    launches: int = field(description="profiled ones")
    untimed: int
    time_us: float | None
    total_us: float | None = field(
        description="of all its kernels, in runs also of those that were not profiled: what shares "
        "are of"
    )
    basis: Basis = field(description=BASIS)
    runs: int = field(description="reports with a run table, of all kernels")
    run_launches: float | None = field(description=RUN_LAUNCHES)
    not_profiled_us: float | None = field(
        description="part of `total_us` in kernels that were not profiled; null: basis `reports`"
    )
    replay_gaps: int = field(description=REPLAY_GAPS)
    replay_gap_us: float | None = field(
        description="their time in the runs, for which no saving is claimed; null: there are none"
    )
    gap_example: GapExampleDocument | None
    summed_runs: int = field(
        description="of `runs`, those whose tables do not record which kernels overlapped: "
        "their times are sums of durations, not GPU time"
    )


class TopDocument(Document):
    """`keet top --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    store: str
    by: Literal["kernel", "finding", "file"]
    device: str | None = field(description="--device; null: all")
    kernel: str | None = field(description="--kernel; null: all")
    reports: int = field(description="that the launches are of; equal files are one")
    failed: int = field(description="files of the whole store that could not be read")
    launches: int = field(description="chosen ones")
    untimed: int
    time_us: float | None = field(description="null also where `gpus` has several entries")
    gpus: list[GpuDocument] = field(
        description="whole runs first, then those with most launches; one twice where the run is "
        "known for some of its reports"
    )
    groups: int = field(description="all of them, also those that --top leaves out")
    opportunities: list[OpportunityDocument]
    runs: int = field(
        description="reports with launches whose time in the whole run is known; the others count "
        "as profiled"
    )
    known_runs: int = field(
        description="reports with a run table: `runs`, and those without times of the profiled "
        "launches, as a report of a range"
    )
